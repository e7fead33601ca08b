"""Registration with Gymnasium, and the short way to an SB3 vector of environments."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from envs.recall.tasks import TASKS

if TYPE_CHECKING:
    from envs.recall.sb3_vec import VecEnv

NAMESPACE = "RMT"
VECTOR_ENTRY_POINT = "envs.recall.vector_env:RecallVectorEnv"


def register_recall() -> None:
    """Register every task as "RMT/<Name>-v0"; more than once does no harm."""
    for name in TASKS:
        env_id = f"{NAMESPACE}/{name}-v0"
        if env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point="envs.recall.env:RecallEnv",
                vector_entry_point=VECTOR_ENTRY_POINT,
                kwargs={"task": name},
            )


def make_sb3_vec(env_id: str, n_envs: int = 1, seed: int | None = None, **kwargs: Any) -> VecEnv:
    """An SB3 vector of environments: batched for the recall tasks, a monitored `DummyVecEnv` for other ids.

    Args:
        env_id: a registered id, with or without a module in front ("envs:RMT/Memorize-v0").
        n_envs: number of environments, N.
        seed: row i is seeded with `seed` + i at the first reset; None for fresh entropy.
        **kwargs: arguments of the environment, `render_mode` included.

    Raises:
        gymnasium.error.Error: an unknown id, with the nearest names.
        ValueError: a parameter outside its range.
    """
    module, _, name = env_id.rpartition(":")
    if module:  # unlike `gymnasium.make`, `gymnasium.spec` does not import it
        importlib.import_module(module)
    spec = gym.spec(name)
    # Not imported before it is asked for: it brings in SB3, and with it torch.
    from envs.recall.sb3_vec import make_monitored_vec, make_recall_vec

    if spec.vector_entry_point == VECTOR_ENTRY_POINT:
        return make_recall_vec(spec, n_envs, seed, kwargs)
    return make_monitored_vec(name, n_envs, seed, kwargs)
