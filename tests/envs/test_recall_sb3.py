"""The SB3 face: its contract, and that it plays what a DummyVecEnv of single environments plays."""

import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecNormalize

import envs
from envs.recall.sb3_vec import RecallVecEnv
from envs.recall.tasks import TASKS
from tests.envs.recall_cases import CASES, IDS, SHORT, random_actions

every_case = pytest.mark.parametrize(("name", "kwargs"), CASES, ids=IDS)


def env_id(name):
    return f"envs:RMT/{name}-v0"


@every_case
def test_check_env(name, kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gym.make(env_id(name), **kwargs))


@every_case
def test_equals_dummy_vec_env_of_monitored_singles(name, kwargs):
    batched = envs.make_sb3_vec(env_id(name), n_envs=16, seed=4, **kwargs)
    singles = make_vec_env(env_id(name), n_envs=16, seed=4, env_kwargs=kwargs)
    assert type(batched) is RecallVecEnv
    assert batched.observation_space == singles.observation_space
    assert batched.action_space == singles.action_space
    np.testing.assert_array_equal(batched.reset(), singles.reset())
    for actions in random_actions(batched.task, 60):
        observations, rewards, dones, infos = batched.step(actions)
        expected = singles.step(actions)
        np.testing.assert_array_equal(observations, expected[0])
        np.testing.assert_array_equal(rewards, expected[1])
        assert rewards.dtype == expected[1].dtype
        np.testing.assert_array_equal(dones, expected[2])
        for done, info, single in zip(dones, infos, expected[3], strict=True):
            if not done:
                assert info == {}
                continue
            np.testing.assert_array_equal(
                info.pop("terminal_observation"), single.pop("terminal_observation")
            )
            times = [record["episode"].pop("t") for record in (info, single)]
            assert min(times) >= 0
            assert info.pop("episode") == pytest.approx(single.pop("episode"), abs=1e-6)
            assert info == single
    np.testing.assert_array_equal(batched.reset(), singles.reset())  # no seed any more: both go on


def test_levels_and_attributes_of_some_rows():
    vec = envs.make_sb3_vec("RMT/Memorize-v0", 4, seed=0, delay=3)
    vec.reset()
    assert vec.env_method("set_levels", [5], indices=[1, 2]) == [None, None]
    vec.set_attr("delay", (6, 6), indices=3)
    vec.set_attr("noise", 0.5, indices=[0])
    assert vec.get_attr("delay") == [3, 5, 5, (6, 6)]
    assert vec.get_attr("levels", [0, 3]) == [(3,), ((6, 6),)]
    assert vec.get_attr("noise") == [0.5, 0.0, 0.0, 0.0]
    assert vec.non_reactive_steps().tolist() == [4] * 4
    lengths, levels = [[] for _ in range(4)], [[] for _ in range(4)]
    for _ in range(25):
        for row, info in enumerate(vec.step(vec.task.optimal_action())[3]):
            if info:
                lengths[row].append(info["episode"]["l"])
                levels[row].append(info["level"])
    assert [row[:3] for row in lengths] == [[5, 5, 5], [5, 7, 7], [5, 7, 7], [5, 8, 8]]
    assert [row[:2] for row in levels] == [[3, 3], [3, 5], [3, 5], [3, (6, 6)]]
    vec.env_method("set_levels", [1, 2], probabilities=[0.0, 1.0])
    vec.env_method("set_parameters", reward_correct=5.0)
    vec.env_method("set_wrapper_attr", "reward_wrong", -1.0)
    vec.reset()
    assert vec.non_reactive_steps().tolist() == [3] * 4
    assert vec.get_attr("best_return") == [5.0] * 4
    assert vec.get_attr("reward_wrong") == [-1.0] * 4


def test_env_methods_answer_for_each_row():
    vec = envs.make_sb3_vec("RMT/Memorize-v0", 3, seed=0, render_mode="rgb_array")
    observations = vec.reset()
    assert vec.env_method("non_reactive_steps", indices=[0, 2]) == [31, 31]
    assert vec.env_method("optimal_action") == vec.task.optimal_action().tolist()
    np.testing.assert_array_equal(vec.env_method("observe", indices=1), observations[1:2])
    (state,) = vec.env_method("get_state", indices=1)
    vec.step([0, 0, 0])
    vec.env_method("set_state", state, indices=2)
    np.testing.assert_array_equal(vec.observe()[2], observations[1])
    np.testing.assert_array_equal(vec.advance(2)[2, 0], observations[1])
    assert vec.env_method("render")[0].shape == (192, 192, 3)
    assert vec.render().shape[2] == 3
    assert vec.get_images()[0].shape == (192, 192, 3)
    assert envs.make_sb3_vec("RMT/Memorize-v0", 2).get_images() == [None, None]


