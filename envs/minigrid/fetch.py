"""An object shown in the first room, to be fetched from one of several others."""

from __future__ import annotations

from typing import Any

from minigrid.core.constants import COLOR_NAMES
from minigrid.core.world_object import Ball, Box, Key

from envs.minigrid.search import Cell
from envs.minigrid.task import GridTask
from envs.recall.parameters import Level, Parameter

KINDS = (Key, Ball, Box)
COLOURS = 3
CUE: Cell = (2, 3)


class Fetch(GridTask):
    """The first room shows an object; further on, each of several rooms has one, and one of them is its like.

    The rooms lie north and south of a passage behind the corridor. What is in them differs in type (key,
    ball, box) or colour (three, drawn for each episode) or both, so that neither is enough to tell. The
    objects are drawn before one of them is chosen, all alike: what is in the rooms says nothing about which.

    Action: 0 left, 1 right, 2 forward, 3 pick up what lies ahead. The first object picked up ends the
    episode; the one in the first room cannot be picked up.

    Answer: the room, numbered from the west, north before south. Chance: 1 / rooms.

    Ids: ``RMT/MiniGrid-Fetch-v0`` (4 rooms), ``RMT/MiniGrid-FetchN2-v0`` and N8.
    """

    difficulty = Parameter("rooms", int, 2, 8)
    middle = 4

    def __init__(self, rooms: Level = 4, **options: Any) -> None:
        """Prepare the task.

        Args:
            rooms: how many there are to fetch from, 2 to 8, or a range (low, high).
            options: ``view_size``, ``corridor``, ``max_steps`` and ``render_mode`` of `GridTask`.
        """
        super().__init__(rooms, **options)

    def answers_of(self, number: int) -> list[tuple[int, ...]]:
        """Every room."""
        return [(room,) for room in range(number)]

    def target(self, answer: tuple[int, ...]) -> tuple[Cell, bool]:
        """The object in the room."""
        return self._objects[answer[0]], True

    def _use(self, cell: Cell) -> bool | None:
        if cell not in self._objects:
            return None
        self._take(cell)
        return self._objects.index(cell) == self.answer[0]

    @staticmethod
    def _mission() -> str:
        return "fetch the object like the one in the first room"

    def _map_width(self, number: int) -> int:
        return self.corridor + 4 * ((number + 1) // 2) + 4

    def _furnish(self, number: int) -> None:
        middle = self.middle
        passage = self.corridor + 4
        self._dig(1, middle - 1, 3, middle + 1)
        self._dig(4, middle, self.width - 2, middle)
        colours = self.np_random.permutation(COLOR_NAMES)[:COLOURS]
        pool = [(kind, str(colour)) for kind in KINDS for colour in colours]
        chosen = [pool[index] for index in self.np_random.permutation(len(pool))[:number]]
        self._objects: list[Cell] = []
        for index, (kind, colour) in enumerate(chosen):
            door, south = passage + 1 + index // 2 * 4, index % 2
            top = middle + 2 if south else middle - 3
            self._dig(door - 1, top, door + 1, top + 1)
            self.grid.set(door, middle + 1 if south else middle - 1, None)
            cell = (door - 1 + int(self.np_random.integers(3)), top + int(self.np_random.integers(2)))
            self._put(kind, colour, cell)
            self._objects.append(cell)
        self.answer = (int(self.np_random.integers(number)),)
        kind, colour = chosen[self.answer[0]]
        self._put(kind, colour, CUE)
        self.cue_cells, self.questions = frozenset({CUE}), (frozenset(self._objects),)
