"""rl_zoo3 with our algorithms: their names, what optuna draws for them, and our recipes as its environments.

rl_zoo3 is imported when ``register`` is called, as it is an extra: see requirements-zoo.txt.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import gymnasium as gym

from agents.recipes import RECIPES, get_recipe
from agents.zoo.sampling import CONVERTERS, SAMPLERS
from rmt_rl import MemoryA2C, MemoryPPO

ALGORITHMS = {"memory_ppo": MemoryPPO, "memory_a2c": MemoryA2C}
"""By the name that ``--algo`` takes."""


def env_id(recipe: str) -> str:
    """The id under which rl_zoo3 knows a recipe's environment.

    rl_zoo3 gives ``env_kwargs`` of a file of hyperparameters to the training environments, not to those of
    evaluation, so they have to be part of the id.
    """
    return f"Zoo/{recipe}-v0"


def make_recipe_env(recipe: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """A recipe's environment at the last level of its curriculum, where evaluation takes place.

    :param kwargs: further arguments of the environment, over the recipe's
    :raises ValueError: for an unknown recipe
    """
    row = get_recipe(recipe)
    env = gym.make(row.env_id, disable_env_checker=True, **row.make_env_kwargs() | kwargs)
    env.get_wrapper_attr("set_levels")(list(row.levels[-1:]))
    return env


def register() -> None:
    """Tell rl_zoo3 of the algorithms, and Gymnasium of the recipes' environments. Twice does as once.

    :raises ValueError: if rl_zoo3 is not installed
    """
    try:
        tuning = importlib.import_module("rl_zoo3.hyperparams_opt")
        utils = importlib.import_module("rl_zoo3.utils")
    except ModuleNotFoundError as error:
        raise ValueError(
            f"there is no module {error.name!r}: install the extra, "
            'pip install -c constraints.txt -e ".[zoo]", then pip install --no-deps -r requirements-zoo.txt'
        ) from error
    utils.ALGOS.update(ALGORITHMS)
    tuning.HYPERPARAMS_SAMPLER.update(SAMPLERS)
    tuning.HYPERPARAMS_CONVERTER.update(CONVERTERS)
    for recipe in RECIPES:
        if env_id(recipe) not in gym.registry:
            gym.register(
                env_id(recipe), "agents.zoo:make_recipe_env", kwargs=dict(recipe=recipe), order_enforce=False
            )


def hyperparameters_file(algorithm: str) -> Path:
    """The file for ``--conf-file``.

    :raises ValueError: for an algorithm that is not ours
    """
    if algorithm not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {algorithm!r}")
    return Path(__file__).with_name(f"{algorithm}.py")
