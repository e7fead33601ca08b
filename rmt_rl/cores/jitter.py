"""Segments of drawn lengths (Memo, 2025, arXiv 2510.19732: fixed ones are worse in training).

Acting and replay must cut an episode alike, so what is drawn is part of the state: a number per row, from
which the length of its segment follows, and the number of the next segment. 0 stands for no drawing: segments
of S steps, as an agent has them that is not in training.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# A linear congruential generator modulo 2**64 (Knuth's MMIX), whose highest bits are the good ones.
_FACTOR, _TERM, _SHIFT, _BITS = 6364136223846793005, 1442695040888963407, 33, 31


class Jitter(NamedTuple):
    """Lengths from S - spread to S + spread, all alike."""

    segment_length: int
    """S"""
    spread: int

    @property
    def longest(self) -> int:
        """The most steps that a segment has."""
        return self.segment_length + self.spread

    def first_draws(self, count: int, device: torch.device) -> Tensor:
        """(count,) int64 numbers to begin with, none of them 0, from torch's generator."""
        return torch.randint(1, 2**62, (count,), dtype=torch.int64).to(device)

    def advance(self, draw: Tensor) -> Tensor:
        """The numbers of the segments after those with the numbers ``draw``, any shape."""
        return torch.where(draw == 0, draw, draw * _FACTOR + _TERM)

    def lengths(self, draw: Tensor) -> Tensor:
        """How long the segments with these numbers are when full."""
        return torch.where(draw == 0, self.segment_length, self._drawn(draw))

    def _lengths(self, draw: Ints) -> Ints:
        return np.where(draw == 0, self.segment_length, self._drawn(draw))

    def _drawn(self, draw: Any) -> Any:
        """Lengths from numbers, both as an array or both as a tensor."""
        high = (draw >> _SHIFT) & (2**_BITS - 1)
        # The product has at most 31 + 31 bits.
        offset = (high * (2 * self.spread + 1)) >> _BITS
        return self.segment_length - self.spread + offset

    def segments(self, starts: Bools, position: Ints, draw: Ints) -> tuple[Ints, Ints, Ints]:
        """(B, T) each: the slot of every step in its segment, the segment's depth, and its number.

        :param starts: (B, T) episode starts; the first step's has been dealt with
        :param position: (B,) slot of the first step
        :param draw: (B,) number of the first step's segment
        """
        shape = starts.shape
        slots, depths, draws = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        slot, depth, length = position.copy(), np.zeros_like(position), self._lengths(draw)
        for t in range(shape[1]):
            if t:
                slot = slot + 1
                opens = starts[:, t] | (slot == length)
                if opens.any():
                    depth = np.where(starts[:, t], 0, depth + opens)
                    draw = np.where(opens, self.advance(torch.from_numpy(draw)).numpy(), draw)
                    length = np.where(opens, self._lengths(draw), length)
                    slot = np.where(opens, 0, slot)
            slots[:, t], depths[:, t], draws[:, t] = slot, depth, draw
        return slots, depths, draws


def make_jitter(segment_length: int, share: float) -> Jitter | None:
    """Lengths within a share of S; None for a share of 0.

    :raises ValueError: for a share below 0 or so large that a segment could have no step
    """
    if not 0.0 <= share < 1.0:
        raise ValueError(f"segment_jitter must be from 0 to below 1, got {share}")
    if share == 0.0:
        return None
    spread = min(round(share * segment_length), segment_length - 1)
    if spread == 0:
        raise ValueError(
            f"segment_jitter={share} of segments of {segment_length} steps is less than one step: "
            f"it must be at least {1 / segment_length:.2g}, or 0"
        )
    return Jitter(segment_length, spread)
