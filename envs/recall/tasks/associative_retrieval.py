"""Associative retrieval: keep which value came with which key.

Description
    `pairs` pairs are shown, one a step: a key and a value, each key once, in random order, the values drawn
    uniformly and independently from `values`. `delay` distractors follow. Then `queries` of these keys, no
    key twice, are shown again, one a step, and the agent answers each with its value; all keys if there are
    fewer. After the associative retrieval of Ba et al. 2016, "Using Fast Weights to Attend to the Recent
    Past", as used by Bulatov, Kuratov and Burtsev 2022, "Recurrent Memory Transformer".

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
    `pairs`: a number from 1 to `keys`, or a range (low, high).

Id
    `RMT/AssociativeRetrieval-v0`. Chance (1 / values) ** min(queries, pairs), averaged over the levels; a
    single answer is guessed with 1 / values. Best return `reward_correct`.

Presets
    `rmt-4`: the paper's 4 pairs, letters with digits. It cuts the sequence into 2 to 5 segments; 5 segments
    are a pair each, and the question. `armt-10` to `armt-200` after Rodkin et al. 2024, "Associative
    Recurrent Memory Transformer", where every pair is a segment of its own: 16 values, and keys that occur
    once; there they are spelt in digits, here each is a component.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from envs.recall.contract import Floats
from envs.recall.families.pairs import KEY_STREAM, PairsTask
from envs.recall.hashing import Ints, uniforms
from envs.recall.parameters import Level, check_levels_fit


class AssociativeRetrieval(PairsTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        keys: number of keys there are, at least 2. Fixed: the spaces depend on it.
        values: number of values, at least 2. Fixed.
        pairs: pairs shown, from 1 to `keys`, or a (low, high) range.
        queries: keys asked for, at least 1; of fewer pairs, all.
        delay: distractors between pairs and questions, at least 0.
        distractors: number of distractor symbols, at least 1. Fixed.
        reward_correct: return of right answers only; must be above `reward_wrong`.
        reward_wrong: return of wrong answers only.

    Raises:
        ValueError: an argument outside its range.
    """

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "rmt-4": {"keys": 26, "values": 10, "pairs": 4, "delay": 0},
        **{
            f"armt-{pairs}": {"keys": 256, "values": 16, "pairs": pairs, "delay": 0}
            for pairs in (10, 50, 100, 200)
        },
    }

    def __init__(
        self,
        n_envs: int = 1,
        *,
        keys: int = 8,
        values: int = 4,
        pairs: Level = 4,
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
        self._shown: Ints = self._allocate("shown", np.int64, (self.keys,))  # keys as they are shown

    @staticmethod
    def check_parameters(values: Mapping[str, NDArray[Any]]) -> None:
        """There must be a key for each pair."""
        PairsTask.check_parameters(values)
        check_levels_fit("pairs", values["pairs"], 1, values["keys"], "from {} to keys={}")

    def _start(self, rows: Ints) -> None:
        shown = uniforms(self._keys[rows][:, None], KEY_STREAM, np.arange(self.keys))
        self._shown[rows] = shown.argsort(axis=1)
        super()._start(rows)

    def _keys_at(self, rows: Ints | slice, steps: Ints) -> Ints:
        return self._look_up(self._shown, rows, steps)

    def _guess(self, sizes: Ints, counted: Ints, constant: bool) -> Floats:
        rates: Floats = self.answer_chance ** np.minimum(sizes, counted)
        return rates
