"""What all tasks share that ask for an answer, or for several: rewards, success, chance and pictures."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from envs.recall.base import BatchedTask
from envs.recall.contract import Bools, Floats, Outcome
from envs.recall.hashing import Ints
from envs.recall.parameters import Parameter
from envs.recall.rendering import Sight, draw_sight, value_chip

State = Mapping[str, NDArray[Any]]

REWARDS = (Parameter("reward_correct", float), Parameter("reward_wrong", float))
DISTRACTORS = Parameter("distractors", int, low=1, high=5_000, fixed=True)


class AskingTask(BatchedTask):
    """Something is shown and asked about; the last step asks, and at steps that do not, actions do nothing.

    With Q questions in an episode, each answer earns a Q-th of `reward_correct` or `reward_wrong`, rounded
    such that Q right ones earn `reward_correct` to the last digit. An episode succeeds if all are right. What
    is seen does not depend on what was answered.

    A subclass calls `_ask` when an episode starts, and has `REWARDS` among its parameters. It is taken to ask
    at all steps from the first question on, for answers that are, each by itself, uniform over the actions
    and independent of what is seen at the time; where that does not hold, it overrides what follows from it.
    """

    COUNTED: ClassVar[str] = ""
    """The parameter that, with the level, decides how many questions there are; none if there is always one.
    """

    def __init__(self, n_envs: int, values: Mapping[str, Any]) -> None:
        super().__init__(n_envs, values)
        self._first: Ints = self._allocate("first", np.int64)  # the step of the first question
        self._count: Ints = self._allocate("count", np.int64)  # how many there are
        self._right: Ints = self._allocate("right", np.int64)  # how many answers were right so far
        self._hit: Bools = self._allocate("hit", np.bool_)  # whether the last action was a right answer

    def _ask(self, rows: Ints, first: Ints, count: Ints | int = 1) -> None:
        """New episodes ask `count` (R,) questions, from step `first` (R,) on."""
        self._first[rows] = first
        self._count[rows] = count
        self._right[rows] = 0

    @abstractmethod
    def _answer(self, state: State, number: Ints) -> Ints:
        """The right answers (N,) to the questions `number` (N,), from 0 to the last, by the hidden state."""

    @abstractmethod
    def _see(self, row: int) -> Sight:
        """What a row's agent sees, before the end."""

    def _question_number(self, state: State) -> Ints:
        """The number (N,), from 0 on, of the question that the present step asks, negative without one."""
        number: Ints = state["t"] - state["first"]
        return number

    def _length(self, row: int) -> int:
        """Steps of the row's episode."""
        return int(self._first[row] + self._count[row])

    def _succeeded(self) -> Bools:
        """(N,) whether an episode that ends now is a success."""
        all_right: Bools = self._right == self._count
        return all_right

    def _guess(self, sizes: Ints, counted: Ints, constant: bool) -> Floats:
        """The chance (K,) that guesses are all right, at levels and values (K,) of the parameter `COUNTED`.

        Guesses are `constant`, a function of what is seen, or random: a difference where answers repeat.
        """
        return np.power(1.0 / self.n_actions, counted)

    @staticmethod
    def check_parameters(values: Mapping[str, NDArray[Any]]) -> None:
        """A right answer must earn more than a wrong one."""
        correct, wrong = values["reward_correct"], values["reward_wrong"]
        if (correct <= wrong).any():
            row = int((correct <= wrong).argmax())
            raise ValueError(f"reward_correct={correct[row]:g}: must be above reward_wrong={wrong[row]:g}")

    def _step(self, actions: Ints) -> tuple[Outcome, Bools]:
        number = self._question_number(self._arrays)
        asked = number >= 0
        never = np.zeros(self.n_envs, dtype=np.bool_)
        if not asked.any():
            self._hit[:] = False
            return Outcome(np.zeros(self.n_envs), never, never.copy()), never
        np.logical_and(asked, actions == self._answer(self._arrays, np.maximum(number, 0)), out=self._hit)
        self._right += self._hit
        total = np.where(self._hit, self.now["reward_correct"], self.now["reward_wrong"])
        # Differences of what would be earned up to here: unlike equal shares, they add up without rounding.
        rewards = total * ((number + 1) / self._count) - total * (number / self._count)
        rewards[~asked] = 0.0
        return Outcome(rewards, number == self._count - 1, never), self._succeeded()

    def non_reactive_steps(self) -> Ints:
        """All steps before the first question, the present one included: (N,)."""
        steps: Ints = np.maximum(self._first - self._t, 0)
        return steps

    def optimal_action(self, state: Mapping[str, NDArray[Any]] | None = None) -> Ints:
        """The answer asked for; before the questions the first answer, after them the last: (N,)."""
        state = self._arrays if state is None else state
        return self._answer(state, np.clip(self._question_number(state), 0, state["count"] - 1)).copy()

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
        if not self.COUNTED:
            return self.answer_chance
        (sizes, counted), shares = self.settings.distribution(self.COUNTED)
        return float(shares @ self._guess(sizes, counted, constant=True))

    @property
    def random_success(self) -> Floats:
        """(N,) how often random guesses are all right, at the level and parameters of each row's episode."""
        counted = self.now[self.COUNTED] if self.COUNTED else np.ones_like(self._size)
        return self._guess(self._size, counted, constant=False)

    def _said(self, row: int) -> tuple[int, bool] | None:
        """The row's last action and whether it was right, if it was an answer."""
        before = {**self._arrays, "t": self._t - 1}
        if self._t[row] == 0 or self._question_number(before)[row] < 0:
            return None
        return int(self._last_action[row]), bool(self._hit[row])

    def render_text(self, row: int = 0) -> str:
        """The step, what is seen, the last answer, and after the end how many of several were right."""
        length, over = self._length(row), self._t[row] >= self._length(row)
        seen = "nothing" if over else self._see(row).words
        text = f"step {min(int(self._t[row]) + 1, length)} of {length}: sees {seen}"
        if (said := self._said(row)) is not None:
            text += f"; answered {said[0]}, {'right' if said[1] else 'wrong'}"
        if over and self._count[row] > 1:
            text += f"; {self._right[row]} of {self._count[row]} right"
        return text

    def render_rgb(self, row: int = 0) -> NDArray[np.uint8]:
        """(192, 192, 3): what is seen as chips on a card, the last answer, the share of the episode gone by.

        After the end the card shows the last answer, and below it how many were right.
        """
        said = self._said(row)
        if self._t[row] < self._length(row):
            sight = self._see(row)
        elif said is None:  # not started
            sight = Sight("nothing")
        else:
            chips = [value_chip(said[0], self.n_actions)]
            sight = Sight("", chips, f"{self._right[row]}/{self._count[row]} RIGHT")
        return draw_sight(sight, said, float(self._t[row] / max(self._length(row), 1)))
