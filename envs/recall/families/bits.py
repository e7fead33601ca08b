"""What the tasks share that show bits at the first step and ask for one of them at the last."""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from envs.recall.contract import FIRST_STREAM, Observations
from envs.recall.families.asking import AskingTask, State
from envs.recall.hashing import Ints, integers
from envs.recall.rendering import QUESTION, Sight, distractor_chip, value_chip
from envs.recall.scripted import ScriptedPolicy

_BIT_STREAM = FIRST_STREAM
_ASKED_STREAM = FIRST_STREAM + 1

BitsTaskT = TypeVar("BitsTaskT", bound="BitsTask")


class BitsPolicy(ScriptedPolicy[BitsTaskT]):
    """Keeps the bits and answers with the one that is asked for; without memory, with 0."""

    def __init__(self, task: BitsTaskT, remember: bool = True) -> None:
        super().__init__(task, remember)
        self.memory_size = task.width

    def write(self, memory: Ints, observations: NDArray[np.float32]) -> None:
        """Remember each bit where they are shown: 0 or 1."""
        bits = observations[:, 1 : 1 + self.task.width]
        seen = bits != 0.0
        memory[seen] = bits[seen] > 0.0

    def act(self, memory: Ints, observations: NDArray[np.float32]) -> Ints:
        """The bit asked for; at other steps the first one."""
        asked = observations[:, 1 + self.task.width :].argmax(axis=1)
        return np.maximum(np.take_along_axis(memory, asked[:, None], axis=1)[:, 0], 0)


class BitsTask(AskingTask):
    """Bits, a number of steps without any, and a question for one of them.

    What is seen: the share of the steps that are left, the bits, and which bit is asked for. Subclasses call
    `_lay_out` when constructed, and `_draw` when an episode starts.
    """

    observation_low = -1.0
    n_actions = 2

    def _lay_out(self, width: int) -> None:
        """Make room for up to `width` bits."""
        self.width = width
        self.observation_dim = 1 + 2 * width
        self._bits: NDArray[np.int8] = self._allocate("bits", np.int8, (width,))  # -1 or 1, 0 for none
        self._asked: Ints = self._allocate("asked", np.int64)

    @abstractmethod
    def _question_name(self, bit: int) -> str:
        """The question for a bit, as a caption of at most 15 characters."""

    def _draw(self, rows: Ints, counts: Ints, lengths: Ints) -> None:
        """Draw `counts` (R,) bits to be asked for after `lengths` (R,) steps."""
        keys, numbers = self._keys[rows], np.arange(self.width)
        bits = 2 * integers(keys[:, None], _BIT_STREAM, numbers, 2) - 1
        self._bits[rows] = np.where(numbers < counts[:, None], bits, 0)
        self._asked[rows] = integers(keys, _ASKED_STREAM, np.zeros_like(rows), counts)
        self._ask(rows, first=lengths)

    def _answer(self, state: State, number: Ints) -> Ints:
        asked = np.take_along_axis(state["bits"], state["asked"][:, None], axis=1)[:, 0]
        return (asked > 0).astype(np.int64)

    def _observe(self, rows: Ints | slice, steps: Ints) -> Observations:
        length = self._first[rows][:, None]
        observations = np.zeros((*steps.shape, self.observation_dim), dtype=np.float32)
        observations[..., 0] = np.maximum(1.0 - steps / length, 0.0)
        row, step = np.nonzero(steps == 0)
        observations[row, step, 1 : 1 + self.width] = self._bits[rows][row]
        row, step = np.nonzero(steps == length)
        observations[row, step, 1 + self.width + self._asked[rows][row]] = 1.0
        return observations

    def _see(self, row: int) -> Sight:
        left = int(self._first[row] - self._t[row])
        if self._t[row] == 0:
            bits = self._bits[row]
            values = (bits[bits != 0] > 0).astype(int).tolist()
            words = f"the bits {' '.join(map(str, values))}"
            return Sight(words, [value_chip(value, 2) for value in values], "REMEMBER")
        if left > 0:
            return Sight(f"the clock, steps to go: {left}", [distractor_chip(left)], "STEPS TO GO")
        caption = self._question_name(int(self._asked[row]))
        return Sight(f"the question: {caption.lower()}?", [QUESTION], caption)
