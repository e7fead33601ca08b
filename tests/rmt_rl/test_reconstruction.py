"""The auxiliary loss: what it is for each space, whose gradient it gives, and what leaves it out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch as th
import torch.nn.functional as F
from gymnasium import spaces

from rmt_rl.reconstruction import Reconstruction, add_loss

D = 6
FALSE = th.zeros(2, 5, dtype=th.bool)


def test_a_loss_is_added_whatever_becomes_of_the_values() -> None:
    weight = th.tensor([2.0, 3.0], requires_grad=True)
    for scale in (1.0, 0.0, -7.0):
        values = add_loss(5.0 * weight, (weight**2).sum())
        assert th.equal(values, 5.0 * weight)
        (gradient,) = th.autograd.grad((scale * values).sum(), weight)
        th.testing.assert_close(gradient, 5.0 * scale + 2.0 * weight.detach())


def last_logits(reconstruction: Reconstruction, outputs: th.Tensor) -> th.Tensor:
    return reconstruction.heads[0](reconstruction.hidden(outputs.flatten(0, 1)))  # type: ignore[no-any-return]


SPACES: dict[str, tuple[spaces.Space[Any], Any]] = {
    "box": (spaces.Box(-1, 1, (3,), np.float32), lambda p, x: F.smooth_l1_loss(p, x)),
    "discrete": (spaces.Discrete(4), lambda p, x: F.cross_entropy(p, x)),
    "multi_binary": (
        spaces.MultiBinary(3),
        lambda p, x: F.binary_cross_entropy(p.sigmoid(), x.float()),
    ),
    "image": (
        spaces.Box(0, 255, (2, 3, 1), np.uint8),
        lambda p, x: F.binary_cross_entropy(p.sigmoid(), x.flatten(1) / 255),
    ),
    "multi_discrete": (
        spaces.MultiDiscrete([4, 2]),
        lambda p, x: (F.cross_entropy(p[:, :4], x[:, 0]) + F.cross_entropy(p[:, 4:6], x[:, 1])) / 2,
    ),
    "ids": (
        spaces.Box(1, 3, (2, 2), np.int8),
        lambda p, x: F.cross_entropy(p.view(-1, 3), x.flatten().long() - 1),
    ),
    "counts": (spaces.Box(0, 200, (2,), np.int64), lambda p, x: F.smooth_l1_loss(p, x.float())),
}


def samples(space: spaces.Space[Any], count: int = 10) -> th.Tensor:
    space.seed(0)
    return th.as_tensor(np.stack([np.asarray(space.sample()) for _ in range(count)]))


@pytest.mark.parametrize("kind", SPACES)
def test_the_loss_of_each_space(kind: str) -> None:
    space, expected = SPACES[kind]
    th.manual_seed(0)
    reconstruction, outputs, seen = Reconstruction(space, D, 1), th.randn(2, 5, D), samples(space)
    loss = reconstruction(outputs, seen, FALSE)
    th.testing.assert_close(loss, expected(last_logits(reconstruction, outputs), seen))


def test_of_a_dict_it_is_the_sum() -> None:
    names = ("box", "discrete", "ids")
    space = spaces.Dict({name: SPACES[name][0] for name in names})
    whole = Reconstruction(space, D, 1)
    outputs, seen = th.randn(2, 5, D), {name: samples(space[name]) for name in names}
    expected = 0.0
    for head, name in zip(whole.heads, space, strict=True):
        part = Reconstruction(space[name], D, 1)
        part.hidden, part.heads = whole.hidden, th.nn.ModuleList([head])
        expected += part(outputs, seen[name], FALSE)
    th.testing.assert_close(whole(outputs, seen, FALSE), expected)


@pytest.mark.parametrize("steps", [1, 3])
def test_steps_back(steps: int) -> None:
    """Against a loop; an observation of another episode, or before the sequence, is not asked for."""
    th.manual_seed(0)
    space = spaces.Box(-1, 1, (3,), np.float32)
    reconstruction = Reconstruction(space, D, 1, steps=steps)
    outputs, seen = th.randn(2, 5, D), samples(space)
    starts = th.tensor([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0]], dtype=th.bool)
    predictions = last_logits(reconstruction, outputs).view(2, 5, 3)
    losses = [
        F.smooth_l1_loss(predictions[b, t], seen.view(2, 5, 3)[b, t - steps])
        for b in range(2)
        for t in range(steps, 5)
        if not starts[b, t - steps + 1 : t + 1].any()
    ]
    assert len(losses) == {1: 7, 3: 2}[steps]
    th.testing.assert_close(reconstruction(outputs, seen, starts), th.stack(losses).mean())


def test_no_step_may_reach_back_that_far() -> None:
    reconstruction = Reconstruction(spaces.Discrete(2), D, 1, steps=2)
    starts = th.ones(2, 5, dtype=th.bool)
    loss = reconstruction(th.randn(2, 5, D), th.zeros(10), starts)
    assert loss == 0 and loss.requires_grad
    with pytest.raises(ValueError, match=r"2 steps back needs .*sequence_length is 2"):
        reconstruction(th.randn(1, 2, D), th.zeros(2), th.zeros(1, 2, dtype=th.bool))


def test_features_have_no_gradient_as_targets() -> None:
    features = th.randn(10, 4, requires_grad=True)
    reconstruction = Reconstruction(spaces.Text(3), D, 4, target="features")
    outputs = th.randn(2, 5, D)
    loss = reconstruction(outputs, features, FALSE)
    th.testing.assert_close(loss, F.smooth_l1_loss(last_logits(reconstruction, outputs), features))
    loss.backward()
    assert features.grad is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(coef=0.0), "coef must be .*above 0, got 0.0"),
        (dict(coef=float("nan")), "coef must be"),
        (dict(steps=-1), "steps must be at least 1"),
        (dict(target="reward"), "target must be one of 'observation', 'features', got 'reward'"),
        (dict(width=0), "width must be at least 1"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Reconstruction(spaces.Discrete(2), D, 1, **options)


def test_an_observation_that_is_too_large() -> None:
    space = spaces.Dict({"camera": spaces.Box(0, 255, (200, 200, 3), np.uint8)})
    with pytest.raises(ValueError, match=r"under the key 'camera' has 120,000 numbers.*target=.features"):
        Reconstruction(space, D, 1)
    Reconstruction(space, D, 1, target="features")