def test_unknown_and_bad_attributes():
    vec = envs.make_sb3_vec("RMT/Memorize-v0", 2, seed=0)
    assert vec.has_attr("delay")
    assert not vec.has_attr("dealy")
    for call in (vec.get_attr, vec.env_method, lambda name: vec.set_attr(name, 1)):
        with pytest.raises(
            ValueError, match=r"'dealy' is no attribute: there are the parameters delay, cues"
        ):
            call("dealy")
    for name in ("cues", "distractors"):
        vec.set_attr(name, vec.get_attr(name)[0])
        with pytest.raises(ValueError, match=f"{name}=5: must stay"):
            vec.set_attr(name, 5)
    with pytest.raises(ValueError, match=r"noise=-0\.1: must be a finite number of at least 0"):
        vec.set_attr("noise", -0.1)
    assert vec.get_attr("noise") == [0.0, 0.0]
    vec.reset()
    for bad in ([0], [[0, 0]], [0.0, 0.0], [0, 4], [-1, 0]):
        with pytest.raises(ValueError, match="must be"):
            vec.step(np.array(bad))
    vec.set_options({"delay": 3})
    with pytest.raises(ValueError, match="options="):
        vec.reset()
    with pytest.raises(gym.error.NameNotFound, match="Memorize"):
        envs.make_sb3_vec("envs:RMT/Memorise-v0")


def test_seeding_happens_at_the_next_reset_and_once():
    vec = envs.make_sb3_vec("RMT/DetectAndMemorize-v0", 64)
    assert vec.seed(10) == list(range(10, 74))
    first = vec.reset()
    second = vec.reset()
    assert (first != second).any()
    vec.seed(10)
    np.testing.assert_array_equal(vec.reset(), first)
    np.testing.assert_array_equal(vec.reset(), second)


def test_monitor_is_built_in():
    vec = envs.make_sb3_vec("RMT/TMaze-v0", 2)
    assert vec.env_is_wrapped(Monitor) == [True, True]
    assert vec.env_is_wrapped(gym.wrappers.TimeLimit) == [False, False]


@pytest.mark.parametrize("name", TASKS)
def test_sb3_trains_and_evaluates_on_it_without_a_warning(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vec = envs.make_sb3_vec(env_id(name), 32, seed=0, **SHORT[name])
        model = PPO("MlpPolicy", vec, n_steps=16, batch_size=128, n_epochs=1, device="cpu", seed=0)
        model.learn(512)
        assert len(model.ep_info_buffer) > 10
        assert len(model.ep_success_buffer) > 10
        policy = TASKS[name].policy_class(vec.task)
        mean, std = evaluate_policy(policy, envs.make_sb3_vec(env_id(name), 8, seed=1), n_eval_episodes=16)
        assert (mean, std) == (1.0, 0.0)
        wrapped = VecNormalize(VecFrameStack(envs.make_sb3_vec(env_id(name), 2, seed=0), 2), norm_obs=False)
        assert wrapped.reset().shape == (2, 2 * vec.observation_space.shape[0])


def test_faces_can_be_copied_and_pickled():
    vec = envs.make_sb3_vec("RMT/TMaze-v0", 3, seed=0, length=(2, 5))
    env = gym.make("RMT/TMaze-v0", length=(2, 5))
    vec.reset()
    env.reset(seed=0)
    twins = copy.deepcopy(vec), pickle.loads(pickle.dumps(vec))
    vec.set_attr("length", (2, 5))
    for actions in random_actions(vec.task, 20):
        expected = vec.step(actions)[0]
        for twin in twins:
            np.testing.assert_array_equal(twin.step(actions)[0], expected)
    vec.set_attr("length", 9)
    assert twins[0].get_attr("length") == [(2, 5)] * 3
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert twin.unwrapped.length == (2, 5)
        np.testing.assert_equal(twin.unwrapped.get_state(), env.unwrapped.get_state())


def test_importing_envs_imports_no_torch():
    code = "import sys, envs; assert not {'torch', 'stable_baselines3'} & set(sys.modules)"
    root = Path(envs.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)


def test_make_sb3_vec_takes_other_ids_too():
    vec = envs.make_sb3_vec("CartPole-v1", 2, seed=0)
    assert type(vec) is DummyVecEnv
    assert vec.env_is_wrapped(Monitor) == [True, True]
