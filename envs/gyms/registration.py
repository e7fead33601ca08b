"""The ids, and one function that makes any of them."""

from __future__ import annotations

import importlib
from difflib import get_close_matches
from typing import Any

import gymnasium as gym

from envs.gyms.memory_gym import MEMORY_GYM_IDS
from envs.gyms.popgym import POPGYM_IDS

NAMESPACE = "RMT/"
MINIGRID_SIZES = ("S7", "S9", "S11", "S13", "S13Random", "S17Random")
MINIGRID_IDS = tuple(f"MiniGrid-Memory{size}-v0" for size in MINIGRID_SIZES)
"""MiniGrid's own memory tasks, adapted in `envs.minigrid`."""

IDS = tuple(
    NAMESPACE + name
    for name in (*POPGYM_IDS, *(f"MemoryGym-{name}" for name in MEMORY_GYM_IDS), *MINIGRID_IDS)
)
"""Every id that `make` knows."""


def register() -> None:
    """Register the ids; the packages are imported when an environment is made."""
    rows = [(own, "envs.gyms.popgym:POPGymTask", {"env_id": own}) for own in POPGYM_IDS]
    rows += [
        (f"MemoryGym-{own}", "envs.gyms.memory_gym:MemoryGymTask", {"env_id": own}) for own in MEMORY_GYM_IDS
    ]
    rows += [
        (own, "envs.minigrid.memory:MemoryTask", {"level": size})
        for own, size in zip(MINIGRID_IDS, MINIGRID_SIZES, strict=True)
    ]
    for name, entry_point, kwargs in rows:
        if NAMESPACE + name not in gym.registry:
            gym.register(NAMESPACE + name, entry_point, kwargs=kwargs)


def make(env_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Make an environment of POPGym, Memory Gym or MiniGrid, adapted for Stable-Baselines3.

    Args:
        env_id: one of `IDS`, with or without its namespace, or Memory Gym's own:
            "RMT/popgym-RepeatFirstEasy-v0", "MiniGrid-MemoryS11-v0", "MortarMayhem-Grid-v0".
        **kwargs: options of `POPGymTask`, `MemoryGymTask` or `envs.minigrid.MemoryTask`.

    Raises:
        ImportError: the gym is not installed; the message says what to install.
        ValueError: an unknown id, with the nearest, or an option that is not possible.
    """
    own = env_id.rpartition(":")[2].removeprefix(NAMESPACE)
    name = f"{NAMESPACE}{'MemoryGym-' if own in MEMORY_GYM_IDS else ''}{own}"
    if name not in IDS:
        near = get_close_matches(name, IDS, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"env_id must be one of the {len(IDS)} of envs.gyms.IDS, got {env_id!r}; did you mean {near!r}?"
        )
    if own in MINIGRID_IDS:
        try:
            importlib.import_module("envs.minigrid")
        except ImportError as error:
            raise ImportError(
                f"{env_id} needs minigrid ({error}); install it with: "
                "pip install -c constraints.txt -e '.[envs]'"
            ) from error
    return gym.make(name, **kwargs)
