"""The plan of a batch's segments against loops over its steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmt_rl.cores.segments import Segments, find_segments, find_spans, invert, pick, step_slots


class Layout(NamedTuple):
    """A drawn batch."""

    starts: npt.NDArray[np.bool_]
    position: npt.NDArray[np.int64]
    segment_length: int

    def segments(self) -> Segments:
        return find_segments(
            torch.from_numpy(self.starts), torch.from_numpy(self.position), self.segment_length
        )


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    rows, steps, length = draw(st.integers(1, 4)), draw(st.integers(1, 12)), draw(st.integers(1, 6))
    starts = draw(
        st.lists(st.lists(st.booleans(), min_size=steps, max_size=steps), min_size=rows, max_size=rows)
    )
    position = draw(st.lists(st.integers(0, length - 1), min_size=rows, max_size=rows))
    return Layout(np.array(starts), np.array(position), length)


def find_by_loops(layout: Layout) -> list[dict[str, int | bool]]:
    """Step by step, as an agent that acts would count."""
    found: list[dict[str, int | bool]] = []
    rows, steps = layout.starts.shape
    for row in range(rows):
        slot, depth = int(layout.position[row]), 0
        for t in range(steps):
            start = bool(layout.starts[row, t])
            full = not start and slot == layout.segment_length
            if start:
                slot, depth = 0, 0
            elif full:
                slot, depth = 0, depth + 1
            if t > 0 and found and (start or full):
                found[-1]["followed"] = full
            if t == 0 or start or full:
                found.append(
                    dict(
                        row=row,
                        first=row * steps + t,
                        length=0,
                        slot=slot,
                        depth=depth,
                        fresh=start,
                        followed=False,
                        draw=0,
                    )
                )
            found[-1]["length"] += 1
            found[-1]["last"] = t == steps - 1
            slot += 1
    return found


@given(layouts())
def test_segments_are_those_counted_step_by_step(layout: Layout) -> None:
    segments = layout.segments()
    expected = find_by_loops(layout)
    assert len(segments.row) == len(expected)
    for name in Segments._fields:
        assert getattr(segments, name).tolist() == [segment[name] for segment in expected], name


def test_segments_of_a_known_batch() -> None:
    starts = torch.tensor([[0, 0, 0, 0, 0, 1, 0], [1, 0, 0, 0, 1, 0, 0]]).bool()
    segments = find_segments(starts, torch.tensor([1, 2]), segment_length=3)
    #        row 0: two steps of a begun segment, three, a new episode's two; row 1: three, one, three
    assert segments.row.tolist() == [0, 0, 0, 1, 1, 1]
    assert segments.first.tolist() == [0, 2, 5, 7, 10, 11]
    assert segments.length.tolist() == [2, 3, 2, 3, 1, 3]
    assert segments.slot.tolist() == [1, 0, 0, 0, 0, 0]
    assert segments.depth.tolist() == [0, 1, 0, 0, 1, 0]
    assert segments.fresh.tolist() == [False, False, True, True, False, True]
    assert segments.followed.tolist() == [True, False, False, True, False, False]
    assert segments.last.tolist() == [False, False, True, False, False, True]


@given(layouts())
def test_only_a_full_segment_is_followed_and_by_the_next(layout: Layout) -> None:
    """What the depth-by-depth computation rests on."""
    segments = layout.segments()
    followed = np.flatnonzero(segments.followed)
    assert (segments.slot + segments.length)[followed].tolist() == [layout.segment_length] * len(followed)
    assert (segments.row[followed + 1] == segments.row[followed]).all()
    assert (segments.depth[followed + 1] == segments.depth[followed] + 1).all()
    assert (segments.depth > 0).sum() == len(followed)
    assert not segments.slot[segments.depth > 0].any()


@given(layouts())
def test_spans_are_cut_at_episode_starts_alone(layout: Layout) -> None:
    rows, steps = layout.starts.shape
    spans = find_spans(torch.from_numpy(layout.starts))
    begins = [row * steps + t for row in range(rows) for t in range(steps) if t == 0 or layout.starts[row, t]]
    assert spans.first.tolist() == begins
    assert spans.length.tolist() == np.diff([*begins, rows * steps]).tolist()
    assert spans.fresh.tolist() == [bool(layout.starts.flat[first]) for first in begins]
    assert not spans.followed.any() and not spans.depth.any() and not spans.slot.any()


@given(layouts(), st.data())
def test_slots_hold_every_step_once_and_inverting_finds_it(layout: Layout, data: st.DataObject) -> None:
    segments = layout.segments()
    order = data.draw(st.permutations(range(len(segments.row))), label="order")
    segments = pick(segments, np.array(order))
    size = layout.starts.size
    slots = layout.segment_length + data.draw(st.integers(0, 2), label="spare slots")
    index = step_slots(segments, slots, nothing=size)
    assert index.shape == (len(order), slots)
    for n, row in enumerate(index.tolist()):
        steps = range(segments.first[n], segments.first[n] + segments.length[n])
        before = [size] * int(segments.slot[n])
        assert row == [*before, *steps, *[size] * (slots - len(before) - len(steps))]
    inverse = invert(index.reshape(-1), size)
    assert index.reshape(-1)[inverse].tolist() == list(range(size))
