"""The MiniGrid tasks as rows of the registry."""

from __future__ import annotations

from envs.catalogue import TaskInfo
from envs.minigrid.memory import CHANCE, MEMORY_LEVELS

ONE_VIEW = ("S7", "S9")
"""Sizes at which the default view shows cue and answer at once, so that no memory is needed."""


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
        )
        for level in MEMORY_LEVELS
    ]
    about = "the same, a size drawn at each episode"
    rows.append(
        TaskInfo("envs.minigrid:RMT/MiniGrid-Memory-v0", "object", about, "success", CHANCE, 1.0, 1.0)
    )
    return rows
