"""Segments of drawn lengths: acting and replay cut episodes alike, and an agent at work has equal ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from rmt_rl import MemoryPPO
from rmt_rl.cores.jitter import Jitter, make_jitter
from tests.rmt_rl.core_cases import (
    INPUT_DIM,
    assert_close,
    assert_states_close,
    build,
    detached,
    few,
    gradients,
    play,
    unbroken,
)
from tests.rmt_rl.core_reference import rmt_episode

S = 4
OPTIONS: dict[str, Any] = {
    "width": 8, "layers": 2, "heads": 2, "segment_length": S, "memory_tokens": 2, "segment_jitter": 0.5,
}  # fmt: skip
CORES = {"rmt": {}, "rmt_xl": {"memory_length": 3}, "armt": {"memory_width": 3}}
every_core = pytest.mark.parametrize("name", CORES)


def core_of(name: str, seed: int = 0, **options: Any) -> Any:
    return build(name, torch.float64, seed, **{**OPTIONS, **CORES[name], **options})


# -- the numbers ---------------------------------------------------------------------------------------------


def test_lengths_are_drawn_evenly_and_independently() -> None:
    jitter = Jitter(16, 3)
    torch.manual_seed(0)
    draw, lengths = jitter.first_draws(2000, torch.device("cpu")), []
    assert (draw != 0).all()
    for _ in range(20):
        draw = jitter.advance(draw)
        lengths.append(jitter.lengths(draw).numpy())
    found = np.stack(lengths)
    shares = np.bincount(found.ravel(), minlength=20) / found.size
    assert found.min() == 13 and found.max() == 19
    np.testing.assert_allclose(shares[13:], 1 / 7, atol=5 * np.sqrt(1 / 7 / found.size))
    following = np.corrcoef(found[:-1].ravel(), found[1:].ravel())[0, 1]
    assert abs(following) < 5 / np.sqrt(found.size)


def test_zero_stays_and_stands_for_equal_lengths() -> None:
    jitter, zero = Jitter(16, 3), torch.zeros(3, dtype=torch.int64)
    assert not jitter.advance(zero).any()
    assert jitter.lengths(zero).tolist() == [16] * 3


@pytest.mark.parametrize(
    ("share", "words"), [(-0.1, "from 0 to below 1"), (1.0, "from 0 to below 1"), (0.1, "at least 0.25")]
)
def test_bad_shares(share: float, words: str) -> None:
    with pytest.raises(ValueError, match=f"segment_jitter.*{words}"):
        make_jitter(S, share)


# -- the laws, with drawn lengths ----------------------------------------------------------------------------


@every_core
@few
@given(
    seed=st.integers(0, 2**16), rows=st.integers(1, 3), seen=st.integers(0, 7), steps=st.integers(2, 18),
    data=st.data(),
)  # fmt: skip
def test_steps_and_pieces_are_the_sequence(
    name: str, seed: int, rows: int, seen: int, steps: int, data: st.DataObject
) -> None:
    core = core_of(name, seed)
    x = torch.randn(rows, seen + steps, INPUT_DIM, dtype=torch.float64)
    starts = torch.rand(rows, seen + steps) < 0.12
    state = core.rollout_state(rows)
    if seen:
        state = detached(play(core, x[:, :seen], state, starts[:, :seen])[1])
    x, starts = x[:, seen:], starts[:, seen:]
    whole, last = play(core, x, state, starts)
    acted, end = play(core, x, state, starts, stepwise=True)
    assert_close(acted, whole)
    assert_states_close(end, last)
    assert_close(core.replay(x, state, starts), whole)
    k = data.draw(st.integers(1, steps - 1), label="k")
    head, between = core(x[:, :k], state, starts[:, :k])
    tail, end = core(x[:, k:], between, starts[:, k:])
    assert_close(torch.cat([head, tail], dim=1), whole)
    assert_states_close(end, last)


@pytest.mark.parametrize("name", ["rmt", "rmt_xl"])
@pytest.mark.parametrize("seed", range(4))
def test_equals_segments_of_those_lengths(name: str, seed: int) -> None:
    core = core_of(name, seed)
    x, starts = unbroken(1, 20)
    x.requires_grad_()
    state = core.rollout_state(1)
    draw, lengths = state.draw, []
    while sum(lengths) < 20:  # no episode start is marked: the first segment has the first number
        lengths.append(int(core.jitter.lengths(draw)))
        draw = core.jitter.advance(draw)
    assert len(set(lengths)) > 1
    outputs, _ = core(x, state, starts)
    expected, _ = rmt_episode(core, x[0], lengths)
    assert_close(outputs[0], expected)
    w = torch.randn_like(expected)
    to = [x, *core.parameters()]
    grads = (gradients((w * out).sum(), to) for out in (outputs[0], expected))
    for actual, grad in zip(*grads, strict=True):
        assert_close(actual, grad)


@every_core
def test_an_agent_at_work_has_equal_segments(name: str) -> None:
    """From the initial state nothing is drawn: the core is the one without jitter."""
    core, plain = core_of(name), core_of(name, segment_jitter=0.0)
    weights = {key: value for key, value in core.state_dict().items() if key != "_extra_state"}
    weights["slot"] = weights["slot"][:S]
    plain.load_state_dict(weights, strict=False)
    x, starts = unbroken(2, 3 * S + 1)
    outputs, state = core(x, core.initial_state(2), starts)
    expected, _ = plain(x, plain.initial_state(2), starts)
    assert_close(outputs, expected)
    assert not state.draw.any()
    drawn, _ = core(x, core.rollout_state(2), starts)
    assert not torch.isclose(drawn, expected).all()


@every_core
def test_training_replays_what_was_drawn(name: str) -> None:
    options = {**OPTIONS, **CORES[name], "segment_length": 8}
    model = MemoryPPO(
        "MlpPolicy", "CartPole-v1", n_steps=64, sequence_length=32, batch_size=32, seed=0,
        policy_kwargs=dict(core=name, core_kwargs=options),
    )  # fmt: skip
    model.learn(192)
    assert model.logger.name_to_value["train/replay_error"] < 1e-4
    assert model._memory is not None and model._memory[0].draw.all()
    assert isinstance(model.observation_space, spaces.Box)
    _, state = model.predict(np.zeros(4, np.float32))
    assert not state.states[0].draw.any()
