"""An environment out of several: draws, determinism, bad input."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from envs.minigrid import LevelledEnv


class Count(gym.Env):
    """Shows its size and a random number; ends after one step."""

    def __init__(self, size: int, high: int = 100) -> None:
        self.size = size
        self.observation_space, self.action_space = spaces.Box(0, high, (2,)), spaces.Discrete(2)
        self.closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        return np.float32([self.size, self.np_random.integers(100)]), {}

    def step(self, action: int):
        return np.float32([self.size, action]), 0.0, True, False, {}

    def close(self) -> None:
        self.closed = True


def levelled(**options: Any) -> LevelledEnv:
    return LevelledEnv({size: partial(Count, size) for size in (1, 2, 3)}, **options)


def draws(env: LevelledEnv, n: int, seed: int | None = None) -> list[tuple[float, ...]]:
    first = [tuple(env.reset(seed=seed)[0])]
    return first + [tuple(env.reset()[0]) for _ in range(n - 1)]


def test_draws_levels_with_their_probabilities() -> None:
    env = levelled(levels=[3, 1, 2], probabilities=[0.5, 0.0, 0.5])
    sizes = [size for size, _ in draws(env, 2000, seed=0)]
    assert set(sizes) == {2.0, 3.0} and abs(sizes.count(3.0) / 2000 - 0.5) < 0.05
    env.set_levels([1, 2, 3])
    sizes = [size for size, _ in draws(env, 3000)]
    assert all(abs(sizes.count(size) / 3000 - 1 / 3) < 0.05 for size in (1.0, 2.0, 3.0))


def test_the_same_seed_gives_the_same_episodes_whatever_was_played_before() -> None:
    env, other = levelled(), levelled()
    expected = draws(env, 50, seed=7)
    draws(other, 13, seed=1)
    assert draws(other, 50, seed=7) == expected
    assert draws(env, 50, seed=8) != expected
    # An environment is seeded once, not at each of its episodes.
    assert len({number for _, number in expected}) > 10


def test_names_the_level_on_the_last_step_only_when_it_ended() -> None:
    env = levelled(levels=[2])
    env.reset(seed=0)
    env.set_levels([3])
    assert env.level == 2
    *_, info = env.step(0)
    assert info == {"level": 2}
    env.reset()
    assert env.step(0)[-1] == {"level": 3} and env.level == 3


def test_close_closes_what_was_made() -> None:
    env = levelled()
    draws(env, 30, seed=0)
    made = [env.playing]
    env.close()
    assert all(one.closed for one in made)


@pytest.mark.parametrize(
    ("levels", "probabilities", "words"),
    [
        ([], None, r"levels must be among \[1, 2, 3\], got none"),
        ([1, 4], None, r"got \[4\]"),
        ("12", None, "got the string '12'"),
        ([1, 2], [1.0], "2 numbers, one per level.*got"),
        ([1, 2], [0.7, 0.7], "summing to 1, got"),
        ([1, 2], [1.5, -0.5], "at least 0"),
        ([1, 2], [float("nan"), 1.0], "at least 0"),
    ],
)
def test_refuses_levels_that_cannot_be(levels: Any, probabilities: Any, words: str) -> None:
    env = levelled()
    with pytest.raises(ValueError, match=words):
        env.set_levels(levels, probabilities)
    with pytest.raises(ValueError, match=words):
        levelled(levels=levels, probabilities=probabilities)


def test_refuses_no_levels_and_unequal_spaces() -> None:
    with pytest.raises(ValueError, match="at least one level"):
        LevelledEnv({})
    env = LevelledEnv({1: partial(Count, 1), 2: partial(Count, 2, high=5)}, levels=[1])
    env.set_levels([2])
    with pytest.raises(ValueError, match="same spaces; level 2"):
        env.reset(seed=0)
