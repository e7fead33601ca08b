"""Reverse: give back a sequence from its end to its beginning.

Description
    As Copy (`envs.recall.tasks.copy`), but asked for from the last symbol to the first, `repeats` times over.
    So the symbol shown last is due first, and the one shown first has to be kept longest. After the Reverse
    task of Bulatov, Kuratov and Burtsev 2022, "Recurrent Memory Transformer".

Observation
    As in Copy. With `show_position` a question for symbol i shows (i + 1) / length.

Action
    Discrete(symbols). Has an effect at the questions only, where it is the answer.

Reward
    As in Copy: `reward_correct` or `reward_wrong` for each answer, divided by the number of answers.

End
    Terminated by the last answer. Never truncated. `info["is_success"]`: all answers were right.

Level
    `length`: a number from 1 to 100,000, or a range (low, high).

Id
    `RMT/Reverse-v0`. Chance (1 / symbols) ** length, averaged over the levels (and that of random
    guesses (1 / symbols) ** (repeats * length)); a single answer is guessed with 1 / symbols. Best return
    `reward_correct`.

Presets
    The paper's lengths. To have what it calls 2, 4 or 6 segments, cut the steps into segments of a half, a
    fourth or a sixth of them; the first half shows the sequence. The size of the alphabet is ours.

    | preset | steps | in 2, 4, 6 segments |
    |---|---|---|
    | `rmt-24` | 48 | 24, 12, 8 |
    | `rmt-120` | 240 | 120, 60, 40 |
"""

from __future__ import annotations

from typing import Any, ClassVar

from envs.recall.families.sequence import SequenceTask
from envs.recall.hashing import Ints


class Reverse(SequenceTask):
    """See the module's docstring, and `SequenceTask` for the arguments."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        f"rmt-{length}": {"symbols": 10, "length": length, "delay": 0} for length in (24, 120)
    }

    @staticmethod
    def place(index: Ints, length: Ints) -> Ints:
        """From the last symbol to the first, and from the last again."""
        return length - 1 - index % length
