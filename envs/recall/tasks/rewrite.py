"""Rewrite: of each key, keep the value that came last.

Description
    `pairs` pairs are shown, one a step: a key and a value, both drawn uniformly and independently, so that
    keys come again and again with other values. `delay` distractors follow. Then `queries` of the keys that
    were shown, no key twice and each equally likely, are shown again, one a step, and the agent answers each
    with the value it came with last; all keys if fewer were shown. After the Rewrite task of Rodkin et al.
    2024, "Associative Recurrent Memory Transformer".

Observation
    Box(0, 1, (keys + values + distractors + 1,), float32):

    | components | meaning |
    |---|---|
    | [0, keys) | one-hot: the key of a pair or of a question |
    | [keys, keys + values) | one-hot: the value of a pair |
    | [keys + values, keys + values + distractors) | one-hot: a distractor, uniformly drawn at each step |
    | last | 1 at each question |

    After the last answer all components are 0.

Action
    Discrete(values). Has an effect at the questions only, where it is the answer.

Reward
    Each answer earns `reward_correct` or `reward_wrong`, divided by the number of answers; at all other steps
    0. So the return of right answers alone is `reward_correct`, and at the defaults it is the share of right
    answers.

End
    Terminated by the last answer. Never truncated. `info["is_success"]`: all answers were right.

Level
    `pairs`: a number from 1 to 10,000, or a range (low, high).

Id
    `RMT/Rewrite-v0`. Chance the mean of (1 / values) ** min(queries, keys shown), over what is shown and the
    levels: 1 / values for a single query. Best return `reward_correct`.

Presets
    `armt-50` to `armt-1000`: that many pairs of the paper's 16 keys and 16 values, a single query. The paper
    trains on up to 50 pairs (`armt-train`), each a segment of its own, and tests on more.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from envs.recall.contract import Floats
from envs.recall.families.pairs import KEY_STREAM, PairsTask
from envs.recall.hashing import Ints, integers
from envs.recall.parameters import Level


class Rewrite(PairsTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        keys: number of keys, at least 2. Fixed: the spaces depend on it.
        values: number of values, at least 2. Fixed.
        pairs: pairs shown, from 1 to 10,000, or a (low, high) range.
        queries: keys asked for, at least 1; all if fewer were shown.
        delay: distractors between pairs and questions, at least 0.
        distractors: number of distractor symbols, at least 1. Fixed.
        reward_correct: return of right answers only; must be above `reward_wrong`.
        reward_wrong: return of wrong answers only.

    Raises:
        ValueError: an argument outside its range.
    """

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        f"armt-{name}": {"keys": 16, "values": 16, "pairs": pairs, "delay": 0}
        for name, pairs in (("train", (1, 50)), *((str(n), n) for n in (50, 100, 200, 500, 1000)))
    }

    def __init__(
        self,
        n_envs: int = 1,
        *,
        keys: int = 4,
        values: int = 4,
        pairs: Level = 12,
        queries: int = 1,
        delay: int = 4,
        distractors: int = 4,
        reward_correct: float = 1.0,
        reward_wrong: float = 0.0,
    ) -> None:
        super().__init__(
            n_envs,
            {
                "keys": keys,
                "values": values,
                "pairs": pairs,
                "queries": queries,
                "delay": delay,
                "distractors": distractors,
                "reward_correct": reward_correct,
                "reward_wrong": reward_wrong,
            },
        )

    def _keys_at(self, rows: Ints | slice, steps: Ints) -> Ints:
        return integers(self._keys[rows][:, None], KEY_STREAM, steps, self.keys)

    def _guess(self, sizes: Ints, counted: Ints, constant: bool) -> Floats:
        rates = np.empty(sizes.shape)
        for queries in np.unique(counted):
            rows = counted == queries
            rates[rows] = guess_rates(sizes[rows], self.keys, int(queries), self.answer_chance)
        return rates


def guess_rates(sizes: Ints, keys: int, queries: int, chance: float) -> Floats:
    """The mean (K,) of `chance` ** min(`queries`, D), with D the different keys among (K,) draws of `keys`.

    Draw by draw: with d different keys so far, the next is a new one with probability 1 - d / keys.
    """
    most = min(keys, queries)
    drawn = np.arange(most + 1)  # the last stands for all from there on
    new = 1.0 - drawn / keys
    new[-1] = 0.0
    share = (drawn == 0).astype(np.float64)
    rates = np.empty(int(sizes.max()) + 1)
    for number in range(len(rates)):
        rates[number] = share @ chance**drawn
        moved = share * new
        share -= moved
        share[1:] += moved[:-1]
    return rates[sizes]
