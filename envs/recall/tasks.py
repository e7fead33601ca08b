"""The tasks by name, as data: a new task is a file and a row here."""

from __future__ import annotations

import difflib
from typing import Any

import gymnasium as gym
import numpy as np

from envs.recall.association import AssociativeRetrieval
from envs.recall.base import BatchedTask
from envs.recall.copying import Copy
from envs.recall.count_recall import CountRecall
from envs.recall.detect import DetectAndMemorize
from envs.recall.fact_recall import FactRecall
from envs.recall.memorize import Memorize
from envs.recall.memory_length import MemoryLength
from envs.recall.memory_size import MemorySize
from envs.recall.reasoning import Reasoning
from envs.recall.reasoning_parity import ReasoningParity
from envs.recall.repeat import RepeatPrevious
from envs.recall.reverse import Reverse
from envs.recall.rewrite import Rewrite
from envs.recall.tmaze import TMaze

TASKS: dict[str, type[BatchedTask]] = {
    "Memorize": Memorize,
    "DetectAndMemorize": DetectAndMemorize,
    "TMaze": TMaze,
    "Reasoning": Reasoning,
    "ReasoningParity": ReasoningParity,
    "FactRecall": FactRecall,
    "MemoryLength": MemoryLength,
    "MemorySize": MemorySize,
    "CountRecall": CountRecall,
    "Copy": Copy,
    "Reverse": Reverse,
    "AssociativeRetrieval": AssociativeRetrieval,
    "Rewrite": Rewrite,
    "RepeatPrevious": RepeatPrevious,
}
"""Task "Name" is registered as "RMT/Name-v0"."""

RENDER_MODES = ("ansi", "rgb_array")
RENDER_FPS = 8


def make_task(task: str | type[BatchedTask], n_envs: int, parameters: dict[str, Any]) -> BatchedTask:
    """A task by name or class.

    Raises:
        ValueError: an unknown name, or a parameter outside its range.
        TypeError: a parameter that the task does not have.
    """
    if isinstance(task, str):
        if task not in TASKS:
            near = difflib.get_close_matches(task, TASKS, n=1, cutoff=0.0)[0]
            raise ValueError(f"task={task!r}: there are {', '.join(TASKS)}; did you mean {near}?")
        task = TASKS[task]
    make: Any = task  # the base class takes other arguments than the tasks
    made = make(n_envs, **parameters)
    assert isinstance(made, BatchedTask)
    return made


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
