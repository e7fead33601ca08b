"""Environments by id, as vectors for Stable-Baselines3."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor

from agents.levels import Level
from agents.recipes import Recipe
from rmt_rl.resuming.snapshots import restart_seed

EVALUATION_SEED = 2**30
"""The first seed of evaluation: beyond those of every training, the number of environments added."""

training_seed = restart_seed
"""Seed of the first environment of a training, from the recipe's seed and the steps done."""


def find_spec(env_id: str) -> EnvSpec:
    """Look an environment up, importing the module in front of its id.

    :raises ValueError: for an unknown id or module, with the nearest ids
    """
    module, _, name = env_id.rpartition(":")
    prefix = f"{module}:" if module else ""
    try:
        if module:
            importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"unknown environment {env_id!r}: there is no module {module!r} ({error})"
        ) from error
    try:
        return gym.spec(name)
    except gym.error.Error as error:
        near = get_close_matches(name, gym.registry, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(prefix + other for other in near)}?" if near else ""
        raise ValueError(f"unknown environment {env_id!r}{hint} ({error})") from error


def make_vec(env_id: str, n_envs: int, seed: int, **kwargs: Any) -> VecEnv:
    """Make a vector of environments that reports each episode's return.

    Where the module in front of the id has a function ``make_sb3_vec(env_id, n_envs, seed, **kwargs)``, as
    ``envs`` does for its batched tasks, that makes it; else it is SB3's ``DummyVecEnv``.

    :param n_envs: number of environments, N
    :param seed: environment i is seeded with ``seed`` + i at its first reset
    :param kwargs: arguments of the environment
    :raises ValueError: for an unknown id
    """
    spec = find_spec(env_id)
    make_own = getattr(sys.modules.get(env_id.rpartition(":")[0]), "make_sb3_vec", None)
    if make_own is not None:
        own: VecEnv = make_own(spec.id, n_envs, seed, **kwargs)
        return own
    # Gymnasium's checker would look at every environment's first steps once more.
    vec_env = VecMonitor(
        DummyVecEnv([partial(gym.make, env_id, disable_env_checker=True, **kwargs)] * n_envs)
    )
    vec_env.seed(seed)
    return vec_env


def make_env(recipe: Recipe, n_envs: int, seed: int) -> VecEnv:
    """A recipe's environments, at the first level until told otherwise; see ``make_vec``."""
    env = make_vec(recipe.env_id, n_envs, seed, **recipe.make_env_kwargs())
    set_levels(env, recipe.levels[:1])
    return env


def set_levels(env: VecEnv, levels: Sequence[Level]) -> None:
    """Play every later episode at one of these levels.

    :raises ValueError: if the environments have no such levels
    """
    env.env_method("set_levels", list(levels))
