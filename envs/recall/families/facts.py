"""What the tasks share that scatter facts among distractors and then ask about them."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from envs.recall.contract import FIRST_STREAM, Observations
from envs.recall.families.asking import AskingTask
from envs.recall.hashing import Ints, UInts, integers
from envs.recall.rendering import Sight, distractor_chip

PLACE_STREAM = FIRST_STREAM
DISTRACTOR_STREAM = FIRST_STREAM + 1
LAST_STREAM = FIRST_STREAM + 2

_NEVER = 1 << 40  # a step that no episode has, for slots without a fact
_STRIDE = 1 << 41  # sets the steps of one row apart from those of the next


def scatter(keys: UInts, counts: Ints, delays: Ints, capacity: int) -> Ints:
    """Steps of facts among distractors: (R, capacity), rising, those beyond a row's count never.

    Each fact falls into one of the gaps before, between and after the distractors, all equally likely.

    Args:
        keys: (R,) of the episodes.
        counts: (R,) numbers of facts, at most `capacity`.
        delays: (R,) numbers of distractors.
        capacity: slots for facts.
    """
    slots = np.arange(capacity)
    gaps = integers(keys[:, None], PLACE_STREAM, slots, delays[:, None] + 1)
    gaps[slots >= counts[:, None]] = _NEVER
    gaps.sort(axis=1)
    return gaps + slots


def find(places: Ints, steps: Ints) -> Ints:
    """The slot in `places` (R, C) that has each of the steps (R, k), -1 where none has: (R, k)."""
    offsets = np.arange(len(places))[:, None] * _STRIDE
    known, wanted = (places + offsets).ravel(), steps + offsets
    index = np.minimum(np.searchsorted(known, wanted), known.size - 1)
    slots = index - np.arange(len(places))[:, None] * places.shape[1]
    return np.where(known[index] == wanted, slots, -1)


class FactsTask(AskingTask):
    """Facts and distractors in random order, a step each, then questions.

    What is seen at a step is up to two symbols, each a component of the observation that is 1. Subclasses say
    which, call `_lay_out` when constructed and `_scatter` when an episode starts, and have `distractors` and
    the rewards as parameters.
    """

    def _lay_out(self, capacity: int, symbols: int) -> None:
        """Make room for `capacity` facts, and an observation of `symbols` components and the common ones."""
        self.distractors = int(self.settings.values["distractors"][0])
        self._first_distractor = symbols
        self._query = symbols + self.distractors
        self._blank = self._query + 1  # the symbol of no component
        self.observation_dim = self._query + 1
        self._table = np.eye(self.observation_dim + 1, self.observation_dim, dtype=np.float32)
        self._place: Ints = self._allocate("place", np.int64, (capacity,))

    @abstractmethod
    def _fact(self, rows: Ints | slice, slots: Ints) -> tuple[Ints, Ints]:
        """Both symbols (R, k) of the facts that came as number `slots` (R, k); of any fact for slot -1."""

    def _question(self, rows: Ints | slice, numbers: Ints) -> Ints:
        """The symbol (R, k) that the questions `numbers` (R, k) show beside the mark of a question."""
        return np.full_like(numbers, self._blank)

    @abstractmethod
    def _see_symbols(self, symbol: int, other: int) -> Sight:
        """A fact or a question, from its symbols."""

    def _scatter(self, rows: Ints, counts: Ints, delays: Ints, questions: Ints | int = 1) -> None:
        """Draw the steps of the facts of new episodes: `counts` (R,), among `delays` (R,) distractors."""
        self._place[rows] = scatter(self._keys[rows], counts, delays, self._place.shape[1])
        self._ask(rows, counts + delays, questions)

    def _symbols(self, rows: Ints | slice, steps: Ints) -> tuple[Ints, Ints]:
        """Both symbols (R, k) seen at the steps (R, k)."""
        slots = find(self._place[rows], steps)
        first, second = self._fact(rows, slots)
        noise = integers(self._keys[rows][:, None], DISTRACTOR_STREAM, steps, self.distractors)
        first = np.where(slots < 0, noise + self._first_distractor, first)
        second = np.where(slots < 0, self._blank, second)
        numbers = steps - self._first[rows][:, None]
        if (numbers >= 0).any():
            over = numbers >= self._count[rows][:, None]
            asked = self._question(rows, np.where(over, 0, np.maximum(numbers, 0)))
            first = np.where(numbers >= 0, np.where(over, self._blank, self._query), first)
            second = np.where(numbers >= 0, np.where(over, self._blank, asked), second)
        return first, second

    def _observe(self, rows: Ints | slice, steps: Ints) -> Observations:
        first, second = self._symbols(rows, steps)
        observations: Observations = self._table.take(first, axis=0)
        observations += self._table.take(second, axis=0)
        return observations

    def _see(self, row: int) -> Sight:
        seen = self._symbols(np.array([row]), self._t[row].reshape(1, 1))
        symbol, other = (int(symbols[0, 0]) for symbols in seen)
        if self._first_distractor <= symbol < self._query:
            number = symbol - self._first_distractor
            return Sight(f"distractor {number}", [distractor_chip(number)], "DISTRACTOR")
        return self._see_symbols(symbol, other)
