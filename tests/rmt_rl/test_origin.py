"""An algorithm loads its own files; those of others are named, and nothing in them is unpickled."""

from __future__ import annotations

import io
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sb3_contrib import QRDQN, TRPO, RecurrentPPO
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env

from rmt_rl import MemoryA2C, MemoryPPO
from rmt_rl.resuming.checkpoints import ExactCheckpoint
from tests.rmt_rl.test_memory_ppo import worlds

POLICY_KWARGS = dict(core="gru", core_kwargs=dict(width=4), net_arch=[4])
OTHERS: dict[str, tuple[type[BaseAlgorithm], str]] = {
    "Stable-Baselines3's PPO": (PPO, "MlpPolicy"),
    "Stable-Baselines3's A2C": (A2C, "MlpPolicy"),
    "Stable-Baselines3's DQN": (DQN, "MlpPolicy"),
    "sb3-contrib's RecurrentPPO": (RecurrentPPO, "MlpLstmPolicy"),
    "sb3-contrib's TRPO": (TRPO, "MlpPolicy"),
    "sb3-contrib's QRDQN": (QRDQN, "MlpPolicy"),
}


def build(algorithm: Any) -> Any:
    batch = dict(batch_size=8, n_epochs=1) if issubclass(algorithm, MemoryPPO) else {}
    return algorithm(
        "MlpPolicy", worlds(1), n_steps=8, sequence_length=8, policy_kwargs=POLICY_KWARGS, **batch
    )


@pytest.mark.parametrize("one", [MemoryPPO, MemoryA2C])
def test_the_other_algorithms_file_is_refused(one: Any, tmp_path: Path) -> None:
    other = MemoryA2C if one is MemoryPPO else MemoryPPO
    build(other).save(tmp_path / "agent")
    named = f"it is of {other.__name__}, not of {one.__name__}"
    message = f"agent.* cannot be loaded: {named}; load it with {other.__name__}"
    with pytest.raises(ValueError, match=message):
        one.load(tmp_path / "agent")
    with pytest.raises(ValueError, match=message):
        one.load(str(tmp_path / "agent.zip"), worlds(1), device="cpu")
    model = build(one)
    before = model.policy.parameters_to_vector()
    with pytest.raises(ValueError, match=message):
        model.set_parameters(str(tmp_path / "agent"))
    np.testing.assert_array_equal(model.policy.parameters_to_vector(), before)
    shutil.copy(tmp_path / "agent.zip", tmp_path / "model.zip")
    with pytest.raises(ValueError, match=f"it is of {other.__name__}, not of {one.__name__}"):
        model.learn(8, callback=ExactCheckpoint(tmp_path / "run", every=8, resume=tmp_path / "model.zip"))
    with pytest.raises(ValueError, match=f"it is of {other.__name__}, not of {one.__name__}"):
        one.load(io.BytesIO((tmp_path / "agent.zip").read_bytes()))
    assert isinstance(other.load(tmp_path / "agent"), other)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
def test_files_of_other_libraries_are_named(
    name: str, algorithm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, policy = OTHERS[name]
    kind(policy, make_vec_env("CartPole-v1")).save(tmp_path / "agent")  # type: ignore[call-arg]
    monkeypatch.setattr(pickle, "loads", lambda *_: pytest.fail("unpickled"))
    with pytest.raises(ValueError, match=rf"agent.* it is of {name} \(policy .*not of {algorithm.__name__}"):
        algorithm.load(tmp_path / "agent")


def test_subclasses_exchange_files_with_their_algorithm(tmp_path: Path) -> None:
    class Mine(MemoryPPO):
        pass

    build(Mine).save(tmp_path / "mine")
    build(MemoryPPO).save(tmp_path / "plain")
    assert type(MemoryPPO.load(tmp_path / "mine")) is MemoryPPO
    assert type(Mine.load(tmp_path / "plain")) is Mine
    with pytest.raises(ValueError, match="it is of MemoryPPO, not of MemoryA2C"):
        MemoryA2C.load(tmp_path / "mine")
