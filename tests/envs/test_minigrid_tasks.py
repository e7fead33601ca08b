"""Our own MiniGrid tasks by their ids: the oracle, what ends an episode, what each key and door does."""

import warnings
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gym_check_env
from minigrid.core.world_object import Door, Key
from minigrid.minigrid_env import MiniGridEnv
from stable_baselines3.common.env_checker import check_env as sb3_check_env

from envs.minigrid import (
    GRID_TASKS,
    Corridor,
    Doors,
    Fetch,
    Keys,
    make_grid_task,
    optimal_way,
)
from envs.minigrid.search import ahead_of
from envs.minigrid.task import USE
from envs.minigrid.tasks import PRESETS

NAMES = list(PRESETS)
LARGEST = list({task: name for name, (task, _) in PRESETS.items()}.values())


def make(name: str, **options: object) -> gym.Env:
    return gym.make(f"RMT/MiniGrid-{name}-v0", **options)


def play(env: gym.Env, answer: tuple[int, ...] | None = None, seed: int | None = None) -> tuple:
    """Play an episode as if `answer` were right: its reward, last info and number of steps."""
    env.reset(seed=seed)
    steps = 0
    while True:
        for action in optimal_way(env, answer):
            _, reward, terminated, truncated, info = env.step(action)
            steps += 1
            if terminated or truncated:
                assert terminated and not truncated and steps == env.unwrapped.step_count
                return float(reward), info, steps


def corridor_steps(env: Corridor) -> int:
    return env.number + 5  # to the fork, one turn, into the arm


def doors_steps(env: Doors) -> int:
    columns = [1] + [env._doors[index][0] for index in env.answer]
    # To the next door's column, there opened; two turns between doors, one before the first.
    return int(np.abs(np.diff(columns)).sum()) + 3 * env.number - 1


def fetch_steps(env: Fetch) -> int:
    x, y = env._objects[env.answer[0]]
    door = env.corridor + 5 + env.answer[0] // 2 * 4
    # Along the passage, a turn, into the room up to the object or abreast of it and another turn; pick up.
    return door - 1 + 1 + abs(y - env.middle) + (-1 if x == door else 1) + 1


def keys_steps(env: Keys) -> int:
    last = env._doors[-1][0] - 1
    return last - 1 + 4 * env.number  # at each place turn, pick up, turn back, open


STEPS: dict[str, Callable] = dict(
    Corridor=corridor_steps, Doors=doors_steps, Fetch=fetch_steps, Keys=keys_steps
)


@pytest.mark.parametrize("name", NAMES)
def test_the_oracle_always_succeeds_by_the_shortest_way(name: str) -> None:
    env = make(name)
    assert isinstance(env.unwrapped, MiniGridEnv)
    for seed in range(4 if name == "CorridorL501" else 20):
        reward, info, steps = play(env, seed=seed)
        task = env.unwrapped
        assert steps == STEPS[PRESETS[name][0]](task)
        assert info == {"is_success": True, "level": task.number}
        assert reward == pytest.approx(1 - 0.9 * steps / task.max_steps)
        assert task.max_steps == 20 * task.width


@pytest.mark.parametrize("name", ["Corridor", "Doors", "FetchN8", "KeysN3"])
def test_of_all_answers_the_right_one_alone_succeeds(name: str) -> None:
    env = make(name)
    for seed in range(2):
        env.reset(seed=seed)
        answers, right = env.unwrapped.answers, env.unwrapped.answer
        assert len(answers) == len(set(answers)) and right in answers
        for answer in answers:
            reward, info, _ = play(env, answer, seed)
            assert info["is_success"] is (answer == right) is (reward > 0)
            assert env.unwrapped.answer == right


