"""Parameters of a task and their checks, and the table from which episodes draw their difficulty."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.recall.hashing import Ints

Level = int | tuple[int, int]
"""A difficulty: a number, or a (low, high) range, both included, from which each episode draws its own."""

LARGEST = 10**8
"""The largest delay or length: far below the 2**40 steps that the random streams allow."""


class UnknownAttributeError(AttributeError, ValueError):
    """No such attribute. An AttributeError for SB3's `has_attr`, a ValueError as for any bad argument."""


@dataclass(frozen=True)
class Parameter:
    """A constructor argument of a task: its type and range, and whether the spaces depend on it (`fixed`)."""

    name: str
    kind: type[int] | type[float] | type[bool]
    low: float = -math.inf
    high: float = math.inf
    fixed: bool = False

    @property
    def allowed(self) -> str:
        """The values that would do, in words."""
        if self.kind is bool:
            return "True or False"
        noun = "an integer" if self.kind is int else "a finite number"
        if self.low == -math.inf and self.high == math.inf:
            return noun
        if self.high == math.inf:
            return f"{noun} of at least {self.low:g}"
        return f"{noun} from {self.low:g} to {self.high:.10g}"

    def check(self, value: Any) -> int | float | bool:
        """The value as a plain `kind`; ValueError with the value and the allowed range if it is not one."""
        checked = self._convert(value)
        if checked is None or not self.low <= checked <= self.high:
            raise ValueError(f"{self.name}={value!r}: must be {self.allowed}")
        return checked

    def _convert(self, value: Any) -> int | float | bool | None:
        is_bool = isinstance(value, bool | np.bool_)
        if self.kind is bool:
            return bool(value) if is_bool else None
        if is_bool:
            return None
        if self.kind is int:
            try:
                return operator.index(value)
            except TypeError:
                return None
        if isinstance(value, int | float | np.integer | np.floating) and math.isfinite(value):
            return float(value)
        return None


def check_level(parameter: Parameter, level: Any) -> tuple[int, int]:
    """The (low, high) of a level, equal for a number. ValueError for anything else or a range upside down."""
    if isinstance(level, tuple | list):
        if len(level) != 2:
            raise ValueError(f"{parameter.name}={level!r}: a range is a pair (low, high), both included")
        low, high = (int(parameter.check(end)) for end in level)
        if low > high:
            raise ValueError(f"{parameter.name}={level!r}: a range is (low, high) with low at most high")
        return low, high
    low = int(parameter.check(level))
    return low, low


def check_levels_fit(name: str, ends: Ints, low: Ints | int, high: Ints, allowed: str) -> None:
    """Raise ValueError if levels go beyond what the other parameters of their rows leave them.

    Args:
        name: that of the level.
        ends: (N, 2) the lowest and the highest number that each row can draw.
        low: (N,) the lowest allowed.
        high: (N,) the highest.
        allowed: what would do, in words with two gaps for these.
    """
    low = np.broadcast_to(low, len(ends))
    bad = (ends[:, 0] < low) | (ends[:, 1] > high)
    if bad.any():
        row = int(bad.argmax())
        given = ends[row, 0] if ends[row, 0] < low[row] else ends[row, 1]
        raise ValueError(f"{name}={given}: must be {allowed.format(low[row], high[row])}")


class LevelTable:
    """The levels that episodes are drawn from, with their probabilities.

    Args:
        parameter: name and range of the difficulty.
        levels: one or more numbers or (low, high) ranges.
        probabilities: one per level, adding up to 1; equal shares if None.

    Raises:
        ValueError: no levels, a bad level, or bad probabilities.
    """

    def __init__(
        self, parameter: Parameter, levels: Sequence[Level], probabilities: Sequence[float] | None = None
    ) -> None:
        try:
            self.levels: tuple[Level, ...] = tuple(levels)
        except TypeError:
            self.levels = ()
        if not self.levels:
            raise ValueError(f"levels={levels!r}: must be a sequence of at least one level")
        ends = [check_level(parameter, level) for level in self.levels]
        self.probabilities = _check_probabilities(probabilities, len(self.levels))
        self.ends: tuple[int, int] = min(low for low, _ in ends), max(high for _, high in ends)
        self._low: Ints = np.array([low for low, _ in ends], dtype=np.int64)
        self._width: Ints = np.array([high - low + 1 for low, high in ends], dtype=np.int64)
        self._bounds = np.cumsum(self.probabilities)[:-1]
        # Object array filled item by item: numpy would make a 2-D array of a list of pairs.
        self._objects = np.empty(len(self.levels), dtype=object)
        for index, level in enumerate(self.levels):
            self._objects[index] = level

    @property
    def summary(self) -> Level:
        """The single level, or the (lowest, highest) of several."""
        return self.levels[0] if len(self.levels) == 1 else self.ends

    @property
    def distribution(self) -> tuple[Ints, NDArray[np.float64]]:
        """The numbers that may be drawn, and how likely each is; those of levels that overlap repeat."""
        numbers = [low + np.arange(width) for low, width in zip(self._low, self._width, strict=True)]
        return np.concatenate(numbers), np.repeat(self.probabilities / self._width, self._width)

    def draw(
        self, choice: NDArray[np.float64], value: NDArray[np.float64]
    ) -> tuple[NDArray[np.object_], Ints]:
        """The level (R,) and the number drawn from it (R,), from two uniform draws in [0, 1) for each row."""
        index = np.searchsorted(self._bounds, choice, side="right")
        numbers = self._low[index] + (value * self._width[index]).astype(np.int64)
        return self._objects[index], numbers


def _check_probabilities(probabilities: Sequence[float] | None, count: int) -> NDArray[np.float64]:
    if probabilities is None:
        return np.full(count, 1.0 / count)
    try:
        values = np.asarray(probabilities, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"probabilities={probabilities!r}: must be numbers, one per level") from None
    if values.shape != (count,):
        raise ValueError(f"probabilities={probabilities!r}: must be one per level, here {count}")
    if not np.isfinite(values).all() or (values < 0).any() or abs(values.sum() - 1.0) > 1e-6:
        raise ValueError(f"probabilities={probabilities!r}: must be from 0 to 1 and add up to 1")
    return values
