"""The curriculum moves on when a level is solved and mixes in easier ones; schedules hold, then fall."""

from __future__ import annotations

import json
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from rmt_rl import MemoryPPO
from rmt_rl.callbacks import CurriculumCallback
from rmt_rl.schedules import HoldThenLinear


class Levels(gym.Env[Any, Any]):
    """Episodes of two steps, solved or not as the level says, whatever the agent does."""

    observation_space = spaces.Discrete(2)
    action_space = spaces.Discrete(2)
    given: list[tuple[list[Any], list[float]]] = []

    def __init__(self, solved: dict[Any, bool]) -> None:
        self.solved = solved
        self.random = np.random.default_rng(0)

    def set_levels(self, levels: list[Any], probabilities: list[float]) -> None:
        self.levels, self.probabilities = levels, probabilities
        self.given.append((levels, probabilities))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        self.level = self.levels[self.random.choice(len(self.levels), p=self.probabilities)]
        self.time = 0
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.time += 1
        last = self.time == 2
        info = {"level": self.level, "is_success": self.solved[self.level]} if last else {}
        return self.time % 2, 0.0, last, False, info


def train(curriculum: CurriculumCallback, solved: dict[Any, bool], steps: int) -> MemoryPPO:
    Levels.given.clear()
    env = Levels(solved)
    env.set_levels(curriculum.levels[:1], [1.0])
    model = MemoryPPO(
        "MlpPolicy", DummyVecEnv([lambda: env]), n_steps=20, sequence_length=20, batch_size=20, n_epochs=1,
        policy_kwargs=dict(core="none"),
    )  # fmt: skip
    return model.learn(steps, callback=curriculum)


def test_moves_on_when_solved_and_mixes_easier_levels() -> None:
    curriculum = CurriculumCallback([(1, 2), 5, 9], threshold=0.9, window=10, easier=0.3)
    train(curriculum, {(1, 2): True, 5: True, 9: False}, 200)
    mixtures = [([(1, 2)], [1.0]), ([(1, 2), 5], [0.3, 0.7]), ([(1, 2), 5, 9], [0.15, 0.15, 0.7])]
    # Given once by the test, once when training begins, and then at every change.
    assert Levels.given[1:] == mixtures
    # Ten episodes of two steps each, all of the first level.
    assert curriculum.history[0] == (20, 1)
    assert curriculum.stage == 2 and curriculum.solved_at is None and curriculum.success_rate == 0.0


def test_ends_when_the_last_level_is_solved() -> None:
    curriculum = CurriculumCallback([1], window=10, stop_when_solved=True)
    model = train(curriculum, {1: True}, 200)
    assert curriculum.solved_at == 20 and model.num_timesteps == 20


def test_an_unsolved_level_stays() -> None:
    curriculum = CurriculumCallback([1, 2], window=10)
    train(curriculum, {1: False, 2: True}, 100)
    assert curriculum.stage == 0 and len(curriculum.recent) == 10


def test_state_survives_json() -> None:
    levels = [(1, 2), 5, 9]
    curriculum = CurriculumCallback(levels, window=10)
    train(curriculum, {(1, 2): True, 5: False, 9: False}, 60)
    state = json.loads(json.dumps(curriculum.state_dict()))
    resumed = CurriculumCallback(levels, window=10)
    resumed.load_state_dict(state)
    assert resumed.mixture() == curriculum.mixture() and resumed.stage == 1
    assert (resumed.recent, resumed.history) == (curriculum.recent, curriculum.history)
    with pytest.raises(ValueError, match="levels are"):
        CurriculumCallback([1, 2]).load_state_dict(state)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(levels=[]), "levels"),
        (dict(levels=[1], threshold=1.5), "threshold.*1.5"),
        (dict(levels=[1], window=0), "window.*0"),
        (dict(levels=[1], easier=1.0), "easier.*1.0"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CurriculumCallback(**options)


def test_hold_then_linear() -> None:
    schedule = pickle.loads(pickle.dumps(HoldThenLinear(3.0, 1.0, hold=0.5)))
    assert [schedule(1 - x) for x in (0, 0.25, 0.5, 0.75, 1.0, 1.1)] == pytest.approx([3, 3, 3, 2, 1, 1])
    assert HoldThenLinear(2.0, 0.0)(0.25) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="hold"):
        HoldThenLinear(1.0, 0.0, hold=1.0)


class Untold(Levels):
    """The same, of which an episode tells less."""

    keeps: tuple[str, ...] = ()

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        *outcome, info = super().step(action)
        return *outcome, {name: value for name, value in info.items() if name in self.keeps}  # type: ignore[return-value]


def test_levels_are_drawn_alike_where_no_success_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Untold, "keeps", ("level",))
    monkeypatch.setitem(globals(), "Levels", Untold)
    curriculum = CurriculumCallback([5, 7, 9], window=10)
    with pytest.warns(UserWarning, match="10 episodes have ended .*its 3 levels are drawn alike") as told:
        model = train(curriculum, {5: True, 7: True, 9: True}, 100)
    assert len(told) == 1
    assert Untold.given[-1] == ([5, 7, 9], [1 / 3] * 3)
    assert (curriculum.stage, curriculum.solved_at, curriculum.draws_alike) == (0, None, True)
    assert "curriculum/success_rate" not in model.logger.name_to_value
    other = CurriculumCallback([5, 7, 9], window=10)
    other.load_state_dict(json.loads(json.dumps(curriculum.state_dict())))
    assert other.mixture() == ([5, 7, 9], [1 / 3] * 3)


def test_a_single_level_needs_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Untold, "keeps", ())
    monkeypatch.setitem(globals(), "Levels", Untold)
    curriculum = CurriculumCallback([5], window=4)
    train(curriculum, {5: True}, 40)  # a warning would be an error
    assert (curriculum.draws_alike, curriculum.solved_at) == (False, None)


def test_every_episode_counts_where_no_level_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Untold, "keeps", ("is_success",))
    monkeypatch.setitem(globals(), "Levels", Untold)
    curriculum = CurriculumCallback([5, 7], window=10)
    train(curriculum, {5: True, 7: True}, 100)
    assert (curriculum.history, curriculum.solved_at) == ([(20, 1)], 40)


def test_states_of_before_are_loaded() -> None:
    """They know nothing of environments that do not tell of success."""
    curriculum = CurriculumCallback([5, 7], window=2)
    state = curriculum.state_dict() | {"stage": 1, "recent": [True]}
    for name in ("reports_success", "draws_alike"):
        del state[name]
    curriculum.load_state_dict(state)
    assert (curriculum.stage, curriculum.reports_success, curriculum.draws_alike) == (1, True, False)
