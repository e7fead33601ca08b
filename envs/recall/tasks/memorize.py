"""Memorize: keep one symbol over a delay.

Description
    The first observation shows one of `cues` symbols, each equally likely. `delay` distractors follow, then a
    query, at which the agent answers which cue it was. An episode has `delay` + 2 steps.

Observation
    Box(-10, 10, (cues + distractors + 1,), float32), one-hot:

    | components | meaning |
    |---|---|
    | [0, cues) | the cue, at the first step |
    | [cues, cues + distractors) | a distractor, uniformly drawn at each of the `delay` steps after it |
    | last | 1 at the query, which looks the same for every cue |

    At distractor steps Gaussian noise of standard deviation `noise` is added to all components but the last,
    and the sum clipped to the bounds of the box. After the answer all components are 0.

Action
    Discrete(cues). Has an effect at the query only, where it is the answer.

Reward
    At the query `reward_correct` or `reward_wrong`, at all other steps 0.

End
    Terminated by the answer. Never truncated. `info["is_success"]`: the answer was right.

Level
    `delay`: a number of at least 1, or a range (low, high).

Id
    `RMT/Memorize-v0`. Chance 1 / cues; best return `reward_correct`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envs.recall.contract import Bools, Observations
from envs.recall.families.asking import DISTRACTORS, REWARDS
from envs.recall.families.query import CUES, NOISE, SYMBOL_STREAM, QueryTask
from envs.recall.hashing import Ints, integers
from envs.recall.parameters import Level
from envs.recall.rendering import Sight, distractor_chip, value_chip
from envs.recall.scripted import ScriptedPolicy


class MemorizePolicy(ScriptedPolicy["Memorize"]):
    """Keeps the first symbol and answers with it; without memory, with cue 0."""

    def write(self, memory: Ints, observations: NDArray[np.float32]) -> None:
        """Fill an empty memory with the cue seen, and leave a full one: noise can look like a cue later."""
        cues = observations[:, : self.task.cues]
        seen = (memory[:, 0] < 0) & (observations.sum(axis=1) == 1.0) & (cues.max(axis=1) == 1.0)
        memory[seen, 0] = cues[seen].argmax(axis=1)

    def act(self, memory: Ints, observations: NDArray[np.float32]) -> Ints:
        """The remembered cue, at every step."""
        return np.maximum(memory[:, 0], 0)


class Memorize(QueryTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        cues: number of cues, at least 2. Fixed: the spaces depend on it.
        delay: steps between cue and query, at least 1, or a (low, high) range.
        distractors: number of distractor symbols, at least 1. Fixed.
        noise: standard deviation of the noise on distractors, at least 0.
        reward_correct: must be above `reward_wrong`.
        reward_wrong: reward of a wrong answer.

    Raises:
        ValueError: an argument outside its range.
    """

    PARAMETERS = (CUES, DISTRACTORS, NOISE, *REWARDS)
    policy_class = MemorizePolicy

    def __init__(
        self,
        n_envs: int = 1,
        *,
        cues: int = 4,
        delay: Level = 30,
        distractors: int = 8,
        noise: float = 0.0,
        reward_correct: float = 1.0,
        reward_wrong: float = 0.0,
    ) -> None:
        super().__init__(
            n_envs,
            {
                "cues": cues,
                "delay": delay,
                "distractors": distractors,
                "noise": noise,
                "reward_correct": reward_correct,
                "reward_wrong": reward_wrong,
            },
        )

    def _make_tables(self) -> tuple[Observations, Bools]:
        self.distractors = int(self.settings.values["distractors"][0])
        stream = self.cues + self.distractors
        table = np.eye(stream + 2, stream + 1, dtype=np.float32)
        noisy = np.zeros_like(table, dtype=np.bool_)
        noisy[self.cues : stream, :stream] = True
        return table, noisy

    def _stream(self, rows: Ints | slice, steps: Ints) -> Ints:
        symbols = integers(self._keys[rows][:, None], SYMBOL_STREAM, steps, self.distractors)
        symbols += self.cues
        return np.where(steps == 0, self._cue[rows][:, None], symbols)

    def _see_symbol(self, symbol: int) -> Sight:
        if symbol < self.cues:
            return Sight(f"cue {symbol}", [value_chip(symbol, self.cues)], "REMEMBER")
        symbol -= self.cues
        return Sight(f"distractor {symbol}", [distractor_chip(symbol)], "DISTRACTOR")
