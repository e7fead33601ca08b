"""What is left of an agent without its memory: checked on agents whose memory is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents.environments import make_env
from agents.inspection import freezing, memory_use, record_episode, swapping
from agents.plots import plot_memory
from agents.recipes import Recipe
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
