"""``step`` is ``forward`` of one step, without a branch that hangs on values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import Tensor, nn

from rmt_rl.cores import MemoryCore, map_state
from tests.rmt_rl.core_cases import (
    CASES,
    INPUT_DIM,
    RMT,
    Case,
    Run,
    assert_close,
    assert_states_close,
    every_core,
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


class Step(nn.Module):
    """``step`` from tensors to tensors."""

    def __init__(self, core: MemoryCore[Any]) -> None:
        super().__init__()
        self.core = core

    def forward(self, x: Tensor, starts: Tensor, *memory: Tensor) -> list[Tensor]:
        parts = iter(memory)
        state = map_state(lambda _: next(parts), self.core.initial_state(1))
        output, state = self.core.step(x, state, starts)
        return [output, *leaves(state)]


@every_core
@pytest.mark.filterwarnings("ignore:The tensor attributes self.core.rnn")
def test_step_is_one_graph_for_any_number_of_rows(case: Case) -> None:
    seen = np.zeros((5, 7), dtype=np.bool_)
    seen[1, 2] = seen[2, 6] = seen[3, 0] = True
    core, x, state, starts = prepare(case, torch.float32, Run(0, seen, np.array([[False]] * 4 + [[True]])))
    core.eval()
    call = [x, starts, *leaves(state)]
    rows: Any = {0: torch.export.Dim("rows")}
    of_memory = (rows,) * (len(call) - 2)
    shapes = (rows, rows, of_memory) if of_memory else (rows, rows)
    with torch.no_grad():
        two = tuple(part[:2].clone() for part in call)
        graph = torch.export.export(Step(core), two, dynamic_shapes=shapes, strict=False)
        for found, expected in zip(graph.module()(*call), Step(core)(*call), strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
