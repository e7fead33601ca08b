"""What the tasks share that ask for several answers in a row: rewards, success and chance."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from envs.recall.answer_cards import Card, draw_cards
from envs.recall.base import BatchedTask
from envs.recall.contract import FIRST_STREAM, Bools, Floats, Outcome
from envs.recall.hashing import Ints
from envs.recall.parameters import LARGEST, Parameter
from envs.recall.query import QueryTask

SYMBOL_STREAM = FIRST_STREAM
LAST_STREAM = FIRST_STREAM + 1

LONGEST = 100_000
"""The longest sequence: the chance of guessing is summed over all lengths of a range."""

DELAY = Parameter("delay", int, low=0, high=LARGEST)
DISTRACTORS = Parameter("distractors", int, low=1, high=5_000, fixed=True)


class AnswersTask(BatchedTask):
    """Something is shown, then each of the last steps asks for an answer.

    An episode succeeds if all of its answers are right. Each answer earns its share, one in the number of
    answers, of `reward_correct` or `reward_wrong`: at the defaults the return is the share of right answers.
    What is asked does not depend on what was answered before, and nothing that is seen does either.

    A subclass sets `_first` and `_count` when an episode starts. Whatever a question looks like, its answer
    is uniform over the actions: a single guess is right with probability 1 / `n_actions`.
    """

    COUNTED: ClassVar[str]
    """The parameter that, with the level, decides the number of answers."""

    def __init__(self, n_envs: int, values: Mapping[str, Any]) -> None:
        super().__init__(n_envs, values)
        self._first: Ints = self._allocate("first", np.int64)  # the step that asks for the first answer
        self._count: Ints = self._allocate("count", np.int64)  # the number of answers
        self._right: Ints = self._allocate("right", np.int64)  # answers that were right so far

    @abstractmethod
    def _answer(self, state: Mapping[str, NDArray[Any]], index: Ints) -> Ints:
        """The right answers (N,) number `index` (N,), from 0 on, by the hidden state."""

    @abstractmethod
    def _guess(self, sizes: Ints, counted: int, constant: bool) -> Floats:
        """The chance (K,) that guesses are all right, at the levels (K,) and a value of `COUNTED`.

        Guesses are `constant`, a function of what is seen, or random: a difference where answers repeat.
        """

    @abstractmethod
    def _seen(self, row: int) -> tuple[str, str, list[Card]]:
        """What a row sees: in words, in few capitals for the picture, and as cards."""

    @staticmethod
    def check_parameters(values: Mapping[str, NDArray[Any]]) -> None:
        """A right answer must earn more than a wrong one."""
        QueryTask.check_parameters(values)

    def _start(self, rows: Ints) -> None:
        self._right[rows] = 0

    def _step(self, actions: Ints) -> tuple[Outcome, Bools]:
        index = self._t - self._first
        asked = index >= 0
        correct = actions == self._answer(self._arrays, np.maximum(index, 0))
        self._right += correct & asked
        # Differences of what would be earned up to here: unlike equal shares, they add up without rounding.
        rate = np.where(correct, self.now["reward_correct"], self.now["reward_wrong"])
        rewards = rate * ((index + 1) / self._count) - rate * (index / self._count)
        rewards[~asked] = 0.0
        ended = index == self._count - 1
        return Outcome(rewards, ended, np.zeros(self.n_envs, dtype=np.bool_)), self._right == self._count

    def non_reactive_steps(self) -> Ints:
        """All steps before the first question, the present one included: (N,)."""
        steps: Ints = np.maximum(self._first - self._t, 0)
        return steps

    def optimal_action(self, state: Mapping[str, NDArray[Any]] | None = None) -> Ints:
        """The answer asked for; before the questions the first answer, after them the last: (N,)."""
        state = self._arrays if state is None else state
        return self._answer(state, np.clip(state["t"] - state["first"], 0, state["count"] - 1))

    @property
    def best_return(self) -> Floats:
        """(N,) `reward_correct`."""
        return self.now["reward_correct"].copy()

    @property
    def answer_chance(self) -> float:
        """One in `n_actions`: how often a guess at one answer is right."""
        return 1.0 / self.n_actions

    @property
    def chance(self) -> float:
        """How often constant guesses are all right, at the levels and parameters of later episodes."""
        counted = self.settings.values[self.COUNTED]
        total = 0.0
        for rows, table in self.settings.tables():
            sizes, probabilities = table.distribution
            for value, times in zip(*np.unique(counted[rows], return_counts=True), strict=True):
                total += float(times * (probabilities @ self._guess(sizes, int(value), True)))
        return total / self.n_envs

    @property
    def random_success(self) -> Floats:
        """(N,) how often random guesses are all right, at the level and parameters of each row's episode."""
        rates = np.empty(self.n_envs)
        for value in np.unique(self.now[self.COUNTED]):
            rows = self.now[self.COUNTED] == value
            rates[rows] = self._guess(self._size[rows], int(value), False)
        return rates

    def _said(self, row: int) -> tuple[int, bool] | None:
        """The row's last answer and whether it was right; None before the first."""
        index = self._t[row] - self._first[row] - 1
        if index < 0:
            return None
        said = int(self._last_action[row])
        return said, said == self._answer(self._arrays, np.full(self.n_envs, index))[row]

    def render_text(self, row: int = 0) -> str:
        """The step, what is seen, the last answer, and after the end how many were right."""
        length = int(self._first[row] + self._count[row])
        text = f"step {min(int(self._t[row]) + 1, length)} of {length}: sees {self._seen(row)[0]}"
        if (said := self._said(row)) is not None:
            text += f"; answered {said[0]}, {'right' if said[1] else 'wrong'}"
        if self._t[row] == length:
            text += f"; {self._right[row]} of {self._count[row]} right"
        return text

    def render_rgb(self, row: int = 0) -> NDArray[np.uint8]:
        """(192, 192, 3): what is seen as cards, the last answer, and the share of the episode gone by."""
        _, caption, cards = self._seen(row)
        length = self._first[row] + self._count[row]
        if self._t[row] == length:
            caption = f"{self._right[row]}/{self._count[row]} RIGHT"
        return draw_cards(cards, caption, self._said(row), float(self._t[row] / length))
