"""What Transformer-XL must do beyond the laws of every core."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from rmt_rl.cores import map_state
from rmt_rl.cores.blocks import Block, RelativePositions
from tests.rmt_rl.core_cases import (
    assert_close,
    build,
    detached,
    every_path,
    float_leaves,
    gradients,
    play,
    requiring_grad,
    unbroken,
)
from tests.rmt_rl.core_reference import relative_encoding, xl_episode

W = 3
OPTIONS: dict[str, Any] = {"width": 8, "layers": 2, "heads": 2, "memory_length": W}
LONG = 40  # more than two of the chunks in which long sequences attend


def xl(seed: int = 0, **options: Any) -> Any:
    return build("xl", torch.float64, seed, **{**OPTIONS, **options})


# -- against the paper ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 7, 19])
@pytest.mark.parametrize(
    ("window", "before"), [(1, 0), (1, 1), (4, 0), (4, 2), (4, 4), (4, 9), (18, 0), (18, 18)]
)
def test_the_relative_term_is_that_of_every_visible_pair(window: int, before: int, steps: int) -> None:
    """(q_i + v) . W_R R_{i-j} / sqrt(D / H), the keys being ``before`` earlier ones and the queries' own."""
    width, heads = 8, 2
    torch.manual_seed(0)
    block = Block(width, heads, 12, relative=True).double()
    positions = RelativePositions(width, heads, window).double()
    positions.distances = torch.stack([relative_encoding(d, width) for d in range(window + 1)])
    query = torch.randn(2, heads, steps, width // heads, dtype=torch.float64)
    term = positions.timeline(block, query, before)
    assert term.shape == (2, heads, steps, before + steps)
    assert block.relative is not None
    for i in range(steps):
        for distance in range(min(window, before + i) + 1):
            key = (block.relative.weight @ relative_encoding(distance, width)).view(heads, -1, 1)
            expected = (query[:, :, i, None] + positions.v) @ key / math.sqrt(width // heads)
            assert_close(term[:, :, i, before + i - distance], expected.flatten(1))


@pytest.mark.parametrize("width", [2, 16])
def test_distances_are_encoded_by_sines_and_cosines(width: int) -> None:
    positions = RelativePositions(width, heads=1, window=100)
    expected = torch.stack([relative_encoding(distance, width) for distance in range(101)])
    assert_close(positions.distances.double(), expected, tolerance=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"layers": 1},
        {"layers": 3, "memory_length": 1},
        {"memory_length": 17},
        {"gated": True},
        {"persistent_tokens": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("pieces", [[1], [2], [23], [2, 1, 5], [20, 17, 1]], ids=str)
def test_xl_equals_the_four_term_score_pair_by_pair(options: dict[str, Any], pieces: list[int]) -> None:
    """In one call and in several, shorter and longer than the window; the first steps have empty slots."""
    core = xl(**options)
    x, starts = unbroken(1, sum(pieces))
    expected = xl_episode(core, x[0])
    state, outputs = core.initial_state(1), []
    for piece in x.split(pieces, dim=1):
        out, state = core(piece, state, starts[:, : piece.shape[1]])
        outputs.append(out)
    assert_close(torch.cat(outputs, dim=1)[0], expected)
    acted, _ = play(core, x[:, :8], core.initial_state(1), starts[:, :8], stepwise=True)
    assert_close(acted[0], expected[:8].detach())


def test_xl_has_the_gradients_of_the_four_term_score() -> None:
    core = xl()
    x, starts = unbroken(1, 20)
    x.requires_grad_()
    outputs, _ = core(x, core.initial_state(1), starts)
    to, w = [x, *core.parameters()], torch.randn(20, 8, dtype=torch.float64)
    expected = gradients((w * xl_episode(core, x[0])).sum(), to)
    for actual, grad in zip(gradients((w * outputs[0]).sum(), to), expected, strict=True):
        assert_close(actual, grad)


# -- Transformer-XL's window ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("layers", "window", "steps"), [(1, 3, 12), (2, 3, 12), (3, 2, 12), (2, 3, LONG), (1, 17, 30)]
)
def test_an_input_sends_gradient_within_the_receptive_field_alone(
    layers: int, window: int, steps: int
) -> None:
    core = xl(layers=layers, memory_length=window)
    x, starts = unbroken(1, steps)
    x.requires_grad_()
    outputs, _ = core(x, core.initial_state(1), starts)
    for late in range(steps):
        (grad,) = gradients(outputs[0, late].square().sum(), [x])
        reached = grad[0].abs().amax(-1) > 0
        assert reached.tolist() == [0 <= late - t <= layers * window for t in range(steps)]


@pytest.mark.parametrize(("layers", "window"), [(1, 3), (2, 3), (3, 2)])
@every_path
def test_an_input_changes_outputs_within_the_receptive_field_alone(
    layers: int, window: int, stepwise: bool
) -> None:
    """Through the cache as well, with every call of another length."""
    core = xl(layers=layers, memory_length=window)
    x, starts = unbroken(1, 14)
    for t in range(3):
        other = x.clone()
        other[:, t] += 1.0
        one, two = (
            torch.cat(run_in_pieces(core, inputs, starts, [2, 1, 4, 7], stepwise), dim=1)
            for inputs in (x, other)
        )
        changed = (one - two)[0].abs().amax(-1) > 0
        assert changed.tolist() == [0 <= late - t <= layers * window for late in range(14)]


def run_in_pieces(core: Any, x: Tensor, starts: Tensor, pieces: list[int], stepwise: bool) -> list[Tensor]:
    state, outputs = core.initial_state(len(x)), []
    for piece, marks in zip(x.split(pieces, dim=1), starts.split(pieces, dim=1), strict=True):
        out, state = play(core, piece, state, marks, stepwise)
        outputs.append(out)
    return outputs


def test_no_gradient_passes_the_cache() -> None:
    core = xl()
    x, starts = unbroken(1, 8)
    x.requires_grad_()
    _, state = core(x[:, :5], core.initial_state(1), starts[:, :5])
    assert not any(leaf.requires_grad for leaf in float_leaves(state))
    state = requiring_grad(state)
    outputs, after = core(x[:, 5:], state, starts[:, 5:])
    assert not any(leaf.requires_grad for leaf in float_leaves(after))
    grad, *state_grads = gradients(outputs.square().sum(), [x, *float_leaves(state)])
    assert not grad[:, :5].any() and grad[:, 5:].all()
    assert not any(leaf.any() for leaf in state_grads)
    # It is the gradient that stops, not the values.
    alone, _ = core(x[:, 5:], core.initial_state(1), starts[:, 5:])
    assert not torch.isclose(alone, outputs).all(-1).any()


@every_path
def test_empty_slots_of_the_cache_are_never_attended(stepwise: bool) -> None:
    """Huge numbers in them change nothing."""
    core = xl()
    x, starts = unbroken(2, 9)
    for seen in range(6):
        state = core.initial_state(2)
        if seen:
            _, state = play(core, x[:, :seen], state, starts[:, :seen])
        clean = detached(state)
        dirty = map_state(lambda leaf: torch.where(leaf == 0, 1e6, leaf) if leaf.dim() > 3 else leaf, clean)
        one, two = (play(core, x[:, seen:], begin, starts[:, seen:], stepwise)[0] for begin in (clean, dirty))
        assert_close(two, one)
