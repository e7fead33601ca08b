"""What holds for the tasks that ask questions: only answers count, and nothing gives them away."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gym_check_env
from stable_baselines3.common.env_checker import check_env as sb3_check_env

from envs.recall.families.asking import AskingTask
from envs.recall.tasks import TASKS
from tests.envs.recall_cases import CASES, IDS, make, random_actions

ASKING = [name for name, task in TASKS.items() if issubclass(task, AskingTask)]
SEVERAL = [name for name in ASKING if TASKS[name].COUNTED or name == "CountRecall"]
every_case = pytest.mark.parametrize(
    ("name", "kwargs"),
    [case for case in CASES if case[0] in ASKING],
    ids=[i for i in IDS if i.split("-")[0] in ASKING],
)


@every_case
def test_actions_count_only_where_an_answer_is_due(name, kwargs):
    task, quietly, other = tasks = [make(name, 64, **kwargs) for _ in range(3)]
    for player in tasks:
        player.reset(0)
    for actions in random_actions(task, 60):
        quiet = task.non_reactive_steps() > 0
        answer = task.optimal_action()
        # The second plays something else wherever that has no effect, the third at all steps.
        changed = (actions + 1) % task.n_actions
        outcome = task.step(actions)
        expected = quietly.step(np.where(quiet, changed, actions))
        for field in outcome._fields:
            np.testing.assert_array_equal(getattr(outcome, field), getattr(expected, field))
        np.testing.assert_array_equal(outcome.terminated, other.step(changed).terminated)
        assert not outcome.rewards[quiet].any()
        assert not outcome.terminated[quiet].any()
        assert not outcome.truncated.any()
        right = (actions == answer)[~quiet]
        assert (outcome.rewards[~quiet][right] > 0).all()
        assert (outcome.rewards[~quiet][~right] <= 0).all()
        for player in tasks:
            np.testing.assert_array_equal(player.observe(), task.observe())
        over = task.ended.nonzero()[0]
        assert not task.observe(over).any()
        for player in tasks:
            player.restart(over)


@every_case
def test_advance_equals_stepping(name, kwargs):
    blocks, steps = make(name, 4, **kwargs), make(name, 4, **kwargs)
    blocks.reset(5)
    steps.reset(5)
    advanced = 0
    for actions in random_actions(steps, 80):
        left = blocks.non_reactive_steps()
        n = int(left.min())
        n -= n // 3  # not always to the end of a stretch
        seen = blocks.advance(n)
        assert seen.shape == (4, n, blocks.observation_dim)
        for i in range(n):
            np.testing.assert_array_equal(seen[:, i], steps.observe())
            steps.step(actions)
        advanced += n
        np.testing.assert_array_equal(blocks.non_reactive_steps(), left - n)
        np.testing.assert_array_equal(blocks.observe(), steps.observe())
        np.testing.assert_array_equal(blocks.optimal_action(), steps.optimal_action())
        np.testing.assert_equal(blocks.step_and_restart(actions), steps.step_and_restart(actions))
    assert advanced > 0
    most = int(blocks.non_reactive_steps().min())
    for bad in (most + 1, -1, 1.5, True):
        with pytest.raises(ValueError, match=rf"n={bad}: must be an integer from 0 to {most}"):
            blocks.advance(bad)


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize(("correct", "wrong"), [(1.0, 0.0), (0.7, -0.3), (1e5 / 3, -np.pi)])
def test_shares_of_the_questions_add_up_exactly_however_many(name, correct, wrong):
    # With every row another number of questions, as far as there are keys to be asked for.
    others = {"FactRecall": {"keys": 200, "facts": 200}, "CountRecall": {"every": 2}}
    kwargs = others.get(name, {})
    task = make(name, 200, reward_correct=correct, reward_wrong=wrong, **kwargs)
    if name not in others:
        task.set_levels([1 if task.LEVEL.name == "length" else 7])
    for row in range(200):
        task.set_parameters(np.array([row]), **{task.COUNTED or task.LEVEL.name: row + 1})
    for shift, total in ((0, correct), (1, wrong)):
        task.reset(0)
        waiting = np.ones(200, dtype=bool)
        while waiting.any():
            actions = (task.optimal_action() + shift) % task.n_actions
            finished = task.step_and_restart(actions)[2]
            if finished is not None:
                assert (finished.returns == total).all()
                waiting[finished.rows] = False


LARGEST = {
    "FactRecall": ({"keys": 320, "facts": 320, "hops": 3, "queries": 2}, 653),
    "MemorySize": ({"bits": 40}, 81),
    "MemoryLength": ({"length": 100}, 3),
    "CountRecall": ({"length": 200, "symbols": 52, "every": 1}, 104),
    "Reasoning": ({"delay": 4096, "holders": 10, "places": 20}, 40),
    **{
        name: (TASKS[name].PRESETS[preset], dimension)
        for name, preset, dimension in (
            ("Copy", "rmt-120", 15),
            ("Reverse", "rmt-120", 15),
            ("AssociativeRetrieval", "armt-200", 277),
            ("Rewrite", "armt-1000", 37),
            ("RepeatPrevious", "popgym-hard", 5),
        )
    },
}


@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_settings_pass_the_checks_too(name):
    kwargs, dimension = LARGEST[name]
    env = gym.make(f"envs:RMT/{name}-v0", **kwargs)
    assert env.observation_space.shape == (dimension,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gym_check_env(env.unwrapped)
        sb3_check_env(env)


@pytest.mark.parametrize("name", ASKING)
def test_a_question_is_drawn_and_told_by_what_the_agent_sees(name):
    task = make(name, 100, **{TASKS[name].LEVEL.name: 2})
    task.reset(0)
    task.advance(int(task.non_reactive_steps()[0]))
    groups = {}
    for row, observation in enumerate(task.observe()):
        groups.setdefault(observation.tobytes(), set()).add(
            (task.render_rgb(row).tobytes(), task.render_text(row))
        )
    assert max(map(len, groups.values())) == 1
    assert len(groups) <= 16  # so that rows with other answers see the same


@pytest.mark.parametrize("name", ASKING)
def test_the_end_tells_the_last_answer_and_what_was_right(name):
    task = make(name, 2, **{TASKS[name].LEVEL.name: 2})
    assert task.render_text() == "step 0 of 0: sees nothing"
    task.render_rgb()
    task.reset(0)
    right = np.zeros(2, dtype=int)
    for last in np.arange(int(task.non_reactive_steps()[0]) + task.get_state()["count"][0])[::-1]:
        due, wrong = task.non_reactive_steps() == 0, np.array([False, last == 0])
        actions = (task.optimal_action() + wrong) % task.n_actions
        task.step(actions)
        right += due & ~wrong
    assert task.ended.all()
    assert task.success.tolist() == [True, False]
    for row, verdict in enumerate(("right", "wrong")):
        text = f"sees nothing; answered {actions[row]}, {verdict}"
        questions = task.get_state()["count"][row]
        if questions > 1:
            text += f"; {right[row]} of {questions} right"
        assert task.render_text(row).endswith(text)
    assert (task.render_rgb(0) != task.render_rgb(1)).any()
