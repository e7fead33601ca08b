"""Evaluation: the interval, the counting of episodes, and that streaming is stepping."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import VecEnv

from agents import evaluation
from agents.environments import EVALUATION_SEED, make_env, set_levels
from agents.evaluation import Result, default_levels, evaluate, play, stream, wilson_interval
from agents.recipes import RECIPES, Recipe
from agents.training import build_model
from rmt_rl import MemoryPPO
from tests.agents.helpers import tiny


@given(st.integers(1, 2000), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_wilson_bounds_solve_their_equation(episodes: int, share: float, confidence: float) -> None:
    # By definition the bounds are the p at which |k/n - p| is z standard errors of p.
    successes = round(share * episodes)
    z = {0.8: 1.2815515655446004, 0.95: 1.959963984540054, 0.99: 2.5758293035489004}[confidence]
    low, high = wilson_interval(successes, episodes, confidence)
    assert 0 <= low <= successes / episodes <= high <= 1
    for bound in (low, high):
        assert (successes / episodes - bound) ** 2 == pytest.approx(
            z**2 * bound * (1 - bound) / episodes, abs=1e-12
        )


def test_wilson_values() -> None:
    z2 = 1.959963984540054**2
    assert wilson_interval(256, 256) == (pytest.approx(256 / (256 + z2)), 1.0)
    assert wilson_interval(0, 10) == (0.0, pytest.approx(z2 / (10 + z2)))
    assert wilson_interval(50, 100) == (pytest.approx(0.4038315), pytest.approx(0.5961685))


@pytest.mark.parametrize(
    ("successes", "episodes", "confidence"), [(3, 2, 0.95), (-1, 2, 0.95), (0, 0, 0.95), (1, 2, 1.0)]
)
def test_wilson_refuses(successes: int, episodes: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="got"):
        wilson_interval(successes, episodes, confidence)


def model_for(name: str, core: str = "rmt", n_envs: int = 4) -> tuple[MemoryPPO, VecEnv]:
    recipe = tiny(name, core=core, n_envs=n_envs, seed=3)
    env = make_env(recipe, n_envs, EVALUATION_SEED)
    model = build_model(recipe, env, device="cpu")
    env.seed(EVALUATION_SEED)
    return model, env


@pytest.mark.parametrize("core", ["rmt", "xl", "gru", "none"])
def test_streamed_equals_stepped(core: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, env = model_for("memorize", core)
    set_levels(env, [53])
    monkeypatch.setattr(evaluation, "BLOCK", 20)  # 54 steps are three blocks, the last not full
    first: Any = env.reset()
    starts = np.ones(4, dtype=bool)
    query, query_starts, streamed = stream(model, env, first, starts, None)
    assert not query_starts.any()
    streamed_actions, after_streaming = model.predict(query, streamed, query_starts, deterministic=True)

    env.seed(EVALUATION_SEED)
    observations: Any = env.reset()
    np.testing.assert_array_equal(observations, first)
    state, dones = None, starts
    for _ in range(54):
        actions, state = model.predict(observations, state, dones, deterministic=True)
        observations, _, dones, _ = env.step(actions)
        assert not dones.any()
    np.testing.assert_array_equal(observations, query)
    stepped_actions, after_stepping = model.predict(observations, state, dones, deterministic=True)
    np.testing.assert_array_equal(stepped_actions, streamed_actions)
    for stepped, streamed_leaf in zip(after_stepping.states[0], after_streaming.states[0], strict=True):
        torch.testing.assert_close(stepped, streamed_leaf, rtol=1e-4, atol=1e-5)


def test_streaming_changes_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    # A range of delays, so that the environments' episodes drift apart.
    model, env = model_for("detect", n_envs=6)
    set_levels(env, [(3, 40)])
    streamed = play(model, env, (3, 40), 23)
    env.seed(EVALUATION_SEED)
    monkeypatch.setattr(evaluation, "stream", lambda model, env, *rest: rest)
    stepped = play(model, env, (3, 40), 23)
    assert streamed == stepped
    assert 0 < streamed.successes < 23


def test_reactive_tasks_are_not_streamed() -> None:
    model, env = model_for("tmaze")
    observations: Any = env.reset()
    seen, starts, state = stream(model, env, observations, np.ones(4, dtype=bool), None)
    assert seen is observations and starts.all() and state is None


class Scripted(VecEnv):
    """Environment i has episodes of i + 1 steps; each succeeds if its number, from 0, is even."""

    def __init__(self, n_envs: int) -> None:
        import gymnasium as gym

        super().__init__(n_envs, gym.spaces.Box(0, 1, (1,), np.float32), gym.spaces.Discrete(2))
        self.time = np.zeros(n_envs, int)
        self.played = np.zeros(n_envs, int)

    def reset(self) -> Any:
        return np.zeros((self.num_envs, 1), np.float32)

    def step_async(self, actions: Any) -> None: ...

    def step_wait(self) -> Any:
        self.time += 1
        dones = self.time == np.arange(self.num_envs) + 1
        infos: list[dict[str, Any]] = [{} for _ in dones]
        for row in np.flatnonzero(dones):
            infos[row] = {
                "is_success": bool(self.played[row] % 2 == 0),
                "episode": {"r": float(self.played[row]), "l": int(self.time[row])},
            }
        self.played += dones
        self.time[dones] = 0
        return self.reset(), np.zeros(self.num_envs, np.float32), dones, infos

    def close(self) -> None: ...

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None: ...

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **kwargs: Any) -> list[Any]:
        return []

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs


class Idle:
    def predict(self, observations: Any, state: Any, starts: Any, deterministic: bool) -> tuple[Any, Any]:
        return np.zeros(len(observations), int), None


def test_each_environment_plays_its_share() -> None:
    # 7 episodes on 3 environments: 3, 2 and 2, of 1, 2 and 3 steps; each environment's even ones succeed.
    result = play(Idle(), Scripted(3), "x", 7)  # type: ignore[arg-type]
    assert result == Result(
        "x", 7, successes=2 + 1 + 1, mean_return=(3 + 1 + 1) / 7, mean_length=(3 + 4 + 6) / 7
    )
    assert result.success == 4 / 7


def test_intervals_of_returns() -> None:
    result = Result(None, 100, None, 5.0, 3.0, return_deviation=2.0)
    assert result.return_interval == (pytest.approx(5 - 0.391993), pytest.approx(5 + 0.391993))
    assert (result.score, result.has_success) == (5.0, False)
    for name in ("success", "interval"):
        with pytest.raises(ValueError, match="there is only their return"):
            getattr(result, name)
    assert Result(None, 4, 3, 5.0, 3.0).score == 0.75


def test_returns_without_success_and_levels() -> None:
    """Three environments that give the same: 1 for each of three steps."""
    recipe = Recipe(env_id="tests.scripts.worlds:Silent-v0")
    (result,) = evaluate(Idle(), recipe, episodes=7)  # type: ignore[arg-type]
    assert (result.level, result.successes, result.mean_return, result.mean_length) == (None, None, 3.0, 3.0)
    assert result.return_interval == (3.0, 3.0)


def test_masks_are_passed_on() -> None:
    class Allowed(Idle):
        def predict(self, *args: Any, action_masks: Any) -> tuple[Any, Any]:  # type: ignore[override]
            return action_masks.argmax(1), None

    recipe = Recipe(env_id="tests.scripts.worlds:Masked-v0")
    (result,) = evaluate(Allowed(), recipe, episodes=5)  # type: ignore[arg-type]
    assert result.mean_return == 1.0  # 1, 0, 1: what is allowed first


def test_evaluation_is_reproducible_and_held_out() -> None:
    recipe = tiny(n_envs=2, seed=1)
    model, _ = model_for("memorize")
    told: list[Result] = []
    first = evaluate(model, recipe, [5, (2, 9)], episodes=40, on_level=told.append)
    assert first == told == evaluate(model, recipe, [5, (2, 9)], episodes=40)
    assert [result.level for result in first] == [5, (2, 9)]
    assert first[0].mean_length == 7.0


def test_default_levels() -> None:
    assert default_levels(Recipe(env_id="CartPole-v1")) == (None,)
    assert default_levels(RECIPES["memorize"]) == ((95, 110), 14, 110, 1022, 8190)
    assert default_levels(RECIPES["minigrid-memory-s9"]) == ("S9",)


@pytest.mark.parametrize(
    ("levels", "episodes", "words"), [([5], 0, "episodes"), ([0], 3, "delay"), (["S9"], 3, "delay")]
)
def test_bad_evaluations(levels: Any, episodes: int, words: str) -> None:
    model, _ = model_for("memorize")
    with pytest.raises(ValueError, match=words):
        evaluate(model, tiny(), levels, episodes=episodes)
