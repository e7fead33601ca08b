"""What a Recurrent Memory Transformer must do beyond the laws of every core."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from rmt_rl.cores.rmt import RMT
from tests.rmt_rl.core_cases import (
    INPUT_DIM,
    assert_close,
    build,
    detached,
    every_path,
    float_leaves,
    gradients,
    play,
    unbroken,
)
from tests.rmt_rl.core_reference import rmt_episode

S, M = 3, 2
OPTIONS: dict[str, Any] = {"width": 8, "layers": 2, "heads": 2, "segment_length": S, "memory_tokens": M}


class FrozenRMT(RMT):
    """Never updates its memory."""

    def written(self, memory: Tensor, streams: list[Tensor]) -> Tensor:
        return memory


def rmt(seed: int = 0, core: str | type[RMT] = "rmt", **options: Any) -> Any:
    return build(core, torch.float64, seed, **{**OPTIONS, **options})


# -- against the paper ---------------------------------------------------------------------------------------


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
def test_equals_read_steps_write_under_an_explicit_mask(options: dict[str, Any], steps: int) -> None:
    """Outputs, memory and gradients, through whole segments and a partial one."""
    core = rmt(**options)
    x, starts = unbroken(1, steps)
    x.requires_grad_()
    outputs, state = core(x, core.initial_state(1), starts)
    expected, memories = rmt_episode(core, x[0])
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


# -- the gradient reaches back -------------------------------------------------------------------------------


def test_a_late_output_sends_gradient_to_every_earlier_step() -> None:
    core = rmt()
    x, starts = unbroken(1, 8 * S + 1)
    x.requires_grad_()
    outputs, _ = core(x, core.initial_state(1), starts)
    (grad,) = gradients(outputs[0, -1].square().sum(), [x])
    assert (grad.abs().amax(-1) > 0).all()


@pytest.mark.parametrize("lengths", [[S] * 5 + [1], [2, 5, 1, 8], [1] * 10], ids=str)
def test_the_gradient_crosses_calls(lengths: list[int]) -> None:
    """The next call does not detach the state: earlier calls get the gradient that they would get in one."""
    core = rmt()
    x, starts = unbroken(1, sum(lengths))
    x.requires_grad_()
    whole, _ = core(x, core.initial_state(1), starts)
    state = core.initial_state(1)
    for part, marks in zip(x.split(lengths, dim=1), starts.split(lengths, dim=1), strict=True):
        outputs, state = core(part, state, marks)
    (grad,), (expected,) = (gradients(out[0, -1].square().sum(), [x]) for out in (outputs, whole))
    assert (expected.abs().amax(-1) > 0).all()
    assert_close(grad, expected)


def test_detaching_the_state_stops_the_gradient() -> None:
    core = rmt()
    x, starts = unbroken(1, 2 * S + 1)
    x.requires_grad_()
    _, state = core(x[:, :S], core.initial_state(1), starts[:, :S])
    outputs, _ = core(x[:, S:], detached(state), starts[:, S:])
    (grad,) = gradients(outputs[0, -1].square().sum(), [x])
    assert not grad[:, :S].any() and (grad[:, S:].abs().amax(-1) > 0).all()


@pytest.mark.parametrize("name", ["rmt", "rmt_encoder", "armt"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_the_gradient_passes_so_many_segments_and_no_more(name: str, most: int) -> None:
    """The first call's last write is due in the second; its first segment counts as the first of a run."""
    core = build(name, torch.float64, 0, **OPTIONS, bptt_segments=most)
    x, starts = unbroken(1, 7 * S)
    x.requires_grad_()
    _, state = core(x[:, :S], core.initial_state(1), starts[:, :S])
    outputs, _ = core(x[:, S:], state, starts[:, S:])
    free, _ = build(name, torch.float64, 0, **OPTIONS)(x, core.initial_state(1), starts)
    assert_close(outputs, free[:, S:])
    for segment in range(6):
        (grad,) = gradients(outputs[:, segment * S : (segment + 1) * S].square().sum(), [x])
        reached = [bool(part.any()) for part in grad[:, S:].split(S, dim=1)]
        first = segment - segment % most
        assert reached == [first <= other <= segment for other in range(6)]
        assert not grad[:, :S].any()


# -- memory is all that passes a boundary --------------------------------------------------------------------


