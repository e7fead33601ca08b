"""``predict`` in a loop without a state is noticed, once, and nothing else is taken for it."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3.common.evaluation import evaluate_policy

from rmt_rl import CORES, MemoryA2C, MemoryPPO
from tests.rmt_rl.test_memory_ppo import build, worlds
from tests.rmt_rl.worlds import CORE_KWARGS

MESSAGE = "predict was called repeatedly without state and episode_start"


@pytest.fixture
def warned() -> Iterator[Callable[[], list[str]]]:
    """The files that warnings of it were attributed to since the last time this was asked."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")

        def files() -> list[str]:
            found = [Path(w.filename).name for w in caught if MESSAGE in str(w.message)]
            caught.clear()
            return found

        yield files


@pytest.mark.parametrize("core", CORES)
def test_the_second_call_in_a_row_is_warned_of_once(core: str, warned: Any) -> None:
    env = worlds(2)
    model = build(env, core=core)
    model.predict(env.reset())
    assert warned() == []
    for _ in range(3):
        model.predict(env.reset())
    # Of the line that made the mistake, not of one within the library.
    assert warned() == ([] if core == "none" else [Path(__file__).name])


def test_of_a_policy_and_of_a2c_as_well(warned: Any) -> None:
    env = worlds(2)
    policy_kwargs = dict(core="gru", core_kwargs=CORE_KWARGS["gru"])
    for model in (build(env), MemoryA2C("MlpPolicy", env, policy_kwargs=policy_kwargs)):
        model.policy.predict(env.reset())
        assert warned() == []
        model.predict(env.reset())
        model.policy.predict(env.reset())
        assert warned() == [Path(__file__).name]


def test_what_is_right_is_not_warned_of(warned: Any) -> None:
    env = worlds(2)
    model = build(env)
    for _ in range(3):  # episodes that begin with state=None
        _, state = model.predict(env.reset())
        for _ in range(2):
            _, state = model.predict(env.reset(), state)
    for _ in range(3):  # SB3's way
        model.predict(env.reset(), None, np.ones(2, bool))
    state, starts = None, np.ones(2, bool)
    for _ in range(3):
        _, state = model.predict(env.reset(), state, starts)
        starts = np.zeros(2, bool)
    evaluate_policy(model, env, n_eval_episodes=3, warn=False)
    model.learn(36)
    for _ in range(2):  # calls that fail begin nothing
        with pytest.raises(ValueError, match="NaN"):
            model.predict(np.full((2, 3), np.nan))
    assert warned() == []


def test_agents_that_begin_side_by_side_are_not_warned_of(warned: Any) -> None:
    env = worlds(2)
    model = build(env)
    for _ in range(3):
        first = second = third = None
        for _ in range(3):
            _, first = model.predict(env.reset(), first)
            _, second = model.predict(env.reset(), second)
            _, third = model.predict(env.reset(), third)
    assert warned() == []


@pytest.mark.parametrize("keeps", [False, True])
def test_a_state_that_is_never_taken_over_is_noticed(keeps: bool, warned: Any) -> None:
    env = worlds(2)
    model, state = build(env), None
    for _ in range(4):
        if keeps:
            actions, _ = model.predict(env.reset(), state)
        else:
            actions = model.predict(env.reset(), state)[0]
    assert len(actions) == 2 and warned() == [Path(__file__).name]


def test_nothing_of_it_is_in_the_policy(warned: Any, tmp_path: Path) -> None:
    env = worlds(2)
    model = build(env)
    before = sorted(vars(model.policy)), sorted(vars(model))
    model.predict(env.reset())
    for other in (copy.deepcopy(model.policy), pickle.loads(pickle.dumps(model.policy))):
        other.predict(env.reset())  # a policy of its own
        assert warned() == []
    model.save(tmp_path / "agent")
    MemoryPPO.load(tmp_path / "agent").predict(env.reset())
    assert warned() == []
    model.predict(env.reset())
    assert warned() == [Path(__file__).name]
    assert (sorted(vars(model.policy)), sorted(vars(model))) == before
