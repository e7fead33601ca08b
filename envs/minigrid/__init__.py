"""MiniGrid for memory agents: a wrapper, its memory task at every size, and levels for a curriculum.

Importing this module registers the environments' ids.
"""

from envs.minigrid.fast_view import FastView
from envs.minigrid.levels import LevelledEnv
from envs.minigrid.memory import MEMORY_LEVELS, MemoryCurriculum, MemoryTask, optimal_action, register
from envs.minigrid.wrappers import MiniGridIds

__all__ = [
    "MEMORY_LEVELS",
    "FastView",
    "LevelledEnv",
    "MemoryCurriculum",
    "MemoryTask",
    "MiniGridIds",
    "optimal_action",
]

register()
