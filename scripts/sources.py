"""What the first word of a command line names: a recipe, or an environment by its id."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches

import gymnasium as gym

from agents.environments import find_spec
from agents.recipes import RECIPES, MiniGridRecipe, Recipe, get_recipe, recipe_for

OWN_MODULES = {
    "RMT/popgym-": "envs.gyms",
    "RMT/MemoryGym-": "envs.gyms",
    "RMT/MiniGrid-": "envs.minigrid",
    "RMT/": "envs",
}
"""Modules that register this project's ids, by their beginnings; the first that fits."""
EXPECTED = f"the first argument must be a recipe ({', '.join(RECIPES)}) or an environment's id"


def is_known_task(source: str) -> bool:
    """Whether a word can be nothing else than a recipe or an environment's id, such as a folder."""
    return source in RECIPES or ":" in with_module(source) or source in gym.registry


def is_env_id(source: str) -> bool:
    """Whether a word is an environment's id: with a module in front, registered, or with a version."""
    return source not in RECIPES and (is_known_task(source) or bool(re.search(r"-v\d+$", source)))


def with_module(env_id: str) -> str:
    """The id with this project's module in front, if it is one of this project's and has none yet."""
    for prefix, module in OWN_MODULES.items():
        if env_id.startswith(prefix):
            importlib.import_module(module)
            return f"{module}:{env_id}"
    return env_id


def short_name(source: str) -> str:
    """A recipe's name, or what an id says last, as a part of a folder's name: "memorize-v0"."""
    return source if source in RECIPES else re.split("[:/]", source)[-1].lower()


def find_recipe(source: str) -> Recipe:
    """The recipe of a name, or one with defaults for an environment's id.

    :raises ValueError: for an unknown name or id, with the nearest
    """
    if not is_env_id(source):
        ids = {env_id.lower(): env_id for env_id in gym.registry}
        near = get_close_matches(source.lower(), ids, n=1, cutoff=0.75)
        if near and not get_close_matches(source, RECIPES):
            raise ValueError(
                f"unknown recipe {source!r}: there are {', '.join(RECIPES)}; did you mean the environment "
                f"{ids[near[0]]}?"
            )
        return get_recipe(source)
    env_id = with_module(source)
    find_spec(env_id)
    return recipe_for(env_id)


def read_source(argv: Sequence[str]) -> tuple[str, Recipe, list[str]]:
    """The first word or ``--env-id``, the recipe that it stands for, and the words to read options from.

    ``--env-id`` without a first word stands for one. Behind a recipe it is another environment for it, whose
    levels and arguments are others as well: the recipe's are left out.

    :raises ValueError: if neither is given, both are ids, or one is unknown
    """
    words = list(argv)
    source = words.pop(0) if words and not words[0].startswith("-") else ""
    env_id, rest = take_option(words, "--env-id")
    if env_id == "":
        raise ValueError("--env-id needs an environment's id")
    if env_id is None:
        if not source:
            raise ValueError(EXPECTED)
        return source, find_recipe(source), rest
    if not source:
        return env_id, find_recipe(_as_id(env_id)), rest
    recipe = find_recipe(source)
    if is_env_id(source):
        raise ValueError(f"two environments are given: {source} and --env-id {env_id}")
    other = find_recipe(_as_id(env_id))
    if other.env_id == recipe.env_id:
        return source, recipe, rest
    changed = dict(env_id=other.env_id, levels=(), evaluation_levels=(), env_kwargs={})
    if type(other) is type(recipe):
        return env_id, replace(recipe, **changed), rest  # type: ignore[arg-type]
    # One of them has a view of MiniGrid's, the other has none.
    shared = {name: value for name, value in vars(recipe).items() if name in vars(other)}
    kind = MiniGridRecipe if isinstance(other, MiniGridRecipe) else Recipe
    return env_id, kind(**shared | changed), rest


def take_option(words: Sequence[str], name: str) -> tuple[str | None, list[str]]:
    """What stands behind an option ("" if nothing, None without the option), and the words without both."""
    for index, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option.replace("_", "-") != name:
            continue
        if equals:
            return value, [*words[:index], *words[index + 1 :]]
        value = next(iter(words[index + 1 :]), "-")
        if value.startswith("-"):
            return "", [*words[:index], *words[index + 1 :]]
        return value, [*words[:index], *words[index + 2 :]]
    return None, list(words)


def _as_id(env_id: str) -> str:
    """The id, which is one even if it looks like nothing known: so that the message says so."""
    if not is_env_id(env_id):
        find_spec(env_id)
    return env_id
