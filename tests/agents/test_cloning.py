"""Behaviour cloning: what is recorded is what the expert did, and a memory learns to do it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env

from agents.cloning import clone, find_expert, record
from agents.environments import make_env, make_vec, set_levels
from agents.evaluation import evaluate
from agents.recipes import Recipe
from agents.training import build_model
from tests.agents.helpers import tiny

MINIGRID = "envs.minigrid:RMT/MiniGrid-Memory-v0"


def cloned(recipe: Recipe, steps: int, epochs: int, rate: float = 3e-3) -> tuple[Any, list[float]]:
    env = make_env(recipe, recipe.n_envs, seed=1)
    set_levels(env, recipe.levels)
    model = build_model(recipe, env, device="cpu")
    demonstrations = record(env, find_expert(env), steps, recipe.sequence_length)
    return model, clone(model, demonstrations, epochs=epochs, learning_rate=rate)


def test_what_is_recorded_is_what_happened() -> None:
    """Played again from the same seed, the actions give the observations; the expert is always right."""
    env = make_vec("envs:RMT/TMaze-v0", 3, seed=5, active=True, length=4)
    demonstrations = record(env, find_expert(env), 50, 16)
    assert len(demonstrations) == 4
    observations = np.concatenate([d.observations for d in demonstrations], 1)
    actions = np.concatenate([d.actions for d in demonstrations], 1)
    starts = np.concatenate([d.episode_starts for d in demonstrations], 1)
    assert observations.shape[:2] == actions.shape == starts.shape == (3, 64)
    again = make_vec("envs:RMT/TMaze-v0", 3, seed=5, active=True, length=4)
    seen, begins, successes = again.reset(), np.ones(3, bool), []
    for t in range(64):
        np.testing.assert_array_equal(observations[:, t], seen)
        np.testing.assert_array_equal(starts[:, t], begins)
        seen, _, begins, infos = again.step(actions[:, t])
        successes += [info["is_success"] for info in infos if "is_success" in info]
    assert len(successes) > 6
    assert all(successes)


def test_dicts_and_the_expert_that_looks() -> None:
    env = make_vec(MINIGRID, 2, seed=0, levels=["S9"], view_size=3)
    (demonstration,) = record(env, find_expert(env), 40, 40)
    assert demonstration.observations["image"].shape == (2, 40, 3, 3, 3)  # type: ignore[index]
    assert demonstration.actions.shape == (2, 40)
    # One that knew the answer would never turn back west.
    assert (demonstration.observations["direction"] == 2).any()  # type: ignore[index]


def test_without_an_expert() -> None:
    with pytest.raises(ValueError, match="no expert: no scripted_policy, informed_action or optimal_action"):
        find_expert(make_vec_env("CartPole-v1", 1))


def test_nothing_to_learn_from() -> None:
    recipe = tiny()
    model = build_model(recipe, make_env(recipe, 2, 0), "cpu")
    with pytest.raises(ValueError, match="got 0 and 10"):
        clone(model, [])


@pytest.mark.parametrize("core", ["rmt", "gru"])
def test_the_memory_is_carried_from_demonstration_to_demonstration(core: str) -> None:
    """Without learning, the loss does not hang on where the record is cut."""
    recipe = tiny(levels=((1, 30),), core=core, segment_length=4, memory_noise=0.0)
    env = make_env(recipe, 4, seed=0)
    model = build_model(recipe, env, "cpu")
    before = model.policy.parameters_to_vector()
    losses = []
    for length in (64, 16, 8):
        env.seed(3)
        demonstrations = record(env, find_expert(env), 64, length)
        losses += clone(model, demonstrations, epochs=1, learning_rate=0.0)
    np.testing.assert_allclose(losses, losses[0], rtol=1e-5)
    np.testing.assert_array_equal(model.policy.parameters_to_vector(), before)


@pytest.mark.parametrize(("core", "success"), [("rmt", 0.99), ("none", 0.5)])
def test_memorize_needs_a_memory(core: str, success: float) -> None:
    sizes = dict(width=32, heads=2, layers=1) if core == "rmt" else dict(width=32, layers=1)
    recipe = tiny(
        core=core, levels=((1, 6),), n_envs=32, n_steps=32, sequence_length=32, segment_length=4,
        core_kwargs=sizes, evaluation_levels=(), critic_shapes_memory=True, memory_noise=0.0,
    )  # fmt: skip
    model, losses = cloned(recipe, 512, 10, rate=1e-2)
    (result,) = evaluate(model, recipe, [(1, 6)], episodes=200)
    if core == "rmt":
        assert losses[-1] < 0.1 < losses[0] < math.log(4) + 0.2
        assert result.success >= success
    else:
        assert losses[-1] > 0.5
        assert result.success < success


@pytest.mark.slow
@pytest.mark.parametrize(("level", "view_size"), [("S7", 7), ("S9", 3)])
def test_minigrid_is_cloned(level: str, view_size: int) -> None:
    recipe = tiny(
        "minigrid-memory-s9",
        levels=(level,),
        view_size=view_size,
        n_envs=32,
        n_steps=64,
        sequence_length=64,
        heads=(64,),
    )
    model, _ = cloned(recipe, 2048, 20, rate=1e-3)
    (result,) = evaluate(model, recipe, [level], episodes=200)
    assert result.success > 0.95
