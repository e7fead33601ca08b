"""The recurrent layers' own loops against torch's layers, values and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rmt_rl.cores import map_state
from tests.rmt_rl.core_cases import INPUT_DIM, assert_close, assert_states_close, build, few, gradients


@pytest.mark.parametrize("core", ["gru", "lstm"])
@pytest.mark.parametrize("layers", [1, 3])
@few
@given(
    rows=st.integers(1, 4), steps=st.integers(2, 9), rate=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 1000),
)  # fmt: skip
def test_a_scan_is_torchs_layer(
    core: str, layers: int, rows: int, steps: int, rate: float, seed: int
) -> None:
    model: Any = build(core, torch.float64, seed, width=5, layers=layers)
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, steps, INPUT_DIM, dtype=torch.float64, generator=draw, requires_grad=True)
    starts = torch.rand(rows, steps, generator=draw) < rate
    state = map_state(
        lambda leaf: torch.randn(leaf.shape, dtype=leaf.dtype, generator=draw).requires_grad_(),
        model.initial_state(rows),
    )
    weights = torch.randn(rows, steps, 5, dtype=torch.float64, generator=draw)
    results = []
    for run in (model._scan, model._fused):
        outputs, end = run(x, state, starts)
        loss = (weights * outputs).sum() + sum(leaf.square().sum() for leaf in end)
        results.append((outputs, end, gradients(loss, [x, *state, *model.parameters()])))
    (outputs, end, grads), (expected, last, expected_grads) = results
    assert_close(outputs, expected)
    assert_states_close(end, last)
    for actual, grad in zip(grads, expected_grads, strict=True):
        assert_close(actual, grad)


@pytest.mark.parametrize("core", ["gru", "lstm"])
def test_layers_drop_outputs_between_them_in_training_alone(core: str) -> None:
    model: Any = build(core, torch.float64, 0, width=5, layers=2, dropout=0.5)
    x, starts = torch.randn(2, 6, INPUT_DIM, dtype=torch.float64), torch.zeros(2, 6, dtype=torch.bool)
    starts[1, 3] = True
    run = lambda: model(x, model.initial_state(2), starts)[0]  # noqa: E731
    model.train()
    assert not torch.equal(run(), run())
    model.eval()
    assert torch.equal(run(), run())
