"""``learn`` says once that a small model wants one thread."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch as th
from torch import nn

from rmt_rl import MemoryA2C, MemoryPPO, threads
from rmt_rl.threads import advise_threads
from tests.rmt_rl.test_memory_ppo import worlds

CPU = th.device("cpu")


@pytest.fixture(autouse=True)
def _many_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Eight threads, in a process that has not been told yet."""
    monkeypatch.setattr(threads, "_advised", False)
    before = th.get_num_threads()
    th.set_num_threads(8)
    yield
    th.set_num_threads(before)


def said(policy: nn.Module, device: Any = CPU) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        advise_threads(policy, device)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
def test_learn_says_it_once(algorithm: Any) -> None:
    models = [
        algorithm(
            "MlpPolicy", worlds(2), n_steps=8, sequence_length=8, seed=0, device="cpu",
            policy_kwargs=dict(core="gru", core_kwargs=dict(width=8), net_arch=[8]),
            **(dict(batch_size=16) if algorithm is MemoryPPO else {}),
        )
        for _ in range(2)
    ]  # fmt: skip
    size = sum(parameter.numel() for parameter in models[0].policy.parameters())
    message = rf"torch uses 8 threads for a policy of {size} parameters.*torch\.set_num_threads\(1\)"
    with pytest.warns(UserWarning, match=message) as caught:
        models[0].learn(16)
    assert [warning.filename for warning in caught] == [__file__]  # points at the call of learn
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        models[0].learn(16, reset_num_timesteps=False)
        models[1].learn(16)


@pytest.mark.parametrize(("count", "says"), [(1, False), (3, False), (4, True), (8, True)])
def test_few_threads_are_let_be(count: int, says: bool) -> None:
    th.set_num_threads(count)
    assert bool(said(nn.Linear(3, 3))) == says


@pytest.mark.parametrize(("inputs", "says"), [(999_999, True), (1_000_000, False)])
def test_large_models_are_let_be(inputs: int, says: bool) -> None:
    policy = nn.Linear(inputs, 1, bias=False, device="meta")
    assert bool(said(policy)) == says


@pytest.mark.parametrize("device", [th.device("cuda"), th.device("cuda:1"), "cuda"])
def test_other_devices_are_let_be(device: Any) -> None:
    assert not said(nn.Linear(3, 3), device)
    assert said(nn.Linear(3, 3), "cpu")
