"""How the steps of a batch lie when each sees the W steps before it: packed, and in rows for attention.

Linear maps and norms run on the batch's steps as they are. For attention a *span*, the steps of a row between
two episode starts, is cut into pieces of C successive steps. A piece is a row of queries; its row of keys has
what its steps see before it as well, from the batch or from the state's cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rmt_rl.cores.segments import Bools, Ints, Segments

PIECES = (8, 16, 32, 64, 128)
"""numbers of steps that a piece may have, beside that of the longest span"""


class Window(NamedTuple):
    """N pieces side by side. Packed are the B * T steps, and behind them the B * W places of the cache."""

    before: int
    """places of a row of keys before those of its own steps"""
    queries: Ints
    """(N, C) the packed step at every place; the piece's first where there is none"""
    keys: Ints
    """(N, before + C) the same for keys"""
    visible: Bools
    """(N, C, before + C) which keys a query sees: those at distances 0 to W that exist"""
    inside: Bools
    """(N, C) where the rows of queries hold a step"""


def windows(spans: Segments, filled: Ints, window: int, steps: int) -> list[Window]:
    """Cut spans into pieces: first those with nothing before them, then the others.

    :param spans: of a (B, T) batch, see ``find_spans``
    :param filled: (B,) how many steps each row's cache holds
    :param window: W
    :param steps: T
    """
    # What spans have in the cache: those that continue an episode from the state.
    known = np.where(spans.fresh, 0, filled[spans.row])
    size = piece_size(spans.length, known, window)
    pieces = -(-spans.length // size)
    span = np.repeat(np.arange(len(pieces)), pieces)
    number = np.arange(len(span)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    begin = number * size
    available = np.minimum(window, known[span] + begin)
    length = np.minimum(size, spans.length[span] - begin)
    batch = len(filled) * steps
    found = []
    for part in (np.flatnonzero(available == 0), np.flatnonzero(available)):
        if not len(part):
            continue
        first, before = (spans.first[span] + begin)[part, None], int(available[part].max())
        most = int(length[part].max())
        inside = np.arange(most) < length[part, None]
        queries = np.where(inside, first + np.arange(most), first)
        offset = np.arange(-before, 0)
        # Steps before the span's first lie in the cache, the latest last.
        since = begin[part, None] + offset
        cached = batch + spans.row[span[part], None] * window + window + since
        exists = offset >= -available[part, None]
        earlier = np.where(exists, np.where(since >= 0, first + offset, cached), first)
        distance = np.arange(most)[:, None] - np.arange(-before, most)
        near = (distance >= 0) & (distance <= window)
        full = np.ones((len(part), most), dtype=np.bool_)
        visible = near & np.concatenate([exists, full], axis=1)[:, None]
        keys = np.concatenate([earlier, queries], axis=1)
        found.append(Window(before, queries, keys, visible, inside))
    return found


def places(pieces: list[Window], steps: int) -> Ints:
    """(B * T,) of every step, its place in the rows of queries, one list of pieces after the other."""
    place, begin = np.empty(steps, dtype=np.int64), 0
    for piece in pieces:
        place[piece.queries[piece.inside]] = begin + np.flatnonzero(piece.inside)
        begin += piece.queries.size
    return place


def piece_size(length: Ints, known: Ints, window: int) -> int:
    """C, of about the least cost: the keys that rows of queries see, and those to be laid in rows."""
    longest = int(length.max())
    best, least = longest, np.inf
    for size in [*(size for size in PIECES if size < longest), longest]:
        rows = int((-(-length // size)).sum())
        before = min(window, max(int(known.max()), longest - size))
        cost = rows * (before + size) * (size + KEY_COST)
        if cost < least:
            best, least = size, cost
    return best


KEY_COST = 16
"""How many scores cost about as much as laying a key in its row."""


def latest(spans: Segments, filled: Ints, window: int, steps: int) -> tuple[Ints, Ints]:
    """Where the cache after a batch comes from.

    :return: (B, W) packed steps and places of the cache, the latest last, -1 where empty; (B,) how many exist
    """
    last = np.flatnonzero(spans.last)
    rows = spans.row[last]
    known = np.where(spans.fresh[last], 0, filled[rows])
    length = spans.length[last]
    since = length[:, None] + np.arange(-window, 0)
    cached = len(filled) * steps + rows[:, None] * window + window + since
    source = np.where(since >= 0, spans.first[last, None] + since, cached)
    return np.where(since >= -known[:, None], source, -1), np.minimum(window, known + length)
