"""MiniGrid's memory task by its ids: MiniGrid's own layouts, the oracle, chance, levels."""

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gym_check_env
from minigrid.core.world_object import Ball, Key
from stable_baselines3.common.env_checker import check_env as sb3_check_env
from stable_baselines3.common.env_util import make_vec_env

import envs.minigrid  # noqa: F401  # registers the ids
from envs.minigrid import MEMORY_LEVELS, LevelledEnv, MemoryCurriculum, MemoryTask, optimal_action
from envs.minigrid.memory import CHANCE

LEVELS = list(MEMORY_LEVELS)


def play(env: gym.Env, rng: np.random.Generator | None = None, seed: int | None = None) -> tuple[float, dict]:
    """Play an episode by the oracle or, given ``rng``, by a guess of the end; its reward and last info."""
    env.reset(seed=seed)
    memory = env.unwrapped.playing.unwrapped if isinstance(env.unwrapped, LevelledEnv) else env.unwrapped
    ends = [memory.success_pos, memory.failure_pos]
    target = None if rng is None else ends[rng.integers(2)]
    while True:
        _, reward, terminated, truncated, info = env.step(optimal_action(env, target))
        if terminated or truncated:
            return float(reward), info


@pytest.mark.parametrize("level", LEVELS)
def test_is_the_registered_task_of_minigrid(level: str) -> None:
    env, own = gym.make(f"RMT/MiniGrid-Memory{level}-v0"), gym.make(f"MiniGrid-Memory{level}-v0")
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        expected, _ = own.reset(seed=seed)
        np.testing.assert_array_equal(observation["image"], expected["image"])
        assert env.unwrapped.grid == own.unwrapped.grid
        assert env.unwrapped.success_pos == own.unwrapped.success_pos
        assert env.unwrapped.max_steps == own.unwrapped.max_steps == 5 * MEMORY_LEVELS[level]["size"] ** 2


@pytest.mark.parametrize("level", LEVELS)
def test_the_oracle_always_succeeds_by_the_shortest_way(level: str) -> None:
    env = gym.make(f"RMT/MiniGrid-Memory{level}-v0")
    for seed in range(30):
        env.reset(seed=seed)
        x, y = (int(p) for p in env.unwrapped.agent_pos)
        end_x, end_y = env.unwrapped.success_pos
        steps = abs(end_x - x) + 1 + abs(end_y - y)  # there, one turn, up or down
        reward, info = play(env, seed=seed)
        assert info == {"is_success": True, "level": level}
        assert reward == pytest.approx(1 - 0.9 * steps / env.unwrapped.max_steps)


