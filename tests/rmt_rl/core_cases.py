"""Small configurations of every core, and the batches that the tests of their laws run them on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from rmt_rl.cores import MemoryCore, make_core, map_state

INPUT_DIM = 3
TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}


class Case(NamedTuple):
    """A core small enough to be run thousands of times."""

    name: str
    core: str
    options: dict[str, Any]
    segment: int = 1
    """The steps of a segment, or of a window."""
    detaches: bool = False
    """Whether its state carries values without their gradient."""

    def build(self, dtype: torch.dtype = torch.float64, seed: int = 0, **options: Any) -> MemoryCore[Any]:
        return build(self.core, dtype, seed, **{**self.options, **options})


# Segments and windows as long as each other, longer and shorter; fewer and more memory tokens than steps.
ATTENTION = {"width": 8, "layers": 2, "heads": 2, "feedforward": 12}
RMT = {**ATTENTION, "segment_length": 3, "memory_tokens": 2}
XL = {**ATTENTION, "memory_length": 3}
CASES = [
    Case("rmt", "rmt", RMT, 3),
    Case("rmt-short", "rmt", {**RMT, "segment_length": 1, "memory_tokens": 3, "heads": 4}, 1),
    Case("rmt-gated", "rmt", {**RMT, "gated": True}, 3),
    Case("rmt-persistent", "rmt", {**RMT, "persistent_tokens": 2}, 3),
    Case("rmt-retention", "rmt", {**RMT, "retention": True}, 3),
    Case("xl", "xl", XL, 3, detaches=True),
    Case("xl-short", "xl", {**XL, "memory_length": 1, "layers": 3, "width": 7, "heads": 1}, 1, detaches=True),
    Case("xl-gated", "xl", {**XL, "gated": True}, 3, detaches=True),
    Case("xl-persistent", "xl", {**XL, "persistent_tokens": 2}, 3, detaches=True),
    Case("rmt_xl", "rmt_xl", {**RMT, "memory_length": 3}, 3),
    Case("rmt_xl-narrow", "rmt_xl", {**RMT, "memory_length": 1}, 3),
    Case("rmt_xl-wide", "rmt_xl", {**RMT, "segment_length": 2, "memory_length": 5, "heads": 4}, 2),
    Case("rmt_xl-all", "rmt_xl", {**RMT, "memory_length": 2, "gated": True, "persistent_tokens": 1}, 3),
    Case("rmt_encoder", "rmt_encoder", RMT, 3),
    Case(
        "rmt_encoder-all", "rmt_encoder", {**RMT, "gated": True, "persistent_tokens": 1, "retention": True}, 3
    ),
    Case("armt", "armt", {**RMT, "memory_width": 3}, 3),
    Case("armt-all", "armt", {**RMT, "segment_length": 2, "gated": True, "persistent_tokens": 1}, 2),
    Case("gru", "gru", {"width": 5}),
    Case("lstm", "lstm", {"width": 4, "layers": 2}),
    Case("none", "none", {"width": 6}),
]
FIRST_CASES = [
    next(case for case in CASES if case.core == core) for core in dict.fromkeys(c.core for c in CASES)
]

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_core = pytest.mark.parametrize("case", FIRST_CASES, ids=lambda case: case.core)
every_dtype = pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype).removeprefix("torch."))
every_path = pytest.mark.parametrize("stepwise", [False, True], ids=["sequences", "steps"])

# So many drawn batches for each case suffice: the cases share most of their code.
few = settings(max_examples=max(1, settings().max_examples // 20))


def build(
    core: str | type[MemoryCore[Any]], dtype: torch.dtype, seed: int, **options: Any
) -> MemoryCore[Any]:
    """A core away from its initialisation, where zeros and ones would hide much."""
    torch.manual_seed(seed)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)  # buffers too are computed in it
    try:
        built = make_core(core, INPUT_DIM, **options)
    finally:
        torch.set_default_dtype(before)
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return built


class Run(NamedTuple):
    """A drawn batch: a core's seed, and where episodes start in what it has seen and in what it is to see."""

    seed: int
    seen: npt.NDArray[np.bool_]
    """(B, any number of steps)"""
    starts: npt.NDArray[np.bool_]
    """(B, T)"""


