"""Which key goes with which ball is shown once, and needed at door after door."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from minigrid.core.constants import COLOR_NAMES
from minigrid.core.world_object import Ball, Door, Key

from envs.minigrid.search import Cell
from envs.minigrid.task import GridTask
from envs.recall.parameters import Level, Parameter


class Keys(GridTask):
    """Pairs of a ball and a key in the first room; grey doors further on, each beside one of the balls.

    In the first room each ball has its key across the room. At the end of a corridor lie keys of all these
    colours, in an order of their own, and one of the balls beside a locked grey door, which the key that went
    with the ball opens. Another corridor leads on to a second such place, whose ball may be another. The
    difficulty is the number of doors; with one alone a first success is met by chance much sooner.

    Action: 0 left, 1 right, 2 forward, 3 pick up the key ahead or, with a key, open the door ahead. A wrong
    key picked up ends the episode. An opened door uses up its key and takes away the others, so that nothing
    can be carried on; the balls and keys of the first room cannot be picked up.

    Answer: the number, from the west, of the key at each door. Chance: 1 / pairs^doors. Luck at the first
    door is worth remembering, too: with two pairs, the key that fitted tells all.

    Ids: ``RMT/MiniGrid-Keys-v0`` (2 doors, 2 pairs), with more pairs ``RMT/MiniGrid-KeysN3-v0`` and N6.
    """

    difficulty = Parameter("doors", int, 1, 4)

    def __init__(self, doors: Level = 2, *, pairs: int = 2, **options: Any) -> None:
        """Prepare the task.

        Args:
            doors: how many times the association is needed, from 1 to 4, or a range (low, high).
            pairs: how many pairs of a ball and a key, from 2 to 6.
            options: ``view_size``, ``corridor``, ``max_steps`` and ``render_mode`` of `GridTask`.
        """
        self.pairs = int(Parameter("pairs", int, 2, len(COLOR_NAMES)).check(pairs))
        super().__init__(doors, **options)

    def answers_of(self, number: int) -> list[tuple[int, ...]]:
        """Every key at the first door with every key at the second, and so on."""
        return list(product(range(self.pairs), repeat=number))

    def target(self, answer: tuple[int, ...]) -> tuple[Cell, bool]:
        """The key at the next door or, once it is carried, the door."""
        place = self._place
        return (self._doors[place] if self.carried else self._keys[place][answer[place]]), True

    def _use(self, cell: Cell) -> bool | None:
        place = self._place
        keys = self._keys[place]
        if self.carried is None and cell in keys:
            self._take(cell)
            return None if keys.index(cell) == self.answer[place] else False
        if self.carried is None or cell != self._doors[place]:
            return None
        door = self.grid.get(*cell)
        assert isinstance(door, Door)
        door.is_open, door.is_locked = True, False
        self.carrying = None
        for left in keys:
            self.grid.set(*left, None)
        if place + 1 == self.number:
            return True
        self._place += 1
        return None

    @staticmethod
    def _mission() -> str:
        return "open each door with the key that goes with its ball"

    def _map_width(self, number: int) -> int:
        # A first room; for each door a corridor, a room and itself; behind the last one a cell; walls.
        return self.pairs + 2 + number * (self.corridor + self.pairs + 2) + 3

    def _furnish(self, number: int) -> None:
        middle, left = self.middle, self.pairs + 3
        self._dig(1, middle - 1, self.pairs + 2, middle + 1)
        self._dig(left, middle, self.width - 2, middle)
        balls = [str(colour) for colour in self.np_random.permutation(COLOR_NAMES)[: self.pairs]]
        keys = [str(colour) for colour in self.np_random.permutation(COLOR_NAMES)[: self.pairs]]
        cues: list[Cell] = []
        for index in range(self.pairs):
            self._put(Ball, balls[index], (2 + index, middle - 1))
            self._put(Key, keys[index], (2 + index, middle + 1))
            cues += [(2 + index, middle - 1), (2 + index, middle + 1)]
        self._place = 0
        self._keys: list[list[Cell]] = []
        self._doors: list[Cell] = []
        questions: list[frozenset[Cell]] = []
        answer: list[int] = []
        for _ in range(number):
            left += self.corridor
            right = left + self.pairs
            self._dig(left, middle - 1, right, middle + 1)
            order = [int(index) for index in self.np_random.permutation(self.pairs)]
            asked = int(self.np_random.integers(self.pairs))
            cells = [(left + slot, middle - 1) for slot in range(self.pairs)]
            for cell, index in zip(cells, order, strict=True):
                self._put(Key, keys[index], cell)
            ball = (right, middle + 1)
            self._put(Ball, balls[asked], ball)
            left = right + 2
            self._put(partial(Door, is_locked=True), "grey", (right + 1, middle))
            self._keys.append(cells)
            self._doors.append((right + 1, middle))
            questions.append(frozenset({*cells, ball, (right + 1, middle)}))
            answer.append(order.index(asked))
        self.answer = tuple(answer)
        self.cue_cells, self.questions = frozenset(cues), tuple(questions)
