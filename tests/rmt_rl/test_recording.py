"""Recording shows what there is and changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from rmt_rl.recording import rank, record
from tests.rmt_rl.core_cases import Case, build, every_case, leaves, play, unbroken

S, M, W, LAYERS, HEADS = 3, 2, 3, 2, 2
ATTENTION: dict[str, Any] = {"width": 8, "layers": LAYERS, "heads": HEADS}
SEGMENTED = {**ATTENTION, "segment_length": S, "memory_tokens": M}


@every_case
def test_outputs_are_the_same_to_the_last_bit(case: Case) -> None:
    core = case.build(torch.float32)
    x, starts = unbroken(3, 8)
    x, starts[1, 4] = x.float(), True
    plain, state = play(core, x, core.initial_state(3), starts, stepwise=True)
    with record(core):
        recorded, end = play(core, x, core.initial_state(3), starts, stepwise=True)
    assert torch.equal(plain, recorded)
    assert all(torch.equal(one, other) for one, other in zip(leaves(state), leaves(end), strict=True))
    again, _ = play(core, x, core.initial_state(3), starts, stepwise=True)
    assert torch.equal(plain, again)


def uniform(core: str, **options: Any) -> Any:
    """A core whose queries are 0, so that a step looks at all it sees alike."""
    built = build(core, torch.float64, 0, **options)
    with torch.no_grad():
        for block in built.blocks:
            width = block.qkv.in_features
            block.qkv.weight[:width], block.qkv.bias[:width] = 0.0, 0.0
            if block.relative is not None:
                nn.init.zeros_(block.relative.weight)
        if hasattr(built, "positions"):
            built.positions.u.zero_()
    return built


@pytest.mark.parametrize(
    ("core", "options"),
    [
        ("rmt", SEGMENTED),
        ("armt", SEGMENTED),
        ("rmt_xl", {**SEGMENTED, "memory_length": W}),
        ("xl", {**ATTENTION, "memory_length": W}),
    ],
)
def test_even_attention_is_shared_by_number(core: str, options: dict[str, Any]) -> None:
    steps = 3 * S + 1
    x, starts = unbroken(2, steps)
    built = uniform(core, **options)
    with record(built) as recording:
        play(built, x, built.initial_state(2), starts, stepwise=True)
    shares = recording.attention()
    assert shares.shape == (LAYERS, steps, 2, HEADS, 3)
    for t in range(steps):
        slot = t % S
        counts = {
            "rmt": (M, 0, slot + 1),
            "armt": (0, 0, slot + 1),
            "rmt_xl": (M, min(t - slot, W - slot), slot + 1),
            "xl": (0, min(t, W), 1),
        }[core]
        expected = np.array(counts) / sum(counts)
        np.testing.assert_allclose(shares[:, t], np.broadcast_to(expected, shares[:, t].shape), atol=1e-9)


def test_persistent_tokens_take_the_rest() -> None:
    built = uniform("rmt", **SEGMENTED, persistent_tokens=3)
    x, starts = unbroken(1, 1)
    with record(built) as recording:
        play(built, x, built.initial_state(1), starts, stepwise=True)
    np.testing.assert_allclose(recording.attention()[0, 0, 0, 0], np.array([M, 0, 1]) / (3 + M + 1))


@pytest.mark.parametrize("core", ["rmt", "rmt_encoder"])
def test_memory_moves_where_a_segment_opens(core: str) -> None:
    built = build(core, torch.float64, 0, **SEGMENTED)
    x, starts = unbroken(2, 3 * S + 1)
    with record(built) as recording:
        _, state = play(built, x, built.initial_state(2), starts, stepwise=True)
    norms, changes = recording.memory_norm(), recording.memory_change()
    assert norms.shape == changes.shape == (3 * S + 1, 2, M)
    opens = np.arange(3 * S + 1) % S == 0
    opens[0] = False
    assert (changes[opens] > 0).all() and not changes[~opens].any()
    np.testing.assert_allclose(norms[0], built.initial_memory.norm(dim=-1).detach().expand(2, -1))
    np.testing.assert_allclose(norms[-1], state.memory.norm(dim=-1))


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (4, 4)])
def test_rank_is_that_of_the_singular_values(shape: tuple[int, int]) -> None:
    left, right = torch.randn(3, 7, shape[0], 3), torch.randn(3, 7, 3, shape[1])
    scale = torch.tensor([1.0, 1e-2, 1e-4])  # the last lies below the share that counts
    matrices = torch.cat([left @ right, (left * scale) @ right, torch.zeros(3, 1, *shape)], dim=1)
    expected = torch.linalg.matrix_rank(matrices, rtol=1e-3)
    assert set(expected.flatten().tolist()) >= {0, 2, 3}
    torch.testing.assert_close(rank(matrices), expected)


def test_rank_grows_with_what_is_written() -> None:
    built = build("armt", torch.float64, 0, **SEGMENTED, memory_width=8)
    x, starts = unbroken(2, 4 * S)
    with record(built) as recording:
        play(built, x, built.initial_state(2), starts, stepwise=True)
    ranks = recording.matrix_rank()
    assert ranks.shape == (4 * S, 2, LAYERS)
    for t in range(4 * S):
        assert (ranks[t] <= M * (t // S)).all() and (ranks[t] > 0).all() == (t >= S)
    assert recording.memory_norm().shape == (4 * S, 2, LAYERS)


def test_what_there_is_not() -> None:
    for core, options in (("gru", {"width": 4}), ("none", {"width": 4})):
        built = build(core, torch.float64, 0, **options)
        x, starts = unbroken(1, 2)
        with record(built) as recording:
            play(built, x, built.initial_state(1), starts, stepwise=True)
        with pytest.raises(ValueError, match="no attention of a"):
            recording.attention()
        with pytest.raises(ValueError, match="no matrix of associations"):
            recording.matrix_rank()
        assert recording.memory_norm().shape == (2, 1, 1)
    assert recording.memory_norm().sum() == 0.0
    built = build("xl", torch.float64, 0, **ATTENTION)
    with record(built) as recording:
        play(built, *unbroken(1, 2)[:1], built.initial_state(1), unbroken(1, 2)[1], stepwise=True)
    assert recording.has_attention and not recording.has_memory
    with pytest.raises(ValueError, match="xl has but a cache"):
        recording.memory_norm()
    built = build("rmt", torch.float64, 0, **SEGMENTED)
    with record(built), pytest.raises(ValueError, match="being recorded already"), record(built):
        pass
    assert all(block.observer is None for block in built.blocks)
