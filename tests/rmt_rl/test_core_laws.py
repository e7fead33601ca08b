"""The laws of the contract of a memory core, for every registered core and its main options."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from rmt_rl.cores import CORES, map_state
from tests.rmt_rl.core_cases import (
    CASES,
    INPUT_DIM,
    Case,
    Run,
    assert_close,
    assert_states_close,
    every_case,
    every_core,
    every_dtype,
    every_path,
    few,
    float_leaves,
    gradients,
    leaves,
    play,
    prepare,
    requiring_grad,
    rows_of,
    runs,
)


def test_every_registered_core_is_under_the_laws() -> None:
    assert {case.core for case in CASES} == set(CORES)


# -- 1: splitting --------------------------------------------------------------------------------------------


@every_case
@every_dtype
@few
@given(run=runs(min_steps=2, max_steps=18), data=st.data())
def test_splitting(case: Case, dtype: torch.dtype, run: Run, data: st.DataObject) -> None:
    core, x, state, starts = prepare(case, dtype, run)
    k = data.draw(st.integers(1, x.shape[1] - 1), label="k")
    whole, last = core(x, state, starts)
    head, between = core(x[:, :k], state, starts[:, :k])
    tail, end = core(x[:, k:], between, starts[:, k:])
    assert whole.shape == (*starts.shape, core.output_dim) and whole.dtype == dtype
    assert_close(torch.cat([head, tail], dim=1), whole)
    assert_states_close(end, last)


@every_case
@every_dtype
@few
@given(run=runs(max_steps=18))
def test_steps_are_the_sequence(case: Case, dtype: torch.dtype, run: Run) -> None:
    core, x, state, starts = prepare(case, dtype, run)
    whole, last = play(core, x, state, starts)
    steps, end = play(core, x, state, starts, stepwise=True)
    assert whole.requires_grad and not steps.requires_grad
    assert_close(steps, whole)
    assert_states_close(end, last)


@pytest.mark.parametrize("case", [c for c in CASES if not c.detaches], ids=lambda case: case.name)
@few
@given(run=runs(min_steps=2, max_steps=18), data=st.data())
def test_splitting_keeps_the_gradient(case: Case, run: Run, data: st.DataObject) -> None:
    """Where a state is handed on as it is, not detached, the pieces have the gradients of the whole."""
    core, x, state, starts = prepare(case, torch.float64, run)
    k = data.draw(st.integers(1, x.shape[1] - 1), label="k")
    x, state = x.clone().requires_grad_(), requiring_grad(state)
    to = [x, *float_leaves(state), *core.parameters()]
    whole, _ = core(x, state, starts)
    head, between = core(x[:, :k], state, starts[:, :k])
    tail, _ = core(x[:, k:], between, starts[:, k:])
    w = torch.randn_like(whole)
    expected = gradients((w * whole).sum(), to)
    for actual, grad in zip(gradients((w * torch.cat([head, tail], dim=1)).sum(), to), expected, strict=True):
        assert_close(actual, grad)


# -- 2: causality --------------------------------------------------------------------------------------------


@every_case
@every_path
@few
@given(run=runs(min_steps=2), data=st.data())
def test_causality(case: Case, stepwise: bool, run: Run, data: st.DataObject) -> None:
    core, x, state, starts = prepare(case, torch.float64, run)
    t = data.draw(st.integers(1, x.shape[1] - 1), label="t")
    before, _ = play(core, x, state, starts, stepwise)
    other, other_starts = x.clone(), starts.clone()
    other[:, t:] += torch.randn_like(other[:, t:])
    other_starts[:, t:] ^= torch.rand(other_starts[:, t:].shape) < 0.3
    after, _ = play(core, other, state, other_starts, stepwise)
    assert_close(after[:, :t], before[:, :t])


@every_case
@few
@given(run=runs(max_steps=18, min_steps=2), data=st.data())
def test_no_gradient_from_the_past_to_the_future(case: Case, run: Run, data: st.DataObject) -> None:
    core, x, state, starts = prepare(case, torch.float64, run)
    t = data.draw(st.integers(1, x.shape[1] - 1), label="t")
    x = x.clone().requires_grad_()
    outputs, _ = core(x, state, starts)
    (grad,) = gradients((outputs[:, :t] * torch.randn_like(outputs[:, :t])).sum(), [x])
    assert not grad[:, t:].any()
    assert grad[:, t - 1].all()


# -- 3: reset isolation --------------------------------------------------------------------------------------


def reset_at(starts: Tensor, row: int) -> int | None:
    """When the row's last episode starts."""
    found = starts[row].nonzero()
    return int(found[-1]) if len(found) else None


def after_reset(starts: Tensor) -> Tensor:
    """(B, T) bool: the steps of the episodes that end the rows, where they start in this batch."""
    mask = torch.zeros_like(starts)
    for row in range(len(starts)):
        begin = reset_at(starts, row)
        if begin is not None:
            mask[row, begin:] = True
    return mask


