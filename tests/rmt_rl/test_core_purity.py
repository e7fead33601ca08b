"""Cores are functions: a call changes nothing it is given or handed out before, and keeps nothing."""

from __future__ import annotations

import copy

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.rmt_rl.core_cases import (
    Case,
    Run,
    assert_close,
    assert_states_close,
    detached,
    every_case,
    every_core,
    every_path,
    few,
    leaves,
    play,
    prepare,
    rows_of,
    runs,
    unbroken,
)


@every_case
@every_path
@few
@given(run=runs(max_steps=8), used=st.booleans())
def test_nothing_is_mutated(case: Case, stepwise: bool, run: Run, used: bool) -> None:
    core, x, state, starts = prepare(case, torch.float64, run)
    state = state if used else detached(core.initial_state(len(x)))
    before = [x, starts, *leaves(state), *core.state_dict().values(), *core.buffers()]
    copies = [tensor.detach().clone() for tensor in before]
    _, middle = play(core, x[:, :1], state, starts[:, :1], stepwise)
    before += leaves(middle)
    copies += [leaf.detach().clone() for leaf in leaves(middle)]
    play(core, x, middle, starts, stepwise)
    assert all(map(torch.equal, before, copies))


@every_case
@every_path
def test_interleaved_streams_do_not_mix(case: Case, stepwise: bool) -> None:
    core = case.build()
    streams, starts = unbroken(rows=2, steps=9)
    alone = [
        play(copy.deepcopy(core), x[None], core.initial_state(1), starts[:1], stepwise)[0] for x in streams
    ]
    states = [core.initial_state(1), core.initial_state(1)]
    pieces: list[list[Tensor]] = [[], []]
    for piece in torch.arange(9).split(2):
        for which, x in enumerate(streams):
            out, states[which] = play(core, x[None, piece], states[which], starts[:1, piece], stepwise)
            pieces[which].append(out)
    for expected, outputs in zip(alone, pieces, strict=True):
        assert_close(torch.cat(outputs, dim=1), expected)


@every_core
def test_states_keep_their_shapes_and_initial_ones_are_alike(case: Case) -> None:
    core = case.build()
    one, many = core.initial_state(1), core.initial_state(4)
    assert_states_close(many, rows_of(one, [0, 0, 0, 0]))
    x, starts = unbroken(4, 2)
    _, after = core(x, many, starts)
    for leaf, expected in zip(leaves(after), leaves(many), strict=True):
        assert leaf.shape == expected.shape and leaf.dtype == expected.dtype
