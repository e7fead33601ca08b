"""An environment that renders nothing and takes no render mode. Importing this registers it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np


class Silent(gym.Env[np.ndarray[Any, Any], int]):
    """Three steps of three numbers without bounds."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self) -> None:
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray[Any, Any], Any]:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        self.t += 1
        return np.full(3, self.t, np.float32), 1.0, self.t == 3, False, {}


gym.register("Silent-v0", f"{__name__}:Silent")
