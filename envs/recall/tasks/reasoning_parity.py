"""Reasoning without a slope: the answer is the sum of two numbers, either of which alone tells nothing.

Description
    Two numbers, each drawn from 0 to `modulus` - 1, come at random steps among `delay` distractors. Then
    comes a query, at which the agent answers their sum modulo `modulus`. An episode has `delay` + 3 steps.

    A hard control to `RMT/Reasoning-v0`. A policy that keeps one of the numbers is right exactly as often as
    one that keeps none, so no step on the way to the solution pays, and policy gradients have nothing to
    climb. With `modulus` 2 it is the parity of two bits.

Observation
    Box(0, 1, (modulus + distractors + 1,), float32), one-hot:

    | components | meaning |
    |---|---|
    | [0, modulus) | a number, at the two steps that have one |
    | the next `distractors` | a distractor, uniformly drawn at each of the `delay` other steps |
    | last | 1 at the query, which looks the same in all episodes |

    After the answer all components are 0.

Action
    Discrete(modulus). Has an effect at the query only, where it is the answer.

Reward
    At the query `reward_correct` or `reward_wrong`, at all other steps 0.

End
    Terminated by the answer. Never truncated. `info["is_success"]`: the answer was right.

Level
    `delay`, the number of distractors: at least 1, or a range (low, high).

Id
    `RMT/ReasoningParity-v0`. Chance 1 / modulus; best return `reward_correct`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envs.recall.families.asking import DISTRACTORS, REWARDS, State
from envs.recall.families.facts import LAST_STREAM, FactsTask
from envs.recall.hashing import Ints, integers
from envs.recall.parameters import LARGEST, Level, Parameter
from envs.recall.rendering import QUESTION, Sight, value_chip
from envs.recall.scripted import ScriptedPolicy

_NUMBER_STREAM = LAST_STREAM


class ReasoningParityPolicy(ScriptedPolicy["ReasoningParity"]):
    """Adds up the numbers that it sees; without memory, answers 0."""

    def write(self, memory: Ints, observations: NDArray[np.float32]) -> None:
        """Add the number seen, if any."""
        numbers = observations[:, : self.task.modulus]
        rows = np.flatnonzero(numbers.any(axis=1))
        memory[rows, 0] = np.maximum(memory[rows, 0], 0) + numbers[rows].argmax(axis=1)

    def act(self, memory: Ints, observations: NDArray[np.float32]) -> Ints:
        """The sum so far, at every step; 0 where nothing is remembered at the query."""
        return np.maximum(memory[:, 0], 0) % self.task.modulus


class ReasoningParity(FactsTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        modulus: how many numbers there are, at least 2. Fixed: the spaces depend on it.
        delay: number of distractors among the two numbers, at least 1, or a (low, high) range.
        distractors: number of distractor symbols, at least 1. Fixed.
        reward_correct: must be above `reward_wrong`.
        reward_wrong: reward of a wrong answer.

    Raises:
        ValueError: an argument outside its range.
    """

    PARAMETERS = (Parameter("modulus", int, low=2, high=5_000, fixed=True), DISTRACTORS, *REWARDS)
    LEVEL = Parameter("delay", int, low=1, high=LARGEST)
    policy_class = ReasoningParityPolicy

    def __init__(
        self,
        n_envs: int = 1,
        *,
        modulus: int = 4,
        delay: Level = 30,
        distractors: int = 8,
        reward_correct: float = 1.0,
        reward_wrong: float = 0.0,
    ) -> None:
        super().__init__(
            n_envs,
            {
                "modulus": modulus,
                "delay": delay,
                "distractors": distractors,
                "reward_correct": reward_correct,
                "reward_wrong": reward_wrong,
            },
        )
        self.modulus = int(self.settings.values["modulus"][0])
        self.n_actions = self.modulus
        self._lay_out(capacity=2, symbols=self.modulus)
        self._number: Ints = self._allocate("number", np.int64, (2,))

    def _start(self, rows: Ints) -> None:
        self._number[rows] = integers(self._keys[rows][:, None], _NUMBER_STREAM, np.arange(2), self.modulus)
        self._scatter(rows, np.full_like(rows, 2), self._size[rows])

    def _fact(self, rows: Ints | slice, slots: Ints) -> tuple[Ints, Ints]:
        return np.take_along_axis(self._number[rows], slots, axis=1), np.full_like(slots, self._blank)

    def _answer(self, state: State, number: Ints) -> Ints:
        answer: Ints = state["number"].sum(axis=1) % self.modulus
        return answer

    def _see_symbols(self, symbol: int, other: int) -> Sight:
        if symbol == self._query:
            return Sight(f"the query: which sum modulo {self.modulus}?", [QUESTION], "WHICH SUM")
        return Sight(f"number {symbol}", [value_chip(symbol, self.modulus)], "NUMBER")