@pytest.mark.parametrize("name", ["Corridor", "Doors", "Fetch", "Keys"])
def test_answers_are_drawn_alike_whatever_is_in_the_rooms(name: str) -> None:
    env, n = GRID_TASKS[name](**({} if name != "Corridor" else dict(length=7))), 1500
    env.reset(seed=0)
    drawn = []
    for _ in range(n):
        env.reset()
        # A feature of the east that is as likely as not: which of two things has the smaller id.
        first, second = (env.grid.get(*cell) for cell in sorted(env.questions[0])[:2])
        drawn.append((first.encode() < second.encode(), env.answer))
    chance = env.chance(env.number)
    assert chance == pytest.approx(dict(Corridor=1 / 2, Doors=1 / 6, Fetch=1 / 4, Keys=1 / 4)[name])
    for feature in (False, True):
        part = [answer for which, answer in drawn if which is feature]
        assert len(part) > n / 4
        for answer in env.answers:
            error = 4.5 * np.sqrt(chance * (1 - chance) / len(part))
            assert abs(part.count(answer) / len(part) - chance) < error


def test_a_door_stays_open() -> None:
    env = make("DoorsN2")
    env.reset(seed=0)
    for action in optimal_way(env):
        env.step(action)
    door = env.unwrapped.grid.get(*ahead_of(env.unwrapped.pose))
    for _ in range(3):
        *_, terminated, truncated, info = env.step(USE)
        assert isinstance(door, Door) and door.is_open and not (terminated or truncated) and info == {}


def test_keys_are_used_up() -> None:
    env = make("KeysN3")
    for seed in range(5):
        env.reset(seed=seed)
        task = env.unwrapped
        for action in optimal_way(env):
            env.step(action)
        key = task.carrying
        assert isinstance(key, Key)
        for action in optimal_way(env):
            assert task.carrying is key
            env.step(action)
        first = [task.grid.get(*cell) for cell in task.questions[0]]
        assert task.carrying is None and not any(isinstance(thing, Key) for thing in first)


def test_a_locked_door_does_not_open_without_a_key() -> None:
    env = make("Keys")
    env.reset(seed=0)
    task = env.unwrapped
    x, y = door = task._doors[0]
    task.agent_pos, task.agent_dir = (x - 1, y), 0
    observation, *_ = env.step(USE)
    assert observation["image"][3, 5].tolist() == [4, 5, 2] and not task.grid.get(*door).is_open


def test_time_limit_truncates() -> None:
    env = make("Fetch", max_steps=5, view_size=3, previous_action=True, previous_reward=True)
    observation, _ = env.reset(seed=0)
    assert observation["image"].shape == (3, 3, 3) and env.unwrapped.max_steps == 5
    steps = [env.step(0) for _ in range(5)]
    assert [step[1:4] for step in steps] == [(0.0, False, False)] * 4 + [(0.0, False, True)]
    assert [step[4] for step in steps] == [{}] * 4 + [{"is_success": False, "level": 4}]


def test_the_same_seed_gives_the_same_episodes() -> None:
    first, second = (make_grid_task("Doors", doors=(2, 6)) for _ in range(2))
    second.reset(seed=5)
    for seed in (3, None, None, None):
        expected, observation = first.reset(seed=seed)[0], second.reset(seed=seed)[0]
        np.testing.assert_array_equal(observation["image"], expected["image"])
        assert first.unwrapped.grid == second.unwrapped.grid
        assert first.unwrapped.answer == second.unwrapped.answer


@pytest.mark.parametrize("name", sorted({*GRID_TASKS, *LARGEST}))
def test_ids_pass_both_checkers_and_can_be_made_again(name: str) -> None:
    env = make(name, previous_action=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the image's size: too small for a picture, which it is not
        sb3_check_env(env)
        gym_check_env(env, skip_render_check=True)
    again = gym.make(env.spec)
    assert again.observation_space == env.observation_space and again.action_space == env.action_space
    for seed in range(3):
        expected, observation = env.reset(seed=seed)[0], again.reset(seed=seed)[0]
        np.testing.assert_array_equal(observation["image"], expected["image"])
        assert env.unwrapped.answer == again.unwrapped.answer


@pytest.mark.parametrize(("name", "tile", "columns"), [("CorridorL501", 8, 507), ("KeysN6", 32, 41)])
def test_pictures_stay_of_a_size_that_can_be_shown(name: str, tile: int, columns: int) -> None:
    env = make(name, render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (7 * tile, columns * tile, 3)
