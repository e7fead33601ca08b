"""Repeat previous: at every step, the symbol of `lag` steps ago.

Description
    Every step shows a symbol, drawn uniformly from `symbols`. From step `lag` on (counted from 0) every step
    also asks, and the answer is the symbol that was shown `lag` steps before. An episode has
    `lag` + `answers` steps. After RepeatPrevious of Morad et al. 2023, "POPGym: Benchmarking Partially
    Observable Reinforcement Learning". Differences: symbols are drawn independently, not from a deck that
    runs out; a flag says from when on an answer counts, so that the lag can be told from what is seen; a
    wrong answer costs nothing by default.

Observation
    Box(0, 1, (symbols + 1,), float32):

    | components | meaning |
    |---|---|
    | [0, symbols) | one-hot: the present symbol |
    | last | 1 where an answer is asked for |

    After the last answer all components are 0.

Action
    Discrete(symbols). Has an effect from step `lag` on, where it is the answer.

Reward
    Each answer earns `reward_correct` or `reward_wrong`, divided by `answers`; before step `lag` 0. So the
    return of right answers alone is `reward_correct`, and at the defaults it is the share of right answers.

End
    Terminated by the last answer. Never truncated. `info["is_success"]`: all answers were right.

Level
    `lag`: a number from 1 to 100,000, or a range (low, high).

Id
    `RMT/RepeatPrevious-v0`. Chance (1 / symbols) ** answers; a single answer is guessed with 1 / symbols.
    Best return `reward_correct`.

Presets
    `popgym-easy`, `popgym-medium`, `popgym-hard`: the lags, numbers of answers and rewards of POPGym's three,
    with its four suits as symbols. Best return 1, of guessing -1/2.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from envs.recall.contract import Observations
from envs.recall.families.asking import REWARDS, AskingTask, State
from envs.recall.families.sequence import LONGEST, SYMBOL_STREAM, SYMBOLS, NotingPolicy
from envs.recall.hashing import Ints, integers
from envs.recall.parameters import Level, Parameter
from envs.recall.rendering import QUESTION, Sight, value_chip


class RepeatPreviousPolicy(NotingPolicy["RepeatPrevious"]):
    """Notes all symbols and reads them out once asked; without memory, answers with the present symbol."""

    def place(self, answered: Ints, shown: Ints) -> Ints:
        return answered

    def read(self, observations: NDArray[np.float32]) -> tuple[Ints, NDArray[np.bool_]]:
        symbols = observations[:, :-1]
        return np.where(symbols.any(axis=1), symbols.argmax(axis=1), -1), observations[:, -1] == 1.0


class RepeatPrevious(AskingTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        symbols: number of symbols, at least 2. Fixed: the spaces depend on it.
        lag: how many steps ago the symbol was shown, from 1 to 100,000, or a (low, high) range.
        answers: number of answers, at least 1.
        reward_correct: return of right answers only; must be above `reward_wrong`.
        reward_wrong: return of wrong answers only.

    Raises:
        ValueError: an argument outside its range.
    """

    PARAMETERS = (SYMBOLS, Parameter("answers", int, low=1, high=LONGEST), *REWARDS)
    LEVEL = Parameter("lag", int, low=1, high=LONGEST)
    COUNTED = "answers"
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        f"popgym-{name}": {"symbols": 4, "lag": lag, "answers": answers, "reward_wrong": -1.0}
        for name, lag, answers in (("easy", 3, 48), ("medium", 31, 72), ("hard", 63, 92))
    }
    policy_class = RepeatPreviousPolicy

    def __init__(
        self,
        n_envs: int = 1,
        *,
        symbols: int = 4,
        lag: Level = 4,
        answers: int = 16,
        reward_correct: float = 1.0,
        reward_wrong: float = 0.0,
    ) -> None:
        super().__init__(
            n_envs,
            {
                "symbols": symbols,
                "lag": lag,
                "answers": answers,
                "reward_correct": reward_correct,
                "reward_wrong": reward_wrong,
            },
        )
        self.symbols: int = int(self.settings.values["symbols"][0])
        self.n_actions = self.symbols
        self.observation_dim = self.symbols + 1
        # Symbols, the same when asked, and the blank seen after the last answer.
        self._table = np.zeros((2 * self.symbols + 1, self.observation_dim), dtype=np.float32)
        self._table[:-1, :-1] = np.tile(np.eye(self.symbols), (2, 1))
        self._table[self.symbols : -1, -1] = 1.0

    def _start(self, rows: Ints) -> None:
        self._ask(rows, self._size[rows], self.now["answers"][rows])

    def _answer(self, state: State, number: Ints) -> Ints:
        return integers(state["key"], SYMBOL_STREAM, number, self.symbols)

    def _observe(self, rows: Ints | slice, steps: Ints) -> Observations:
        first = self._first[rows][:, None]
        symbols = integers(self._keys[rows][:, None], SYMBOL_STREAM, steps, self.symbols)
        symbols += self.symbols * (steps >= first)
        symbols[steps >= first + self._count[rows][:, None]] = 2 * self.symbols
        return self._table.take(symbols, axis=0)

    def _see(self, row: int) -> Sight:
        observation = self.observe(np.array([row]))[0]
        symbol, lag = int(observation[:-1].argmax()), int(self._size[row])
        chip = value_chip(symbol, self.symbols)
        if observation[-1] == 0.0:
            return Sight(f"symbol {symbol}", [chip], f"SYMBOL {self._t[row] + 1}/{lag}")
        number = f"{self._t[row] - lag + 1}/{self._count[row]}"
        words = f"symbol {symbol} and question {number}: {lag} ago?"
        return Sight(words, [chip, QUESTION], f"{lag} AGO {number}")