@every_path
def test_with_a_frozen_memory_every_segment_is_the_first(stepwise: bool) -> None:
    core = rmt(core=FrozenRMT)
    x, starts = unbroken(1, 4 * S)
    outputs, state = play(core, x, core.initial_state(1), starts, stepwise)
    for part, out in zip(x.split(S, dim=1), outputs.split(S, dim=1), strict=True):
        alone, end = play(core, part, core.initial_state(1), starts[:, :S], stepwise)
        assert_close(out, alone)
    assert torch.equal(state.memory, core.initial_state(1).memory)
    for leaf, expected in zip(float_leaves(state), float_leaves(end), strict=True):
        assert_close(leaf, expected)


@every_path
def test_with_a_frozen_memory_nothing_passes_a_boundary(stepwise: bool) -> None:
    core = rmt(core=FrozenRMT)
    x, starts = unbroken(1, 3 * S)
    before, _ = play(core, x, core.initial_state(1), starts, stepwise)
    other = x.clone()
    other[:, :S] += 10.0
    after, _ = play(core, other, core.initial_state(1), starts, stepwise)
    assert not torch.equal(after[:, :S], before[:, :S])
    assert torch.equal(after[:, S:], before[:, S:])


def test_with_a_frozen_memory_no_gradient_passes_a_boundary() -> None:
    core = rmt(core=FrozenRMT)
    x, starts = unbroken(1, 3 * S)
    x.requires_grad_()
    outputs, state = core(x[:, :4], core.initial_state(1), starts[:, :4])
    late, _ = core(x[:, 4:], state, starts[:, 4:])
    outputs = torch.cat([outputs, late], dim=1)
    for segment in range(3):
        inside = torch.zeros(3 * S, dtype=torch.bool)
        inside[segment * S : (segment + 1) * S] = True
        (grad,) = gradients(outputs[0, inside].square().sum(), [x])
        assert not grad[0, ~inside].any() and grad[0, inside].all()


# -- the write -----------------------------------------------------------------------------------------------


def memory_after_first_segment(core: Any, x: Tensor, stepwise: bool = False) -> Tensor:
    """(B, M, D), from S + 1 steps: the step after the segment makes the write."""
    _, state = play(core, x, core.initial_state(len(x)), torch.zeros(x.shape[:2], dtype=torch.bool), stepwise)
    return state.memory  # type: ignore[no-any-return]


def test_the_write_made_while_acting_is_that_of_training() -> None:
    core = rmt()
    x, _ = unbroken(3, 5 * S + 1)
    for segments in range(1, 6):
        seen = x[:, : segments * S + 1]
        trained, acted = (memory_after_first_segment(core, seen, stepwise) for stepwise in (False, True))
        assert_close(acted, trained.detach())
        assert not torch.allclose(acted, core.initial_memory)


def test_the_write_is_due_with_the_step_after_the_segment() -> None:
    core = rmt()
    x, starts = unbroken(1, S + 1)
    for stepwise in (False, True):
        _, state = play(core, x[:, :S], core.initial_state(1), starts[:, :S], stepwise)
        assert torch.equal(state.memory[0], core.initial_memory) and state.position.tolist() == [S]
        _, state = play(core, x[:, S:], state, starts[:, S:], stepwise)
        assert not torch.allclose(state.memory[0], core.initial_memory) and state.position.tolist() == [1]


@pytest.mark.parametrize("row", range(M))
def test_every_memory_row_depends_on_every_step_of_the_segment_and_on_no_other(row: int) -> None:
    core = rmt()
    x, _ = unbroken(1, S + 1)
    x.requires_grad_()
    (grad,) = gradients(memory_after_first_segment(core, x)[0, row].square().sum(), [x])
    assert grad[0, :S].abs().amin() > 0
    assert not grad[0, S:].any()


@pytest.mark.parametrize("step", range(S))
def test_the_write_made_while_acting_depends_on_every_step(step: int) -> None:
    core = rmt()
    x, _ = unbroken(1, S + 1)
    other = x.clone()
    other[:, step] += 1.0
    one, two = (memory_after_first_segment(core, inputs, stepwise=True) for inputs in (x, other))
    assert ((one - two).abs().amax(-1) > 1e-6).all()


