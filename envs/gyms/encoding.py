"""Members of a space as parts of a flat vector: one-hot where they are discrete, as they are where not."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Vector = NDArray[np.float32]


class Encoder:
    """Writes members of one space into a vector of `size` numbers, each between `low` and `high`.

    Discrete, MultiDiscrete and Tuples of Discrete become one-hot blocks, one a component and in their order;
    a Box is flattened.
    """

    def __init__(self, space: spaces.Space[Any]) -> None:
        """Prepare for `space`.

        Raises:
            TypeError: a space of another kind.
        """
        self.counts: tuple[int, ...] = ()
        """How many values each discrete component has; none for a Box."""
        if isinstance(space, spaces.Box):
            self.low = space.low.astype(np.float32).ravel()
            self.high = space.high.astype(np.float32).ravel()
            self.size = len(self.low)
            return
        self.counts = _counts(space)
        self.size = sum(self.counts)
        self.low, self.high = np.zeros(self.size, np.float32), np.ones(self.size, np.float32)
        self._offsets = np.cumsum((0, *self.counts[:-1]))

    def write(self, member: Any, vector: Vector) -> None:
        """Write a member of the space into `vector` (size,), which holds zeros."""
        if self.counts:
            vector[self._offsets + np.asarray(member).reshape(-1)] = 1.0
        else:
            vector[:] = np.asarray(member).reshape(-1)

    def __call__(self, member: Any) -> Vector:
        """A vector of its own (size,) for a member of the space; zeros for None."""
        vector = np.zeros(self.size, dtype=np.float32)
        if member is not None:
            self.write(member, vector)
        return vector

    def space(self) -> spaces.Box:
        """The space of the vectors, zeros included."""
        return spaces.Box(np.minimum(self.low, 0.0), np.maximum(self.high, 0.0), dtype=np.float32)


def _counts(space: spaces.Space[Any]) -> tuple[int, ...]:
    match space:
        case spaces.Discrete(start=0):
            return (int(space.n),)
        case spaces.MultiDiscrete() if not space.start.any():
            return tuple(int(n) for n in space.nvec.ravel())
        case spaces.Tuple():
            return tuple(n for part in space.spaces for n in _counts(part))
    raise TypeError(
        f"space={space}: must be a Box, or a Discrete, MultiDiscrete or Tuple of these that counts from 0"
    )


def plain_action(space: spaces.Space[Any], action: Any) -> Any:
    """An action as an int or an array of its own: some environments keep it, some look it up in a dict."""
    return int(action) if isinstance(space, spaces.Discrete) else np.array(action, dtype=space.dtype)
