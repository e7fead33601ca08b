"""Count recall: how often has this symbol come so far?

Description
    `length` symbols come, one a step, each drawn alike from `symbols` of them. At every `every`-th step, and
    at the last, a question names one, each equally likely, and the agent answers how often that symbol has
    come in this episode, the present step included; `max_count` stands for itself and all above. An episode
    has `length` steps. With `every=1` there is a question at every step, as in CountRecall of POPGym (Morad
    et al. 2023, "POPGym: Benchmarking Partially Observable Reinforcement Learning").

Observation
    Box(0, 1, (2 symbols,), float32):

    | components | meaning |
    |---|---|
    | [0, symbols) | one-hot: the symbol that comes |
    | the next `symbols` | one-hot where there is a question: the symbol that is asked for |

    After the last answer all components are 0.

Action
    Discrete(max_count + 1). Has an effect where there is a question, where it is the answer.

Reward
    For each answer `reward_correct` or `reward_wrong`, divided by the number of questions; otherwise 0.

End
    Terminated by the last answer. Never truncated. `info["is_success"]`: the last answer was right, which
    takes a count of the whole episode.

Level
    `length`: a number from 1 to 10,000, or a range (low, high).

Id
    `RMT/CountRecall-v0`. Best return `reward_correct`. Chance: how often a symbol has come before the last
    step is binomial, with length - 1 trials of 1 / symbols. An agent without memory sees no more than whether
    the symbol asked for is the present one, which then adds 1, and does best to answer the likeliest sum.
    That is right in .185 of the episodes at the defaults.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envs.recall.contract import FIRST_STREAM, Bools, Floats, Observations, Outcome
from envs.recall.families.asking import REWARDS, AskingTask, State
from envs.recall.hashing import Ints, UInts, integers
from envs.recall.parameters import LARGEST, Level, Parameter
from envs.recall.rendering import QUESTION, Sight, value_chip
from envs.recall.scripted import ScriptedPolicy

_SYMBOL_STREAM = FIRST_STREAM
_ASKED_STREAM = FIRST_STREAM + 1


class CountRecallPolicy(ScriptedPolicy["CountRecall"]):
    """Counts each symbol; without memory, answers the likeliest count at the end, at the task's levels."""

    def __init__(self, task: CountRecall, remember: bool = True) -> None:
        super().__init__(task, remember)
        self.memory_size = task.symbols

    def write(self, memory: Ints, observations: NDArray[np.float32]) -> None:
        """Count the symbol seen."""
        symbols = observations[:, : self.task.symbols]
        np.maximum(memory, 0, out=memory)
        memory += symbols.astype(np.int64)

    def act(self, memory: Ints, observations: NDArray[np.float32]) -> Ints:
        """The count of the symbol asked for; anything at other steps."""
        asked = observations[:, self.task.symbols :].argmax(axis=1)
        counts = np.take_along_axis(memory, asked[:, None], axis=1)[:, 0]
        if not self.remember:  # counts are then 1 for the present symbol and 0 for all others
            counts = self.task.best_guesses[counts]
        return np.minimum(counts, self.task.max_count)


