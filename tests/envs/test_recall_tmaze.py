"""The T-maze, step by step."""

import numpy as np
import pytest

from envs.recall.tasks.tmaze import DOWN, LEFT, RIGHT, UP
from tests.envs.recall_cases import make

CUE_UP, CUE_DOWN, CORRIDOR, JUNCTION, GOAL = range(5)


def start(**kwargs):
    """Two mazes, the goal up in the first and down in the second."""
    task = make("TMaze", 2, **kwargs)
    seed = 0
    while task.reset(seed) is not None and task.get_state()["goal"].tolist() != [1, -1]:
        seed += 1
    return task


def seen(task):
    """The symbol each row sees."""
    observations = task.observe()
    assert (observations.sum(axis=1) <= 1).all()
    return np.where(observations.any(axis=1), observations.argmax(axis=1), GOAL).tolist()


def walk(task, actions):
    """What both rows see and earn on the way, taking the same actions."""
    sights, rewards = [seen(task)], []
    for action in actions:
        outcome = task.step([action, action])
        sights.append(seen(task))
        rewards.append(outcome.rewards.tolist())
    return sights, rewards, outcome


def test_passive_walk():
    task = start(length=3)
    sights, rewards, outcome = walk(task, [RIGHT, RIGHT, RIGHT, UP])
    assert sights == [[CUE_UP, CUE_DOWN], [CORRIDOR] * 2, [CORRIDOR] * 2, [JUNCTION] * 2, [GOAL] * 2]
    assert rewards == [[0, 0], [0, 0], [0, 0], [1, 0]]
    assert outcome.terminated.all()
    assert not outcome.truncated.any()
    assert task.success.tolist() == [True, False]


def test_active_walk_sees_the_cue_on_the_left_and_never_pays():
    task = start(length=2, active=True, start_distance=2, goal_reward=3.0)
    sights, rewards, outcome = walk(task, [LEFT, LEFT, RIGHT, RIGHT, RIGHT, RIGHT, DOWN])
    corridor = [CORRIDOR] * 2
    expected = [
        corridor,
        corridor,
        [CUE_UP, CUE_DOWN],
        corridor,
        corridor,
        corridor,
        [JUNCTION] * 2,
        [GOAL] * 2,
    ]
    assert sights == expected
    assert rewards == [[0, 0]] * 6 + [[0, 3]]
    assert outcome.terminated.all()
    assert task.success.tolist() == [False, True]


def test_lagging_costs_and_time_runs_out():
    # Passive, length 4: 5 steps. Standing still lags at steps 1 to 4; the last step is free.
    task = start(length=4, penalty=2.0)
    sights, rewards, outcome = walk(task, [LEFT, UP, DOWN, LEFT, LEFT])
    assert sights == [[CUE_UP, CUE_DOWN]] * 6
    assert rewards == [[-0.5, -0.5]] * 4 + [[0, 0]]
    assert outcome.truncated.all()
    assert not outcome.terminated.any()
    assert not task.success.any()
    # Active, offset 1, length 2: 5 steps, of which the agent at x = 1 lags from t = 3 on, at 1 / 2 a step.
    task = start(length=2, active=True)
    _, rewards, outcome = walk(task, [UP, UP, UP, UP, UP])
    assert rewards == [[0, 0], [0, 0], [-0.5] * 2, [-0.5] * 2, [0, 0]]
    assert outcome.truncated.all()


def test_one_wasted_step_is_one_too_many_unless_there_is_slack():
    _, _, outcome = walk(start(length=2), [UP, RIGHT, RIGHT])
    assert outcome.truncated.all()
    task = start(length=2, slack=1)
    _, rewards, outcome = walk(task, [UP, RIGHT, RIGHT, UP])
    assert outcome.terminated.all()
    assert not outcome.truncated.any()
    assert rewards == [[-0.5, -0.5]] * 3 + [[1, 0]]


def test_walls():
    task = start(length=1, slack=5)
    sights, _, _ = walk(task, [UP, DOWN, LEFT, RIGHT, RIGHT, LEFT])
    cue = [CUE_UP, CUE_DOWN]
    assert sights == [cue, cue, cue, cue, [JUNCTION] * 2, [JUNCTION] * 2, cue]


@pytest.mark.parametrize("length", [2, 5])
def test_junction_and_corridor_look_the_same_for_either_cue(length):
    task = make("TMaze", 200, length=length)
    task.reset(0)
    assert set(task.get_state()["goal"].tolist()) == {1, -1}
    for _ in range(length):
        task.step(np.full(200, RIGHT))
        assert len(np.unique(task.observe(), axis=0)) == 1


def test_random_success_in_closed_form():
    # length 1: right with 1/4 at the first step, then up or down with 1/2, to the right side with 1/2.
    task = make("TMaze", 3, length=1)
    task.reset(0)
    assert task.random_success.tolist() == [1 / 16] * 3
    # One more step: in at once and stay (1/4 * 1/4 against the end wall) or stay first (3/4 * 1/4).
    task = make("TMaze", 1, length=1, slack=1)
    task.reset(0)
    assert task.random_success.tolist() == [pytest.approx(0.5 * (1 / 8 + (1 / 16 + 3 / 16) / 2))]


def test_it_is_reactive():
    task = make("TMaze", 5)
    task.reset(0)
    assert task.non_reactive_steps().tolist() == [0] * 5
    assert task.advance(0).shape == (5, 0, 4)
    with pytest.raises(ValueError, match="n=1: must be an integer from 0 to 0"):
        task.advance(1)


def test_pictures_and_text_follow_the_agent():
    task = start(length=3, active=True)
    assert task.render_text(0) == "step 1 of 6: sees corridor\n    o\n^@..+\n    o"
    picture = task.render_rgb(0)
    assert picture.shape == (160, 320, 3)
    task.step([LEFT, LEFT])
    assert task.render_text(1) == "step 2 of 6: sees cue down\n    o\n@...+\n    o"
    assert (task.render_rgb(0) != picture).any()
    assert (task.render_rgb(0) != task.render_rgb(1)).any()