class Batch(NamedTuple):
    """What a core is called with: B rows, T steps, from a state that has seen something already."""

    core: MemoryCore[Any]
    inputs: Tensor
    state: Any
    starts: Tensor


@st.composite
def runs(draw: st.DrawFn, min_steps: int = 1, max_steps: int = 12, reset: bool = False) -> Run:
    """Draw a batch of up to 3 rows with few episode starts; with ``reset`` the first row has one at least."""
    rows = draw(st.integers(1, 3))
    seen, steps = draw(st.integers(0, 7)), draw(st.integers(min_steps, max_steps))
    starts = np.zeros((rows, seen + steps), dtype=np.bool_)
    for row in starts:
        row[list(draw(st.sets(st.integers(0, seen + steps - 1), max_size=3)))] = True
    if reset:
        starts[0, seen + draw(st.integers(0, steps - 1))] = True
    return Run(draw(st.integers(0, 2**16)), starts[:, :seen], starts[:, seen:])


def prepare(case: Case, dtype: torch.dtype, run: Run) -> Batch:
    core = case.build(dtype, run.seed)
    rows, steps = run.starts.shape
    seen = run.seen.shape[1]
    # Time-major underneath, as rollouts are stored: a core may not take its inputs to be contiguous.
    features = torch.randn(seen + steps, rows, INPUT_DIM, dtype=dtype).transpose(0, 1)
    state = core.initial_state(rows)
    with torch.no_grad():
        if seen:
            _, state = core(features[:, :seen], state, torch.from_numpy(run.seen))
    return Batch(core, features[:, seen:], detached(state), torch.from_numpy(run.starts))


def play(
    core: MemoryCore[Any], inputs: Tensor, state: Any, starts: Tensor, stepwise: bool = False
) -> tuple[Tensor, Any]:
    """Run a core on whole sequences with gradient, as in training, or step by step without, as in acting."""
    if not stepwise:
        outputs, state = core(inputs, state, starts)
        return outputs, state
    steps = []
    with torch.no_grad():
        for t in range(inputs.shape[1]):
            output, state = core(inputs[:, t : t + 1], state, starts[:, t : t + 1])
            steps.append(output)
    return torch.cat(steps, dim=1), state


def leaves(state: Any) -> Iterator[Tensor]:
    """The tensors of a state, those of nested ones included."""
    for leaf in state:
        if isinstance(leaf, Tensor):
            yield leaf
        else:
            yield from leaves(leaf)


def float_leaves(state: Any) -> list[Tensor]:
    return [leaf for leaf in leaves(state) if leaf.is_floating_point()]


def detached(state: Any) -> Any:
    return map_state(lambda leaf: leaf.detach().clone(), state)


def unbroken(rows: int, steps: int) -> tuple[Tensor, Tensor]:
    """Inputs and no episode start: from the initial state, one episode a row."""
    return torch.randn(rows, steps, INPUT_DIM, dtype=torch.float64), torch.zeros(
        rows, steps, dtype=torch.bool
    )


def requiring_grad(state: Any) -> Any:
    return map_state(lambda leaf: leaf.detach().clone().requires_grad_(leaf.is_floating_point()), state)


def rows_of(state: Any, rows: Tensor | list[int]) -> Any:
    return map_state(lambda leaf: leaf[rows], state)


def gradients(of: Tensor, to: list[Tensor]) -> list[Tensor]:
    """Gradients, zeros where there is no path at all."""
    return list(torch.autograd.grad(of, to, allow_unused=True, materialize_grads=True, retain_graph=True))


def assert_close(actual: Tensor, expected: Tensor, tolerance: float | None = None) -> None:
    tolerance = TOLERANCE[expected.dtype] if tolerance is None else tolerance
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def assert_states_close(actual: Any, expected: Any) -> None:
    """Every leaf, empty slots and counters included: equal histories make equal states."""
    assert type(actual) is type(expected)
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        if other.is_floating_point():
            assert_close(one, other)
        else:
            assert torch.equal(one, other)
