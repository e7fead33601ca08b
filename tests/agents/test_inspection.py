"""What is left of an agent without its memory: checked on agents whose memory is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.environments import make_env
from agents.evaluation import Result
from agents.inspection import Use, at_random, find_chance, freezing, memory_use, record_episode, swapping
from agents.plots import plot_memory
from agents.recipes import RECIPES, Recipe
from agents.training import build_model
from rmt_rl import MemoryPPO
from tests.agents.helpers import tiny


@pytest.fixture(scope="module", params=["rmt", "armt", "xl", "gru", "none"])
def agent(request: pytest.FixtureRequest) -> tuple[Recipe, MemoryPPO]:
    recipe = tiny(core=request.param, levels=(6,), segment_length=4)
    env = make_env(recipe, 2, 0)
    return recipe, build_model(recipe, env, "cpu")


def noise(model: MemoryPPO, steps: int, rows: int = 3) -> np.ndarray[Any, Any]:
    assert model.observation_space.shape is not None
    rng = np.random.default_rng(0)
    return rng.normal(size=(steps, rows, *model.observation_space.shape)).astype(np.float32)


def states(predict: Any, observations: np.ndarray[Any, Any]) -> list[Any]:
    found, state = [], None
    for observation in observations:
        _, state = predict(observation, state, None, True)
        found.append(state.states[0])
    return found


def test_a_frozen_memory_is_the_first_one(agent: tuple[Recipe, MemoryPPO]) -> None:
    _, model = agent
    first = model.policy.core.initial_state(3)
    for t, state in enumerate(states(freezing(model), noise(model, 10))):
        if hasattr(state, "memory"):
            np.testing.assert_array_equal(state.memory, first.memory.detach())
            assert (state.position == t % 4 + 1).all()


def test_swapping_keeps_every_rows_own_memory(agent: tuple[Recipe, MemoryPPO]) -> None:
    _, model = agent
    observations = noise(model, 6)
    for mine, own in zip(
        states(swapping(model), observations), states(model.predict, observations), strict=True
    ):
        for leaf, expected in zip(mine, own, strict=True):
            np.testing.assert_array_equal(leaf.detach(), expected.detach())


def test_the_same_episodes_are_played(agent: tuple[Recipe, MemoryPPO]) -> None:
    recipe, model = agent
    use = memory_use(model, recipe, 6, episodes=8)
    assert {result.episodes for result in (use.whole, use.frozen, use.swapped, use.alone)} == {8}
    assert {result.mean_length for result in (use.whole, use.frozen, use.swapped, use.alone)} == {8.0}
    assert 0.0 <= use.use <= 1.0 and 0.0 <= use.use_of_past <= 1.0
    if recipe.core == "none":
        assert use.whole.successes == use.frozen.successes == use.alone.successes
    with pytest.raises(ValueError, match="at least 2, got 1"):
        memory_use(model, recipe, 6, episodes=1)


def test_an_episode_is_drawn(agent: tuple[Recipe, MemoryPPO], tmp_path: Path) -> None:
    recipe, model = agent
    recording, _ = record_episode(model, recipe, 6)
    assert len(recording.attention()[0] if recording.has_attention else recording.memory_norm()) == 8
    plot_memory(recording, "title", tmp_path / "memory.png")
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")


# -- how much hangs on the memory


def result(successes: int | None, mean_return: float = 0.0, deviation: float = 0.0) -> Result:
    return Result(6, 100, successes, mean_return, 8.0, deviation)


@pytest.mark.parametrize(
    ("successes", "chance", "use", "use_of_past"),
    [
        # All that is above chance is lost; below it, more cannot be.
        ((100, 25, 25, 20), 0.25, 1.0, 1.0),
        ((100, 50, 10, 0), 0.5, 1.0, 1.0),
        ((75, 50, 25, 25), 0.25, 0.5, 1.0),
        ((75, 75, 35, 30), 0.25, 0.0, 0.8),
        ((75, 80, 35, 50), 0.25, 0.0, 0.5),
        # Not above chance: there is nothing to lose.
        ((25, 0, 0, 0), 0.25, 0.0, 0.0),
        ((20, 0, 0, 0), 0.25, 0.0, 0.0),
    ],
)
def test_shares_of_what_is_above_chance(
    successes: tuple[int, ...], chance: float, use: float, use_of_past: float
) -> None:
    found = Use(*map(result, successes), baseline=chance)  # type: ignore[misc]
    assert (found.use, found.use_of_past) == (pytest.approx(use), pytest.approx(use_of_past))
    assert found.is_above_chance == (successes[0] >= 75)


def test_shares_of_returns() -> None:
    """They may all be negative; what random actions get is the baseline."""
    returns = (-100.0, -400.0, -600.0, -900.0)
    found = Use(*(result(None, each, 10.0) for each in returns), baseline=-600.0)
    assert (found.use, found.use_of_past, found.is_above_chance) == (pytest.approx(0.6), 1.0, True)
    noisy = Use(*(result(None, each, 5000.0) for each in returns), baseline=-600.0)
    assert not noisy.is_above_chance  # 500 above, give or take 980


def test_success_that_nobody_had_is_none() -> None:
    found = Use(result(80), result(None), result(20), result(None), baseline=0.0)
    assert (found.use, found.use_of_past) == (1.0, 0.75)


def test_chance_is_what_the_environment_tells() -> None:
    assert find_chance(RECIPES["memorize"], 110) == 0.25
    copy = Recipe(env_id="envs:RMT/Copy-v0", levels=(2,))
    assert (find_chance(copy, 2), find_chance(copy, 3)) == (0.25**2, 0.25**3)
    fetch = Recipe(env_id="envs.minigrid:RMT/MiniGrid-Fetch-v0", levels=(2,))
    assert (find_chance(fetch, 2), find_chance(fetch, (2, 3))) == (0.5, pytest.approx((1 / 2 + 1 / 3) / 2))
    assert find_chance(Recipe(env_id="CartPole-v1"), None) is None
    assert find_chance(RECIPES["minigrid-memory-s9"], "S9") is None


def test_random_actions_are_the_baseline_where_no_chance_is_known(agent: tuple[Recipe, MemoryPPO]) -> None:
    recipe, model = agent
    use = memory_use(model, recipe, 6, episodes=64)
    assert use.random is not None and use.baseline == use.random.success
    assert 0.1 < use.baseline < 0.45  # of four answers one is right
    assert memory_use(model, recipe, 6, episodes=8, chance=0.25).random is None


def test_random_actions_follow_their_seed() -> None:
    env = make_env(Recipe(env_id="tests.scripts.worlds:Masked-v0"), 3, 0)
    mask = np.array([[True, False, True]] * 3)

    def play(seed: int) -> np.ndarray[Any, Any]:
        predict = at_random(env, seed)
        return np.stack([predict(None, None, None, True, action_masks=mask)[0] for _ in range(40)])

    assert set(play(0).ravel()) == {0, 2}
    np.testing.assert_array_equal(play(0), play(0))
    assert (play(0) != play(1)).any()
