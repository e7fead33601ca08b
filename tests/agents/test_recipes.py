"""Recipes: what they build, what they refuse, and that JSON keeps them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from agents.cores import find_core
from agents.environments import find_spec, make_env, make_vec, training_seed, with_levels
from agents.levels import format_level, parse_level
from agents.recipes import (
    RECIPES,
    MiniGridRecipe,
    Recipe,
    get_recipe,
    longest,
    recipe_from_json,
    recipe_to_json,
    spans,
)
from rmt_rl import CORES, make_core
from rmt_rl.memory_ppo import check_lengths


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_builds_its_environments(name: str) -> None:
    recipe = RECIPES[name]
    check_lengths(recipe.n_steps, recipe.sequence_length, recipe.batch_size)
    env = make_env(replace(recipe, n_envs=2), 2, 0)
    assert env.num_envs == 2
    for level in (*recipe.levels, *recipe.evaluation_levels):
        env.env_method("set_levels", [level])
    env.reset()
    env.close()


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", RECIPES)
def test_every_core_works_with_every_recipe(name: str, core: str) -> None:
    kwargs = replace(RECIPES[name], core=core).make_core_kwargs()
    made = make_core(core, 8, **kwargs)
    if hasattr(made, "segment_length"):
        assert made.segment_length == RECIPES[name].segment_length


def test_own_core_options_go_over_the_defaults() -> None:
    recipe = replace(RECIPES["memorize"], core="gru", core_kwargs={"width": 32})
    assert recipe.make_core_kwargs() == {"width": 32, "layers": 1}
    assert replace(recipe, core="rmt", segment_length=8).make_core_kwargs()["segment_length"] == 8


def test_minigrid_recipes_have_a_view() -> None:
    recipe = get_recipe("minigrid-memory-s9")
    assert isinstance(recipe, MiniGridRecipe)
    assert recipe.make_env_kwargs() == {"view_size": 3, "max_steps": 96}
    env = make_env(replace(recipe, view_size=5), 1, 0)
    assert env.observation_space["image"].shape == (5, 5, 3)  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "near"), [("memorise", "memorize"), ("minigrid-memory-s10", "minigrid-memory-s11")]
)
def test_unknown_recipe_names_the_nearest(name: str, near: str) -> None:
    with pytest.raises(ValueError, match=f"unknown recipe '{name}'.*did you mean .*{near}"):
        get_recipe(name)


@pytest.mark.parametrize(
    ("env_id", "near"),
    [
        ("envs:RMT/Memorise-v0", "did you mean envs:RMT/Memorize-v0"),
        ("envs.minigrid:RMT/MiniGrid-MemoryS8-v0", "did you mean .*envs.minigrid:RMT/MiniGrid-MemoryS7-v0"),
        ("env:RMT/Memorize-v0", "there is no module 'env'"),
        ("CartPole-v7", "CartPole-v1"),
    ],
)
def test_unknown_environment_names_the_nearest(env_id: str, near: str) -> None:
    with pytest.raises(ValueError, match=f"unknown environment '{env_id}'.*{near}"):
        make_vec(env_id, 1, 0)


def test_a_version_number_too_old_is_an_unknown_environment() -> None:
    with pytest.raises(ValueError, match="unknown environment"):
        find_spec("envs:RMT/Memorize-v9")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"n_envs": 0}, "n_envs must be at least 1, got 0"),
        ({"n_minibatches": 3}, "n_minibatches=3 does not divide the 8192 steps"),
    ],
)
def test_bad_fields(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        replace(RECIPES["memorize"], **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", RECIPES)
def test_json_keeps_a_recipe(name: str) -> None:
    recipe = replace(RECIPES[name], core_kwargs={"width": 32, "gated": True}, target_kl=0.02)
    text = json.dumps(recipe_to_json(recipe))
    assert recipe_from_json(json.loads(text)) == recipe


def test_json_keeps_a_recipe_without_levels_and_with_a_core_of_ones_own() -> None:
    recipe = Recipe(env_id="CartPole-v1", core="tests.scripts.worlds:OwnCore", core_kwargs={"width": 5})
    assert recipe.levels == ()
    assert recipe_from_json(json.loads(json.dumps(recipe_to_json(recipe)))) == recipe
    # What its constructor does not name is left out: it has no segments.
    assert recipe.make_core_kwargs() == {"width": 5}
    assert recipe.make_policy_kwargs()["core"] is find_core("tests.scripts.worlds:OwnCore")
    assert make_core(recipe.make_policy_kwargs()["core"], 3, width=5).output_dim == 5


@pytest.mark.parametrize(
    ("core", "words"),
    [
        ("nowhere:Core", "the module of core 'nowhere:Core' cannot be imported"),
        ("tests.scripts.worlds:OwnCores", "has no class OwnCores; did you mean tests.scripts.worlds:OwnCore"),
        ("tests.scripts.worlds:NoCore", "something else than a subclass of MemoryCore"),
        ("tests.scripts.worlds:", "core must be one of rmt, .*, or module:Class"),
        (".worlds:OwnCore", "cannot be imported"),
    ],
)
def test_cores_that_are_not_there(core: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Recipe(env_id="CartPole-v1", core=core).make_policy_kwargs()


def test_levels_come_from_the_environment() -> None:
    worlds = "tests.scripts.worlds"
    assert with_levels(Recipe(env_id=f"{worlds}:Levelled-v0")).levels == (2, 3)
    assert with_levels(Recipe(env_id=f"{worlds}:World-v0")).levels == ()
    assert with_levels(Recipe(env_id="envs:RMT/Copy-v0", env_kwargs={"length": 3})).levels == (3,)
    assert with_levels(RECIPES["memorize"]) is RECIPES["memorize"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"levels": (2, "S9")}, "has no level 2, S9: lengths must be integers"),
        ({"env_kwargs": {"lenth": 2}}, "cannot be made with lenth=2"),
        ({"env_id": "tests.scripts.worlds:World-v0", "levels": (2,)}, "has no levels .*leave 2 out"),
    ],
)
def test_environments_that_do_not_fit(changes: dict[str, Any], words: str) -> None:
    recipe = replace(Recipe(env_id="tests.scripts.worlds:Levelled-v0"), **changes)
    with pytest.raises(ValueError, match=words):
        make_env(recipe, 2, 0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "an object whose kind is"),
        ({"kind": "Salad"}, "an object whose kind is one of Recipe, MiniGridRecipe"),
        ({"kind": "Recipe", "env_id": "x", "levels": [1], "oil": 2}, "a Recipe has no oil"),
        ({"kind": "Recipe", "levels": [1]}, "not whole: .*env_id"),
        ({"kind": "Recipe", "env_id": "x", "levels": [[1, 2, 3]]}, "a level must be"),
    ],
)
def test_json_of_something_else(data: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        recipe_from_json(data)


def test_spans_of_segments() -> None:
    # The cue is at step 0 and the query at step delay + 1; the segment of step n is n div 4.
    for index, (low, high) in enumerate(spans(1, 5, segment_length=4)):
        assert {(delay + 1) // 4 for delay in range(low, high + 1)} == {index}
        assert (high + 2) // 4 == index + 1
        assert high == longest(index + 1, 4)
    assert spans(2, 3) == ((15, 30), (31, 46))
    assert spans(1, 1) == ((1, 14),)


@pytest.mark.parametrize(
    ("text", "level"), [("14", 14), ("15-30", (15, 30)), ("S9", "S9"), ("S17Random", "S17Random")]
)
def test_levels_are_written_and_read(text: str, level: object) -> None:
    assert parse_level(text) == level
    assert format_level(parse_level(text)) == text


def test_trainings_play_episodes_of_their_own() -> None:
    seeds = {training_seed(seed, steps) for seed in range(50) for steps in (0, 8192, 16384)}
    assert len(seeds) == 150
    assert max(seeds) < 2**29


def test_recipes_are_plain_rows() -> None:
    assert all(isinstance(recipe, Recipe) for recipe in RECIPES.values())
    assert set(RECIPES) == {
        "memorize", "detect", "tmaze",
        "minigrid-memory-s9", "minigrid-memory-s11", "minigrid-memory-s13", "minigrid-memory-s17random",
    }  # fmt: skip
