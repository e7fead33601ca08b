"""Memory size: so many bits at once, of which one is asked for later.

Description
    The first step shows `bits` bits, the last, `length` steps later, asks for one of them, each equally
    likely. An episode has `length` + 1 steps. After the memory-size experiment of the Behaviour Suite (Osband
    et al. 2020, "Behaviour Suite for Reinforcement Learning"), there run with 1 to 40 bits; our own
    implementation, in which the bit that is asked for comes as a one-hot vector instead of a number.

Observation
    Box(-1, 1, (1 + 2 max_bits,), float32):

    | components | meaning |
    |---|---|
    | 0 | the share of the steps that are left: 1 at the first step, 0 at the last |
    | the next `max_bits` | the bits at the first step, -1 for 0 and 1 for 1; 0 beyond `bits`, and later |
    | the next `max_bits` | one-hot at the last step: the bit that is asked for |

    After the answer all components are 0.

Action
    Discrete(2). Has an effect at the last step only, where it is the answer: the bit.

Reward
    At the last step `reward_correct` or `reward_wrong`, 1 and -1 as in the suite; at all other steps 0.

End
    Terminated by the answer. Never truncated. `info["is_success"]`: the answer was right.

Level
    `bits`: a number of at least 1 and at most `max_bits`, or a range (low, high).

Id
    `RMT/MemorySize-v0`. Chance 1/2, a return of 0; best return `reward_correct`. Who keeps k of the bits is
    right in 1/2 + k / (2 bits) of the episodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from envs.recall.families.asking import REWARDS, AskingTask
from envs.recall.families.bits import BitsPolicy, BitsTask
from envs.recall.hashing import Ints
from envs.recall.parameters import LARGEST, Level, Parameter, check_levels_fit


class MemorySizePolicy(BitsPolicy["MemorySize"]):
    """Keeps all bits; without memory, answers 0."""


class MemorySize(BitsTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        bits: number of bits, from 1 to `max_bits`, or a (low, high) range.
        max_bits: the most bits there can be, at least 1. Fixed: the spaces depend on it.
        length: steps from the bits to the question, at least 1.
        reward_correct: must be above `reward_wrong`.
        reward_wrong: reward of a wrong answer.

    Raises:
        ValueError: an argument outside its range, or more bits than `max_bits`.
    """

    PARAMETERS = (
        Parameter("max_bits", int, low=1, high=1_000, fixed=True),
        Parameter("length", int, low=1, high=LARGEST),
        *REWARDS,
    )
    LEVEL = Parameter("bits", int, low=1, high=1_000)
    policy_class = MemorySizePolicy

    def __init__(
        self,
        n_envs: int = 1,
        *,
        bits: Level = 5,
        max_bits: int = 40,
        length: int = 2,
        reward_correct: float = 1.0,
        reward_wrong: float = -1.0,
    ) -> None:
        super().__init__(
            n_envs,
            {
                "bits": bits,
                "max_bits": max_bits,
                "length": length,
                "reward_correct": reward_correct,
                "reward_wrong": reward_wrong,
            },
        )
        self._lay_out(width=int(self.settings.values["max_bits"][0]))

    @staticmethod
    def check_parameters(values: Mapping[str, NDArray[Any]]) -> None:
        """There must be room for all bits."""
        AskingTask.check_parameters(values)
        check_levels_fit("bits", values["bits"], 1, values["max_bits"], "from {} to max_bits={}")

    def _start(self, rows: Ints) -> None:
        self._draw(rows, self._size[rows], self.now["length"][rows])

    def _question_name(self, bit: int) -> str:
        return f"WHICH IS BIT {bit}"
