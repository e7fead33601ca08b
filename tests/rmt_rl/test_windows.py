"""Pieces of spans with what their steps see before them, against loops over the batch's steps."""

from __future__ import annotations

from typing import NamedTuple
from unittest import mock

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmt_rl.cores import CORES, TransformerXL
from rmt_rl.cores import windows as windows_module
from rmt_rl.cores.segments import find_spans
from rmt_rl.cores.windows import latest, piece_size, places, windows
from tests.rmt_rl.core_cases import (
    CASES,
    Case,
    Run,
    assert_close,
    assert_states_close,
    few,
    gradients,
    prepare,
    runs,
)


class Batch(NamedTuple):
    starts: npt.NDArray[np.bool_]
    filled: npt.NDArray[np.int64]
    window: int

    def seen(self, row: int, t: int) -> list[int]:
        """What a step sees, earliest first: packed steps, and behind them the places of the cache."""
        rows, steps = self.starts.shape
        found: list[int] = []
        for at in range(t, t - self.window - 1, -1):
            if at < 0:
                if at < -self.filled[row]:
                    break
                found.append(rows * steps + row * self.window + self.window + at)
                continue
            found.append(row * steps + at)
            if self.starts[row, at]:
                break
        return found[::-1]


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    rows, steps, window = draw(st.integers(1, 4)), draw(st.integers(1, 12)), draw(st.integers(1, 7))
    starts = draw(
        st.lists(st.lists(st.booleans(), min_size=steps, max_size=steps), min_size=rows, max_size=rows)
    )
    filled = draw(st.lists(st.integers(0, window), min_size=rows, max_size=rows))
    return Batch(np.array(starts), np.array(filled), window)


@given(batches(), st.integers(1, 13))
def test_a_query_sees_the_steps_of_its_window_in_their_order(batch: Batch, size: int) -> None:
    rows, steps = batch.starts.shape
    spans = find_spans(torch.from_numpy(batch.starts))
    with mock.patch.object(windows_module, "piece_size", lambda *_: size):
        pieces = windows(spans, batch.filled, batch.window, steps)
    flat: list[int] = []
    for piece in pieces:
        for queries, keys, visible, inside in zip(
            piece.queries, piece.keys, piece.visible, piece.inside, strict=True
        ):
            assert len(queries) <= size and len(keys) == piece.before + len(queries)
            for place, query in enumerate(queries):
                flat.append(int(query) if inside[place] else -1)
                assert visible[place].any()  # attention to nothing would be NaN
                if inside[place]:
                    assert keys[visible[place]].tolist() == batch.seen(*divmod(int(query), steps))
                    # The relative term counts distances by places.
                    distances = piece.before + place - np.flatnonzero(visible[place])
                    assert distances.tolist() == list(range(len(distances)))[::-1]
            # No other episode comes near, visible or not.
            span = {i for q in queries for i in batch.seen(*divmod(int(q), steps))} | set(queries.tolist())
            begin = int(queries[0])
            assert {*keys.tolist()} <= span | {begin}
    assert [flat[i] for i in places(pieces, rows * steps)] == list(range(rows * steps))
    assert sorted(i for i in flat if i >= 0) == list(range(rows * steps))


@given(batches())
def test_the_latest_steps_are_kept(batch: Batch) -> None:
    rows, steps = batch.starts.shape
    source, count = latest(find_spans(torch.from_numpy(batch.starts)), batch.filled, batch.window, steps)
    for row in range(rows):
        seen = batch.seen(row, steps - 1)[-batch.window :]
        assert source[row].tolist() == [-1] * (batch.window - len(seen)) + seen
        assert count[row] == len(seen)


@pytest.mark.parametrize(
    ("length", "known", "window", "expected"),
    [
        ([12] * 20, 0, 64, {8, 12}),  # short episodes
        ([512] * 4, 64, 64, {32, 64}),  # long ones: pieces of about the window
        ([512] * 4, 8, 8, {8, 16}),
        ([64, *[4] * 60], 0, 64, {8, 16}),  # one long span among many short ones
    ],
)
def test_pieces_have_a_sensible_size(length: list[int], known: int, window: int, expected: set[int]) -> None:
    """Those that are fastest where it was measured, for a forward and backward pass."""
    assert piece_size(np.array(length), np.full(len(length), known), window) in expected


WINDOWED = [case for case in CASES if issubclass(CORES[case.core], TransformerXL)]


@pytest.mark.parametrize("case", WINDOWED, ids=lambda case: case.name)
@few
@given(run=runs(max_steps=18))
def test_how_spans_are_cut_changes_nothing(case: Case, run: Run) -> None:
    core, x, state, starts = prepare(case, torch.float64, run)
    x = x.clone().requires_grad_()
    results = []
    for size in (1, 5, 100):
        with mock.patch.object(windows_module, "piece_size", lambda *_, size=size: size):
            outputs, end = core(x, state, starts)
        results.append((outputs, end, gradients(outputs.square().sum(), [x, *core.parameters()])))
    expected, last, expected_grads = results[0]
    for outputs, end, grads in results[1:]:
        assert_close(outputs, expected)
        assert_states_close(end, last)
        for actual, grad in zip(grads, expected_grads, strict=True):
            assert_close(actual, grad)
