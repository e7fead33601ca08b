"""``step`` is ``forward`` of one step, without a branch that hangs on values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from rmt_rl.cores import map_state
from tests.rmt_rl.core_cases import (
    CASES,
    INPUT_DIM,
    RMT,
    Case,
    Run,
    assert_close,
    assert_states_close,
    every_dtype,
    few,
    leaves,
    prepare,
    runs,
)

JITTERED = [
    Case(f"{core}-jitter", core, {**RMT, "segment_jitter": 0.7, **options}, 3)
    for core, options in (("rmt", {}), ("rmt_xl", {"memory_length": 2}), ("armt", {}))
]
every_case = pytest.mark.parametrize("case", CASES + JITTERED, ids=lambda case: case.name)


def poisoned(state: Any, rows: Tensor) -> Any:
    """NaN in whatever is remembered of some rows."""

    def poison(leaf: Tensor) -> Tensor:
        if not leaf.is_floating_point():
            return leaf
        return leaf.masked_fill(rows.view(-1, *(1 for _ in leaf.shape[1:])), float("nan"))

    return map_state(poison, state)


@every_case
@every_dtype
@few
@given(run=runs(max_steps=18))
def test_step_is_forward(case: Case, dtype: torch.dtype, run: Run) -> None:
    core, x, state, starts = prepare(case, dtype, run)
    if case in JITTERED:
        state = core.rollout_state(len(x))
    core.eval()
    other = state
    with torch.no_grad():
        for t in range(x.shape[1]):
            call = x[:, t : t + 1], starts[:, t : t + 1]
            expected, state = core(call[0], state, call[1])
            output, other = core.step(call[0], poisoned(other, starts[:, t]), call[1])
            assert_close(output, expected)
            assert_states_close(other, state)


@every_case
def test_step_hangs_on_no_value(case: Case) -> None:
    """On torch's meta device there are none; and all that a step makes lies where its inputs do."""
    with torch.device("meta"):
        core = case.build(torch.float32).eval()
        state, x = core.initial_state(2), torch.zeros(2, 1, INPUT_DIM)
        starts = torch.zeros(2, 1, dtype=torch.bool)
    with torch.no_grad():
        for _ in range(2):
            output, state = core.step(x, state, starts)
    assert output.shape == (2, 1, core.output_dim)
    assert {leaf.device.type for leaf in (output, *leaves(state))} == {"meta"}
