"""Where the segments of a batch lie: cut by episode starts, and every S steps from an episode's start.

A row of a training batch begins anywhere in an episode and may hold several of them. Its steps are cut into
runs, the segments; a segment that continues an earlier one of the same row and episode is one *deeper* than
it. All segments of one depth can be computed together, whatever their rows and times: with short episodes
nearly everything has depth 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rmt_rl.cores.jitter import Jitter

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Segments(NamedTuple):
    """The N segments of a (B, T) batch in order of row and time; every field is (N,)."""

    row: Ints
    """The row it lies in."""
    first: Ints
    """Index of its first step in the batch flattened to B * T."""
    length: Ints
    """How many steps of the batch it has."""
    slot: Ints
    """Where in its segment its first step stands: above 0 only if the segment began before the row."""
    depth: Ints
    """How many segments of the same row and episode come before it."""
    fresh: Bools
    """It begins an episode."""
    followed: Bools
    """The next segment continues its episode, and so reads what it writes."""
    last: Bools
    """It is the last of its row."""
    draw: Ints
    """The number its length was drawn with, 0 if it was not drawn; see ``cores/jitter.py``."""


def find_segments(
    episode_starts: Tensor,
    position: Tensor,
    segment_length: int,
    jitter: Jitter | None = None,
    draw: Tensor | None = None,
) -> Segments:
    """Cut a batch into segments.

    :param episode_starts: (B, T) bool
    :param position: (B,) steps that each row's current segment already has, fewer than a full one
    :param jitter: how lengths are drawn, with the numbers ``draw`` (B,) of the current segments; None if all
        have ``segment_length`` steps
    """
    starts: Bools = episode_starts.cpu().numpy()
    rows, steps = starts.shape
    before: Ints = position.cpu().numpy()
    if jitter is None or draw is None:
        slots, depths = _equal_segments(starts, before, segment_length)
        draws = np.zeros_like(slots)
    else:
        slots, depths, draws = jitter.segments(starts, before, draw.cpu().numpy())
    begins = slots == 0
    begins[:, 0] = True
    first = np.flatnonzero(begins)
    row, start = np.divmod(first, steps)
    length = np.diff(first, append=rows * steps)
    fresh = starts.reshape(-1)[first]
    last = start + length == steps
    followed = ~last
    followed[:-1] &= ~fresh[1:]
    slot, depth, drawn = (of_steps.reshape(-1)[first] for of_steps in (slots, depths, draws))
    return Segments(row, first, length, slot, depth, fresh, followed, last, drawn)


def _equal_segments(starts: Bools, position: Ints, segment_length: int) -> tuple[Ints, Ints]:
    """(B, T) each: the slot of every step in its segment, and that segment's depth."""
    time = np.arange(starts.shape[1])
    last_start = np.maximum.accumulate(np.where(starts, time, -1), axis=1)
    # The index of every step in its episode, counted from the first step of the segment the row begins in.
    age = np.where(last_start < 0, position[:, None] + time, time - last_start)
    depth, slot = np.divmod(age, segment_length)
    return slot, depth


def find_spans(episode_starts: Tensor) -> Segments:
    """Cut a batch (B, T) at episode starts only."""
    rows, steps = episode_starts.shape
    return find_segments(episode_starts, torch.zeros(rows, dtype=torch.int64), steps + 1)


def pick(segments: Segments, which: Ints) -> Segments:
    """The segments with the indices ``which``, in that order."""
    return Segments._make(field[which] for field in segments)


def step_slots(segments: Segments, slots: int, nothing: int) -> Ints:
    """(N, slots): the flat index of the step in every slot, ``nothing`` where it holds none of the batch."""
    slot = np.arange(slots)
    begin = segments.slot[:, None]
    inside = (slot >= begin) & (slot < begin + segments.length[:, None])
    return np.where(inside, segments.first[:, None] - begin + slot, nothing)


def invert(index: Ints, size: int) -> Ints:
    """``inverse`` with ``inverse[index[i]] = i``; entries of ``index`` from ``size`` on are padding."""
    inverse = np.zeros(size, dtype=np.int64)
    real = index < size
    inverse[index[real]] = np.flatnonzero(real)
    return inverse


def to_device(index: npt.NDArray[np.generic], like: Tensor) -> Tensor:
    """An index as a tensor where ``like`` lies."""
    return torch.from_numpy(np.ascontiguousarray(index)).to(like.device, non_blocking=True)
