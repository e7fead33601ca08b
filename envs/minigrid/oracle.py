"""Scripted policies of MiniGrid's memory tasks: they know the answer, suppose another, or look for it."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.envs.memory import MemoryEnv

from envs.minigrid.levels import LevelledEnv
from envs.minigrid.search import Cell, Pose, ahead_of, shortest_way
from envs.minigrid.task import USE, GridTask

Answer = tuple[int, ...]


def optimal_way(env: gym.Env[Any, Any], answer: Answer | None = None) -> list[int]:
    """Actions of a shortest way to the next thing to reach, by an agent that knows the answer.

    Args:
        env: a `GridTask`, a `MemoryTask`, a `MemoryCurriculum` or a bare ``MemoryEnv``, reset.
        answer: what to take for the truth: one of a `GridTask`'s ``answers``, in MiniGrid's memory task the
            cell to end at; by default the truth.

    Returns:
        Actions (0 left, 1 right, 2 forward, 3 use) up to the one that reaches an end, opens a door or picks
        something up. An episode needs one or more such ways.

    Raises:
        TypeError: for another environment.
        ValueError: for an answer that there is not, or that no way leads to.
    """
    task = env.unwrapped.playing.unwrapped if isinstance(env.unwrapped, LevelledEnv) else env.unwrapped
    use = False
    if isinstance(task, GridTask):
        answer = task.answer if answer is None else answer
        if answer not in task.answers:
            raise ValueError(f"answer must be one of {task.answers[0]} to {task.answers[-1]}, got {answer}")
        cell, use = task.target(answer)
        start, closed = task.pose, task.closed - {cell}
    elif isinstance(task, MemoryEnv):
        cell = task.success_pos if answer is None else (answer[0], answer[1])
        start = (int(task.agent_pos[0]), int(task.agent_pos[1]), int(task.agent_dir))
        closed = frozenset({task.success_pos, task.failure_pos} - {cell})
    else:
        raise TypeError(f"env must be a MiniGrid memory environment, got {type(task).__name__}")
    way = shortest_way(task.grid, start, partial(_faces if use else _enters, cell), closed)
    if way is None or (not way and not use):
        raise ValueError(f"no way leads from {start} to {cell}")
    return [*way, USE] if use else way


def optimal_action(env: gym.Env[Any, Any], answer: Answer | None = None) -> int:
    """First action of `optimal_way`."""
    return optimal_way(env, answer)[0]


def clues_of(task: MemoryEnv) -> list[frozenset[Cell]]:
    """What must have been seen to know the answer, one cell of each set: the cue, an object at the fork."""
    middle, fork = task.height // 2, task.success_pos[0]
    return [frozenset({(1, middle - 1)}), frozenset({(fork, middle - 2), (fork, middle + 2)})]


def sees(task: MemoryEnv, cells: frozenset[Cell]) -> bool:
    """Whether the agent sees one of these cells from where it is."""
    image = task.gen_obs()["image"]  # type: ignore[no-untyped-call]
    for cell in cells:
        place, thing = task.relative_coords(*cell), task.grid.get(*cell)  # type: ignore[no-untyped-call]
        if place is not None and thing is not None and image[place][0] == OBJECT_TO_IDX[thing.type]:
            return True
    return False


def way_to_see(task: MemoryEnv, cells: frozenset[Cell]) -> list[int]:
    """Actions of a shortest way to a pose from which the agent sees one of these cells."""
    start = (int(task.agent_pos[0]), int(task.agent_pos[1]), int(task.agent_dir))

    def arrived(pose: Pose) -> bool:
        task.agent_pos, task.agent_dir = np.array(pose[:2]), pose[2]
        return sees(task, cells)

    try:
        way = shortest_way(task.grid, start, arrived, frozenset({task.success_pos, task.failure_pos}))
    finally:
        task.agent_pos, task.agent_dir = np.array(start[:2]), start[2]
    assert way is not None, "every object can be seen"
    return way


def _faces(cell: Cell, pose: Pose) -> bool:
    return ahead_of(pose) == cell


def _enters(cell: Cell, pose: Pose) -> bool:
    return pose[:2] == cell
