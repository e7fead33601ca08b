"""Levels and parameters of our own MiniGrid tasks: draws, a change through a VecEnv, bad input."""

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.env_util import make_vec_env

from envs.minigrid import GRID_TASKS, Corridor, Doors, Fetch, Keys, make_grid_task, optimal_action

LEVELS = {"Corridor": [7, (7, 9)], "Doors": [2, (2, 4)], "Fetch": [2, (3, 5)], "Keys": [1, (2, 4)]}


@pytest.mark.parametrize("name", sorted(GRID_TASKS))
def test_levels_change_the_difficulty(name: str) -> None:
    env = gym.make(f"RMT/MiniGrid-{name}-v0")
    env.unwrapped.set_levels(LEVELS[name], [0.25, 0.75])
    number, (low, high) = LEVELS[name]
    played = []
    env.reset(seed=0)
    for _ in range(400):
        env.reset()
        played.append((env.unwrapped.level, env.unwrapped.number))
        assert env.unwrapped.grid.width == env.unwrapped.width
    assert abs(sum(level == number for level, _ in played) / 400 - 0.25) < 0.1
    numbers = [drawn for level, drawn in played if level == (low, high)]
    assert set(numbers) == set(range(low, high + 1))
    assert {drawn for level, drawn in played if level == number} == {number}
    terminated = False
    while not terminated:
        *_, terminated, _, info = env.step(optimal_action(env))
    assert info == {"is_success": True, "level": env.unwrapped.level}


def test_levels_change_through_a_vec_env() -> None:
    venv = make_vec_env("RMT/MiniGrid-Corridor-v0", 2, seed=0, env_kwargs=dict(length=7, max_steps=3))
    venv.reset()
    venv.env_method("set_levels", [(8, 9)])
    seen = []
    for _ in range(6):
        _, _, dones, infos = venv.step(np.zeros(2, dtype=int))
        seen += [[info["level"] for info in infos]] if dones.all() else []
        assert all("is_success" in info for info in infos) == dones.all()
    assert seen == [[7, 7], [(8, 9), (8, 9)]]


@pytest.mark.parametrize(
    ("make_bad", "words"),
    [
        (lambda: Corridor(502), "length=502: must be an integer from 7 to 501"),
        (lambda: Corridor(6), "length=6: must be an integer from 7 to 501"),
        (lambda: Corridor(2, view_size=3), "length=2: must be an integer from 3 to 501"),
        (lambda: Corridor((41, 11)), r"length=\(41, 11\): a range is \(low, high\) with low at most high"),
        (lambda: Corridor((11, 600)), "length=600: must be an integer from 7 to 501"),
        (lambda: Corridor(11.5), "length=11.5: must be an integer"),
        (lambda: Corridor(view_size=4), "view_size must be odd and at least 3.*got 4"),
        (lambda: Corridor(max_steps=0), "max_steps must be at least 1, got 0"),
        (lambda: Doors(1), "doors=1: must be an integer from 2 to 6"),
        (lambda: Doors(7), "doors=7: must be an integer from 2 to 6"),
        (lambda: Doors(corridor=6), "corridor=6: must be an integer from 7 to 501"),
        (lambda: Fetch(9), "rooms=9: must be an integer from 2 to 8"),
        (lambda: Fetch(corridor=502), "corridor=502: must be an integer from 7 to 501"),
        (lambda: Keys(5), "doors=5: must be an integer from 1 to 4"),
        (lambda: Keys(0), "doors=0: must be an integer from 1 to 4"),
        (lambda: Keys(pairs=7), "pairs=7: must be an integer from 2 to 6"),
        (lambda: make_grid_task("Boors"), "task='Boors': must be one of Corridor, Doors, Fetch, Keys"),
        (lambda: Doors().set_levels(["S9"]), "doors='S9': must be an integer from 2 to 6"),
        (lambda: Doors().set_levels("S9"), "levels='S9': must be a sequence of levels"),
        (lambda: Doors().set_levels([]), "at least one level"),
        (lambda: Doors().set_levels([2, 3], [0.5, 0.6]), "add up to 1"),
    ],
)
def test_refuses_what_cannot_be(make_bad: Callable, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_bad()


def test_refuses_actions_answers_and_views_that_cannot_be() -> None:
    env = Fetch()
    env.reset(seed=0)
    with pytest.raises(ValueError, match="action must be from 0 to 3, got 4"):
        env.step(4)
    with pytest.raises(ValueError, match=r"answer must be one of \(0,\) to \(3,\), got \(4,\)"):
        optimal_action(env, (4,))
    corridor = Corridor(7)
    corridor.agent_view_size = 9  # as a wrapper may do
    with pytest.raises(ValueError, match="length=7: must be an integer from 9 to 501"):
        corridor.reset(seed=0)
