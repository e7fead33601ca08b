"""Environments by id, as vectors for Stable-Baselines3."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecMonitor

from agents.levels import Level, format_level, level_from_json
from agents.recipes import Recipe
from rmt_rl.masking import METHOD, get_action_masks, is_masking_supported
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
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ValueError(
                f"environment {env_id!r}: its module {module!r} needs another ({error})"
            ) from error
        raise ValueError(
            f"unknown environment {env_id!r}: there is no module {module!r} in the present folder or along "
            f"PYTHONPATH ({error})"
        ) from error
    except (ImportError, SyntaxError, TypeError) as error:  # TypeError: a relative name
        raise ValueError(f"environment {env_id!r}: its module cannot be imported ({error})") from error
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
    :raises ValueError: for an unknown id, a seed below 0, or arguments that the environment does not take
    """
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed}")
    spec = find_spec(env_id)
    make_own = getattr(sys.modules.get(env_id.rpartition(":")[0]), "make_sb3_vec", None)
    with naming_bad_arguments(env_id, kwargs):
        if make_own is not None:
            own: VecEnv = make_own(spec.id, n_envs, seed, **kwargs)
            return own
        # Gymnasium's checker would look at every environment's first steps once more.
        vec_env = VecMonitor(
            DummyVecEnv([partial(gym.make, env_id, disable_env_checker=True, **kwargs)] * n_envs)
        )
    vec_env.seed(seed)
    return vec_env


@contextmanager
def naming_bad_arguments(env_id: str, kwargs: dict[str, Any]) -> Iterator[None]:
    """Name the environment and its arguments where it cannot be made with them."""
    try:
        yield
    except (TypeError, gym.error.Error) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in kwargs.items()) or "no arguments"
        raise ValueError(f"{env_id} cannot be made with {given}: {error}") from error


def make_env(recipe: Recipe, n_envs: int, seed: int) -> VecEnv:
    """A recipe's environments, at the first level, if it has levels, until told otherwise; see ``make_vec``.

    :raises ValueError: if they cannot be made, or lack one of the levels
    """
    env = make_vec(recipe.env_id, n_envs, seed, **recipe.make_env_kwargs())
    if recipe.levels:
        try:
            # All of them once, so that one that does not exist is found before a training comes to it.
            set_levels(env, recipe.levels)
            set_levels(env, recipe.levels[:1])
        except BaseException:
            env.close()
            raise
    return env


def set_levels(env: VecEnv, levels: Sequence[Level | None]) -> None:
    """Play every later episode at one of these levels; a single None leaves the environments as they are.

    :raises ValueError: if the environments have no such levels, or none at all
    """
    if list(levels) == [None]:
        return
    try:
        env.env_method("set_levels", list(levels))
    except AttributeError as error:
        if env.has_attr("set_levels"):
            raise
        raise ValueError(
            f"the environment has no levels (no set_levels): leave {_words(levels)} out"
        ) from error
    except (LookupError, TypeError) as error:
        raise ValueError(f"the environment has no level {_words(levels)}: {error}") from error


def own_levels(env: VecEnv) -> tuple[Level, ...]:
    """The levels that environments tell of themselves, in ``levels`` or ``all_levels``; none if they do not,
    or have no ``set_levels``.
    """
    if not env.has_attr("set_levels"):
        return ()
    for name in ("levels", "all_levels"):
        if env.has_attr(name):
            told = env.get_attr(name)[0]
            if isinstance(told, list | tuple):
                with suppress(ValueError):  # something else that goes by that name
                    return tuple(
                        level_from_json(list(one) if isinstance(one, tuple) else one) for one in told
                    )
    return ()


def with_levels(recipe: Recipe) -> Recipe:
    """The recipe, with the levels that its environment tells of where it has none.

    :raises ValueError: if the environment is unknown, or does not take its arguments
    """
    if recipe.levels:
        return recipe
    env = make_vec(recipe.env_id, 1, 0, **recipe.make_env_kwargs())
    try:
        return replace(recipe, levels=own_levels(env))
    finally:
        env.close()


def masks_of(env: VecEnv) -> Callable[[], dict[str, Any]]:
    """A function that gives ``predict`` the action masks of now as a keyword; none if there are no masks."""
    if is_masking_supported(env) and all(map(callable, env.get_attr(METHOD))):
        return lambda: {"action_masks": get_action_masks(env)}
    return dict


def _words(levels: Sequence[Level | None]) -> str:
    return ", ".join("None" if level is None else format_level(level) for level in levels)
