"""Memory for reinforcement-learning agents: recurrent cores behind Stable-Baselines3's interface."""

from rmt_rl.cores import CORES, MemoryCore, make_core
from rmt_rl.memory_a2c import MemoryA2C
from rmt_rl.memory_ppo import MemoryPPO
from rmt_rl.policies import MemoryActorCriticPolicy
from rmt_rl.states import MemoryState

__version__ = "0.1.0"
__all__ = [
    "CORES",
    "MemoryA2C",
    "MemoryActorCriticPolicy",
    "MemoryCore",
    "MemoryPPO",
    "MemoryState",
    "make_core",
]
