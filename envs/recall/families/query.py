"""What the tasks share that show a stream of symbols and then ask for the cue among them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from envs.recall.contract import FIRST_STREAM, Bools, Observations
from envs.recall.families.asking import AskingTask, State
from envs.recall.hashing import Ints, integers, normals
from envs.recall.parameters import LARGEST, Parameter
from envs.recall.rendering import QUESTION, Sight

CUE_STREAM = FIRST_STREAM
SYMBOL_STREAM = FIRST_STREAM + 1
NOISE_STREAM = FIRST_STREAM + 2  # and the one after it
LAST_STREAM = FIRST_STREAM + 4

CUES = Parameter("cues", int, low=2, high=5_000, fixed=True)
NOISE = Parameter("noise", float, low=0.0)


class QueryTask(AskingTask):
    """`delay` + 1 symbols, one of which is the cue, then a query: the answer to it ends the episode.

    What is seen is row `symbol` of a table: subclasses build the table and say which symbol comes when. Its
    last two rows are the query and the blank seen after the answer.
    """

    LEVEL = Parameter("delay", int, low=1, high=LARGEST)
    # Observations with noise are clipped to these. They hold without noise too: it may be turned up later.
    observation_low = -10.0
    observation_high = 10.0

    def __init__(self, n_envs: int, values: Mapping[str, Any]) -> None:
        super().__init__(n_envs, values)
        self.cues: int = int(self.settings.values["cues"][0])
        self.n_actions = self.cues
        self._table, self._noisy = self._make_tables()
        self._query = len(self._table) - 2
        self.observation_dim = self._table.shape[1]
        self._cue: Ints = self._allocate("cue", np.int64)

    @abstractmethod
    def _make_tables(self) -> tuple[Observations, Bools]:
        """The observation of each symbol (S, D), and which components of it get noise (S, D).

        Symbols S - 2 and S - 1 are the query and the blank; component D - 1 asks.
        """

    @abstractmethod
    def _stream(self, rows: Ints | slice, steps: Ints) -> Ints:
        """The symbols (R, k) that the rows see at the steps (R, k) up to their delay."""

    @abstractmethod
    def _see_symbol(self, symbol: int) -> Sight:
        """A symbol of the stream."""

    def _start(self, rows: Ints) -> None:
        self._ask(rows, first=self._size[rows] + 1)
        self._cue[rows] = integers(self._keys[rows], CUE_STREAM, np.zeros_like(rows), self.cues)

    def _answer(self, state: State, number: Ints) -> Ints:
        cue: Ints = state["cue"]
        return cue

    def _symbols(self, rows: Ints | slice, steps: Ints) -> Ints:
        beyond = steps - self._size[rows][:, None]  # 0 at the last symbol, 1 at the query, 2 after it
        symbols = self._stream(rows, steps)
        return np.where(beyond > 0, np.minimum(beyond, 2) + (self._query - 1), symbols)

    def _observe(self, rows: Ints | slice, steps: Ints) -> Observations:
        symbols = self._symbols(rows, steps)
        observations = self._table.take(symbols, axis=0)
        noise = self.now["noise"][rows]
        if noise.any():
            blur = normals(self._keys[rows][:, None], NOISE_STREAM, steps, self.observation_dim)
            blur *= noise[:, None, None].astype(np.float32)
            blur *= self._noisy[symbols]
            observations += blur
            np.clip(observations, self.observation_low, self.observation_high, out=observations)
        return observations

    def _see(self, row: int) -> Sight:
        symbol = int(self._symbols(np.array([row]), self._t[row].reshape(1, 1))[0, 0])
        if symbol == self._query:
            return Sight(f"the query: which of {self.cues}?", [QUESTION], "WHICH CUE")
        return self._see_symbol(symbol)