@every_case
@every_dtype
@every_path
@few
@given(run=runs(reset=True))
def test_after_a_reset_all_is_fresh(case: Case, dtype: torch.dtype, stepwise: bool, run: Run) -> None:
    core, x, state, starts = prepare(case, dtype, run)
    outputs, last = play(core, x, state, starts, stepwise)
    for row in range(len(x)):
        t = reset_at(starts, row)
        if t is not None:
            # The initial state needs no episode start: it is what one selects.
            unmarked = torch.zeros_like(starts[row : row + 1, t:])
            fresh, end = play(core, x[row : row + 1, t:], core.initial_state(1), unmarked, stepwise)
            assert_close(outputs[row : row + 1, t:], fresh)
            assert_states_close(rows_of(last, [row]), end)


@every_case
@few
@given(run=runs(max_steps=18, reset=True))
def test_no_gradient_crosses_a_reset(case: Case, run: Run) -> None:
    core, x, state, starts = prepare(case, torch.float64, run)
    x, state = x.clone().requires_grad_(), requiring_grad(state)
    outputs, last = core(x, state, starts)
    after = after_reset(starts)
    kept = [outputs[after], *(leaf[starts.any(1)] for leaf in float_leaves(last))]
    loss = torch.stack([tensor.square().sum() for tensor in kept]).sum()
    grad, *state_grads = gradients(loss, [x, *float_leaves(state)])
    assert not grad[~after].any()
    assert grad[after].any()
    assert not any(leaf.any() for leaf in state_grads)


@every_case
@every_path
@few
@given(run=runs(reset=True))
def test_nan_does_not_cross_a_reset(case: Case, stepwise: bool, run: Run) -> None:
    """Nor does it reach other rows."""
    core, x, state, starts = prepare(case, torch.float64, run)
    outputs, last = play(core, x, state, starts, stepwise)
    reset = starts.any(1)
    poisoned = map_state(lambda leaf: poison(leaf, reset), state)
    kept = after_reset(starts) | ~reset[:, None]
    dirty, end = play(core, x.masked_fill(~kept[..., None], torch.nan), poisoned, starts, stepwise)
    assert_close(dirty[kept], outputs[kept])
    assert_states_close(end, last)


@every_case
@few
@given(run=runs(), data=st.data())
def test_nan_in_a_replaced_state_leaves_the_gradients_alone(
    case: Case, run: Run, data: st.DataObject
) -> None:
    core, x, state, starts = prepare(case, torch.float64, run)
    reset = torch.tensor(data.draw(st.lists(st.booleans(), min_size=len(x), max_size=len(x)), label="reset"))
    starts[:, 0] = reset
    parameters = [x.clone().requires_grad_(), *core.parameters()]
    losses = []
    for begin in (state, map_state(lambda leaf: poison(leaf, reset), state)):
        outputs, _ = core(parameters[0], begin, starts)
        losses.append(outputs.square().sum())
    clean, dirty = (gradients(loss, parameters) for loss in losses)
    for actual, expected in zip(dirty, clean, strict=True):
        assert_close(actual, expected)


def poison(leaf: Tensor, rows: Tensor) -> Tensor:
    """NaN in the given rows of what is not a counter."""
    leaf = leaf.clone()
    if leaf.is_floating_point():
        leaf[rows] = torch.nan
    return leaf


# -- 4: batch independence -----------------------------------------------------------------------------------


@every_case
@every_dtype
@every_path
@few
@given(run=runs(max_steps=8), data=st.data())
def test_rows_are_independent(
    case: Case, dtype: torch.dtype, stepwise: bool, run: Run, data: st.DataObject
) -> None:
    """Any choice of rows, in any order, some of them several times: fewer rows, more rows, others."""
    core, x, state, starts = prepare(case, dtype, run)
    rows = data.draw(st.lists(st.integers(0, len(x) - 1), min_size=1, max_size=6), label="rows")
    outputs, last = play(core, x, state, starts, stepwise)
    chosen, end = play(core, x[rows], rows_of(state, rows), starts[rows], stepwise)
    assert_close(chosen, outputs[rows])
    assert_states_close(end, rows_of(last, rows))


# -- 5: gradients --------------------------------------------------------------------------------------------


@every_case
def test_every_parameter_receives_a_gradient(case: Case) -> None:
    core = case.build()
    steps = 2 * case.segment + 2
    x, starts = torch.randn(2, steps, INPUT_DIM, dtype=torch.float64), torch.zeros(2, steps, dtype=torch.bool)
    outputs, _ = core(x, core.initial_state(2), starts)
    (outputs * torch.randn_like(outputs)).sum().backward()
    for name, parameter in core.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all() and parameter.grad.abs().max() > 1e-9, name


# -- 6: length -----------------------------------------------------------------------------------------------


@every_core
def test_ten_thousand_segments(case: Case) -> None:
    """Most of them on sequences, some step by step."""
    short = {name: 1 for name in ("segment_length", "memory_length", "layers") if name in case.options}
    core = case.build(torch.float32, **short)
    rows, sequences, steps, singles = 2, 20, 490, 10
    state = core.initial_state(rows)
    shapes = [leaf.shape for leaf in leaves(state)]
    with torch.inference_mode():
        for _ in range(sequences):
            for length in (steps, *[1] * singles):
                x, starts = torch.randn(rows, length, INPUT_DIM), torch.zeros(rows, length, dtype=torch.bool)
                outputs, state = core(x, state, starts)
            assert [leaf.shape for leaf in leaves(state)] == shapes
            for tensor in (outputs, *leaves(state)):
                assert tensor.isfinite().all() and (tensor.abs() < 100).all()
