"""The laws again, for whatever core and options hypothesis comes up with."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from rmt_rl.cores import CORES, map_state
from tests.rmt_rl.core_cases import (
    INPUT_DIM,
    Run,
    assert_close,
    assert_states_close,
    build,
    detached,
    gradients,
    leaves,
    play,
    runs,
)

OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "layers": st.integers(1, 3),
    "segment_length": st.integers(1, 5),
    "memory_tokens": st.integers(1, 3),
    "memory_length": st.integers(1, 6),
    "memory_width": st.integers(1, 4),
    "feedforward": st.integers(1, 9),
    "gated": st.booleans(),
    "persistent_tokens": st.integers(0, 2),
    "bptt_segments": st.none() | st.integers(1, 3),
    "retention": st.booleans(),
    "segment_jitter": st.sampled_from([0.0, 0.5]),
    "memory_noise": st.just(0.5),
    "dropout": st.just(0.3),
}
"""Every option but width and heads. Noise and dropout are of training alone: the laws hold without them."""


@st.composite
def cores(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    name = draw(st.sampled_from(sorted(CORES)))
    known = [option for option in inspect.signature(CORES[name]).parameters if option != "input_dim"]
    assert set(known) <= {*OPTIONS, "width", "heads"}
    options = {option: draw(OPTIONS[option], label=option) for option in known if option in OPTIONS}
    if options.get("segment_jitter") and options["segment_length"] == 1:
        options["segment_jitter"] = 0.0  # half of one step is none
    if name in ("gru", "lstm") and options["layers"] == 1:
        options["dropout"] = 0.0  # it acts between layers
    options["width"] = draw(st.sampled_from([4, 6, 8]), label="width")
    if "heads" in known:
        options["heads"] = draw(st.sampled_from([1, 2]), label="heads")
    return name, options


@given(drawn=cores(), run=runs(min_steps=2, max_steps=14), data=st.data())
def test_laws(drawn: tuple[str, dict[str, Any]], run: Run, data: st.DataObject) -> None:
    name, options = drawn
    core = build(name, torch.float64, run.seed, **options).eval()
    rows, seen = run.seen.shape
    steps = run.starts.shape[1]
    features = torch.randn(rows, seen + steps, INPUT_DIM, dtype=torch.float64)
    state = core.rollout_state(rows)
    if seen:
        state = core(features[:, :seen], state, torch.from_numpy(run.seen))[1]
    state, x, starts = detached(state), features[:, seen:], torch.from_numpy(run.starts)
    whole, last = core(x, state, starts)
    assert whole.shape == (rows, steps, core.output_dim) and whole.isfinite().all()
    assert_close(core.replay(x, state, starts), whole)
    # Acting, and any split.
    acted, end = play(core, x, state, starts, stepwise=True)
    assert_close(acted, whole)
    assert_states_close(end, last)
    k = data.draw(st.integers(1, steps - 1), label="k")
    head, between = core(x[:, :k], state, starts[:, :k])
    tail, end = core(x[:, k:], between, starts[:, k:])
    assert_close(torch.cat([head, tail], dim=1), whole)
    assert_states_close(end, last)
    # Each row alone, and nothing from the future.
    for row in range(rows):
        alone, _ = core(
            x[row : row + 1], map_state(lambda leaf, r=row: leaf[r : r + 1], state), starts[row, None]
        )
        assert_close(alone[0], whole[row])
    x = x.clone().requires_grad_()
    outputs, _ = core(x, state, starts)
    (grad,) = gradients(outputs[:, :k].square().sum(), [x])
    assert not grad[:, k:].any() and grad.isfinite().all()
    # A reset: NaN before it, in the state and in the inputs, stays before it.
    starts[:, k] = True
    clean, _ = core(x, state, starts)
    dirty = torch.where(torch.arange(steps)[:, None] < k, torch.nan, x.detach())
    poisoned = map_state(lambda leaf: leaf * torch.nan if leaf.is_floating_point() else leaf, state)
    after, end = core(dirty, poisoned, starts)
    assert_close(after[:, k:], clean[:, k:])
    assert all(leaf.isfinite().all() for leaf in leaves(end))
