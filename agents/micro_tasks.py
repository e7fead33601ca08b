"""Supervised tasks of seconds that only a memory can solve: how fast a core learns to use its memory.

Symbols are one-hot of ``SYMBOLS``, drawn anew for each episode. Answers that ``judged`` marks are about an
earlier segment, in every task, so that a core that hands nothing on stays at chance there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

SYMBOLS = 4
"""how many there are; chance is one in so many"""

Array = np.ndarray[Any, Any]


class Questions(NamedTuple):
    """B episodes of T steps with their answers."""

    observations: Array
    """(B, T, D) float32"""
    answers: Array
    """(B, T) int64"""
    due: Array
    """(B, T) bool, where an answer is asked for; what is trained on"""
    judged: Array
    """(B, T) bool, those of them that tell whether the memory is used"""


@dataclass(frozen=True)
class MicroTask:
    """A task and what a core gets to solve it."""

    draw: Callable[[np.random.Generator, int], Questions]
    """so many new episodes"""
    input_dim: int
    """D"""
    segment_length: int = 16
    memory_tokens: int = 4
    updates: int = 2000
    """at most"""
    beyond_window: bool = False
    """whether what is asked for lies too far back for the window of ``xl``"""


def one_hot(symbols: Array, size: int = SYMBOLS) -> Array:
    """(...) integers -> (..., size) float32."""
    return np.eye(size, dtype=np.float32)[symbols]


def repeat(back: int, steps: int = 64, segment: int = 16) -> Callable[..., Questions]:
    """A symbol each step, and always the one ``back`` steps ago is asked for."""

    def draw(rng: np.random.Generator, count: int) -> Questions:
        symbols = rng.integers(SYMBOLS, size=(count, steps))
        answers = np.roll(symbols, back, axis=1)
        slot = np.arange(steps)
        due = np.repeat(slot[None] >= back, count, axis=0)
        judged = due & (slot // segment > (slot - back) // segment)
        return Questions(one_hot(symbols), answers, due, judged)

    return draw


def copy(length: int, steps: int = 64, segment: int = 16) -> Callable[..., Questions]:
    """``length`` symbols at the beginning, asked for in order at the beginning of every later segment.

    An observation is [symbol; question]. The last segment's answers are judged.
    """

    def draw(rng: np.random.Generator, count: int) -> Questions:
        symbols = rng.integers(SYMBOLS, size=(count, length))
        slot = np.arange(steps)
        observations = np.zeros((count, steps, SYMBOLS + 1), dtype=np.float32)
        observations[:, :length, :SYMBOLS] = one_hot(symbols)
        asked = (slot % segment < length) & (slot >= segment)
        observations[:, asked, SYMBOLS] = 1.0
        answers = symbols[:, slot % segment % length]
        due = np.repeat(asked[None], count, axis=0)
        return Questions(observations, answers, due, due & (slot >= steps - segment))

    return draw


def pairs(number: int, steps: int = 64, segment: int = 16) -> Callable[..., Questions]:
    """Pairs of a key and a symbol at drawn steps of the first segment; then keys are asked for.

    An observation is [key; symbol]; a question is a key alone, at every second step of the later segments on
    average. The last segment's answers are judged.
    """

    def draw(rng: np.random.Generator, count: int) -> Questions:
        values = rng.integers(SYMBOLS, size=(count, number))
        row = np.arange(count)[:, None]
        shown = rng.random((count, segment)).argsort(axis=1)[:, :number]
        observations = np.zeros((count, steps, number + SYMBOLS), dtype=np.float32)
        observations[row, shown, :number] = np.eye(number)
        observations[row, shown, number:] = one_hot(values)
        slot = np.arange(steps)
        due = (rng.random((count, steps)) < 0.5) & (slot >= segment)
        keys = rng.integers(number, size=(count, steps))
        observations[..., :number] += one_hot(keys, number) * due[..., None]
        return Questions(observations, values[row, keys], due, due & (slot >= steps - segment))

    return draw


def flagged(segments: int, segment: int = 16) -> Callable[..., Questions]:
    """A symbol each step, one of the first segment's flagged: that one is asked for now and then.

    An observation is [symbol; flag; question], a question one of four steps of the later segments on average
    and the last step. The last segment's answers are judged.
    """
    return _one_symbol(segments, segment, distractors=True)


def keep(segments: int, segment: int) -> Callable[..., Questions]:
    """As ``flagged``, without any other symbol."""
    return _one_symbol(segments, segment, distractors=False)


def _one_symbol(segments: int, segment: int, distractors: bool) -> Callable[..., Questions]:
    steps = segments * segment

    def draw(rng: np.random.Generator, count: int) -> Questions:
        symbols = rng.integers(SYMBOLS, size=(count, steps))
        row, cue = np.arange(count), rng.integers(segment, size=count)
        slot = np.arange(steps)
        due = (rng.random((count, steps)) < 0.25) & (slot >= segment)
        due[:, -1] = True
        observations = np.zeros((count, steps, SYMBOLS + 2), dtype=np.float32)
        shown = symbols[row, cue]
        if distractors:
            observations[..., :SYMBOLS] = one_hot(symbols)
        else:
            observations[row, cue, shown] = 1.0
        observations[row, cue, SYMBOLS] = 1.0
        observations[..., SYMBOLS + 1] = due
        answers = np.repeat(shown[:, None], steps, axis=1)
        return Questions(observations, answers, due, due & (slot >= steps - segment))

    return draw


MICRO_TASKS: dict[str, MicroTask] = {
    "repeat-4": MicroTask(repeat(4), SYMBOLS),
    "repeat-8": MicroTask(repeat(8), SYMBOLS, memory_tokens=8),
    "copy-8": MicroTask(copy(8), SYMBOLS + 1, memory_tokens=8),
    "pairs-4": MicroTask(pairs(4), 4 + SYMBOLS),
    "flagged": MicroTask(flagged(4), SYMBOLS + 2),
    "keep-64": MicroTask(
        keep(64, segment=2), SYMBOLS + 2, segment_length=2, memory_tokens=2, updates=600, beyond_window=True
    ),
}
"""By name, easiest to say first."""
