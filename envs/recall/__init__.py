"""Recall tasks, batched in numpy, as Gymnasium environments and vectors and as Stable-Baselines3 vectors.

Importing this registers their ids.
"""

from envs.recall.env import RecallEnv
from envs.recall.factory import make_sb3_vec, register_recall
from envs.recall.tasks import TASKS
from envs.recall.vector_env import RecallVectorEnv

__all__ = ["TASKS", "RecallEnv", "RecallVectorEnv", "make_sb3_vec", "register_recall"]

register_recall()
