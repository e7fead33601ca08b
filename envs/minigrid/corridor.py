"""A corridor of any length between an object and the choice of the one like it."""

from __future__ import annotations

from dataclasses import replace

from minigrid.core.world_object import Ball, Key

from envs.minigrid.search import Cell
from envs.minigrid.task import LONGEST, GridTask
from envs.recall.parameters import Level, Parameter

CUE: Cell = (2, 2)


class Corridor(GridTask):
    """MiniGrid's memory task with a corridor of 7 to 501 cells, the cue in sight at the first step.

    A green key or ball lies in the first room. Where the corridor ends it forks, with a key and a ball beside
    its two arms, in either order. The default and the longest are the lengths at which RATE (Cherepanov et
    al., 2023, "Recurrent Action Transformer with Memory") trains and to which it tests such an agent.

    Action: 0 left, 1 right, 2 forward.

    Answer: the arm that is walked into, 0 north or 1 south. Chance: 1/2.

    Ids: ``RMT/MiniGrid-Corridor-v0`` (41 cells), ``RMT/MiniGrid-CorridorL11-v0``, L101 and L501.
    """

    difficulty = Parameter("length", int, 3, LONGEST)
    actions_needed = 3

    def __init__(
        self,
        length: Level = 41,
        *,
        view_size: int = 7,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Prepare the task.

        Args:
            length: cells of the corridor, from ``view_size`` to 501, or a range (low, high).
            view_size: see `GridTask`, as for the others.
            max_steps: time limit in steps.
            render_mode: None, "rgb_array" or "human".
        """
        super().__init__(length, view_size=view_size, max_steps=max_steps, render_mode=render_mode)

    @property
    def parameter(self) -> Parameter:
        """Lengths from the view's on."""
        return replace(self.difficulty, low=self.agent_view_size)

    def answers_of(self, number: int) -> list[tuple[int, ...]]:
        """North and south."""
        return [(0,), (1,)]

    @property
    def closed(self) -> frozenset[Cell]:
        """The two arms."""
        return frozenset(self._arms)

    def target(self, answer: tuple[int, ...]) -> tuple[Cell, bool]:
        """The arm to walk into."""
        return self._arms[answer[0]], False

    def _arrive(self, cell: Cell) -> bool | None:
        return self._arms.index(cell) == self.answer[0] if cell in self._arms else None

    @staticmethod
    def _mission() -> str:
        return "go to the object like the one at the start"

    def _map_width(self, number: int) -> int:
        return number + 6

    def _furnish(self, number: int) -> None:
        fork, middle = number + 4, self.middle
        self._dig(1, middle - 1, 3, middle + 1)
        self._dig(4, middle, fork, middle)
        self._dig(fork, middle - 1, fork, middle + 1)
        first, kinds = self.np_random.integers(2), (Key, Ball)
        objects = ((fork, middle - 2), (fork, middle + 2))
        for index, cell in enumerate(objects):
            self._put(kinds[(first + index) % 2], "green", cell)
        self.answer = (int(self.np_random.integers(2)),)
        self._put(kinds[(first + self.answer[0]) % 2], "green", CUE)
        self._arms = [(fork, middle - 1), (fork, middle + 1)]
        self.cue_cells, self.questions = frozenset({CUE}), (frozenset(objects),)