@pytest.mark.parametrize("view_size", [7, 3])
@pytest.mark.parametrize("level", LEVELS)
def test_the_informed_one_succeeds_by_what_it_has_seen(level: str, view_size: int) -> None:
    """Were the cue another, it would do the same up to the step that shows it, and go to the other arm."""

    def history(seed: int, swapped: bool) -> list[tuple[bytes, int]]:
        env = gym.make(f"RMT/MiniGrid-Memory{level}-v0", view_size=view_size)
        observation, _ = env.reset(seed=seed)
        task = env.unwrapped
        if swapped:
            cue = (1, task.height // 2 - 1)
            other = Ball if isinstance(task.grid.get(*cue), Key) else Key
            task.grid.set(*cue, other("green"))
            task.success_pos, task.failure_pos = task.failure_pos, task.success_pos
            observation = {"image": task.gen_obs()["image"]}
        steps = []
        while True:
            action = env.get_wrapper_attr("informed_action")()
            steps.append((observation["image"].tobytes(), action))
            observation, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                assert info["is_success"]
                return steps

    for seed in range(8):
        one, other = history(seed, False), history(seed, True)
        assert one != other
        for (seen, action), (other_seen, other_action) in zip(one, other, strict=False):
            if seen != other_seen:
                break
            assert action == other_action


def test_a_guess_at_the_end_succeeds_half_of_the_time() -> None:
    env, rng, n = gym.make("RMT/MiniGrid-MemoryS7-v0"), np.random.default_rng(0), 1000
    env.reset(seed=0)
    successes = sum(play(env, rng)[1]["is_success"] for _ in range(n))
    assert abs(successes / n - CHANCE) < 4 * np.sqrt(CHANCE * (1 - CHANCE) / n)


def test_the_oracle_needs_a_memory_environment_and_a_way() -> None:
    with pytest.raises(TypeError, match="memory environment, got CartPoleEnv"):
        optimal_action(gym.make("CartPole-v1"))
    env = gym.make("RMT/MiniGrid-MemoryS7-v0")
    env.reset(seed=0)
    with pytest.raises(ValueError, match=r"no way leads .* to \(0, 0\)"):
        optimal_action(env, (0, 0))


def test_options_reach_the_task() -> None:
    env = gym.make("RMT/MiniGrid-MemoryS9-v0", view_size=3, max_steps=96, previous_action=True)
    observation, _ = env.reset(seed=0)
    assert observation["image"].shape == (3, 3, 3) and observation["previous_action"] == 0
    assert env.unwrapped.max_steps == 96
    for _ in range(96):
        *_, terminated, truncated, info = env.step(0)
    assert truncated and not terminated and info == {"is_success": False, "level": "S9"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(level="S8"), r"level must be one of \['S7', .* got 'S8'"),
        (dict(level="S7", view_size=6), "view_size must be odd"),
        (dict(level="S7", max_steps=0), "max_steps must be at least 1"),
    ],
)
def test_refuses_what_cannot_be(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        MemoryTask(**options)


def test_the_curriculum_plays_the_levels_it_is_given() -> None:
    env = gym.make("RMT/MiniGrid-Memory-v0", levels=["S7"])
    rewards = [play(env, seed=0 if first else None) for first in (True, False, False)]
    assert {info["level"] for _, info in rewards} == {"S7"}
    env.unwrapped.set_levels(["S9", "S17Random"], [0.25, 0.75])
    levels = [play(env)[1]["level"] for _ in range(300)]
    assert set(levels) == {"S9", "S17Random"} and abs(levels.count("S9") / 300 - 0.25) < 0.1
    assert env.unwrapped.all_levels == tuple(LEVELS)


@pytest.mark.parametrize("env_id", ["MemoryS7", "MemoryS17Random", "Memory"])
def test_ids_pass_both_checkers_and_can_be_made_again(env_id: str) -> None:
    env = gym.make(f"RMT/MiniGrid-{env_id}-v0", view_size=3, previous_action=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the image's size: too small for a picture, which it is not
        sb3_check_env(env)
        gym_check_env(env, skip_render_check=True)
    again = gym.make(env.spec)
    assert again.observation_space == env.observation_space
    for seed in range(5):
        expected, observation = env.reset(seed=seed)[0], again.reset(seed=seed)[0]
        np.testing.assert_array_equal(observation["image"], expected["image"])


def test_the_curriculum_passes_the_checker_and_renders_what_is_played() -> None:
    gym_check_env(MemoryCurriculum(), skip_render_check=True)
    env = gym.make("RMT/MiniGrid-Memory-v0", levels=["S7"], render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (7 * 32, 7 * 32, 3)
    env.unwrapped.set_levels(["S9"])
    assert env.render().shape == (7 * 32, 7 * 32, 3)  # until the next episode
    env.reset()
    assert env.render().shape == (9 * 32, 9 * 32, 3)
    env.close()


def test_levels_change_through_a_vec_env() -> None:
    venv = make_vec_env("RMT/MiniGrid-Memory-v0", 2, seed=0, env_kwargs=dict(levels=["S7"], max_steps=3))
    venv.reset()
    venv.env_method("set_levels", ["S13"])
    seen = []
    for _ in range(6):
        _, _, dones, infos = venv.step(np.zeros(2, dtype=int))
        seen += [[info["level"] for info in infos]] if dones.all() else []
        assert all("is_success" in info for info in infos) == dones.all()
    assert seen == [["S7", "S7"], ["S13", "S13"]]
