"""What the encoder RMT must do beyond the laws of every core."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.rmt_rl.core_cases import assert_close, build, gradients, play, unbroken
from tests.rmt_rl.core_reference import encoder_episode

S, M = 3, 2
OPTIONS: dict[str, Any] = {"width": 8, "layers": 2, "heads": 2, "segment_length": S, "memory_tokens": M}


def encoder(seed: int = 0, **options: Any) -> Any:
    return build("rmt_encoder", torch.float64, seed, **{**OPTIONS, **options})


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"layers": 1},
        {"layers": 3, "heads": 4, "memory_tokens": 3, "segment_length": 2},
        {"gated": True},
        {"persistent_tokens": 2},
        {"retention": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("steps", [1, 3, 8])
def test_equals_the_encoder_run_on_every_prefix(options: dict[str, Any], steps: int) -> None:
    core = encoder(**options)
    x, starts = unbroken(1, steps)
    x.requires_grad_()
    outputs, state = core(x, core.initial_state(1), starts)
    expected, memories = encoder_episode(core, x[0])
    assert_close(outputs[0], expected)
    # The last segment's write is due with the next step only.
    assert_close(state.memory[0], memories[-2])
    w = torch.randn_like(expected)
    to = [x, *core.parameters()]
    grads = (gradients((w * out).sum(), to) for out in (outputs[0], expected))
    for actual, grad in zip(*grads, strict=True):
        assert_close(actual, grad)
    acted, _ = play(core, x, core.initial_state(1), starts, stepwise=True)
    assert_close(acted[0], expected.detach())


def test_a_late_output_sends_gradient_to_every_earlier_step() -> None:
    core = encoder()
    x, starts = unbroken(1, 6 * S + 1)
    x.requires_grad_()
    outputs, _ = core(x, core.initial_state(1), starts)
    (grad,) = gradients(outputs[0, -1].square().sum(), [x])
    assert (grad.abs().amax(-1) > 0).all()
