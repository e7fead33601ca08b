"""MiniGrid through the wrapper: spaces Stable-Baselines3 accepts, and MiniGrid's own episodes."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as gym_check_env
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX
from stable_baselines3.common.env_checker import check_env as sb3_check_env
from stable_baselines3.common.preprocessing import is_image_space

from envs.minigrid import MiniGridIds

EVERYTHING = dict(previous_action=True, previous_reward=True)


@pytest.mark.parametrize("options", [{}, EVERYTHING, dict(view_size=3, actions=7)])
def test_passes_both_checkers(options: dict) -> None:
    env = MiniGridIds(gym.make("MiniGrid-DoorKey-5x5-v0"), **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about its size: too small for a picture, which it is not
        sb3_check_env(env)
        gym_check_env(env, skip_render_check=True)


def test_spaces() -> None:
    env = MiniGridIds(gym.make("MiniGrid-DoorKey-5x5-v0"), **EVERYTHING, view_size=5, actions=6)
    image = env.observation_space["image"]
    assert isinstance(image, spaces.Box) and image.shape == (5, 5, 3) and image.dtype == np.uint8
    assert not is_image_space(image)
    assert (image.high == [10, 5, 2]).all() and (image.low == 0).all()
    assert [max(ids.values()) for ids in (OBJECT_TO_IDX, COLOR_TO_IDX, STATE_TO_IDX)] == [10, 5, 2]
    assert env.observation_space["direction"] == spaces.Discrete(4)
    assert env.observation_space["previous_action"] == spaces.Discrete(7)
    assert env.action_space == spaces.Discrete(6)
    assert "mission" not in env.observation_space.spaces


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("view_size", [3, 7])
def test_plays_minigrids_own_episodes(view_size: int, fast: bool) -> None:
    own = gym.make("MiniGrid-MemoryS9-v0", agent_view_size=view_size)
    env = MiniGridIds(gym.make("MiniGrid-MemoryS9-v0"), view_size=view_size, fast=fast, **EVERYTHING)
    rng = np.random.default_rng(0)
    seed, action, expected_reward = 3, -1, 0.0
    expected, _ = own.reset(seed=seed)
    observation, _ = env.reset(seed=seed)
    ends = 0
    for _ in range(1000):
        np.testing.assert_array_equal(observation["image"], expected["image"])
        assert observation["direction"] == expected["direction"]
        assert observation["previous_action"] == action + 1
        assert observation["previous_reward"] == np.float32([expected_reward])
        assert observation in env.observation_space
        action = int(rng.choice(3, p=[0.2, 0.2, 0.6]))
        expected, expected_reward, terminated, truncated, _ = own.step(action)
        observation, reward, *ended, info = env.step(action)
        assert reward == expected_reward and ended == [terminated, truncated and not terminated]
        assert ("is_success" in info) == (terminated or truncated)
        if terminated or truncated:
            ends += 1
            assert info["is_success"] is (expected_reward > 0)
            action, expected_reward = -1, 0.0
            expected, _ = own.reset()
            observation, _ = env.reset()
    assert ends > 3


def test_time_limit_truncates_and_is_no_success() -> None:
    env = MiniGridIds(gym.make("MiniGrid-MemoryS9-v0"), max_steps=4, level="tiny")
    env.reset(seed=0)
    steps = [env.step(0) for _ in range(4)]
    assert [step[2:4] for step in steps] == [(False, False)] * 3 + [(False, True)]
    assert steps[2][4] == {} and steps[3][4] == {"is_success": False, "level": "tiny"}


def test_reaching_the_end_at_the_last_step_is_no_truncation() -> None:
    env = MiniGridIds(gym.make("MiniGrid-Empty-5x5-v0"), max_steps=5)
    env.reset(seed=0)
    for action in (2, 2, 1, 2):
        env.step(action)
    _, reward, terminated, truncated, info = env.step(2)
    assert terminated and not truncated and info["is_success"] and reward == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(view_size=4), "view_size must be odd and at least 3.*got 4"),
        (dict(view_size=1), "got 1"),
        (dict(actions=2), "actions must be from 3 to 7, got 2"),
        (dict(actions=8), "got 8"),
        (dict(max_steps=0), "max_steps must be at least 1, got 0"),
    ],
)
def test_refuses_what_cannot_be(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MiniGridIds(gym.make("MiniGrid-MemoryS7-v0"), **options)


def test_refuses_other_environments() -> None:
    with pytest.raises(TypeError, match="MiniGrid environment, got CartPoleEnv"):
        MiniGridIds(gym.make("CartPole-v1"))
