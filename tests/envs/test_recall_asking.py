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

ASKING = [(name, kwargs) for name, kwargs in CASES if issubclass(TASKS[name], AskingTask)]
every_case = pytest.mark.parametrize(
    ("name", "kwargs"), ASKING, ids=[i for i in IDS if issubclass(TASKS[i.split("-")[0]], AskingTask)]
)


@every_case
def test_actions_count_only_where_an_answer_is_due(name, kwargs):
    task, other = make(name, 64, **kwargs), make(name, 64, **kwargs)
    np.testing.assert_array_equal(task.reset(0), other.reset(0))
    for actions in random_actions(task, 60):
        quiet = task.non_reactive_steps() > 0
        answer = task.optimal_action()
        # The second plays something else wherever that has no effect.
        outcome, changed = task.step(actions), other.step(np.where(quiet, (actions + 1) % 2, actions))
        for field in outcome._fields:
            np.testing.assert_array_equal(getattr(outcome, field), getattr(changed, field))
        assert not outcome.rewards[quiet].any()
        assert not outcome.terminated[quiet].any()
        right = (actions == answer)[~quiet]
        assert (outcome.rewards[~quiet][right] > 0).all()
        assert (outcome.rewards[~quiet][~right] <= 0).all()
        np.testing.assert_array_equal(task.observe(), other.observe())
        over = task.ended.nonzero()[0]
        assert not task.observe(over).any()
        task.restart(over)
        other.restart(over)


@every_case
def test_advance_equals_stepping(name, kwargs):
    blocks, steps = make(name, 4, **kwargs), make(name, 4, **kwargs)
    blocks.reset(5)
    steps.reset(5)
    advanced = 0
    for actions in random_actions(steps, 80):
        n = int(blocks.non_reactive_steps().min())
        n -= n // 3  # not always to the end of a stretch
        seen = blocks.advance(n)
        assert seen.shape == (4, n, blocks.observation_dim)
        for i in range(n):
            np.testing.assert_array_equal(seen[:, i], steps.observe())
            steps.step(actions)
        advanced += n
        np.testing.assert_array_equal(blocks.observe(), steps.observe())
        np.testing.assert_array_equal(blocks.optimal_action(), steps.optimal_action())
        np.testing.assert_array_equal(
            blocks.step_and_restart(actions)[1].rewards, steps.step_and_restart(actions)[1].rewards
        )
    assert advanced > 0
    with pytest.raises(ValueError, match="must be an integer from 0"):
        blocks.advance(int(blocks.non_reactive_steps().min()) + 1)


@pytest.mark.parametrize(("correct", "wrong"), [(1.0, 0.0), (0.7, -0.1), (1e5 / 3, -np.pi)])
def test_shares_of_the_questions_add_up_exactly(correct, wrong):
    for every in (1, 3):
        lengths = 128
        task = make("CountRecall", lengths, every=every, reward_correct=correct, reward_wrong=wrong)
        for row in range(lengths):
            task.set_levels([row + 1], rows=np.array([row]))
        for answer, total in ((task.optimal_action, correct), (lambda: 1 - task.optimal_action() % 2, wrong)):  # noqa: B023
            task.reset(0)
            returns, ended = np.zeros(lengths), np.zeros(lengths, dtype=bool)
            while not ended.all():
                outcome = task.step(answer())
                returns += np.where(ended, 0, outcome.rewards)
                ended |= outcome.terminated
                task.restart(task.ended.nonzero()[0])
            np.testing.assert_array_equal(returns, total)


@pytest.mark.parametrize(
    ("name", "kwargs", "dimension"),
    [
        ("FactRecall", {"keys": 320, "facts": 320, "hops": 3, "queries": 2}, 653),
        ("MemorySize", {"bits": 40}, 81),
        ("MemoryLength", {"length": 100}, 3),
        ("CountRecall", {"length": 200, "symbols": 52, "every": 1}, 104),
        ("Reasoning", {"delay": 4096, "holders": 10, "places": 20}, 40),
    ],
)
def test_the_largest_presets_pass_the_checks_too(name, kwargs, dimension):
    env = gym.make(f"envs:RMT/{name}-v0", **kwargs)
    assert env.observation_space.shape == (dimension,)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gym_check_env(env.unwrapped)
        sb3_check_env(env)


def fit_and_score(inputs, targets):
    """Share of the second half whose target a linear map gets right, fitted to the first by least squares."""
    inputs = np.concatenate([inputs, np.ones((len(inputs), 1))], axis=1)
    half = len(inputs) // 2
    wanted = np.eye(targets.max() + 1)[targets]
    gram = inputs[:half].T @ inputs[:half] + 1e-3 * np.eye(inputs.shape[1])
    weights = np.linalg.solve(gram, inputs[:half].T @ wanted[:half])
    return ((inputs[half:] @ weights).argmax(axis=1) == targets[half:]).mean()


@every_case
def test_a_linear_probe_on_what_is_seen_at_the_last_question_stays_at_chance(name, kwargs):
    task = make(name, 500, **kwargs)
    task.reset(0)
    seen, answers = [], []
    observations = task.observe()
    while sum(map(len, answers)) < 10_000:
        answer = task.optimal_action()
        following, _, finished = task.step_and_restart(answer)
        if finished is not None:
            seen.append(observations[finished.rows])
            answers.append(answer[finished.rows])
        observations = following
    seen, answers = np.concatenate(seen), np.concatenate(answers)
    # Of several questions the probe answers the last alone.
    chance = 1 / task.n_actions if name == "FactRecall" else task.chance
    error = np.sqrt(chance * (1 - chance) / (len(seen) / 2))
    assert fit_and_score(seen, answers) <= chance + 4 * error
    # The probe does find an answer that is there.
    told = np.concatenate([seen, np.eye(task.n_actions)[answers]], axis=1)
    assert fit_and_score(told, answers) > 0.99
