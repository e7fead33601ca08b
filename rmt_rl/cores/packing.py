"""How the tokens of many segments lie: packed for what is done to each alone, in rows for attention.

A segment is [R read; steps; M write]. Segments differ in length, some have their read block and first
steps in the cache, some need no write block. All linear maps and norms run on the tokens that there are,
*packed* one after the other; attention alone runs on *rows* of equal length.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from rmt_rl.cores.segments import Ints, Segments, pick, to_device


class Sizes(NamedTuple):
    """What all segments of a core have in common."""

    read: int
    """R tokens of the read block; 0 for ``armt``"""
    window: int
    """W cached steps before the segment; 0 but for the hybrid"""
    steps: int
    """S steps of a full segment, the most where lengths are drawn"""
    write: int
    """M tokens of the write block"""

    @property
    def cache(self) -> int:
        """Places of a state's cache: [R read; W before; S steps]."""
        return self.read + self.window + self.steps


class Packing(NamedTuple):
    """G segments side by side. Packed tokens are [read blocks; steps; write blocks], N in all.

    A row of queries has Q places, [R read; slots; M write], one of keys has K = Q + W, with the window behind
    the read block; without write blocks both lack the last M.
    """

    segments: Segments
    """the G segments"""
    slots: int
    """places for steps in a row"""
    opens: Ints
    """which of the G have a read block among the packed tokens; it is in the cache of the others"""
    writes: Ints
    """which of the G have a write block"""
    steps: Ints
    """(n,) of the packed steps, the index in the batch flattened to B * T"""
    step_slots: Ints
    """(n,) and their slot in the segment"""
    place: Ints
    """(N,) the place of every packed token in the rows of queries, flattened"""
    queries: Ints
    """(G * Q,) the packed token at every place, one of the same segment where there is none"""
    keys: Ints
    """(G * K,) the same for keys; N + i stands for ``cached[i]``"""
    cached: Ints
    """(C,) what comes from the cache, as indices into that cache's places, flattened"""

    @property
    def ends(self) -> Ints:
        """(G,) how many slots of each are filled, in the cache or by steps."""
        return self.segments.slot + self.segments.length

    @property
    def writing(self) -> bool:
        """Whether the rows have places for write blocks."""
        return len(self.writes) > 0


def pack(plan: Segments, depth: int, sizes: Sizes, before: Packing | None) -> Packing:
    """Pack the segments of one depth.

    :param plan: all segments of a batch
    :param before: those one depth less, None at depth 0. Cached is at depth 0 what the state holds, in places
        [R read; W before; S steps] by row of the batch; beyond, the window from the keys of ``before``.
    """
    group = pick(plan, np.flatnonzero(plan.depth == depth))
    count, (read, window, _, write) = len(group.row), sizes
    slots = int((group.slot + group.length).max())
    opens, writes = np.flatnonzero(group.slot == 0), np.flatnonzero(group.followed)
    ends = np.cumsum(group.length)
    segment = np.repeat(np.arange(count), group.length)
    within = np.arange(ends[-1]) - np.repeat(ends - group.length, group.length)
    step_slots = within + np.repeat(group.slot, group.length)
    # Places in a row of queries.
    wide = read + slots + write * bool(len(writes))
    place = np.concatenate([
        (opens[:, None] * wide + np.arange(read)).reshape(-1),
        segment * wide + read + step_slots,
        (writes[:, None] * wide + read + slots + np.arange(write)).reshape(-1),
    ])  # fmt: skip
    # Places without a token take the segment's first step: a NaN of another episode must not come near.
    spare = (len(opens) * read + ends - group.length)[:, None]
    queries = np.repeat(spare, wide, axis=1)
    queries.reshape(-1)[place] = np.arange(len(place))
    between = np.repeat(spare, window, axis=1)
    keys = np.concatenate([queries[:, :read], between, queries[:, read:]], axis=1)
    cells, cached = _cached(group, slots, sizes, before)
    keys[cells] = len(place) + np.arange(len(cached))
    steps = within + np.repeat(group.first, group.length)
    return Packing(
        group, slots, opens, writes, steps, step_slots, place, queries.reshape(-1), keys.reshape(-1), cached
    )


def _cached(
    group: Segments, slots: int, sizes: Sizes, before: Packing | None
) -> tuple[tuple[Ints, Ints], Ints]:
    """Which cells of the rows of keys come from the cache, and from which of its places, flattened."""
    read, window, _, _ = sizes
    column = np.arange(read + window + slots)
    in_window = (column >= read) & (column < read + window)
    if before is None:
        begun, step = group.slot[:, None] > 0, column - read - window
        holds = np.where(in_window, ~group.fresh[:, None], begun & (step < group.slot[:, None]))
        segment, cell = np.nonzero(holds)
        return (segment, cell), group.row[segment] * sizes.cache + cell
    # The window is the last W of [window; steps] of the segment before; its write comes behind.
    segment, cell = np.nonzero(np.broadcast_to(in_window, (len(group.row), len(column))))
    source = before.writes[segment]
    wide = before.keys.size // len(before.segments.row)
    return (segment, cell), source * wide + before.ends[source] + cell


class Indices(NamedTuple):
    """Those of a ``Packing``'s fields that the device needs."""

    opens: Tensor
    writes: Tensor
    place: Tensor
    queries: Tensor
    keys: Tensor
    cached: Tensor


def indices(packing: Packing, like: Tensor) -> Indices:
    """The indices of a packing where ``like`` lies."""
    return Indices(*(to_device(getattr(packing, name), like) for name in Indices._fields))
