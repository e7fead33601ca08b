"""The Gymnasium faces: their contracts, and that they play what the task plays."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import NameNotFound, ResetNeeded
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import envs
from envs.recall.tasks import TASKS
from tests.envs.recall_cases import CASES, IDS, SHORT, make, random_actions

every_case = pytest.mark.parametrize(("name", "kwargs"), CASES, ids=IDS)


def env_id(name):
    return f"envs:RMT/{name}-v0"


@every_case
def test_check_env(name, kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(env_id(name), **kwargs).unwrapped)


@every_case
def test_env_plays_what_the_task_plays(name, kwargs):
    task = make(name, 1, **kwargs)
    env = gym.make(env_id(name), **kwargs)
    observation, info = env.reset(seed=5)
    np.testing.assert_array_equal(observation, task.reset(5)[0])
    assert info == {}
    ended = 0
    for action in random_actions(task, 100)[:, 0]:
        _, outcome, finished = task.step_and_restart([action])
        observation, reward, terminated, truncated, info = env.step(action)
        assert (reward, terminated, truncated) == tuple(field[0] for field in outcome)
        assert type(reward) is float
        assert type(terminated) is bool
        if finished is None:
            assert info == {}
        else:
            np.testing.assert_array_equal(observation, finished.observations[0])
            assert info == {"is_success": finished.success[0], "level": finished.levels[0]}
            assert type(info["is_success"]) is bool
            observation, _ = env.reset()
            ended += 1
        np.testing.assert_array_equal(observation, task.observe()[0])
    assert ended > 1


@pytest.mark.parametrize("name", TASKS)
def test_vector_equals_sync_vector_of_singles(name):
    kwargs = {**SHORT[name], TASKS[name].LEVEL.name: 2}
    vector = gym.make_vec(env_id(name), num_envs=64, **kwargs)
    assert type(vector).__name__ == "RecallVectorEnv"
    assert vector.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    singles = SyncVectorEnv([lambda: gym.make(env_id(name), **kwargs)] * 64, autoreset_mode="SameStep")
    assert vector.observation_space == singles.observation_space
    assert vector.action_space == singles.action_space
    assert vector.single_observation_space == singles.single_observation_space
    assert data_equivalence(vector.reset(seed=3), singles.reset(seed=3), exact=True)
    for actions in random_actions(vector.unwrapped.task, 20):
        assert data_equivalence(vector.step(actions), singles.step(actions), exact=True)
    mask = np.arange(64) % 3 == 0
    options = {"reset_mask": mask}
    assert data_equivalence(
        vector.reset(options=dict(options)), singles.reset(options=dict(options)), exact=True
    )
    for actions in random_actions(vector.unwrapped.task, 10):
        assert data_equivalence(vector.step(actions), singles.step(actions), exact=True)


def test_vector_levels_that_are_ranges():
    vector = gym.make_vec(env_id("Memorize"), num_envs=8)
    vector.unwrapped.set_levels([1, (1, 2)])
    vector.reset(seed=0)
    vector.step(np.zeros(8, dtype=int))
    vector.step(np.zeros(8, dtype=int))
    infos = vector.step(np.zeros(8, dtype=int))[-1]["final_info"]
    assert set(infos["level"][infos["_level"]]) == {1, (1, 2)}
    assert infos["level"][~infos["_level"]].tolist() == [None] * (~infos["_level"]).sum()


def test_vector_attributes():
    vector = gym.make_vec(env_id("Memorize"), num_envs=3, delay=(2, 4)).unwrapped
    assert vector.get_attr("delay") == ((2, 4),) * 3
    vector.set_attr("delay", [1, 2, (3, 4)])
    vector.set_attr("noise", 0.5)
    assert vector.get_attr("delay") == (1, 2, (3, 4))
    assert vector.get_attr("noise") == (0.5,) * 3
    with pytest.raises(ValueError, match="one value, or 3"):
        vector.set_attr("noise", [0.1, 0.2])
    with pytest.raises(ValueError, match="'nose' is no parameter"):
        vector.set_attr("nose", 0.1)
    with pytest.raises(ValueError, match="reset_mask"):
        vector.reset(options={"reset_mask": np.zeros(3, dtype=bool)})


@pytest.mark.parametrize("make_env", [gym.make, gym.make_vec])
def test_unseeded_reset_is_fresh_but_on_record(make_env):
    first, second = make_env(env_id("Memorize"), delay=40), make_env(env_id("Memorize"), delay=40)
    observations = []
    for env in (first, second):
        env.reset()
        observations.append(env.unwrapped.task.advance(41))
    assert (observations[0] != observations[1]).any()
    second.reset(seed=first.unwrapped.np_random_seed)
    np.testing.assert_array_equal(second.unwrapped.task.advance(41), observations[0])


def test_parameters_are_attributes_for_later_episodes():
    env = gym.make(env_id("Memorize"), delay=3)
    env.reset(seed=0)
    env.set_wrapper_attr("delay", 7)
    assert env.get_wrapper_attr("delay") == 7
    assert env.unwrapped.non_reactive_steps() == 4
    env.reset()
    assert env.unwrapped.non_reactive_steps() == 8
    env.get_wrapper_attr("set_parameters")(delay=(2, 2), noise=0.25)
    assert (env.unwrapped.delay, env.unwrapped.noise) == ((2, 2), 0.25)
    env.get_wrapper_attr("set_levels")([4, (6, 9)])
    assert env.unwrapped.delay == (4, 9)
    assert env.unwrapped.levels == (4, (6, 9))
    with pytest.raises(AttributeError, match="no attribute 'dealy'"):
        _ = env.unwrapped.dealy
    with pytest.raises(ValueError, match=r"delay=0: must be an integer from 1"):
        env.unwrapped.delay = 0


def test_env_helpers_for_agents():
    env = gym.make(env_id("Memorize"), delay=3, reward_correct=2.0).unwrapped
    observation, _ = env.reset(seed=0)
    np.testing.assert_array_equal(env.observe(), observation)
    assert (env.best_return, env.chance) == (2.0, 0.25)
    state = env.get_state()
    assert env.advance(4).shape == (4, 13)
    assert env.step(env.optimal_action())[1:3] == (2.0, True)
    env.set_state(state)
    np.testing.assert_array_equal(env.observe(), observation)


@pytest.mark.parametrize("bad", [4, -1, 1.0, "1", [1], None])
def test_bad_actions(bad):
    env = gym.make(env_id("Memorize"), disable_env_checker=True)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="must be"):
        env.step(bad)


def test_misuse():
    env = gym.make(env_id("Memorize"), delay=1).unwrapped
    with pytest.raises(ResetNeeded):
        env.step(0)
    with pytest.raises(ValueError, match="options"):
        env.reset(options={"delay": 3})
    with pytest.raises(NameNotFound, match="Did you mean: `Memorize`"):
        gym.make("envs:RMT/Memorise-v0")
    with pytest.raises(ValueError, match="did you mean Memorize"):
        envs.recall.RecallEnv("Memorise")
    with pytest.raises(ValueError, match="render_mode='human'"):
        envs.recall.RecallEnv("Memorize", render_mode="human")
    with pytest.raises(TypeError, match="dealy"):
        gym.make(env_id("Memorize"), dealy=3)


@every_case
def test_rendering(name, kwargs):
    env = gym.make(env_id(name), render_mode="rgb_array", **kwargs)
    text = gym.make(env_id(name), render_mode="ansi", **kwargs)
    pictures, lines = [], []
    for view in (env, text):
        view.reset(seed=1)
    done = False
    while not done:
        pictures.append(env.render())
        lines.append(text.render())
        action = env.unwrapped.optimal_action()
        done = env.step(action)[2]
        text.step(action)
    pictures.append(env.render())
    shape = (160, 320, 3) if name == "TMaze" else (192, 192, 3)
    assert {(picture.shape, picture.dtype) for picture in pictures} == {(shape, np.dtype(np.uint8))}
    assert len({picture.tobytes() for picture in pictures}) == len(pictures)
    assert len(set(lines)) == len(lines)
    vector = gym.make_vec(env_id(name), num_envs=2, render_mode="rgb_array", **kwargs)
    vector.reset(seed=1)
    np.testing.assert_array_equal(vector.render()[0], pictures[0])
