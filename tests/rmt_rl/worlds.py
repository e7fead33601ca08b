"""Small environments for the tests of the algorithms."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.monitor import Monitor

from tests.rmt_rl.core_cases import FIRST_CASES

OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "box": spaces.Box(-1, 1, (3,), np.float32),
    "discrete": spaces.Discrete(5),
    "multi_discrete": spaces.MultiDiscrete([3, 4]),
    "multi_binary": spaces.MultiBinary(4),
    "image": spaces.Box(0, 255, (36, 36, 3), np.uint8),
    "dict": spaces.Dict({"vector": spaces.Box(-1, 1, (3,), np.float32), "kind": spaces.Discrete(3)}),
    "dict_image": spaces.Dict(
        {"image": spaces.Box(0, 255, (36, 36, 1), np.uint8), "flags": spaces.MultiBinary(2)}
    ),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "discrete": spaces.Discrete(3),
    "multi_discrete": spaces.MultiDiscrete([3, 2]),
    "multi_binary": spaces.MultiBinary(3),
    "box": spaces.Box(-2, 2, (2,), np.float32),
    "matrix": spaces.Box(-1, 3, (2, 2), np.float32),
}
POLICIES = {"dict": "MultiInputPolicy", "dict_image": "MultiInputPolicy", "image": "CnnPolicy"}


class Noise(gym.Env[Any, Any]):
    """Random observations and rewards; episodes end, or are cut, after random or given numbers of steps."""

    def __init__(
        self,
        observation: str = "box",
        action: str = "discrete",
        length: tuple[int, int] = (2, 9),
        truncates: float = 0.5,
        seed: int = 0,
    ) -> None:
        self.observation_space, self.action_space = OBSERVATIONS[observation], ACTIONS[action]
        self.observation_space.seed(seed)
        self.random = np.random.default_rng(seed)
        self.length, self.truncates = length, truncates

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self.left = int(self.random.integers(self.length[0], self.length[1] + 1))
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.left -= 1
        cut = self.random.random() < self.truncates
        over = self.left == 0
        return (
            self.observation_space.sample(),
            float(self.random.normal()),
            over and not cut,
            over and cut,
            {},
        )


class Masked(Noise):
    """Allows at each step some values at random, one of every component at least; refuses all others."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        self._draw_masks()
        return super().reset(seed=seed, options=options)

    def _draw_masks(self) -> None:
        self.allowed = []
        for n in value_counts(self.action_space):
            mask = self.random.random(n) < 0.4
            mask[self.random.integers(n)] = True
            self.allowed.append(mask)

    def action_masks(self) -> np.ndarray[Any, Any]:
        return np.concatenate(self.allowed)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        for mask, value in zip(self.allowed, np.ravel(action), strict=True):
            assert mask[int(value)], f"{action} is not allowed by {self.allowed}"
        result = super().step(action)
        self._draw_masks()
        return result


class AllowsOneByOne(gym.Wrapper[Any, Any, Any, Any]):
    """The masks come from a wrapper and as a list."""

    def action_masks(self) -> list[bool]:
        return self.env.unwrapped.allowed[0].tolist()  # type: ignore[attr-defined, no-any-return]


def wrapped_world() -> gym.Env[Any, Any]:
    """A masked world whose masks a wrapper has to be asked for."""
    return Monitor(AllowsOneByOne(Masked()))


def value_counts(space: Any) -> list[int]:
    """How many values each component of an action has."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    return [2] * space.n if isinstance(space, spaces.MultiBinary) else space.nvec.tolist()  # type: ignore[no-any-return]


class Broken(Noise):
    """Returns a NaN at its 7th step, in the observation or in the reward."""

    def __init__(self, where: str) -> None:
        super().__init__(length=(100, 100))
        self.where, self.count = where, 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        self.count += 1
        if self.count == 7:
            if self.where == "observations":
                obs = obs.copy()
                obs[1] = np.nan
            else:
                reward = float("nan")
        return obs, reward, terminated, truncated, info


# A core without a row here takes the options of its first case under the laws.
CORE_KWARGS: dict[str, dict[str, Any]] = {case.core: case.options for case in FIRST_CASES} | {
    "rmt": dict(width=8, heads=2, layers=1, segment_length=3, memory_tokens=2),
    "rmt_xl": dict(width=8, heads=2, layers=1, segment_length=3, memory_tokens=2, memory_length=2),
    "rmt_encoder": dict(width=8, heads=2, layers=1, segment_length=3, memory_tokens=2),
    "armt": dict(width=8, heads=2, layers=1, segment_length=3, memory_tokens=2, memory_width=3),
    "xl": dict(width=8, heads=2, layers=1, memory_length=4),
    "gru": dict(width=8),
    "lstm": dict(width=8),
    "none": dict(width=8, layers=1),
}
