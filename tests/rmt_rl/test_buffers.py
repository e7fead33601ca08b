"""The buffer hands out what was put in, as whole sequences with the state before each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch as th
from gymnasium import spaces

from rmt_rl.buffers import MemoryDictRolloutBuffer, MemoryRolloutBuffer


class Clock(NamedTuple):
    time: th.Tensor


def filled(kind: str) -> MemoryRolloutBuffer:
    """4 environments, 6 steps, sequences of 3; step t of environment e is numbered 10 e + t throughout."""
    box = spaces.Box(-1e3, 1e3, (1,), np.float32)
    space: spaces.Space[object] = spaces.Dict({"a": box}) if kind == "dict" else box
    cls = MemoryDictRolloutBuffer if kind == "dict" else MemoryRolloutBuffer
    buffer = cls(6, space, spaces.Discrete(99), device="cpu", n_envs=4, sequence_length=3)
    for _ in range(2):  # a second rollout replaces the first
        buffer.reset()
        for t in range(6):
            number = 10.0 * np.arange(4) + t
            if t % 3 == 0:
                buffer.begin_sequences((Clock(th.from_numpy(number)),))
            obs = number[:, None].astype(np.float32)
            tensor = th.from_numpy(number.astype(np.float32))
            buffer.add(
                {"a": obs} if kind == "dict" else obs,
                number[:, None],
                number,
                number % 4 == 1,
                tensor,
                tensor,
            )  # type: ignore[arg-type]
    buffer.compute_returns_and_advantage(th.zeros(4), np.zeros(4, bool))
    return buffer


def test_sequences() -> None:
    for kind in ("box", "dict"):
        seen = []
        batches = list(filled(kind).get(6))
        assert [len(batch.actions) for batch in batches] == [6, 6, 6, 6]
        for batch in batches:
            sequences = batch.observations
            obs = sequences.observations["a"] if kind == "dict" else sequences.observations
            numbers = obs.view(2, 3)
            th.testing.assert_close(numbers, batch.actions.view(2, 3))
            th.testing.assert_close(numbers, batch.old_log_prob.view(2, 3))
            # Three successive steps of one environment, and the state before the first of them.
            th.testing.assert_close(numbers[:, 1:] - numbers[:, :-1], th.ones(2, 2))
            th.testing.assert_close(sequences.states[0].time.float(), numbers[:, 0])
            assert th.equal(sequences.episode_starts, numbers % 4 == 1)
            seen += numbers.flatten().tolist()
        assert sorted(seen) == [10 * e + t for e in range(4) for t in range(6)]


def test_one_state_per_sequence_is_kept() -> None:
    buffer = filled("box")
    list(buffer.get())
    assert buffer._flat_states[0].time.shape == (4 * 6 // 3,)
