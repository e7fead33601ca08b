"""Copy, Reverse and RepeatPrevious, step by step, and the presets of all tasks."""

import numpy as np
import pytest

from envs.recall.tasks import TASKS
from tests.envs.recall_cases import assert_rate, make, random_actions

SEQUENCE_TASKS = pytest.mark.parametrize("name", ["Copy", "Reverse"])


def unroll(task, actions):
    """The observations (T + 1, N, D) and rewards (T, N) under the actions (T, N)."""
    observations, rewards = [task.observe()], []
    for step in actions:
        rewards.append(task.step(step).rewards)
        observations.append(task.observe())
    return np.stack(observations), np.stack(rewards)


def shares(correct, right, wrong):
    """What `correct` (n, N) answers earn."""
    return np.where(correct, right, wrong) / len(correct)


@SEQUENCE_TASKS
def test_sequence_distractors_questions_and_blank(name):
    task = make(name, 400, symbols=3, length=4, delay=2, distractors=5, repeats=2)
    task.reset(0)
    seen, _ = unroll(task, random_actions(task, 14))
    assert seen.shape == (15, 400, 9)
    assert set(np.unique(seen)) == {0.0, 1.0}
    assert (seen[:4, :, :3].sum(axis=-1) == 1).all()
    assert (seen[4:6, :, 3:8].sum(axis=-1) == 1).all()
    assert (seen[:14].sum(axis=-1) == 1).all()
    # Whatever was shown and answered, every question looks the same.
    np.testing.assert_array_equal(seen[6:14], np.broadcast_to(np.eye(9)[8], (8, 400, 9)))
    assert not seen[14].any()
    assert task.ended.all()
    for place in range(4):
        assert_rate(seen[place, :, 0] == 1, 1 / 3)
        assert_rate((seen[place] == seen[(place + 1) % 4]).all(axis=-1), 1 / 3)
    for symbol in range(5):
        assert_rate(seen[4:6, :, 3 + symbol].ravel() == 1, 1 / 5)


@SEQUENCE_TASKS
@pytest.mark.parametrize("repeats", [1, 3])
def test_the_order_asked_for(name, repeats):
    task = make(name, 64, length=5, repeats=repeats, delay=3, reward_correct=2.0, reward_wrong=-0.5)
    first = task.reset(0)
    shown = [first.argmax(axis=1)]
    for actions in random_actions(task, 8):
        outcome = task.step(actions)
        assert not outcome.rewards.any()
        shown.append(task.observe().argmax(axis=1))
    expected = np.array(shown[:5] if name == "Copy" else shown[4::-1])
    expected = np.tile(expected, (repeats, 1))
    assert task.non_reactive_steps().tolist() == [0] * 64
    answers = np.where(np.arange(64) < 20, expected, random_actions(task, 5 * repeats, seed=5))
    _, rewards = unroll(task, answers)
    np.testing.assert_allclose(rewards, shares(answers == expected, 2.0, -0.5), atol=1e-12)
    np.testing.assert_array_equal(task.success, (answers == expected).all(axis=0))
    assert task.success[:20].all()
    assert not task.success[20:].all()


@SEQUENCE_TASKS
def test_position_of_what_is_shown_or_asked_for(name):
    task = make(name, 3, length=4, delay=1, repeats=2, show_position=True)
    assert task.observation_dim == 4 + 4 + 1 + 1
    task.reset(0)
    seen, _ = unroll(task, random_actions(task, 13))
    asked = [0.25, 0.5, 0.75, 1.0] if name == "Copy" else [1.0, 0.75, 0.5, 0.25]
    expected = [0.25, 0.5, 0.75, 1.0, 0.0, *asked, *asked, 0.0]
    np.testing.assert_array_equal(seen[..., -1], np.tile(np.array(expected)[:, None], (1, 3)))


def test_repeat_previous_shows_and_asks():
    task = make("RepeatPrevious", 300, symbols=3, lag=2, answers=4, reward_wrong=-1.0)
    task.reset(0)
    answers = random_actions(task, 6)
    seen, rewards = unroll(task, answers)
    assert (seen[:6, :, :3].sum(axis=-1) == 1).all()
    np.testing.assert_array_equal(seen[:6, :, 3], np.tile([[0], [0], [1], [1], [1], [1]], 300))
    assert not seen[6].any()
    symbols = seen[:6, :, :3].argmax(axis=-1)
    correct = answers[2:] == symbols[:-2]
    assert not rewards[:2].any()
    np.testing.assert_allclose(rewards[2:], shares(correct, 1.0, -1.0), atol=1e-12)
    np.testing.assert_array_equal(task.success, correct.all(axis=0))
    for step in range(6):
        assert_rate(symbols[step] == 0, 1 / 3)
        assert_rate(symbols[step] == symbols[step - 1], 1 / 3)


