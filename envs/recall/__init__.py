"""Recall tasks, batched in numpy, as Gymnasium environments and vectors and as Stable-Baselines3 vectors.

- `tasks/`: a file for each task, and the list of them.
- `families/`: what several tasks share, `asking` being the base of all but the T-maze.
- `contract`, `base`: what a task has to say, and the machinery that plays it; `parameters` and `settings` for
  what may be changed, `hashing` for randomness, `scripted` for policies, `rendering` for pictures.
- `env`, `vector_env`, `sb3_vec`: the faces, which `faces` serves and `factory` registers and makes.

Importing this registers their ids.
"""

from envs.recall.env import RecallEnv
from envs.recall.factory import make_sb3_vec, register_recall
from envs.recall.tasks import TASKS
from envs.recall.vector_env import RecallVectorEnv

__all__ = ["TASKS", "RecallEnv", "RecallVectorEnv", "make_sb3_vec", "register_recall"]

register_recall()
