"""Checkpoints of another device. There need be none: tensors say where they lay."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from rmt_rl import CORES, MemoryPPO
from rmt_rl.states import leaves
from tests.rmt_rl.test_memory_ppo import build, replay_errors, worlds


def rewritten(data: bytes, change: Any) -> bytes:
    """A zip file whose members are ``change(name, content)``."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return out.getvalue()


def as_if_on_cuda(file: Path) -> None:
    """Let every tensor in SB3's zip file say that it lay on a GPU when it was saved."""

    def pickled(name: str, content: bytes) -> bytes:
        cpu, cuda = (b"X" + len(where).to_bytes(4, "little") + where for where in (b"cpu", b"cuda:0"))
        assert not name.endswith("data.pkl") or cpu in content
        return content.replace(cpu, cuda) if name.endswith("data.pkl") else content

    def member(name: str, content: bytes) -> bytes:
        is_state = name in ("policy.pth", "policy.optimizer.pth")
        return rewritten(content, pickled) if is_state else content

    file.write_bytes(rewritten(file.read_bytes(), member))
    with zipfile.ZipFile(file) as archive, pytest.raises(RuntimeError, match="CUDA"):
        th.load(io.BytesIO(archive.read("policy.pth")))


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_a_checkpoint_of_a_gpu_is_loaded_without_one(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(th.cuda, "is_available", lambda: False)
    source = build(worlds())
    source.learn(72)
    source.save(tmp_path / "agent.zip")
    as_if_on_cuda(tmp_path / "agent.zip")
    loaded = MemoryPPO.load(tmp_path / "agent", device=device)
    expected = source.policy.parameters_to_vector()
    np.testing.assert_array_equal(loaded.policy.parameters_to_vector(), expected)
    other = build(worlds(), seed=1)
    other.set_parameters(str(tmp_path / "agent.zip"), device=device)
    np.testing.assert_array_equal(other.policy.parameters_to_vector(), expected)
    for model in (loaded, other):
        moments = [v for s in model.policy.optimizer.state.values() for v in s.values()]
        assert moments
        assert {tensor.device.type for tensor in moments} == {"cpu"}
    loaded.set_env(worlds())
    assert max(replay_errors(loaded, 1)) < 1e-5


def test_no_tensor_is_among_what_is_pickled(tmp_path: Path) -> None:
    """SB3 maps the weights to a device, but not what it pickles beside them, such as a memory would be."""
    model = build(worlds())
    model.learn(36)
    assert model._memory is not None
    model.save(tmp_path / "agent.zip")
    with zipfile.ZipFile(tmp_path / "agent.zip") as archive:
        entries = [e for e in json.loads(archive.read("data")).values() if isinstance(e, dict)]
    pickles = [base64.b64decode(e[":serialized:"]) for e in entries if ":serialized:" in e]
    assert pickles
    assert not [pickled for pickled in pickles if b"_rebuild_tensor" in pickled]


@pytest.mark.parametrize("share_memory", [True, False])
@pytest.mark.parametrize("core", CORES)
def test_the_memory_follows_the_device(core: str, share_memory: bool, tmp_path: Path) -> None:
    """Torch's meta device stands for another one."""
    model = build(worlds(), core=core, policy_kwargs=dict(share_memory=share_memory))
    _, here = model.predict(worlds().reset())
    model.save_weights(tmp_path / "agent")
    elsewhere = MemoryPPO.load_weights(tmp_path / "agent", device="meta")
    policy = elsewhere.policy
    assert policy.device.type == "meta"
    for states in (policy.initial_states(2), policy.rollout_states(2), here.to("meta").states):
        assert {leaf.device.type for leaf in leaves(states)} <= {"meta"}
    here.to("meta").check(policy.describe_memory(), 3, policy.device)
