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
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnvWrapper, VecMonitor

from rmt_rl import MemoryA2C, MemoryPPO
from rmt_rl.masking import is_masking_supported
from tests.rmt_rl.test_memory_ppo import build, worlds
from tests.rmt_rl.worlds import Broken, Masked, Noise


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


VALUES = [
    (np.inf, "infinite number"),
    (-np.inf, "infinite number"),
    (1e60, "too large for float32"),
    (np.nan, "NaN"),
]


class Poisoned(Noise):
    """In float64; shows ``value`` at its 7th step: in the observation, the last one or the reward."""

    def __init__(self, where: str, value: float, key: str | None = None) -> None:
        super().__init__(
            "dict" if key else "box", length=(7, 7) if where == "terminal observations" else (100, 100),
            truncates=1.0,
        )  # fmt: skip
        box = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.observation_space = spaces.Dict({"vector": box, "kind": spaces.Discrete(3)}) if key else box
        self.where, self.value, self.key, self.count = where, value, key, 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        self.count += 1
        if self.count == 7:
            if self.where == "rewards":
                reward = self.value
            else:
                (obs[self.key] if self.key else obs)[1] = self.value
        return obs, reward, terminated, truncated, info


@pytest.mark.parametrize(("value", "name"), VALUES)
@pytest.mark.parametrize("where", ["observations", "terminal observations", "rewards"])
@pytest.mark.parametrize("key", [None, "vector"])
@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
def test_numbers_that_are_none_are_named_where_they_enter(
    value: float, name: str, where: str, key: str | None, algorithm: Any
) -> None:
    """Environment 1 of 2, at its 7th step: the 14th of training."""

    class InFloat64(VecEnvWrapper):
        """SB3's own vector would have made the rewards float32."""

        def reset(self) -> Any:
            return self.venv.reset()

        def step_wait(self) -> Any:
            obs, rewards, dones, infos = self.venv.step_wait()
            rewards = rewards.astype(np.float64)
            inner: Any = self.venv
            if inner.envs[1].count == 7 and where == "rewards":
                rewards[1] = value
            return obs, rewards, dones, infos

    inner = DummyVecEnv([lambda: Poisoned("", 0.0, key), lambda: Poisoned(where, value, key)])
    policy = "MultiInputPolicy" if key else "MlpPolicy"
    batch = dict(batch_size=12) if algorithm is MemoryPPO else {}
    policy_kwargs = dict(core="gru", core_kwargs=dict(width=8))
    with np.errstate(over="ignore"):
        model = algorithm(
            policy, InFloat64(inner), n_steps=12, sequence_length=6, policy_kwargs=policy_kwargs, **batch
        )
        before = model.policy.parameters_to_vector()
        index = r"\(1,\)" if where == "rewards" else r"\(0, 1\)" if "terminal" in where else r"\(1, 1\)"
        dict_key = r"\['vector'\]" if key and where != "rewards" else ""
        message = (
            f"{where}{dict_key} of shape .*{name}, .*index {index} .environment 1, at step 14 of training"
        )
        with pytest.raises(ValueError, match=message):
            model.learn(48)
    np.testing.assert_array_equal(model.policy.parameters_to_vector(), before)


@pytest.mark.parametrize(("value", "name"), VALUES)
def test_numbers_that_are_none_in_predict(value: float, name: str) -> None:
    model = build(worlds())
    obs = np.zeros((3, 3))
    obs[2, 1] = value
    with pytest.raises(ValueError, match=rf"observation of shape \(3, 3\) .*{name}, .*index \(2, 1\): "):
        model.predict(obs)
    with pytest.raises(ValueError, match=rf"observations of shape \(3, 1, 3\) holds .*{name}"):
        model.warm_up(obs[:, None])


def test_a_number_that_only_the_policy_cannot_bear() -> None:
    """Its square is infinite: torch would speak of a distribution's parameters."""
    model = build(worlds())
    with pytest.raises(ValueError, match="the policy works out numbers that are not finite"):
        model.predict(np.full((3, 3), 3e38, np.float32))

    class Huge(Noise):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            obs, *rest = super().step(action)
            return np.full_like(obs, 3e38), *rest  # type: ignore[return-value]

    with pytest.raises(ValueError, match="the policy works out numbers that are not finite"):
        build(DummyVecEnv([Huge])).learn(24)


@pytest.mark.parametrize("value", [None, np.ones(3, bool), "none"])
@pytest.mark.parametrize("wrap", [DummyVecEnv, lambda makers: VecMonitor(DummyVecEnv(makers))])
def test_action_masks_that_are_no_method(value: Any, wrap: Any) -> None:
    class Attribute(Noise):
        action_masks = value

    env = wrap([Attribute, Attribute])
    model = build(env)
    if value is None:  # as if there were none
        assert not model.learn(24).use_masking
        assert not is_masking_supported(env) and not is_masking_supported(Attribute())
        with pytest.raises(ValueError, match="use_masking=True, but"):
            model.learn(24, use_masking=True)
        return
    for ask in (lambda: model.learn(24), lambda: is_masking_supported(Attribute())):
        with pytest.raises(ValueError, match=r"action_masks of environment 0 must be a method"):
            ask()
    model.learn(24, use_masking=False)


def test_masks_of_some_environments_only() -> None:
    class Without(Masked):
        action_masks = None  # type: ignore[assignment]

    with pytest.raises(ValueError, match=r"action_masks of environment 1 must be a method.*None"):
        build(DummyVecEnv([Masked, Without])).learn(24)