def test_chance_in_closed_form():
    copy = make("Copy", 4, symbols=2, length=(1, 2), repeats=3)
    assert copy.chance == pytest.approx((1 / 2 + 1 / 4) / 2)
    copy.set_levels([1, (1, 2), 3], [0.5, 0.25, 0.25])
    assert copy.chance == pytest.approx(0.625 / 2 + 0.125 / 4 + 0.25 / 8)
    copy.set_levels([1], rows=np.array([0, 1]))
    assert copy.chance == pytest.approx((0.5 + 0.625 / 2 + 0.125 / 4 + 0.25 / 8) / 2)
    assert copy.answer_chance == 0.5
    copy.set_levels([2])
    copy.set_parameters(np.array([1]), repeats=1)
    copy.reset(0)
    assert copy.random_success.tolist() == [2.0**-6, 2.0**-2, 2.0**-6, 2.0**-6]
    assert make("Reverse", 1, symbols=3, length=2).chance == pytest.approx(1 / 9)
    repeat = make("RepeatPrevious", 2, symbols=3, lag=(1, 5), answers=2)
    repeat.set_parameters(np.array([1]), answers=3)
    assert repeat.chance == pytest.approx((1 / 9 + 1 / 27) / 2)
    retrieval = make("AssociativeRetrieval", 1, pairs=(1, 4), queries=2)
    assert retrieval.chance == pytest.approx((1 / 4 + 3 / 16) / 4)


PRESET_STEPS = {
    "Copy": {"rmt-24": 72, "rmt-120": 360},
    "Reverse": {"rmt-24": 48, "rmt-120": 240},
    "AssociativeRetrieval": {"rmt-4": 5, "armt-10": 11, "armt-50": 51, "armt-100": 101, "armt-200": 201},
    "Rewrite": {"armt-train": None, **{f"armt-{n}": n + 1 for n in (50, 100, 200, 500, 1000)}},
    "RepeatPrevious": {"popgym-easy": 51, "popgym-medium": 103, "popgym-hard": 155},
}


def test_all_presets_are_tested():
    assert {name: task.PRESETS.keys() for name, task in TASKS.items() if task.PRESETS} == {
        name: steps.keys() for name, steps in PRESET_STEPS.items()
    }


@pytest.mark.parametrize("name", PRESET_STEPS)
def test_presets_are_as_long_as_they_say_and_solved_by_the_script(name):
    for preset, steps in PRESET_STEPS[name].items():
        task = make(name, 16, **TASKS[name].PRESETS[preset])
        task.reset(0)
        policy, memory, starts = task.policy_class(task), None, np.ones(16, dtype=bool)
        left = np.ones(16, dtype=bool)
        while left.any():
            actions, memory = policy.predict(task.observe(), memory, starts)
            _, _, finished = task.step_and_restart(actions)
            starts[:] = False
            if finished is not None:
                starts[finished.rows] = True
                assert (finished.returns == 1.0).all()
                assert finished.success.all()
                assert steps is None or (finished.lengths == steps).all()
                left[finished.rows] = False


def test_guessing_at_a_preset_of_popgym_costs_a_half():
    task = make("RepeatPrevious", 500, **TASKS["RepeatPrevious"].PRESETS["popgym-easy"])
    task.reset(0)
    _, rewards = unroll(task, random_actions(task, 51))
    returns = rewards.sum(axis=0)
    error = 2 * np.sqrt(3 / 16 / 48 / 500)  # of the mean of 48 * 500 answers worth 1 or -1
    assert abs(returns.mean() + 0.5) < 4 * error


def test_text_tells_question_answer_and_result():
    task = make("Copy", 1, length=2, delay=1, symbols=2)
    task.reset(0)
    symbols = [int(task.optimal_action()[0])]
    assert task.render_text() == f"step 1 of 5: sees symbol {symbols[0]}"
    task.step([0])
    symbols.append(int(task.observe()[0].argmax()))
    task.step([0])
    assert task.render_text().startswith("step 3 of 5: sees distractor ")
    task.step([0])
    assert task.render_text() == "step 4 of 5: sees question 1/2"
    task.step(symbols[:1])
    assert task.render_text() == f"step 5 of 5: sees question 2/2; answered {symbols[0]}, right"
    wrong = 1 - symbols[1]
    task.step([wrong])
    assert task.render_text() == f"step 5 of 5: sees nothing; answered {wrong}, wrong; 1 of 2 right"
