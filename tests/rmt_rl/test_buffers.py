"""The buffer hands out what was put in, as whole sequences with the state before each."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from rmt_rl import MemoryA2C, MemoryPPO
from rmt_rl.buffers import MemoryDictRolloutBuffer, MemoryRolloutBuffer
from tests.rmt_rl.test_memory_ppo import build, worlds


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


@pytest.mark.parametrize("kind", ["box", "dict"])
@pytest.mark.parametrize(
    ("space", "given", "kept"),
    [
        (np.int64, np.float32, np.float32),  # as VecNormalize does
        (np.uint8, np.float32, np.float32),
        (np.uint8, np.float64, np.float32),  # the policy computes with float32
        (np.float16, np.float32, np.float32),
        (np.float32, np.float64, np.float32),
        (np.float32, np.int64, np.float32),
        (np.int8, np.int64, np.int8),  # small numbers
        (np.uint8, np.bool_, np.uint8),
    ],
)
def test_observations_are_kept_as_they_were_acted_on(kind: str, space: Any, given: Any, kept: Any) -> None:
    box = spaces.Box(0, 100, (2,), space)
    spaces_ = spaces.Dict({"a": box, "b": box}) if kind == "dict" else box
    cls = MemoryDictRolloutBuffer if kind == "dict" else MemoryRolloutBuffer
    buffer = cls(2, spaces_, spaces.Discrete(2), device="cpu", n_envs=1, sequence_length=2)
    first = np.array([[3, 5]])
    for _ in range(2):
        buffer.reset()
        buffer.begin_sequences((Clock(th.zeros(1)),))
        seen = [first.astype(space), (first + 0.3).astype(given)]
        for obs in seen:
            row = {"a": obs, "b": obs} if kind == "dict" else obs
            buffer.add(row, np.zeros((1, 1)), np.zeros(1), np.zeros(1), th.zeros(1), th.zeros(1))
        stored = buffer.observations["a"] if kind == "dict" else buffer.observations
        assert stored.dtype == kept  # type: ignore[union-attr]
        np.testing.assert_array_equal(stored[:, 0], np.concatenate(seen).astype(np.float32))


def test_integers_that_would_not_fit() -> None:
    box = spaces.Box(0, 255, (1,), np.uint8)
    buffer = MemoryRolloutBuffer(1, box, spaces.Discrete(2), device="cpu", n_envs=1, sequence_length=1)
    buffer.begin_sequences((Clock(th.zeros(1)),))
    buffer.add(np.array([[300]]), np.zeros((1, 1)), np.zeros(1), np.zeros(1), th.zeros(1), th.zeros(1))
    assert buffer.observations[0, 0, 0] == 300


class Integers(gym.Env[Any, Any]):
    """Observations of an integer type."""

    def __init__(self, kind: str, seed: int) -> None:
        box = spaces.Box(0, 9, (3,), np.int8)
        self.observation_space = spaces.Dict({"a": box, "b": box}) if kind == "dict" else box
        self.observation_space.seed(seed)
        self.action_space, self.left = spaces.Discrete(3), 5

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.left = 5
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        return self.observation_space.sample(), 1.0, False, self.left == 0, {}


@pytest.mark.parametrize("kind", ["box", "dict"])
@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
def test_normalised_integers_replay(kind: str, algorithm: Any) -> None:
    makers = [lambda seed=seed: Integers(kind, seed) for seed in range(2)]
    env = VecNormalize(DummyVecEnv(makers), norm_obs_keys=["a"] if kind == "dict" else None)
    policy = "MultiInputPolicy" if kind == "dict" else "MlpPolicy"
    batch = dict(batch_size=12) if algorithm is MemoryPPO else {}
    core = dict(core="gru", core_kwargs=dict(width=8))
    model = algorithm(policy, env, n_steps=12, sequence_length=6, policy_kwargs=core, seed=0, **batch)
    errors: list[float] = []
    record = model.replay_error
    model.replay_error = lambda: errors.append(record(whole=True)) or errors[-1]
    model.learn(72)
    assert len(errors) == 3 and max(errors) < 1e-5
    if kind == "dict":
        stored = model.rollout_buffer.observations
        assert (stored["a"].dtype, stored["b"].dtype) == (np.float32, np.int8)


def test_a_bad_replay_is_warned_of_once() -> None:
    class Unsteady(FlattenExtractor):
        def forward(self, observations: th.Tensor) -> th.Tensor:
            return super().forward(observations) + th.randn(1)

    model = build(worlds(), policy_kwargs=dict(features_extractor_class=Unsteady))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.learn(108)
        model.learn(36, reset_num_timesteps=False)
    assert sum("train/replay_error" in str(one.message) for one in caught) == 1
