"""Bad input is refused where it enters, by name, with what would do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv

from rmt_rl import MemoryPPO
from tests.rmt_rl.test_memory_ppo import build, worlds
from tests.rmt_rl.worlds import Broken, Noise


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (dict(n_steps=12, sequence_length=6, batch_size=16), "batch_size=16.*sequence_length=6.*12, 18"),
        (dict(n_steps=12, sequence_length=6, batch_size=4), "batch_size=4 .*these would be: 6"),
        (
            dict(n_steps=12, sequence_length=5, batch_size=10),
            "sequence_length=5 does not divide n_steps=12.*3, 4, 6",
        ),
        (dict(n_steps=0), "n_steps must be at least 1, got 0"),
        (dict(sequence_length=0), "sequence_length must be at least 1, got 0"),
    ],
)
def test_lengths(lengths: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(worlds(), **lengths)


@pytest.mark.parametrize(
    ("policy_kwargs", "message"),
    [
        (dict(core="rtm"), "unknown memory core 'rtm'.*Did you mean 'rmt'"),
        (dict(core="gru", core_kwargs=dict(heads=2)), "no option 'heads'"),
        (dict(core_kwargs=dict(width=10, heads=4)), r"width=10 is not divisible by heads=4.*\[1, 2, 5, 10\]"),
        (dict(core_kwargs=dict(memory_tokens=0)), "memory_tokens must be at least 1, got 0"),
        (dict(core_kwargs=dict(segment_length=0)), "segment_length must be at least 1, got 0"),
        (dict(core_kwargs=dict(layers=0)), "layers must be at least 1, got 0"),
        (dict(share_features_extractor=False), "share_memory=False"),
    ],
)
def test_core_options(policy_kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryPPO("MlpPolicy", worlds(), policy_kwargs=policy_kwargs)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Text(8),
        spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Text(8)}),
        spaces.Tuple([spaces.Discrete(2)] * 2),
    ],
    ids=["text", "dict of text", "tuple"],
)
def test_observation_space(space: spaces.Space[Any]) -> None:
    class Strange(Noise):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = space

    policy = "MultiInputPolicy" if isinstance(space, spaces.Dict) else "MlpPolicy"
    with pytest.raises(ValueError, match="cannot be encoded"):
        MemoryPPO(policy, Strange())


@pytest.mark.parametrize("where", ["observations", "rewards"])
def test_nan_is_named_when_it_enters(where: str) -> None:
    model = build(DummyVecEnv([lambda: Broken(where)]))
    with pytest.raises(ValueError, match=f"the environment's {where} of shape .* holds 1 NaN"):
        model.learn(24)
    assert np.isfinite(model.policy.parameters_to_vector()).all()


def test_checkpoint_of_another_core(tmp_path: Path) -> None:
    build(worlds(), core="xl").save(tmp_path / "xl")
    model = build(worlds())
    before = model.policy.parameters_to_vector()
    with pytest.raises(ValueError, match=r"checkpoint's memory core is TransformerXL.*this one is RMT"):
        model.set_parameters(str(tmp_path / "xl"))
    np.testing.assert_array_equal(model.policy.parameters_to_vector(), before)
    core_kwargs = dict(segment_length=4, width=8, heads=2, layers=1)
    with pytest.raises(ValueError, match="policy kwargs"):
        MemoryPPO.load(tmp_path / "xl", policy_kwargs=dict(core="rmt", core_kwargs=core_kwargs))


def test_foreign_policy_and_buffer() -> None:
    with pytest.raises(TypeError, match="MemoryActorCriticPolicy, got ActorCriticPolicy"):
        MemoryPPO(ActorCriticPolicy, worlds())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="MemoryRolloutBuffer, got RolloutBuffer"):
        build(worlds(), rollout_buffer_class=RolloutBuffer)


def test_unknown_environment() -> None:
    with pytest.raises(gym.error.NameNotFound, match="CartPole"):
        MemoryPPO("MlpPolicy", "CartPol-v1")
