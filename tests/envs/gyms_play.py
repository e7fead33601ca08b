"""How to play the adapted gyms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym

Step = tuple[Any, float, bool, bool, dict[str, Any]]


def episode(env: gym.Env, act: Callable[[Any], Any], seed: int | None = None) -> list[Step]:
    """The steps of one episode; `act` is given the environment without wrappers."""
    env.reset(seed=seed)
    steps: list[Step] = []
    while not steps or not (steps[-1][2] or steps[-1][3]):
        steps.append(env.step(act(env.unwrapped)))
    return steps


def total(steps: list[Step]) -> float:
    """The return."""
    return sum(step[1] for step in steps)


def random_walk(env: gym.Env, steps: int, seed: int) -> Iterator[tuple[Any, ...]]:
    """What random actions give, and resets, whose reward is None and which end nothing."""
    env.action_space.seed(seed)
    observation, info = env.reset(seed=seed)
    yield observation, None, False, False, info
    for _ in range(steps):
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        yield observation, reward, terminated, truncated, info
        if terminated or truncated:
            observation, info = env.reset()
            yield observation, None, False, False, info
