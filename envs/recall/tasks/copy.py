"""Copy: give back a sequence in the order in which it was shown.

Description
    `length` symbols are shown, one a step, each drawn uniformly from `symbols`. `delay` distractors follow.
    Then every step asks for the next symbol of the sequence, from the first to the last, `repeats` times
    over. An episode has (1 + `repeats`) `length` + `delay` steps. After the Copy task of Bulatov, Kuratov and
    Burtsev 2022, "Recurrent Memory Transformer", where the sequence is given back twice.

Observation
    Box(0, 1, (symbols + distractors + 1,), float32), one-hot:

    | components | meaning |
    |---|---|
    | [0, symbols) | a symbol of the sequence |
    | [symbols, symbols + distractors) | a distractor, uniformly drawn at each of the `delay` steps |
    | next | 1 at each question: go, and go on. All questions look the same |
    | last, if `show_position` | (i + 1) / length where symbol i is shown or asked for, else 0 |

    Neither the right answers nor those given are shown. After the last answer all components are 0.

Action
    Discrete(symbols). Has an effect at the questions only, where it is the answer.

Reward
    Each answer earns `reward_correct` or `reward_wrong`, divided by the number of answers; at all other steps
    0. So the return of right answers alone is `reward_correct`, and at the defaults it is the share of right
    answers.

End
    Terminated by the last answer. Never truncated. `info["is_success"]`: all answers were right.

Level
    `length`: a number from 1 to 100,000, or a range (low, high).

Id
    `RMT/Copy-v0`. Chance (1 / symbols) ** length, averaged over the levels (and that of random
    guesses (1 / symbols) ** (repeats * length)); a single answer is guessed with 1 / symbols. Best return
    `reward_correct`.

Presets
    The paper's lengths. To have what it calls 3, 6 or 9 segments, cut the steps into segments of a third, a
    sixth or a ninth of them; the first third shows the sequence. The size of the alphabet is ours.

    | preset | steps | in 3, 6, 9 segments |
    |---|---|---|
    | `rmt-24` | 72 | 24, 12, 8 |
    | `rmt-120` | 360 | 120, 60, 40 |
"""

from __future__ import annotations

from typing import Any, ClassVar

from envs.recall.families.sequence import SequenceTask
from envs.recall.hashing import Ints


class Copy(SequenceTask):
    """See the module's docstring, and `SequenceTask` for the arguments."""

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        f"rmt-{length}": {"symbols": 10, "length": length, "repeats": 2, "delay": 0} for length in (24, 120)
    }

    @staticmethod
    def place(index: Ints, length: Ints) -> Ints:
        """From the first symbol to the last, and from the first again."""
        return index % length
