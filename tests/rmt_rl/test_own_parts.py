"""What users put in of their own: a core, a rollout buffer."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rmt_rl import MemoryA2C, MemoryCore, MemoryPPO
from rmt_rl.buffers import MemoryRolloutBuffer
from tests.rmt_rl.test_memory_ppo import replay_errors, worlds


class Hidden(NamedTuple):
    hidden: Tensor


class VanillaRNN(MemoryCore[Hidden]):
    """An Elman network, as a user would write it."""

    def __init__(self, input_dim: int, width: int = 8) -> None:
        super().__init__(input_dim, width)
        self.cell = nn.RNNCell(self.input_dim, width)

    def initial_state(self, batch_size: int) -> Hidden:
        return Hidden(self.cell.weight_hh.new_zeros(batch_size, self.output_dim))

    def forward(self, inputs: Tensor, state: Hidden, episode_starts: Tensor) -> tuple[Tensor, Hidden]:
        self.check_call(inputs, state, episode_starts)
        hidden, outputs = state.hidden, []
        for x, starts in zip(inputs.unbind(1), episode_starts.unbind(1), strict=True):
            hidden = self.cell(x, torch.where(starts.unsqueeze(1), 0.0, hidden))
            outputs.append(hidden)
        return torch.stack(outputs, dim=1), Hidden(hidden)


class CountingBuffer(MemoryRolloutBuffer):
    """Counts the steps that it was given."""

    added = 0

    def add(self, *args: Any, **kwargs: Any) -> None:
        self.added += 1
        super().add(*args, **kwargs)


@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
def test_a_recurrent_layer_of_ones_own(algorithm: Any, tmp_path: Path) -> None:
    env = worlds(2)
    batch = dict(batch_size=16) if algorithm is MemoryPPO else {}
    model = algorithm(
        "MlpPolicy", env, n_steps=16, sequence_length=8, seed=0, device="cpu",
        policy_kwargs=dict(core=VanillaRNN, core_kwargs=dict(width=5)), **batch,
    )  # fmt: skip
    before = model.policy.core.cell.weight_hh.clone()
    assert max(replay_errors(model, updates=3)) < 1e-5
    assert not torch.equal(before, model.policy.core.cell.weight_hh)
    obs = env.reset()
    actions, state = model.predict(obs, deterministic=True)
    model.save(tmp_path / "agent")
    again, other = algorithm.load(tmp_path / "agent", device="cpu").predict(obs, deterministic=True)
    np.testing.assert_array_equal(actions, again)
    assert torch.equal(state.states[0].hidden, other.states[0].hidden)


def test_a_rollout_buffer_of_ones_own() -> None:
    model = MemoryPPO(
        "MlpPolicy", worlds(2), n_steps=16, sequence_length=8, batch_size=16, device="cpu",
        rollout_buffer_class=CountingBuffer, policy_kwargs=dict(core="gru"),
    )  # fmt: skip
    model.learn(64)
    assert isinstance(model.rollout_buffer, CountingBuffer) and model.rollout_buffer.added == 32
