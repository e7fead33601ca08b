"""What the Gymnasium and SB3 faces of a task share: spaces, and the checks of what they are given."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np

from envs.recall.base import BatchedTask

RENDER_MODES = ("ansi", "rgb_array")
RENDER_FPS = 8


def check_render_mode(render_mode: str | None) -> str | None:
    """The render mode, or ValueError with those there are."""
    if render_mode is not None and render_mode not in RENDER_MODES:
        raise ValueError(f"render_mode={render_mode!r}: must be None or one of {', '.join(RENDER_MODES)}")
    return render_mode


def check_options(options: dict[str, Any] | None) -> None:
    """ValueError if there are any: parameters are changed with `set_parameters`, which lasts."""
    if options:
        raise ValueError(f"options={options!r}: there are none; use set_parameters() or set_levels()")


def observation_space(task: BatchedTask) -> gym.spaces.Box[np.float32]:
    """The space of one row's observations."""
    return gym.spaces.Box(task.observation_low, task.observation_high, (task.observation_dim,), np.float32)


def action_space(task: BatchedTask) -> gym.spaces.Discrete:
    """The space of one row's actions."""
    return gym.spaces.Discrete(task.n_actions)
