"""Environments and a core as other people have them, of many spaces. Importing this registers them."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rmt_rl import MemoryCore


class World(gym.Env[Any, Any]):
    """Episodes of three steps with random observations; 1 for each action of zeros, else 0.

    :param length: steps of an episode
    """

    observation_space: spaces.Space[Any] = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(2)

    def __init__(self, length: int = 3) -> None:
        self.length, self.t = length, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        reward = float(np.all(np.abs(action) < 0.5))
        last = self.t == self.length
        return self.observation_space.sample(), reward, last, False, self.info(reward) if last else {}

    def info(self, reward: float) -> dict[str, Any]:
        """Of an episode's last step."""
        return {}


class Silent(gym.Env[np.ndarray[Any, Any], int]):
    """Three steps of three numbers without bounds. It renders nothing and takes no render mode."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray[Any, Any], Any]:
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: int) -> tuple[np.ndarray[Any, Any], float, bool, bool, dict[str, Any]]:
        self.t += 1
        return np.full(3, self.t, np.float32), 1.0, self.t == 3, False, {}


class Continuous(World):
    """Actions are two numbers."""

    action_space = spaces.Box(-2.0, 2.0, (2,), np.float32)


class Pictures(World):
    """Observations are pictures."""

    observation_space = spaces.Box(0, 255, (36, 40, 3), np.uint8)


class Grids(World):
    """Observations are Dicts with a grid of ids, too small for a network for pictures."""

    observation_space = spaces.Dict(
        grid=spaces.Box(0, 255, (5, 5, 3), np.uint8), way=spaces.Discrete(4), speed=spaces.Box(-1, 1, (2,))
    )


class Masked(World):
    """The first or the last of three actions is forbidden, by turns, and an error."""

    action_space = spaces.Discrete(3)

    def action_masks(self) -> np.ndarray[Any, Any]:
        """What is allowed."""
        mask = np.ones(3, bool)
        mask[2 * (self.t % 2)] = False
        return mask

    def optimal_action(self) -> int:
        """The one that is always allowed."""
        return 1

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self.action_masks()[action]:
            raise RuntimeError(f"action {action} is forbidden at step {self.t}")
        return super().step(action)


class Levelled(World):
    """Levels are lengths; no success is told."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int] = [2, 3]
        self.random = np.random.default_rng(0)
        self.probabilities: list[float] | None = None

    def set_levels(self, levels: list[int], probabilities: list[float] | None = None) -> None:
        """Draw later episodes' lengths from these."""
        if any(not isinstance(level, int) for level in levels):
            raise TypeError(f"lengths must be integers, got {levels}")
        self.levels, self.probabilities = levels, probabilities

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        self.length = int(self.random.choice(self.levels, p=self.probabilities))
        return super().reset(seed=seed)


class Successful(World):
    """Success is told: whether the last action was 0. There are no levels."""

    def info(self, reward: float) -> dict[str, Any]:
        return {"is_success": reward == 1.0}


class OwnState(NamedTuple):
    """The memory of ``OwnCore``, which is called as the project's own call theirs."""

    memory: Tensor
    """(B, width) running sum"""
    steps: tuple[Tensor, ...]
    """((B,) steps so far,), nested"""


class OwnCore(MemoryCore[OwnState]):
    """A leaky sum of its inputs, as someone who uses the library might write it."""

    def __init__(self, input_dim: int, width: int = 8) -> None:
        super().__init__(input_dim, width)
        self.enter = nn.Linear(input_dim, width)

    def initial_state(self, batch_size: int) -> OwnState:
        device = self.enter.weight.device
        zeros = torch.zeros(batch_size, self.output_dim, device=device)
        return OwnState(zeros, (torch.zeros(batch_size, dtype=torch.int64, device=device),))

    def forward(self, inputs: Tensor, state: OwnState, episode_starts: Tensor) -> tuple[Tensor, OwnState]:
        memory, (steps,) = state
        outputs = []
        for step in range(inputs.shape[1]):
            first = episode_starts[:, step]
            memory = torch.where(first[:, None], torch.zeros_like(memory), memory)
            steps = torch.where(first, torch.zeros_like(steps), steps) + 1
            memory = 0.9 * memory + self.enter(inputs[:, step]).tanh()
            outputs.append(memory)
        return torch.stack(outputs, 1), OwnState(memory, (steps,))


class NoCore(nn.Module):
    """A module, but no memory core."""


for kind in (World, Silent, Continuous, Pictures, Grids, Masked, Levelled, Successful):
    gym.register(f"{kind.__name__}-v0", f"{__name__}:{kind.__name__}")
