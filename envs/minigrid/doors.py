"""Coloured doors, to be opened in an order that was shown before."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from minigrid.core.constants import COLOR_NAMES
from minigrid.core.world_object import Ball, Door

from envs.minigrid.search import Cell
from envs.minigrid.task import GridTask
from envs.recall.parameters import Level, Parameter


class Doors(GridTask):
    """Balls in a row show an order of colours; further on, the doors of these colours are opened in it.

    The balls lie along the north wall of the first room, the first one west. Behind the corridor is a passage
    with a door for each of them, in an order of its own, on alternate sides.

    Action: 0 left, 1 right, 2 forward, 3 open the door ahead. A door stays open; the first one opened out of
    order ends the episode.

    Answer: the doors in the order in which they are to be opened, numbered from the west, north before south.
    Chance: 1 / doors! (1/2, 1/6, 1/24, 1/120, 1/720), as a guess at each door sees which are open.

    Ids: ``RMT/MiniGrid-Doors-v0`` (3 doors), ``RMT/MiniGrid-DoorsN2-v0``, N4 and N6.
    """

    difficulty = Parameter("doors", int, 2, len(COLOR_NAMES))

    def __init__(self, doors: Level = 3, **options: Any) -> None:
        """Prepare the task.

        Args:
            doors: how many, from 2 to 6, or a range (low, high).
            options: ``view_size``, ``corridor``, ``max_steps`` and ``render_mode`` of `GridTask`.
        """
        super().__init__(doors, **options)

    def answers_of(self, number: int) -> list[tuple[int, ...]]:
        """Every order of the doors."""
        return list(permutations(range(number)))

    def target(self, answer: tuple[int, ...]) -> tuple[Cell, bool]:
        """The next door in the order."""
        return self._doors[answer[self._opened]], True

    def _use(self, cell: Cell) -> bool | None:
        door = self.grid.get(*cell)
        if not isinstance(door, Door) or door.is_open:
            return None
        door.is_open = True
        self._opened += 1
        if self._doors.index(cell) != self.answer[self._opened - 1]:
            return False
        return True if self._opened == len(self.answer) else None

    @staticmethod
    def _mission() -> str:
        return "open the doors in the order of the balls"

    def _map_width(self, number: int) -> int:
        return number + self.corridor + 2 * ((number + 1) // 2) + 4

    def _furnish(self, number: int) -> None:
        middle, room = self.middle, number + 2
        passage = room + self.corridor + 1
        self._dig(1, middle - 1, room, middle + 1)
        self._dig(room + 1, middle, self.width - 2, middle)
        self._doors: list[Cell] = []
        self._opened = 0
        colours = [str(colour) for colour in self.np_random.permutation(COLOR_NAMES)[:number]]
        for index, colour in enumerate(colours):
            x, side = passage + 1 + index // 2 * 2, 1 if index % 2 else -1
            self._put(Door, colour, (x, middle + side))
            self.grid.set(x, middle + 2 * side, None)
            self._doors.append((x, middle + side))
        self.answer = tuple(int(index) for index in self.np_random.permutation(number))
        balls = [(2 + index, middle - 1) for index in range(number)]
        for cell, index in zip(balls, self.answer, strict=True):
            self._put(Ball, colours[index], cell)
        self.cue_cells, self.questions = frozenset(balls), (frozenset(self._doors),)
