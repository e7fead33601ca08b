"""Memory gyms of others, adapted for Stable-Baselines3: POPGym, Memory Gym, MiniGrid's memory tasks.

Importing this registers their ids and imports none of the packages, which are optional; where one is
missing, making its environments raises an ImportError that says what to install. In worker processes the
module goes in front of the id: ``gymnasium.make("envs.gyms:RMT/popgym-RepeatPreviousEasy-v0")``.
"""

from envs.gyms.memory_gym import MEMORY_GYM_IDS, MemoryGymTask
from envs.gyms.popgym import POPGYM_IDS, POPGymTask
from envs.gyms.registration import IDS, MINIGRID_IDS, make, register

__all__ = ["IDS", "MEMORY_GYM_IDS", "MINIGRID_IDS", "POPGYM_IDS", "MemoryGymTask", "POPGymTask", "make"]

register()
