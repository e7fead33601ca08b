"""Where the tokens of packed segments lie, by name: every place of a row holds what the paper puts there."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmt_rl.cores.packing import Packing, Sizes, pack
from rmt_rl.cores.segments import Segments, find_segments


class Token(NamedTuple):
    """A token of one segment, or a place of the state's cache."""

    kind: str
    """read, window, step or write"""
    row: int
    number: int
    """of a step: its index in the row; of others: which of their block"""
    episode: int = 0
    """how many episodes of the row began before it"""


class Batch(NamedTuple):
    starts: np.ndarray
    position: np.ndarray
    sizes: Sizes

    def plan(self) -> Segments:
        return find_segments(torch.from_numpy(self.starts), torch.from_numpy(self.position), self.sizes.steps)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    rows, steps = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    sizes = Sizes(*(draw(st.integers(low, high)) for low, high in ((0, 3), (0, 4), (1, 5), (1, 3))))
    starts = draw(
        st.lists(st.lists(st.booleans(), min_size=steps, max_size=steps), min_size=rows, max_size=rows)
    )
    position = draw(st.lists(st.integers(0, sizes.steps - 1), min_size=rows, max_size=rows))
    return Batch(np.array(starts), np.array(position), sizes)


def packings(batch: Batch) -> list[Packing]:
    plan, found = batch.plan(), []
    for depth in range(int(plan.depth.max()) + 1):
        found.append(pack(plan, depth, batch.sizes, found[-1] if depth else None))
    return found


def names_of_packed(packing: Packing, batch: Batch) -> list[Token]:
    """The packed tokens in their order, [read blocks; steps; write blocks]."""
    segments = packing.segments
    episodes = np.cumsum(batch.starts, axis=1)
    last = [int(f) % batch.starts.shape[1] + int(n) - 1 for f, n in zip(*segments[1:3], strict=True)]

    def name(kind: str, n: int, number: int) -> Token:
        return Token(kind, int(segments.row[n]), number, int(episodes[segments.row[n], last[n]]))

    reads = [name("read", n, i) for n in packing.opens for i in range(batch.sizes.read)]
    rows, times = np.divmod(packing.steps, batch.starts.shape[1])
    steps = [
        Token("step", r, t, int(episodes[r, t])) for r, t in zip(rows.tolist(), times.tolist(), strict=True)
    ]
    writes = [name("write", n, i) for n in packing.writes for i in range(batch.sizes.write)]
    return [*reads, *steps, *writes]


def names_of_state(batch: Batch) -> list[Token]:
    """The state's places, flattened: its steps have negative times, its window's lie before them."""
    names = []
    for row, position in enumerate(batch.position.tolist()):
        names += [Token("read", row, i) for i in range(batch.sizes.read)]
        window = range(-batch.sizes.window - position, batch.sizes.steps - position)
        names += [Token("step", row, t) for t in window]
    return names


@given(batches())
def test_every_place_holds_its_token(batch: Batch) -> None:
    read, window, full, write = batch.sizes
    before = names_of_state(batch)
    seen: list[int] = []
    for packing in packings(batch):
        segments = packing.segments
        packed = names_of_packed(packing, batch)
        known = [*packed, *(before[i] for i in packing.cached)]
        count = len(segments.row)
        queries = [[packed[i] for i in row] for row in packing.queries.reshape(count, -1)]
        keys = [[known[i] for i in row] for row in packing.keys.reshape(count, -1)]
        wide = read + packing.slots + write * packing.writing
        assert {len(row) for row in queries} == {wide} and {len(row) for row in keys} == {wide + window}
        # Every packed token has one place, and it is found there again.
        flat = [token for row in queries for token in row]
        assert [flat[i] for i in packing.place] == packed and len(set(packing.place)) == len(packed)
        seen += packing.steps.tolist()
        for n, row in enumerate(segments.row.tolist()):
            own = {token.kind for token in queries[n]}
            assert all(token.row == row for token in [*queries[n], *keys[n]])
            assert len({token.episode for token in queries[n]}) == 1
            begin, length = int(segments.slot[n]), int(segments.length[n])
            first = int(segments.first[n]) % batch.starts.shape[1]
            expected = [("read", i) for i in range(read)]
            assert [token[0:3:2] for token in keys[n][:read]] == expected
            assert (begin == 0) == (n in packing.opens)
            assert ("read" in own) == (begin == 0 and read > 0)
            # A read block of its own comes first: the cache still holds that of the segment before.
            from_cache = packing.keys.reshape(count, -1)[n, :read] >= len(packed)
            assert from_cache.all() if begin else not from_cache.any()
            steps = keys[n][read + window :][: begin + length]
            assert [token[0:3:2] for token in steps] == [
                ("step", t) for t in range(first - begin, first + length)
            ]
            # How many steps before the segment surely exist: the window itself may reach further back.
            reach = 0 if segments.fresh[n] else min(window, full * int(segments.depth[n]) or window)
            around = keys[n][read + window - reach : read + window]
            assert [token[0:3:2] for token in around] == [
                ("step", t) for t in range(first - begin - reach, first - begin)
            ]
            if n in packing.writes:
                assert [token[0:3:2] for token in queries[n][-write:]] == [("write", i) for i in range(write)]
        before = [token for row in keys for token in row]
    assert sorted(seen) == list(range(batch.starts.size))


@given(batches())
def test_the_next_depth_goes_on_where_this_one_writes(batch: Batch) -> None:
    """The memory that is written needs no reordering: the n-th that writes is followed by the n-th."""
    found = packings(batch)
    for packing, after in pairwise(found):
        ended = packing.segments.first[packing.writes] + packing.segments.length[packing.writes]
        assert ended.tolist() == after.segments.first.tolist()
        assert len(after.opens) == len(after.segments.row)
    assert not found[-1].writing
