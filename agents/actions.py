"""Random actions of any space, by the environment's masks where it has some."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces

from rmt_rl.masking import count_values

Draw = Callable[[np.ndarray[Any, Any] | None], Any]
"""From what is allowed, (A,) bool as ``rmt_rl.masking`` has it, or None for all, to an action."""


def random_actions(space: spaces.Space[Any], seed: int) -> Draw:
    """A function that draws each action with equal probability. The space's own generator stays as it is."""
    own, rng = deepcopy(space), np.random.default_rng(seed)
    own.seed(seed)

    def draw(mask: np.ndarray[Any, Any] | None) -> Any:
        if mask is None:
            return own.sample()
        parts = np.split(np.asarray(mask, dtype=bool), np.cumsum(count_values(space))[:-1])
        chosen = np.array([rng.choice(np.flatnonzero(part)) for part in parts])
        first = np.asarray(getattr(space, "start", 0))
        if isinstance(space, spaces.Discrete):
            return int(chosen[0] + first)
        return (chosen.reshape(space.shape or ()) + first).astype(space.dtype)

    return draw
