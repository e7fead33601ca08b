"""What the hybrid of RMT and Transformer-XL must do beyond the laws of every core."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from rmt_rl.cores import map_state
from rmt_rl.cores.rmt_xl import RMTXL
from tests.rmt_rl.core_cases import (
    assert_close,
    build,
    detached,
    every_path,
    gradients,
    play,
    unbroken,
)
from tests.rmt_rl.core_reference import rmt_episode

W, S, M = 3, 4, 2
WIDTH = 8
OPTIONS: dict[str, Any] = {
    "width": WIDTH,
    "layers": 2,
    "heads": 2,
    "memory_length": W,
    "segment_length": S,
    "memory_tokens": M,
}


class FrozenRMTXL(RMTXL):
    """Never updates its memory: what passes a segment boundary passes through the window."""

    def written(self, memory: Tensor, streams: list[Tensor]) -> Tensor:
        return memory


def hybrid(core: str | type[RMTXL] = "rmt_xl", **options: Any) -> Any:
    return build(core, torch.float64, 0, **{**OPTIONS, **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"layers": 1},
        {"memory_length": 1},
        {"segment_length": 2, "memory_length": 5, "memory_tokens": 3},
        {"gated": True, "persistent_tokens": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("steps", [1, S, 11])
def test_the_hybrid_equals_an_explicit_mask_and_score(options: dict[str, Any], steps: int) -> None:
    """Outputs, memory and gradients: the window is detached, the write sees it, memory has no distance."""
    core = hybrid(**options)
    x, starts = unbroken(1, steps)
    x.requires_grad_()
    outputs, state = core(x, core.initial_state(1), starts)
    expected, memories = rmt_episode(core, x[0])
    assert_close(outputs[0], expected)
    assert_close(state.memory[0], memories[-2])
    w, to = torch.randn_like(expected), [x, *core.parameters()]
    grads = (gradients((w * out).sum(), to) for out in (outputs[0], expected))
    for actual, grad in zip(*grads, strict=True):
        assert_close(actual, grad)
    acted, _ = play(core, x, core.initial_state(1), starts, stepwise=True)
    assert_close(acted[0], expected.detach())


@every_path
def test_the_window_passes_values_and_no_gradient(stepwise: bool) -> None:
    core = hybrid(FrozenRMTXL)
    x, starts = unbroken(1, 3 * S)
    other = x.clone()
    other[:, S - 1] += 1.0
    one, two = (play(core, inputs, core.initial_state(1), starts, stepwise)[0] for inputs in (x, other))
    reach = core.options["layers"] * W
    assert ((one - two)[0].abs().amax(-1) > 0).tolist() == [0 <= t - (S - 1) <= reach for t in range(3 * S)]
    x.requires_grad_()
    outputs, _ = core(x, core.initial_state(1), starts)
    for end in (S + 1, 2 * S, 3 * S):
        (grad,) = gradients(outputs[0, end - 1].square().sum(), [x])
        begin = (end - 1) // S * S
        assert not grad[0, :begin].any() and (grad[0, end - 1] != 0).all()


def test_the_memory_passes_the_gradient() -> None:
    core = hybrid()
    x, starts = unbroken(1, 6 * S + 1)
    x.requires_grad_()
    outputs, _ = core(x, core.initial_state(1), starts)
    (grad,) = gradients(outputs[0, -1].square().sum(), [x])
    assert (grad.abs().amax(-1) > 0).all()


@every_path
def test_the_write_sees_the_window(stepwise: bool) -> None:
    """With one layer the segment's steps carry nothing of the window: the write must see it itself."""
    core = hybrid(layers=1)
    x, starts = unbroken(1, 2 * S + 1)
    _, state = play(core, x[:, : S + 1], core.initial_state(1), starts[:, : S + 1], stepwise)
    clean = play(core, x[:, S + 1 :], detached(state), starts[:, S + 1 :], stepwise)[1].memory
    for place in range(M, M + W):
        for name, half in (("keys", slice(None, WIDTH)), ("values", slice(WIDTH, None))):
            changed = detached(state)
            changed.cache[:, :, place, half] += 1.0
            after = play(core, x[:, S + 1 :], changed, starts[:, S + 1 :], stepwise)[1].memory
            assert ((after - clean).abs().amax(-1) > 1e-9).all(), (name, place)


@every_path
def test_the_window_holds_the_latest_steps_and_no_memory_token(stepwise: bool) -> None:
    core = hybrid()
    x, starts = unbroken(1, 2 * S + 1)
    begin = core.initial_state(1)
    for first in (0, S):
        _, full = play(core, x[:, first : first + S], begin, starts[:, :S], stepwise)
        _, opened = play(core, x[:, first + S : first + S + 1], full, starts[:, :1], stepwise)
        assert_close(opened.cache[:, :, M : M + W], full.cache[:, :, -W:].detach())
        assert opened.window.tolist() == [W]
        begin = full


def test_memory_tokens_have_no_relative_term() -> None:
    """Other relative weights change what a step leaves in the cache, and nothing of the read block."""
    core = hybrid(layers=3)
    x, starts = unbroken(1, 1)
    _, before = core(x, core.initial_state(1), starts)
    with torch.no_grad():
        core.positions.v.add_(5.0)
        for block in core.blocks:
            block.relative.weight.add_(torch.randn_like(block.relative.weight))
    _, after = core(x, core.initial_state(1), starts)
    one, two = before.cache, after.cache
    assert_close(one[:, :, :M], two[:, :, :M])  # the read block, in all layers
    for half in (slice(None, WIDTH), slice(WIDTH, None)):  # keys and values
        assert not torch.allclose(one[:, 1:, M + W, half], two[:, 1:, M + W, half])  # a step sees itself


@every_path
def test_empty_slots_of_the_window_are_never_attended(stepwise: bool) -> None:
    """Huge numbers in them change nothing."""
    core = hybrid()
    x, starts = unbroken(2, 9)
    for seen in range(6):
        state = core.initial_state(2)
        if seen:
            _, state = play(core, x[:, :seen], state, starts[:, :seen])
        clean = detached(state)
        dirty = map_state(lambda leaf: torch.where(leaf == 0, 1e6, leaf) if leaf.dim() > 3 else leaf, clean)
        one, two = (play(core, x[:, seen:], begin, starts[:, seen:], stepwise)[0] for begin in (clean, dirty))
        assert_close(two, one)
