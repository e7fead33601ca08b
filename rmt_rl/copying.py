"""Deep copies of agents, also of those that have learnt."""

from __future__ import annotations

import warnings
from copy import copy, deepcopy
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, Self

from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper
from torch import Tensor

OF_LEARN: dict[str, list[Any]] = {"_callbacks": [], "_watchers": []}
"""What belongs to the present call of ``learn``, and what a copy has in its place."""
POSITION = ("_last_obs", "_last_episode_starts", "_last_original_obs", "_memory")
"""Where in their episodes the environments are, which says nothing without them."""


class CopyingAlgorithm(OnPolicyAlgorithm):
    """An algorithm that ``copy.deepcopy`` copies, with its memory, its rollout and its environments."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy that goes on from here by itself.

        Environments that cannot be copied, such as those in worker processes, are left out with a warning:
        give the copy others with ``set_env`` before it learns.
        """
        twin = type(self).__new__(type(self))
        memo[id(self)] = twin
        env = getattr(self, "env", None)
        try:
            twin_env = None if env is None else copy_env(env, memo)
        except Exception as error:  # whatever an environment raises that cannot be copied
            twin_env = None
            warnings.warn(
                f"the copy of the model has no environments, as these cannot be copied ({error}): give it "
                "others with set_env before it learns",
                stacklevel=3,
            )
        own = {"env": twin_env, "_vec_normalize_env": None, "_custom_logger": False, **deepcopy(OF_LEARN)}
        if twin_env is not None and self._vec_normalize_env is not None:
            own["_vec_normalize_env"] = memo[id(self._vec_normalize_env)]
        if twin_env is None:
            own |= dict.fromkeys(POSITION)
        for name, value in vars(self).items():
            if name != "_logger":  # open files cannot be copied: the copy's ``learn`` opens its own
                vars(twin)[name] = own[name] if name in own else deepcopy(value, memo)
        return twin


def copy_env(env: VecEnv, memo: dict[int, Any]) -> VecEnv:
    """Deep copy of a vector and of the wrappers around it.

    :raises TypeError: if its environments are in other processes
    """
    if isinstance(env, VecEnvWrapper):
        inner = copy_env(env.venv, memo)
        twin = type(env).__new__(type(env))
        memo[id(env)] = twin
        # Attribute by attribute, as wrappers keep their class's, which cannot be copied, and VecNormalize
        # lets go of what it wraps.
        shared = {"venv": inner, "class_attributes": env.class_attributes}
        for name, value in vars(env).items():
            vars(twin)[name] = shared[name] if name in shared else deepcopy(value, memo)
        return twin
    for name, value in vars(env).items():
        # A copied pipe would close the first one's.
        parts = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(part, BaseProcess | Connection) for part in parts):
            raise TypeError(f"their {name} belong to other processes")
    return deepcopy(env, memo)


def without_graph(distribution: Distribution) -> Distribution:
    """A copy of SB3's distribution that holds no tensor with a gradient, which could not be copied."""
    twin = copy(distribution)
    for name, value in vars(twin).items():
        if isinstance(value, Tensor):
            setattr(twin, name, value.detach())
    for name in ("distribution", "weights_dist"):  # made anew before they are used
        vars(twin).pop(name, None)
    return twin
