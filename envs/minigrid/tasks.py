"""MiniGrid's tasks of our own by name, as data: a new task is a file and its rows here."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from envs.minigrid.corridor import Corridor
from envs.minigrid.doors import Doors
from envs.minigrid.fetch import Fetch
from envs.minigrid.keys import Keys
from envs.minigrid.task import GridTask
from envs.minigrid.wrappers import MiniGridIds

GRID_TASKS: dict[str, type[GridTask]] = {"Corridor": Corridor, "Doors": Doors, "Fetch": Fetch, "Keys": Keys}

PRESETS: dict[str, tuple[str, dict[str, int]]] = {
    "Corridor": ("Corridor", {}),
    "CorridorL11": ("Corridor", {"length": 11}),
    "CorridorL101": ("Corridor", {"length": 101}),
    "CorridorL501": ("Corridor", {"length": 501}),
    "Doors": ("Doors", {}),
    "DoorsN2": ("Doors", {"doors": 2}),
    "DoorsN4": ("Doors", {"doors": 4}),
    "DoorsN6": ("Doors", {"doors": 6}),
    "Fetch": ("Fetch", {}),
    "FetchN2": ("Fetch", {"rooms": 2}),
    "FetchN8": ("Fetch", {"rooms": 8}),
    "Keys": ("Keys", {}),
    "KeysN3": ("Keys", {"pairs": 3}),
    "KeysN6": ("Keys", {"pairs": 6}),
}
"""Task and parameters of ``RMT/MiniGrid-<name>-v0``; the largest of each task comes last."""


def make_grid_task(
    task: str,
    *,
    previous_action: bool = False,
    previous_reward: bool = False,
    fast: bool = True,
    **parameters: Any,
) -> MiniGridIds:
    """A task by name, in observations of ids.

    Args:
        task: one of `GRID_TASKS`.
        previous_action: whether the observation holds the last action.
        previous_reward: whether the observation holds the last reward.
        fast: whether pictures are built by `FastView`.
        parameters: those of the task and of `GridTask`.

    Raises:
        ValueError: for a task there is not, or a parameter outside its range.
    """
    if task not in GRID_TASKS:
        raise ValueError(f"task={task!r}: must be one of {', '.join(GRID_TASKS)}")
    make: Any = GRID_TASKS[task]  # the base class takes other arguments than the tasks
    env: GridTask = make(**parameters)
    return MiniGridIds(
        env,
        actions=env.actions_needed,
        previous_action=previous_action,
        previous_reward=previous_reward,
        fast=fast,
    )


def register() -> None:
    """Register the ids of `PRESETS` with Gymnasium."""
    for name, (task, parameters) in PRESETS.items():
        gym.register(
            f"RMT/MiniGrid-{name}-v0",
            "envs.minigrid.tasks:make_grid_task",
            kwargs={"task": task, **parameters},
        )
