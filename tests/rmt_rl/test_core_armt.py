"""What the associative memory must do beyond the laws of every core."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from rmt_rl.cores import make_core
from rmt_rl.cores.armt import DELTA, NU, associate, dpfp, features, look_up
from tests.rmt_rl.core_cases import INPUT_DIM, assert_close, build, gradients, play, unbroken
from tests.rmt_rl.core_reference import armt_episode, dpfp_3, unit

S, M, D, KEY = 3, 2, 8, 5
OPTIONS: dict[str, Any] = {
    "width": D, "layers": 2, "heads": 2, "segment_length": S, "memory_tokens": M, "memory_width": 3,
}  # fmt: skip


def armt(seed: int = 0, **options: Any) -> Any:
    return build("armt", torch.float64, seed, **{**OPTIONS, **options})


# -- against the paper ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"layers": 1, "memory_tokens": 3}, {"layers": 3, "heads": 4, "segment_length": 2}, {"gated": True}],
    ids=str,
)
@pytest.mark.parametrize("steps", [1, 3, 10])
def test_equals_the_equations_token_by_token(options: dict[str, Any], steps: int) -> None:
    core = armt(**options)
    x, starts = unbroken(1, steps)
    x.requires_grad_()
    outputs, _ = core(x, core.initial_state(1), starts)
    expected, _, _ = armt_episode(core, x[0])
    assert_close(outputs[0], expected)
    w = torch.randn_like(expected)
    to = [x, *core.parameters()]
    grads = (gradients((w * out).sum(), to) for out in (outputs[0], expected))
    for actual, grad in zip(*grads, strict=True):
        assert_close(actual, grad)
    acted, end = play(core, x, core.initial_state(1), starts, stepwise=True)
    assert_close(acted[0], expected.detach())
    # One step more makes the write that is due.
    _, end = core(x[:, :1], end, starts[:, :1])
    _, a, z = armt_episode(core, x[0, : steps - steps % core.segment_length])
    assert_close(end.memory[0], torch.stack([torch.cat([p, q[None]]) for p, q in zip(a, z, strict=True)]))


def test_dpfp() -> None:
    """Of (1, -2): r = (1, 0, 0, 2), and r_i r_{i-1}, r_i r_{i-2}, r_i r_{i-3}."""
    expected = [2.0, 0.0, 0.0, 0.0] + [0.0] * 4 + [0.0, 0.0, 0.0, 2.0]
    assert dpfp(torch.tensor([1.0, -2.0])).tolist() == expected
    x = torch.randn(4, 7, KEY, dtype=torch.float64)
    products = dpfp(x)
    assert products.shape == (4, 7, 2 * NU * KEY) and (products >= 0).all()
    assert_close(products[1, 2], dpfp_3(x[1, 2]))
    assert_close(dpfp(3 * x), 9 * products)
    assert_close(features(x)[1, 2], unit(products[1, 2]))
    x = 4 * x
    assert_close(features(9 * x), features(x))  # the length of a key does not matter, but for short ones
    assert_close(features(1e-3 * x), dpfp(1e-3 * x))
    assert not features(torch.zeros(KEY)).any()


# -- what a memory does --------------------------------------------------------------------------------------


def pair() -> tuple[Tensor, Tensor]:
    """Features of a key (1, 1, F), and a value (1, 1, D)."""
    return features(4 * torch.randn(1, 1, KEY, dtype=torch.float64)), torch.randn(
        1, 1, D, dtype=torch.float64
    )


def empty() -> Tensor:
    return torch.zeros(1, D + 1, 2 * NU * KEY, dtype=torch.float64)


def full(beta: float = 1.0) -> Tensor:
    return torch.full((1, 1, 1), beta, dtype=torch.float64)


@pytest.mark.parametrize("seed", range(5))
class TestMemory:
    """After each write: what the key gives."""

    @pytest.fixture(autouse=True)
    def seeded(self, seed: int) -> None:
        torch.manual_seed(seed)

    def test_nothing_is_found_in_nothing(self) -> None:
        phi, _ = pair()
        assert not look_up(empty(), phi).any()

    def test_a_key_gives_its_value(self) -> None:
        phi, value = pair()
        memory = associate(empty(), phi, value, full())
        assert_close(look_up(memory, phi), value)

    def test_beta_is_the_share_that_is_replaced(self) -> None:
        phi, value = pair()
        memory = associate(empty(), phi, value, full(0.25))
        assert_close(look_up(memory, phi), 0.25 * value)
        memory = associate(memory, phi, value, full(0.25))
        assert_close(look_up(memory, phi), (1 - 0.75**2) * value)

    def test_a_key_written_again_gives_the_new_value(self) -> None:
        """Without gamma z would be twice the key and half of the new value be found."""
        phi, old = pair()
        new = pair()[1]
        memory = associate(associate(empty(), phi, old, full()), phi, new, full())
        assert_close(look_up(memory, phi), new)
        assert_close(memory[:, -1], phi[:, 0])

    def test_keys_without_common_features_do_not_meet(self) -> None:
        one, other = torch.zeros(2, 1, 1, 6 * KEY, dtype=torch.float64)
        one[..., :9], other[..., 9:] = 1 / 3, (6 * KEY - 9) ** -0.5
        first, second = pair()[1], pair()[1]
        memory = associate(associate(empty(), one, first, full()), other, second, full())
        assert_close(look_up(memory, one), first)
        assert_close(look_up(memory, other), second)

    def test_a_key_unlike_all_others_recalls_little(self) -> None:
        """As much of delta as it has in common with what was written is the share of the value."""
        phi, value = pair()
        memory = associate(empty(), phi, value, full())
        common = 0.1 * DELTA * phi  # what a nearly orthogonal key has along this one
        assert_close(look_up(memory, common), 0.1 * value)

    def test_one_key_twice_in_a_segment(self) -> None:
        """All writes of a segment start from what was there: v_1 + v_2 - v_old."""
        phi, old = pair()
        first, second = pair()[1], pair()[1]
        memory = associate(empty(), phi, old, full())
        twice = torch.cat([phi, phi], dim=1)
        memory = associate(memory, twice, torch.cat([first, second], dim=1), full().expand(1, 2, 1))
        assert_close(look_up(memory, phi), first + second - old)

    def test_gamma_has_no_gradient(self) -> None:
        """What z gains, gamma phi, is as steep in phi as gamma is large, and no steeper."""
        phi, value = pair()
        memory = 0.5 * associate(empty(), phi, value, full())
        phi = phi.clone().requires_grad_()
        norm = associate(memory, phi, value, full())[:, -1].sum()
        (grad,) = torch.autograd.grad(norm, phi)
        assert_close(grad, torch.full_like(grad, 0.5))  # half of the key has been seen


# -- in the core ---------------------------------------------------------------------------------------------


def test_an_untrained_memory_changes_nothing() -> None:
    """W_V is 0 at first: all segments are alike."""
    torch.manual_seed(0)
    core = make_core("armt", INPUT_DIM, **OPTIONS)
    x, starts = unbroken(2, S)
    x = x.float()
    outputs, _ = core(x.repeat(1, 3, 1), core.initial_state(2), starts.repeat(1, 3))
    for part in outputs.split(S, dim=1):
        torch.testing.assert_close(part, outputs[:, :S])


def test_the_first_segment_recalls_nothing_and_the_next_does() -> None:
    core = armt()
    x, starts = unbroken(1, 2 * S)
    before, _ = core(x, core.initial_state(1), starts)
    with torch.no_grad():
        for memory in core.associations:
            memory.query.weight.add_(torch.randn_like(memory.query.weight))
    after, _ = core(x, core.initial_state(1), starts)
    assert_close(after[:, :S], before[:, :S])
    assert not torch.isclose(after[:, S:], before[:, S:]).all(-1).any()


def test_a_late_output_sends_gradient_to_every_earlier_step() -> None:
    core = armt()
    x, starts = unbroken(1, 6 * S + 1)
    x.requires_grad_()
    outputs, _ = core(x, core.initial_state(1), starts)
    (grad,) = gradients(outputs[0, -1].square().sum(), [x])
    assert (grad.abs().amax(-1) > 0).all()
