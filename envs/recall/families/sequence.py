"""What Copy and Reverse share: a sequence is shown, then asked for symbol by symbol."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.recall.contract import FIRST_STREAM, Floats, Observations
from envs.recall.families.asking import DISTRACTORS, REWARDS, AskingTask, State
from envs.recall.hashing import Ints, integers
from envs.recall.parameters import LARGEST, Level, Parameter
from envs.recall.rendering import QUESTION, Sight, distractor_chip, value_chip
from envs.recall.scripted import ScriptedPolicy, TaskT

SYMBOL_STREAM = FIRST_STREAM  # of distractors too, which come at other steps

LONGEST = 100_000
"""The longest sequence: the chance of guessing is summed over all lengths of a range."""

SYMBOLS = Parameter("symbols", int, low=2, high=5_000, fixed=True)

_SHOWN, _ANSWERED, _ITEMS = range(3)


class NotingPolicy(ScriptedPolicy[TaskT]):
    """Notes every symbol it is shown and answers from its notes.

    Its memory is a count of symbols, a count of answers and the symbols. It grows with what is shown, so
    `memory_size` is only what it begins with.
    """

    memory_size = 32

    @abstractmethod
    def place(self, answered: Ints, shown: Ints) -> Ints:
        """Which note (N,) answers question `answered` (N,), from 0 on, of `shown` (N,) notes."""

    @abstractmethod
    def read(self, observations: NDArray[np.float32]) -> tuple[Ints, NDArray[np.bool_]]:
        """The symbol seen (N,), -1 for none, and whether an answer is asked for (N,)."""

    def predict(
        self,
        observation: Any,
        state: Ints | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Ints, Ints]:
        """As `ScriptedPolicy.predict`; the memory handed back has room for one more symbol."""
        if state is not None and state[:, _SHOWN].max() + _ITEMS >= state.shape[1]:
            state = np.pad(state, ((0, 0), (0, state.shape[1])), constant_values=-1)
        return super().predict(observation, state, episode_start, deterministic)

    def write(self, memory: Ints, observations: NDArray[np.float32]) -> None:
        """Note the symbol, and count the questions."""
        symbols, asked = self.read(observations)
        counts = memory[:, :_ITEMS]
        np.maximum(counts, 0, out=counts)  # -1 is an empty memory's
        rows = np.flatnonzero(symbols >= 0)
        memory[rows, _ITEMS + memory[rows, _SHOWN]] = symbols[rows]
        memory[rows, _SHOWN] += 1
        memory[:, _ANSWERED] += asked

    def act(self, memory: Ints, observations: NDArray[np.float32]) -> Ints:
        """The symbol noted at the place that is asked for."""
        shown = np.maximum(memory[:, _SHOWN], 1)
        place = self.place(np.maximum(memory[:, _ANSWERED] - 1, 0), shown)
        actions: Ints = np.maximum(np.take_along_axis(memory, _ITEMS + place[:, None], axis=1)[:, 0], 0)
        return actions


class SequencePolicy(NotingPolicy["SequenceTask"]):
    """Notes the sequence and recites it in the order asked for; without memory, answers with symbol 0."""

    def place(self, answered: Ints, shown: Ints) -> Ints:
        return self.task.place(answered, shown)

    def read(self, observations: NDArray[np.float32]) -> tuple[Ints, NDArray[np.bool_]]:
        symbols = observations[:, : self.task.symbols]
        asks = observations[:, self.task.symbols + self.task.distractors] == 1.0
        return np.where(symbols.any(axis=1), symbols.argmax(axis=1), -1), asks


class SequenceTask(AskingTask):
    """`length` symbols, `delay` distractors, then `repeats` * `length` questions.

    Args:
        n_envs: rows.
        symbols: number of symbols, at least 2. Fixed: the spaces depend on it.
        length: symbols shown, from 1 to 100,000, or a (low, high) range.
        repeats: how often the whole sequence must be given, at least 1.
        delay: distractors between sequence and questions, at least 0.
        distractors: number of distractor symbols, at least 1. Fixed.
        show_position: whether the observation tells where in the sequence the symbol is that is shown or
            asked for. Fixed.
        reward_correct: return of right answers only; must be above `reward_wrong`.
        reward_wrong: return of wrong answers only.

    Raises:
        ValueError: an argument outside its range.
    """

    PARAMETERS = (
        SYMBOLS,
        Parameter("repeats", int, low=1, high=LONGEST),
        Parameter("delay", int, low=0, high=LARGEST),
        DISTRACTORS,
        Parameter("show_position", bool, fixed=True),
        *REWARDS,
    )
    LEVEL = Parameter("length", int, low=1, high=LONGEST)
    COUNTED = "repeats"
    policy_class = SequencePolicy

    def __init__(
        self,
        n_envs: int = 1,
        *,
        symbols: int = 4,
        length: Level = 6,
        repeats: int = 1,
        delay: int = 4,
        distractors: int = 4,
        show_position: bool = False,
        reward_correct: float = 1.0,
        reward_wrong: float = 0.0,
    ) -> None:
        super().__init__(
            n_envs,
            {
                "symbols": symbols,
                "length": length,
                "repeats": repeats,
                "delay": delay,
                "distractors": distractors,
                "show_position": show_position,
                "reward_correct": reward_correct,
                "reward_wrong": reward_wrong,
            },
        )
        self.symbols: int = int(self.settings.values["symbols"][0])
        self.distractors: int = int(self.settings.values["distractors"][0])
        self.show_position = bool(self.settings.values["show_position"][0])
        self.n_actions = self.symbols
        self._asks = self.symbols + self.distractors
        self.observation_dim = self._asks + 1 + self.show_position
        # The row after the question's is the blank seen after the last answer.
        self._table = np.eye(self._asks + 2, self.observation_dim, dtype=np.float32)
        self._table[-1] = 0.0

    @staticmethod
    @abstractmethod
    def place(index: Ints, length: Ints) -> Ints:
        """The place in a sequence of `length` symbols of the one asked for by question `index`."""

    def _start(self, rows: Ints) -> None:
        size = self._size[rows]
        self._ask(rows, size + self.now["delay"][rows], size * self.now["repeats"][rows])

    def _answer(self, state: State, number: Ints) -> Ints:
        return integers(state["key"], SYMBOL_STREAM, self.place(number, state["size"]), self.symbols)

    def _guess(self, sizes: Ints, counted: Ints, constant: bool) -> Floats:
        # Guesses that do not change are right in every repetition if they are in the first.
        return np.power(self.answer_chance, sizes if constant else sizes * counted)

    def _symbols(self, rows: Ints | slice, steps: Ints) -> Ints:
        size, first, count = (array[rows][:, None] for array in (self._size, self._first, self._count))
        shown = steps < size
        below = np.where(shown, self.symbols, self.distractors)
        symbols = integers(self._keys[rows][:, None], SYMBOL_STREAM, steps, below)
        symbols += np.where(shown, 0, self.symbols)
        return np.where(steps < first, symbols, self._asks + (steps >= first + count))

    def _observe(self, rows: Ints | slice, steps: Ints) -> Observations:
        observations = self._table.take(self._symbols(rows, steps), axis=0)
        if self.show_position:
            size, first, count = (array[rows][:, None] for array in (self._size, self._first, self._count))
            index = steps - first
            place = np.where(index < 0, steps, self.place(index, size)) + 1
            shown = (steps < size) | ((index >= 0) & (index < count))
            observations[..., -1] = np.where(shown, place / size, 0.0)
        return observations

    def _see(self, row: int) -> Sight:
        step = int(self._t[row])
        symbol = int(self._symbols(np.array([row]), np.array([[step]]))[0, 0])
        if symbol < self.symbols:
            chip = value_chip(symbol, self.symbols)
            return Sight(f"symbol {symbol}", [chip], f"SYMBOL {step + 1}/{self._size[row]}")
        if symbol < self._asks:
            symbol -= self.symbols
            return Sight(f"distractor {symbol}", [distractor_chip(symbol)], "DISTRACTOR")
        number = f"{step - self._first[row] + 1}/{self._count[row]}"
        return Sight(f"question {number}", [QUESTION], f"ANSWER {number}")
