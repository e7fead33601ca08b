"""MiniGrid for memory agents: a wrapper, its memory task at every size, tasks of our own, levels.

Importing this module registers the environments' ids.
"""

from envs.minigrid import memory, tasks
from envs.minigrid.corridor import Corridor
from envs.minigrid.doors import Doors
from envs.minigrid.fast_view import FastView
from envs.minigrid.fetch import Fetch
from envs.minigrid.keys import Keys
from envs.minigrid.levels import LevelledEnv
from envs.minigrid.memory import MEMORY_LEVELS, MemoryCurriculum, MemoryTask
from envs.minigrid.oracle import optimal_action, optimal_way
from envs.minigrid.task import GridTask
from envs.minigrid.tasks import GRID_TASKS, make_grid_task
from envs.minigrid.wrappers import MiniGridIds

__all__ = [
    "GRID_TASKS",
    "MEMORY_LEVELS",
    "Corridor",
    "Doors",
    "FastView",
    "Fetch",
    "GridTask",
    "Keys",
    "LevelledEnv",
    "MemoryCurriculum",
    "MemoryTask",
    "MiniGridIds",
    "make_grid_task",
    "optimal_action",
    "optimal_way",
]

memory.register()
tasks.register()
