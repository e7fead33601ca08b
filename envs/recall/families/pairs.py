"""What AssociativeRetrieval and Rewrite share: keys are shown with values, then asked for."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.recall.contract import FIRST_STREAM, Observations
from envs.recall.families.asking import DISTRACTORS, REWARDS, AskingTask, State
from envs.recall.hashing import Ints, integers, uniforms
from envs.recall.parameters import LARGEST, Parameter
from envs.recall.rendering import QUESTION, Sight, distractor_chip, key_chip, value_chip
from envs.recall.scripted import ScriptedPolicy

VALUE_STREAM = FIRST_STREAM  # of distractors too, which come at other steps
KEY_STREAM = FIRST_STREAM + 1
_ORDER_STREAM = FIRST_STREAM + 2


class PairsPolicy(ScriptedPolicy["PairsTask"]):
    """Keeps the last value of every key and answers with it; without memory, with value 0."""

    def __init__(self, task: PairsTask, remember: bool = True) -> None:
        super().__init__(task, remember)
        self.memory_size = task.keys

    def write(self, memory: Ints, observations: NDArray[np.float32]) -> None:
        """Write the value seen in the place of the key seen with it."""
        keys, values = self._split(observations)
        rows = np.flatnonzero(values.any(axis=1))
        memory[rows, keys[rows].argmax(axis=1)] = values[rows].argmax(axis=1)

    def act(self, memory: Ints, observations: NDArray[np.float32]) -> Ints:
        """What is remembered of the key seen; 0 where there is neither."""
        key = self._split(observations)[0].argmax(axis=1)
        actions: Ints = np.maximum(memory[np.arange(len(memory)), key], 0)
        return actions

    def _split(self, observations: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        keys, values = self.task.keys, self.task.values
        return observations[:, :keys], observations[:, keys : keys + values]


class PairsTask(AskingTask):
    """`pairs` keys with values, `delay` distractors, then questions: keys, of which the last values count.

    Subclasses say which key comes when. An observation is two one-hot parts, each of which may be empty: the
    key; and a value, a distractor or the question mark.
    """

    PARAMETERS = (
        Parameter("keys", int, low=2, high=5_000, fixed=True),
        Parameter("values", int, low=2, high=5_000, fixed=True),
        Parameter("queries", int, low=1, high=5_000),
        Parameter("delay", int, low=0, high=LARGEST),
        DISTRACTORS,
        *REWARDS,
    )
    # All of an episode's pairs are drawn when it starts.
    LEVEL = Parameter("pairs", int, low=1, high=10_000)
    COUNTED = "queries"
    policy_class = PairsPolicy

    def __init__(self, n_envs: int, values: Mapping[str, Any]) -> None:
        super().__init__(n_envs, values)
        self.keys, self.values, self.distractors = (
            int(self.settings.values[name][0]) for name in ("keys", "values", "distractors")
        )
        self.n_actions = self.values
        self._asks = self.values + self.distractors
        self.observation_dim = self.keys + self._asks + 1
        # The row after the last is the empty part.
        self._key_table = np.eye(self.keys + 1, self.keys, dtype=np.float32)
        self._rest_table = np.eye(self._asks + 2, self._asks + 1, dtype=np.float32)
        self._value_of: Ints = self._allocate("value_of", np.int64, (self.keys,))
        self._order: Ints = self._allocate("order", np.int64, (self.keys,))  # keys as they are asked for

    @abstractmethod
    def _keys_at(self, rows: Ints | slice, steps: Ints) -> Ints:
        """The keys (R, k) written at the steps (R, k) below the rows' number of pairs; else any."""

    def _look_up(self, array: Ints, rows: Ints | slice, columns: Ints) -> Ints:
        """The entries (R, k) of an array (N, keys), in its last column where `columns` (R, k) is above it."""
        found: Ints = array[np.arange(self.n_envs)[rows][:, None], np.minimum(columns, self.keys - 1)]
        return found

    def _start(self, rows: Ints) -> None:
        size, keys = self._size[rows][:, None], self._keys[rows][:, None]
        most = size.max(initial=0)
        steps = np.broadcast_to(np.arange(most), (len(rows), most))
        written = np.full((len(rows), self.keys), -1)  # the last step at which a key is written
        writes = np.where(steps < size, steps, -1)
        np.maximum.at(written, (np.arange(len(rows))[:, None], self._keys_at(rows, steps)), writes)
        self._value_of[rows] = integers(keys, VALUE_STREAM, written, self.values)
        order = uniforms(keys, _ORDER_STREAM, np.arange(self.keys))
        self._order[rows] = np.where(written < 0, 1.0, order).argsort(axis=1)
        count = np.minimum(self.now["queries"][rows], (written >= 0).sum(axis=1))
        self._ask(rows, self._size[rows] + self.now["delay"][rows], count)

    def _answer(self, state: State, number: Ints) -> Ints:
        rows = np.arange(len(number))
        answers: Ints = state["value_of"][rows, state["order"][rows, np.minimum(number, self.keys - 1)]]
        return answers

    def _symbols(self, rows: Ints | slice, steps: Ints) -> tuple[Ints, Ints]:
        """The two parts of what is seen (R, k), as rows of their tables."""
        size, first, count = (array[rows][:, None] for array in (self._size, self._first, self._count))
        shown, asked, over = steps < size, steps >= first, steps >= first + count
        key = self._look_up(self._order, rows, np.maximum(steps - first, 0))
        key[~asked | over] = self.keys
        key = np.where(shown, self._keys_at(rows, steps), key)
        below = np.where(shown, self.values, self.distractors)
        rest = integers(self._keys[rows][:, None], VALUE_STREAM, steps, below)
        rest += np.where(shown, 0, self.values)
        return key, np.where(asked, self._asks + over, rest)

    def _observe(self, rows: Ints | slice, steps: Ints) -> Observations:
        key, rest = self._symbols(rows, steps)
        parts = self._key_table.take(key, axis=0), self._rest_table.take(rest, axis=0)
        return np.concatenate(parts, axis=-1)

    def _see(self, row: int) -> Sight:
        step = int(self._t[row])
        parts = self._symbols(np.array([row]), np.array([[step]]))
        key, rest = (int(part[0, 0]) for part in parts)
        if rest < self.values:
            chips = [key_chip(f"K{key}"), value_chip(rest, self.values)]
            return Sight(f"key {key} with value {rest}", chips, f"PAIR {step + 1}/{self._size[row]}")
        if rest < self._asks:
            rest -= self.values
            return Sight(f"distractor {rest}", [distractor_chip(rest)], "DISTRACTOR")
        number = f"{step - self._first[row] + 1}/{self._count[row]}"
        return Sight(f"question {number}: key {key}?", [key_chip(f"K{key}"), QUESTION], f"ANSWER {number}")
