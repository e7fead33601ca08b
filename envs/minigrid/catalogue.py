"""The MiniGrid tasks as rows of the registry."""

from __future__ import annotations

from typing import Any

from envs.catalogue import Kind, TaskInfo
from envs.minigrid.memory import CHANCE, MEMORY_LEVELS
from envs.minigrid.task import GridTask
from envs.minigrid.tasks import GRID_TASKS, PRESETS

ONE_VIEW = ("S7", "S9")
"""Sizes at which the default view shows cue and answer at once, so that no memory is needed."""

S9_RETURN = (0.926, "recurrent PPO (GRU), 3x3 view, after 1.54M steps: mean return")

ABOUT: dict[str, tuple[Kind, str]] = {
    "Corridor": ("object", "an object at the beginning of a corridor says which way to go at its end"),
    "Doors": ("sequential", "coloured doors to be opened in the order shown"),
    "Fetch": ("object", "the object shown is to be fetched from one of several rooms"),
    "Keys": ("association", "which key opens which door is shown once and needed at every door"),
}


def minigrid_tasks() -> list[TaskInfo]:
    """A row for each id."""
    about = "go to the object like the one in the first room"
    rows = [
        TaskInfo(
            f"envs.minigrid:RMT/MiniGrid-Memory{level}-v0",
            "object",
            f"{about}; with view_size=3" if level in ONE_VIEW else about,
            "success",
            None if level in ONE_VIEW else CHANCE,
            1.0,
            1.0,
            *(S9_RETURN if level == "S9" else ()),
        )
        for level in MEMORY_LEVELS
    ]
    about = "the same, a size drawn at each episode"
    rows.append(
        TaskInfo("envs.minigrid:RMT/MiniGrid-Memory-v0", "object", about, "success", CHANCE, 1.0, 1.0)
    )
    for name, (task, parameters) in PRESETS.items():
        make: Any = GRID_TASKS[task]  # the base class takes other arguments than the tasks
        env: GridTask = make(**parameters)
        kind, about = ABOUT[task]
        if parameters:
            about = f"the same, {', '.join(f'{option} {value}' for option, value in parameters.items())}"
        env_id = f"envs.minigrid:RMT/MiniGrid-{name}-v0"
        (level,) = env.levels
        assert isinstance(level, int)
        rows.append(TaskInfo(env_id, kind, about, "success", env.chance(level), 1.0, 1.0))
    return rows
