"""What the tasks share that show a stream of symbols and then ask for the cue among them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from envs.recall.base import BatchedTask
from envs.recall.contract import FIRST_STREAM, Bools, Floats, Observations, Outcome
from envs.recall.hashing import Ints, integers, normals
from envs.recall.parameters import LARGEST, Parameter
from envs.recall.rendering import draw_query_task

CUE_STREAM = FIRST_STREAM
SYMBOL_STREAM = FIRST_STREAM + 1
NOISE_STREAM = FIRST_STREAM + 2  # and the one after it
LAST_STREAM = FIRST_STREAM + 4

REWARDS = (Parameter("reward_correct", float), Parameter("reward_wrong", float))
CUES = Parameter("cues", int, low=2, high=5_000, fixed=True)
NOISE = Parameter("noise", float, low=0.0)


class QueryTask(BatchedTask):
    """`delay` + 1 symbols, one of which is the cue, then a query: the answer to it ends the episode.

    What is seen is row `symbol` of a table: subclasses build the table and say which symbol comes when. Its
    last two rows are the query and the blank seen after the answer.
    """

    LEVEL = Parameter("delay", int, low=1, high=LARGEST)
    # Observations with noise are clipped to these. They hold without noise too: it may be turned up later.
    observation_low = -10.0
    observation_high = 10.0
    has_flag: ClassVar[bool] = False

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
    def symbol_name(self, symbol: int) -> str:
        """A symbol of the stream in words."""

    @staticmethod
    def check_parameters(values: Mapping[str, NDArray[Any]]) -> None:
        """A right answer must earn more than a wrong one."""
        correct, wrong = values["reward_correct"], values["reward_wrong"]
        if (correct <= wrong).any():
            row = int((correct <= wrong).argmax())
            raise ValueError(f"reward_correct={correct[row]:g}: must be above reward_wrong={wrong[row]:g}")

    def _start(self, rows: Ints) -> None:
        self._cue[rows] = integers(self._keys[rows], CUE_STREAM, np.zeros_like(rows), self.cues)

    def _step(self, actions: Ints) -> tuple[Outcome, Bools]:
        asked = self._t > self._size
        correct = actions == self._cue
        rewards = np.where(correct, self.now["reward_correct"], self.now["reward_wrong"])
        rewards[~asked] = 0.0
        return Outcome(rewards, asked, np.zeros(self.n_envs, dtype=np.bool_)), correct

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

    def non_reactive_steps(self) -> Ints:
        """All symbols to come, the present one included: (N,)."""
        steps: Ints = np.maximum(self._size + 1 - self._t, 0)
        return steps

    def optimal_action(self, state: Mapping[str, NDArray[Any]] | None = None) -> Ints:
        """The cue, at every step: (N,)."""
        cue: Ints = self._cue if state is None else state["cue"]
        return cue.copy()

    @property
    def best_return(self) -> Floats:
        """(N,) `reward_correct`."""
        return self.now["reward_correct"].copy()

    @property
    def chance(self) -> float:
        """One in `cues`: nothing seen at the query tells the cue."""
        return 1.0 / self.cues

    @property
    def random_success(self) -> Floats:
        """(N,) the same: a random answer is right as often as a constant one."""
        return np.full(self.n_envs, self.chance)

    def _seen(self, row: int) -> int:
        return int(self._symbols(np.array([row]), self._t[row].reshape(1, 1))[0, 0])

    def _name(self, symbol: int) -> str:
        if symbol == self._query:
            return f"the query: which of {self.cues}?"
        return self.symbol_name(symbol) if symbol < self._query else "nothing"

    def render_text(self, row: int = 0) -> str:
        """The step, what is seen, and after the end the answer."""
        length = int(self._size[row]) + 2
        text = f"step {min(int(self._t[row]) + 1, length)} of {length}: sees {self._name(self._seen(row))}"
        if self.ended[row] and self._last_action[row] >= 0:
            text += f"; answered {self._last_action[row]}, {'right' if self.success[row] else 'wrong'}"
        return text

    def render_rgb(self, row: int = 0) -> NDArray[np.uint8]:
        """(192, 192, 3): the symbol large, the share of the episode gone by, and after the end the answer."""
        answered = self.ended[row] and self._last_action[row] >= 0
        return draw_query_task(
            symbol=self._table[self._seen(row)],
            cues=self.cues,
            progress=float(self._t[row] / (self._size[row] + 2)),
            answer=int(self._last_action[row]) if answered else None,
            correct=bool(self.success[row]),
            has_flag=self.has_flag,
        )
