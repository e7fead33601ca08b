"""What the tasks share that ask one question or several, each answered at once and never again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.recall.base import BatchedTask
from envs.recall.cards import Chip, draw_card, value_chip
from envs.recall.contract import Bools, Floats, Outcome
from envs.recall.hashing import Ints
from envs.recall.query import QueryTask

State = Mapping[str, NDArray[Any]]


class AskingTask(BatchedTask):
    """Questions at some steps, the last of them at the last step; at all other steps actions have no effect.

    An answer earns its share of `reward_correct` or `reward_wrong`: with Q questions a Q-th, but for rounding
    such that Q right ones earn `reward_correct` to the last digit. Subclasses have these two among their
    parameters, and say what is asked when.
    """

    @abstractmethod
    def _questions(self, state: State) -> tuple[Ints, Ints]:
        """(N,) the number of the question asked at present, from 0, or any negative one where none is.

        And (N,) how many there are in the episode.
        """

    @abstractmethod
    def _answer(self, state: State) -> Ints:
        """(N,) the right answer to the present question; where there is none, of the next or any other."""

    @abstractmethod
    def _lengths(self) -> Ints:
        """(N,) steps that the episodes have."""

    @abstractmethod
    def _describe(self, row: int) -> tuple[str, Sequence[Chip], str]:
        """What the row's agent sees, before the end: in words, as chips, and as a caption of them."""

    @staticmethod
    def check_parameters(values: Mapping[str, NDArray[Any]]) -> None:
        """A right answer must earn more than a wrong one."""
        QueryTask.check_parameters(values)

    def _succeed(self, asked: Bools, right: Bools) -> Bools:
        """Take note of what was `right` (N,) among what was `asked` (N,); whether all was well (N,)."""
        return right

    def _step(self, actions: Ints) -> tuple[Outcome, Bools]:
        number, count = self._questions(self._arrays)
        right = actions == self._answer(self._arrays)
        asked = number >= 0
        total = np.where(right, self.now["reward_correct"], self.now["reward_wrong"])
        # Differences of neighbouring multiples are exact, so the shares of an episode add up exactly.
        shares = total * ((number + 1) / count) - total * (number / count)
        outcome = Outcome(
            np.where(asked, shares, 0.0), number == count - 1, np.zeros(self.n_envs, dtype=np.bool_)
        )
        return outcome, self._succeed(asked, right)

    def optimal_action(self, state: Mapping[str, NDArray[Any]] | None = None) -> Ints:
        """The answer to the present question or, where there is none, what `_answer` says: (N,)."""
        return self._answer(self._arrays if state is None else state).copy()

    @property
    def best_return(self) -> Floats:
        """(N,) `reward_correct`."""
        return self.now["reward_correct"].copy()

    def _answered(self, row: int) -> bool:
        return bool(self.ended[row] and self._last_action[row] >= 0)

    def render_text(self, row: int = 0) -> str:
        """The step, what is seen, and after the end the last answer."""
        length = int(self._lengths()[row])
        head = f"step {min(int(self._t[row]) + 1, length)} of {length}: sees "
        if self._t[row] < length:
            return head + self._describe(row)[0]
        if not self._answered(row):
            return head + "nothing"
        verdict = "success" if self.success[row] else "failure"
        return f"{head}nothing; last answer {self._last_action[row]}, {verdict}"

    def render_rgb(self, row: int = 0) -> NDArray[np.uint8]:
        """(192, 192, 3): what is seen, how much of the episode is over, and in the end the answer."""
        progress = float(self._t[row] / self._lengths()[row])
        if self._answered(row):
            success = bool(self.success[row])
            answer = value_chip(int(self._last_action[row]), self.n_actions)
            return draw_card([answer], "SUCCESS" if success else "FAILURE", progress, success)
        if progress >= 1.0:
            return draw_card([], "", progress)
        _, chips, caption = self._describe(row)
        return draw_card(chips, caption, progress, asks=bool(self._questions(self._arrays)[0][row] >= 0))
