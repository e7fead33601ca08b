"""Breadth-first search over the poses of an agent that turns and walks: the legs of every scripted policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator

from minigrid.core.constants import DIR_TO_VEC
from minigrid.core.grid import Grid

Cell = tuple[int, int]
"""x and y on the map."""

Pose = tuple[int, int, int]
"""x, y and direction: 0 east, 1 south, 2 west, 3 north."""


def ahead_of(pose: Pose) -> Cell:
    """The cell that an agent in this pose faces."""
    x, y, direction = pose
    dx, dy = DIR_TO_VEC[direction]
    return x + int(dx), y + int(dy)


def explore(
    grid: Grid, start: Pose, closed: Collection[Cell] = (), came: dict[Pose, tuple[Pose, int]] | None = None
) -> Iterator[Pose]:
    """Every pose that can be reached by turning and walking, nearest first.

    Args:
        grid: the map as it stands; doors are walked through only where they are open.
        start: the first pose; it is the first one yielded.
        closed: cells not to be entered.
        came: filled, if given, with the pose before each and the action (0 left, 1 right, 2 forward) between.
    """
    came = {} if came is None else came
    queue, seen = deque([start]), {start}
    while queue:
        pose = queue.popleft()
        yield pose
        x, y, direction = pose
        poses: list[Pose] = [(x, y, (direction - 1) % 4), (x, y, (direction + 1) % 4)]
        ahead = ahead_of(pose)
        cell = grid.get(*ahead)
        if ahead not in closed and (cell is None or cell.can_overlap()):
            poses.append((*ahead, direction))
        for action, after in enumerate(poses):
            if after not in seen:
                seen.add(after)
                came[after] = (pose, action)
                queue.append(after)


def shortest_way(
    grid: Grid, start: Pose, arrived: Callable[[Pose], bool], closed: Collection[Cell] = ()
) -> list[int] | None:
    """The actions of a shortest way to a pose, or None where no way leads there.

    Args:
        grid: the map as it stands.
        start: the first pose.
        arrived: tells the poses to arrive at.
        closed: cells not to be entered.

    Returns:
        Actions (0 left, 1 right, 2 forward); none of them where ``start`` will do.
    """
    came: dict[Pose, tuple[Pose, int]] = {}
    for pose in explore(grid, start, closed, came):
        if arrived(pose):
            actions: list[int] = []
            while pose != start:
                pose, action = came[pose]
                actions.append(action)
            return actions[::-1]
    return None
