"""Memory length: one bit, to be kept for so many steps.

Description
    The first step shows a bit, the last, `length` steps later, asks for it. Nothing but a clock is seen in
    between. An episode has `length` + 1 steps. After the memory-length experiment of the Behaviour Suite
    (Osband et al. 2020, "Behaviour Suite for Reinforcement Learning"), there run at lengths from 1 to 100;
    our own implementation.

Observation
    Box(-1, 1, (3,), float32):

    | component | meaning |
    |---|---|
    | 0 | the share of the steps that are left: 1 at the first step, 0 at the last |
    | 1 | the bit at the first step, -1 for 0 and 1 for 1; 0 at all others |
    | 2 | 1 at the last step, the question |

    After the answer all components are 0.

Action
    Discrete(2). Has an effect at the last step only, where it is the answer: the bit.

Reward
    At the last step `reward_correct` or `reward_wrong`, 1 and -1 as in the suite; at all other steps 0.

End
    Terminated by the answer. Never truncated. `info["is_success"]`: the answer was right.

Level
    `length`: a number of at least 1, or a range (low, high).

Id
    `RMT/MemoryLength-v0`. Chance 1/2, a return of 0; best return `reward_correct`.
"""

from __future__ import annotations

import numpy as np

from envs.recall.families.asking import REWARDS
from envs.recall.families.bits import BitsPolicy, BitsTask
from envs.recall.hashing import Ints
from envs.recall.parameters import LARGEST, Level, Parameter


class MemoryLengthPolicy(BitsPolicy["MemoryLength"]):
    """Keeps the bit; without memory, answers 0."""


class MemoryLength(BitsTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        length: steps from the bit to the question, at least 1, or a (low, high) range.
        reward_correct: must be above `reward_wrong`.
        reward_wrong: reward of a wrong answer.

    Raises:
        ValueError: an argument outside its range.
    """

    PARAMETERS = REWARDS
    LEVEL = Parameter("length", int, low=1, high=LARGEST)
    policy_class = MemoryLengthPolicy

    def __init__(
        self,
        n_envs: int = 1,
        *,
        length: Level = 30,
        reward_correct: float = 1.0,
        reward_wrong: float = -1.0,
    ) -> None:
        super().__init__(
            n_envs, {"length": length, "reward_correct": reward_correct, "reward_wrong": reward_wrong}
        )
        self._lay_out(width=1)

    def _start(self, rows: Ints) -> None:
        self._draw(rows, np.ones_like(rows), self._size[rows])

    def _question_name(self, bit: int) -> str:
        return "WHICH BIT"
