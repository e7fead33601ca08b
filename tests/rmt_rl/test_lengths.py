"""Lengths that do not fit each other are refused wherever they come from; numpy's integers are integers."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import A2C, PPO

from rmt_rl import MemoryA2C, MemoryPPO
from rmt_rl.lengths import check_lengths
from tests.rmt_rl.test_memory_ppo import build, replay_errors, worlds
from tests.rmt_rl.worlds import CORE_KWARGS

POLICY = dict(core="rmt", core_kwargs=CORE_KWARGS["rmt"], net_arch=[8])
MISFITS: list[tuple[dict[str, Any], str]] = [
    (dict(sequence_length=5), "sequence_length=5 does not divide n_steps=12; these would: 2, 3, 4, 6"),
    (dict(n_steps=16), "sequence_length=6 does not divide n_steps=16; these would: 1, 2, 4, 8"),
    (dict(batch_size=16), "batch_size=16 .*not a multiple of sequence_length=6; these would be: 12, 18"),
    (dict(n_steps=16, sequence_length=8), "batch_size=12 .*not a multiple of sequence_length=8"),
    (dict(batch_size=0), "batch_size must be at least 1, got 0"),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lengths") / "agent.zip"
    build(worlds()).save(path)
    return path


@pytest.mark.parametrize(("lengths", "message"), MISFITS)
@pytest.mark.parametrize("way", ["load", "custom_objects", "set"])
def test_misfits(lengths: dict[str, int], message: str, way: str, saved: Path) -> None:
    with pytest.raises(ValueError, match=message):
        if way == "load":
            MemoryPPO.load(saved, worlds(), **lengths)
        elif way == "custom_objects":
            MemoryPPO.load(saved, custom_objects=lengths)
        else:
            model = MemoryPPO.load(saved, worlds())
            vars(model).update(lengths)
            model.learn(36)


def test_loaded_with_others_that_fit(saved: Path) -> None:
    model = MemoryPPO.load(saved, worlds(2), n_steps=np.int64(16), sequence_length=8, batch_size=np.int32(16))
    assert max(replay_errors(model, 2)) < 1e-5
    buffer = model.rollout_buffer
    assert (buffer.buffer_size, buffer.sequence_length, model.batch_size) == (16, 8, 16)


def test_a2c(tmp_path: Path) -> None:
    MemoryA2C("MlpPolicy", worlds(), n_steps=12, policy_kwargs=POLICY).save(tmp_path / "agent")
    with pytest.raises(ValueError, match="sequence_length=12 does not divide n_steps=18"):
        MemoryA2C.load(tmp_path / "agent", worlds(), n_steps=18)
    model = MemoryA2C.load(tmp_path / "agent", worlds(), n_steps=18, sequence_length=6)
    assert max(replay_errors(model, 2)) < 1e-5  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["n_steps", "sequence_length"])
def test_changed_after_the_model_was_set_up(name: str) -> None:
    model = build(worlds())
    setattr(model, name, 3 if name == "sequence_length" else 24)
    with pytest.raises(ValueError, match=rf"{name} was changed to \d+ after.*pass {name}=.* to load"):
        model.learn(36)


@pytest.mark.parametrize("integer", [np.int64, np.int32, np.uint8])
def test_integers_of_numpy(integer: Any, tmp_path: Path) -> None:
    """Optuna's samplers and numpy's arithmetic give them."""
    core_kwargs = {name: integer(value) for name, value in CORE_KWARGS["rmt"].items()}
    model = MemoryPPO(
        "MlpPolicy", worlds(), n_steps=integer(12), batch_size=integer(12), sequence_length=integer(6),
        n_epochs=integer(2), policy_kwargs=dict(core_kwargs=core_kwargs),
    )  # fmt: skip
    plain = build(worlds())
    assert model.policy.core.describe() == plain.policy.core.describe()
    assert all(type(getattr(model, name)) is int for name in ("n_steps", "batch_size", "sequence_length"))
    model.learn(36)
    model.save_weights(tmp_path / "agent")
    assert MemoryPPO.load_weights(tmp_path / "agent").n_steps == 12
    a2c = MemoryA2C("MlpPolicy", worlds(), n_steps=integer(12), policy_kwargs=dict(core="gru"))
    assert type(a2c.sequence_length) is int


@pytest.mark.parametrize("value", [6.0, "6", True, np.bool_(True), None, np.float64(6)])
def test_what_is_no_integer(value: Any) -> None:
    with pytest.raises(TypeError, match="sequence_length must be an integer"):
        check_lengths(12, value)


@pytest.mark.parametrize(("ours", "theirs"), [(MemoryPPO, PPO), (MemoryA2C, A2C)])
def test_positional_arguments_are_sb3s(ours: Any, theirs: Any) -> None:
    names = [name for name in inspect.signature(theirs).parameters if name not in ("policy", "env")]
    values: dict[str, Any] = dict(
        learning_rate=1e-3, n_steps=12, batch_size=6, n_epochs=3, gamma=0.5, gae_lambda=0.25,
        clip_range=0.125, clip_range_vf=0.0625, normalize_advantage=True, ent_coef=0.75, vf_coef=0.375,
        max_grad_norm=0.1875, rms_prop_eps=1e-3, use_rms_prop=False, use_sde=False,
    )  # fmt: skip
    names = names[: names.index("use_sde") + 1]
    given = [values[name] for name in names]
    model = ours("MlpPolicy", worlds(), *given, sequence_length=6, policy_kwargs=POLICY)
    for name, value in zip(names, given, strict=True):
        if name not in ("clip_range", "clip_range_vf", "rms_prop_eps", "use_rms_prop"):
            assert getattr(model, name) == value, name
    assert model.sequence_length == 6
    if ours is MemoryPPO:
        assert model.clip_range(1.0) == 0.125 and model.clip_range_vf(1.0) == 0.0625


@pytest.mark.parametrize(("ours", "theirs"), [(MemoryPPO, PPO), (MemoryA2C, A2C)])
def test_arguments_have_sb3s_order_and_defaults(ours: Any, theirs: Any) -> None:
    own, sb3 = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
    positional = [one for one in own.values() if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert [one.name for one in positional] == list(sb3)[: len(positional)]
    for one in positional:
        if one.name not in ("n_steps", "batch_size"):
            assert one.default == sb3[one.name].default, one.name