class CountRecall(AskingTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        symbols: number of symbols, at least 2. Fixed: the spaces depend on it.
        length: number of steps, 1 to 10,000, or a (low, high) range.
        every: steps from question to question, at least 1.
        max_count: the highest answer, which stands for all above too; at least 1. Fixed.
        reward_correct: must be above `reward_wrong`.
        reward_wrong: reward if all answers are wrong.

    Raises:
        ValueError: an argument outside its range.
    """

    PARAMETERS = (
        Parameter("symbols", int, low=2, high=5_000, fixed=True),
        Parameter("every", int, low=1, high=LARGEST),
        Parameter("max_count", int, low=1, high=1_000, fixed=True),
        *REWARDS,
    )
    LEVEL = Parameter("length", int, low=1, high=10_000)
    policy_class = CountRecallPolicy

    def __init__(
        self,
        n_envs: int = 1,
        *,
        symbols: int = 4,
        length: Level = 24,
        every: int = 4,
        max_count: int = 15,
        reward_correct: float = 1.0,
        reward_wrong: float = 0.0,
    ) -> None:
        super().__init__(
            n_envs,
            {
                "symbols": symbols,
                "length": length,
                "every": every,
                "max_count": max_count,
                "reward_correct": reward_correct,
                "reward_wrong": reward_wrong,
            },
        )
        self.symbols = int(self.settings.values["symbols"][0])
        self.max_count = int(self.settings.values["max_count"][0])
        self.n_actions = self.max_count + 1
        self.observation_dim = 2 * self.symbols
        self._table = np.eye(self.observation_dim + 1, self.observation_dim, dtype=np.float32)
        # How often each symbol has come, the present step included.
        self._counts: Ints = self._allocate("counts", np.int64, (self.symbols,))

    def _drawn(self, keys: UInts, steps: Ints) -> tuple[Ints, Ints]:
        """The symbol that comes at each step, and the one to ask for if there is a question."""
        symbols, asked = (integers(keys, s, steps, self.symbols) for s in (_SYMBOL_STREAM, _ASKED_STREAM))
        return symbols, asked

    def _start(self, rows: Ints) -> None:
        self._counts[rows] = 0
        symbols, _ = self._drawn(self._keys[rows], np.zeros_like(rows))
        self._counts[rows, symbols] = 1
        length, every = self._size[rows], self.now["every"][rows]
        self._ask(rows, np.minimum(every, length) - 1, -(-length // every))

    def _step(self, actions: Ints) -> tuple[Outcome, Bools]:
        result = super()._step(actions)
        symbols, _ = self._drawn(self._keys, self._t + 1)
        self._counts[np.arange(self.n_envs), symbols] += self._t + 1 < self._size
        return result

    def advance(self, n: int) -> Observations:
        """As any task's; counts what passes by."""
        observations = super().advance(n)
        # The step that was present is counted already, and the one that now is has yet to be.
        symbols, _ = self._drawn(self._keys[:, None], self._t[:, None] - np.arange(n))
        for symbol in range(self.symbols):
            self._counts[:, symbol] += (symbols == symbol).sum(axis=1)
        return observations

    def _question_number(self, state: State) -> Ints:
        t, every = state["t"], state["every"]
        asked = (t % every == every - 1) | (t == state["size"] - 1)
        return np.where(asked, t // every, -1)

    def _length(self, row: int) -> int:
        return int(self._size[row])

    def _succeeded(self) -> Bools:
        return self._hit

    def _answer(self, state: State, number: Ints) -> Ints:
        _, asked = self._drawn(state["key"], state["t"])
        counts: Ints = np.take_along_axis(state["counts"], asked[:, None], axis=1)[:, 0]
        return np.minimum(counts, self.max_count)

    def _observe(self, rows: Ints | slice, steps: Ints) -> Observations:
        symbols, asked = self._drawn(self._keys[rows][:, None], steps)
        length, every = self._size[rows][:, None], self.now["every"][rows][:, None]
        asks = (steps % every == every - 1) | (steps == length - 1)
        blank = self.observation_dim
        observations: Observations = self._table.take(np.where(steps < length, symbols, blank), axis=0)
        asked = np.where(asks & (steps < length), asked + self.symbols, blank)
        observations += self._table.take(asked, axis=0)
        return observations

    def non_reactive_steps(self) -> Ints:
        """Steps before the next question, the present one included: (N,)."""
        every = self.now["every"]
        question = np.minimum((self._t // every + 1) * every, self._size) - 1
        steps: Ints = np.maximum(question - self._t, 0)
        return steps

    @property
    def _last_counts(self) -> Floats:
        (lengths,), shares = self.settings.distribution()
        return count_shares(lengths, shares, self.symbols, self.max_count)

    @property
    def best_guesses(self) -> Ints:
        """(2,) the likeliest last answers: if the symbol asked for is not the present one, and if it is."""
        guesses: Ints = self._last_counts.argmax(axis=1)
        return guesses

    @property
    def chance(self) -> float:
        """Success rate of the best guesses, over the levels of all rows."""
        other, same = self._last_counts.max(axis=1)
        return float(other + (same - other) / self.symbols)

    @property
    def answer_chance(self) -> float:
        """The same: success is the last answer."""
        return self.chance

    def _see(self, row: int) -> Sight:
        symbol, asked = (int(drawn[0]) for drawn in self._drawn(self._keys[[row]], self._t[[row]]))
        chip = value_chip(symbol, self.symbols)
        if self._question_number(self._arrays)[row] < 0:
            return Sight(f"symbol {symbol}", [chip], "COUNT")
        words = f"symbol {symbol} and the question: how many of {asked} so far?"
        return Sight(words, [chip, QUESTION], f"HOW MANY {asked}")


def count_shares(lengths: Ints, weights: Floats, symbols: int, most: int) -> Floats:
    """How likely each count of a symbol is at the end of an episode, those from `most` on taken together.

    Args:
        lengths: (K,) of episodes.
        weights: (K,) how often each comes.
        symbols: how many there are.
        most: the highest count.

    Returns:
        (2, most + 1): if the last step has another symbol, and if it has that one.
    """
    trials = lengths[:, None] - 1
    counts = np.arange(most)
    # Binomial probabilities by their logarithms, each from the one before: they underflow otherwise.
    with np.errstate(divide="ignore"):
        steps = np.log(np.maximum(trials - counts, 0)) - np.log((counts + 1) * (symbols - 1))
    logs = np.cumsum(np.concatenate([trials * np.log1p(-1 / symbols), steps], axis=1), axis=1)
    shares = weights @ np.exp(logs[:, : most + 1])
    # With the present one, all counts are one higher.
    result = np.stack([shares, np.roll(shares, 1)])
    result[1, 0] = 0.0
    result[:, most] = 1.0 - result[:, :most].sum(axis=1)
    return result