def test_the_memory_is_normalised() -> None:
    """Fed back after the final norm: a row has mean 0 and variance 1."""
    core = rmt()
    x, _ = unbroken(4, S + 1)
    memory = memory_after_first_segment(core, x)
    assert_close(memory.mean(-1), torch.zeros(4, M, dtype=torch.float64))
    assert_close(memory.var(-1, unbiased=False), torch.ones(4, M, dtype=torch.float64), tolerance=1e-3)


@every_path
def test_blocks_that_add_nothing_keep_the_memory(stepwise: bool) -> None:
    """Neither the write role nor a gain of the norm piles up over segments."""
    core = rmt()
    for block in core.blocks:
        for last in (block.attention_out, block.feedforward_out):
            torch.nn.init.zeros_(last.weight)
            torch.nn.init.zeros_(last.bias)
    x, starts = unbroken(1, 20 * S + 1)
    _, state = play(core, x, core.initial_state(1), starts, stepwise)
    kept = torch.nn.functional.layer_norm(core.initial_memory, (8,))
    assert_close(state.memory[0], kept, tolerance=1e-3)


def test_memory_rows_are_distinct() -> None:
    torch.manual_seed(0)
    core = RMT(INPUT_DIM, memory_tokens=6)
    distances = torch.pdist(core.initial_memory)
    assert distances.min() > 0.1 * distances.max() > 0
    x, starts = unbroken(1, 17)
    outputs, state = core(x.float(), core.initial_state(1), starts)
    assert torch.pdist(state.memory[0]).min() > 1e-3
    outputs.square().sum().backward()
    assert core.initial_memory.grad is not None and torch.pdist(core.initial_memory.grad).min() > 0


# -- the read block ------------------------------------------------------------------------------------------


@every_path
def test_the_read_block_does_not_see_the_steps(stepwise: bool) -> None:
    core = rmt(layers=3)
    x, starts = unbroken(1, 2 * S)
    _, state = play(core, x[:, :S], core.initial_state(1), starts[:, :S], stepwise)
    other = x.clone()
    other[:, S:] += 1.0
    ends = [play(core, inputs[:, S:], state, starts[:, S:], stepwise)[1] for inputs in (x, other)]
    one, two = (end.cache for end in ends)
    assert one[:, :, :M].all()
    assert_close(one[:, :, :M], two[:, :, :M])
    assert not torch.allclose(one[:, :, M:], two[:, :, M:])


def test_empty_slots_are_never_attended() -> None:
    """Huge numbers in the slots of steps yet to come change nothing."""
    core = rmt()
    x, starts = unbroken(3, 3 * S)
    for seen in range(1, S):
        for stepwise in (False, True):
            state = detached(play(core, x[:, :seen], core.initial_state(3), starts[:, :seen])[1])
            empty = torch.arange(M + S) >= M + seen
            filled = detached(state)
            assert not filled.cache[:, :, empty].any()
            filled.cache[:, :, empty] = 1e6
            clean, dirty = (
                play(core, x[:, seen:], begin, starts[:, seen:], stepwise)[0] for begin in (state, filled)
            )
            assert_close(dirty, clean)


def test_memory_noise() -> None:
    """On what is written, of the given size, while training alone; the first segment is untouched."""
    core = RMT(3, width=8, heads=2, segment_length=2, memory_tokens=2, memory_noise=0.5)
    inputs, starts = torch.randn(4000, 5, 3), torch.zeros(4000, 5, dtype=torch.bool)
    inputs[:] = inputs[0]

    def memory_of(training: bool) -> tuple[torch.Tensor, torch.Tensor]:
        core.train(training)
        with torch.no_grad():
            outputs, state = core(inputs[:, :3], core.initial_state(len(inputs)), starts[:, :3])
        return outputs, state.memory

    outputs, memory = memory_of(False)
    noisy_outputs, noisy = memory_of(True)
    torch.testing.assert_close(memory, memory[:1].expand_as(memory))
    torch.testing.assert_close(noisy_outputs[:, :2], outputs[:, :2])
    noise = noisy - memory
    assert abs(noise.std().item() - 0.5) < 0.01 and abs(noise.mean().item()) < 0.01
    with pytest.raises(ValueError, match=r"memory_noise must be 0 or more, got -0\.1"):
        RMT(3, memory_noise=-0.1)
