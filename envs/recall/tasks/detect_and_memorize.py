"""Detect and memorize: keep the one symbol that was marked, among others that look alike.

Description
    `delay` + 1 symbols pass by, one a step, all drawn alike from `cues` symbols. One of them carries a flag:
    it is the cue, and the agent must tell by the flag alone. Then comes a query, at which the agent answers
    which symbol was flagged. An episode has `delay` + 2 steps. After the Detect & Memorize task of the
    Recurrent Memory Transformer's scaling report (Bulatov et al. 2023, "Scaling Transformer to 1M tokens and
    beyond with RMT").

Observation
    Box(-10, 10, (cues + 2,), float32):

    | components | meaning |
    |---|---|
    | [0, cues) | one-hot: the symbol |
    | cues | 1 where the symbol is the flagged one |
    | last | 1 at the query, which looks the same for every cue |

    At the steps without flag Gaussian noise of standard deviation `noise` is added to the symbol, and the sum
    clipped to the bounds of the box; flag and query stay as they are. After the answer all components are 0.

Action
    Discrete(cues). Has an effect at the query only, where it is the answer.

Reward
    At the query `reward_correct` or `reward_wrong`, at all other steps 0.

End
    Terminated by the answer. Never truncated. `info["is_success"]`: the answer was right.

Level
    `delay`, the number of distractors: at least 1, or a range (low, high).

Id
    `RMT/DetectAndMemorize-v0`. Chance 1 / cues; best return `reward_correct`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.recall.contract import Bools, Observations
from envs.recall.families.asking import REWARDS, AskingTask
from envs.recall.families.query import CUES, LAST_STREAM, NOISE, SYMBOL_STREAM, QueryTask
from envs.recall.hashing import Ints, integers, uniforms
from envs.recall.parameters import Level, Parameter
from envs.recall.rendering import Sight, value_chip
from envs.recall.scripted import ScriptedPolicy

_POSITION_STREAM = LAST_STREAM


class DetectPolicy(ScriptedPolicy["DetectAndMemorize"]):
    """Keeps the flagged symbol and answers with it; without memory, with symbol 0."""

    def write(self, memory: Ints, observations: NDArray[np.float32]) -> None:
        """Remember the symbol where the flag is set."""
        flagged = observations[:, -2] == 1.0
        memory[flagged, 0] = observations[flagged, : self.task.cues].argmax(axis=1)

    def act(self, memory: Ints, observations: NDArray[np.float32]) -> Ints:
        """The remembered symbol, at every step."""
        return np.maximum(memory[:, 0], 0)


class DetectAndMemorize(QueryTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        cues: number of symbols, at least 2. Fixed: the spaces depend on it.
        delay: number of distractors, at least 1, or a (low, high) range.
        earliest: where the flagged symbol may come: its place is uniform between these fractions, 0 to 1, of
            the stream. (0, 1) is anywhere, (0, 0) always first, (1, 1) always last.
        latest: see `earliest`, which it must not be below.
        noise: standard deviation of the noise on symbols without flag, at least 0.
        reward_correct: must be above `reward_wrong`.
        reward_wrong: reward of a wrong answer.

    Raises:
        ValueError: an argument outside its range.
    """

    PARAMETERS = (
        CUES,
        Parameter("earliest", float, low=0.0, high=1.0),
        Parameter("latest", float, low=0.0, high=1.0),
        NOISE,
        *REWARDS,
    )
    policy_class = DetectPolicy

    def __init__(
        self,
        n_envs: int = 1,
        *,
        cues: int = 4,
        delay: Level = 30,
        earliest: float = 0.0,
        latest: float = 1.0,
        noise: float = 0.0,
        reward_correct: float = 1.0,
        reward_wrong: float = 0.0,
    ) -> None:
        super().__init__(
            n_envs,
            {
                "cues": cues,
                "delay": delay,
                "earliest": earliest,
                "latest": latest,
                "noise": noise,
                "reward_correct": reward_correct,
                "reward_wrong": reward_wrong,
            },
        )
        self._position: Ints = self._allocate("position", np.int64)

    @staticmethod
    def check_parameters(values: Mapping[str, NDArray[Any]]) -> None:
        """The range of places must not be upside down."""
        AskingTask.check_parameters(values)
        earliest, latest = values["earliest"], values["latest"]
        if (earliest > latest).any():
            row = int((earliest > latest).argmax())
            raise ValueError(f"earliest={earliest[row]:g}: must not be above latest={latest[row]:g}")

    def _make_tables(self) -> tuple[Observations, Bools]:
        table = np.zeros((2 * self.cues + 2, self.cues + 2), dtype=np.float32)
        symbols = np.eye(self.cues, dtype=np.float32)
        table[: self.cues, : self.cues] = symbols
        table[self.cues : -2, : self.cues] = symbols
        table[self.cues : -2, -2] = 1.0
        table[-2, -1] = 1.0
        noisy = np.zeros_like(table, dtype=np.bool_)
        noisy[: self.cues, : self.cues] = True
        return table, noisy

    def _start(self, rows: Ints) -> None:
        super()._start(rows)
        share = uniforms(self._keys[rows], _POSITION_STREAM, np.zeros_like(rows))
        low, high = (np.rint(self.now[end][rows] * self._size[rows]) for end in ("earliest", "latest"))
        self._position[rows] = low + np.floor(share * (high - low + 1.0))

    def _stream(self, rows: Ints | slice, steps: Ints) -> Ints:
        symbols = integers(self._keys[rows][:, None], SYMBOL_STREAM, steps, self.cues)
        flagged = self._cue[rows][:, None] + self.cues
        return np.where(steps == self._position[rows][:, None], flagged, symbols)

    def _see_symbol(self, symbol: int) -> Sight:
        if symbol < self.cues:
            return Sight(f"symbol {symbol}", [value_chip(symbol, self.cues)], "SYMBOL")
        symbol -= self.cues
        return Sight(f"symbol {symbol}, flagged", [value_chip(symbol, self.cues)], "FLAG", flagged=True)
