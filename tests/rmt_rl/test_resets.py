"""Training environments that were reset or played between two calls of ``learn`` begin anew."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecNormalize

from envs import make_sb3_vec
from rmt_rl import MemoryA2C, MemoryPPO
from rmt_rl.resuming.resets import note_left, were_left_alone

MESSAGE = "training environments were reset or played since the last call of learn"
LENGTH = 20


class Clock(gym.Env[Any, Any]):
    """Shows how many steps its episode has had."""

    observation_space = spaces.Box(0, LENGTH, (1,), np.float32)
    action_space = spaces.Discrete(2)
    time = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        return np.full(1, self.time, np.float32), 0.0, self.time == LENGTH, False, {}


def limited() -> gym.Env[Any, Any]:
    return TimeLimit(Clock(), LENGTH)


def build(env: Any, algorithm: Any = MemoryPPO) -> Any:
    batch = dict(batch_size=8, n_epochs=1) if algorithm is MemoryPPO else {}
    policy_kwargs = dict(core="gru", core_kwargs=dict(width=4), net_arch=[4])
    return algorithm(
        "MlpPolicy", env, learning_rate=0.0, n_steps=8, sequence_length=8, seed=0, device="cpu",
        policy_kwargs=policy_kwargs, **batch,
    )  # fmt: skip


def goes_on(model: Any, expected: int, count: int) -> None:
    """One more rollout, whose first step is ``expected``, and warnings of it are so many."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.learn(8, reset_num_timesteps=False)
    found = [Path(warning.filename) for warning in caught if MESSAGE in str(warning.message)]
    assert found == [Path(__file__)] * count
    buffer = model.rollout_buffer
    seen = np.concatenate([buffer.observations.reshape(-1, 8)[:, :1]])
    env = model.get_vec_normalize_env()
    seen = seen if env is None else np.round(env.unnormalize_obs(seen))
    assert seen.tolist() == [[expected]] * model.n_envs
    starts = buffer.episode_starts[0] if buffer.episode_starts.ndim > 1 else buffer.episode_starts[:1]
    assert (starts == (expected == 0)).all()
    assert model.replay_error(whole=True) < 1e-5


def normalized(env: VecEnv) -> VecEnv:
    return VecNormalize(env, norm_obs=False, norm_reward=True)


VECTORS: dict[str, Callable[[], VecEnv]] = {
    "dummy": lambda: DummyVecEnv([Clock] * 2),
    "monitored": lambda: DummyVecEnv([lambda: Monitor(Clock())] * 2),
    "workers": lambda: SubprocVecEnv([limited] * 2, start_method="spawn"),
    "forked workers": lambda: SubprocVecEnv([partial(Monitor, Clock())] * 2, start_method="fork"),
    "normalized": lambda: normalized(DummyVecEnv([Clock] * 2)),
}


@pytest.mark.parametrize("vector", VECTORS)
def test_a_reset_between_two_calls(vector: str) -> None:
    env = VECTORS[vector]()
    try:
        model = build(env)
        model.learn(8)
        goes_on(model, 8, 0)
        env.reset()
        goes_on(model, 0, 1)
        goes_on(model, 8, 0)
        env.unwrapped.reset()  # under the wrappers
        goes_on(model, 0, 1)
    finally:
        env.close()


@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
def test_playing_in_the_training_environments(algorithm: Any) -> None:
    env = DummyVecEnv([lambda: Monitor(Clock())])
    model = build(env, algorithm)
    model.learn(8)
    evaluate_policy(model, env, n_eval_episodes=1)
    goes_on(model, 0, 1)
    other = build(env)
    other.learn(8)
    goes_on(model, 0, 1)
    goes_on(other, 0, 1)
    env.step(np.zeros(1, int))  # without a reset
    goes_on(other, 0, 1)


def test_a_single_environment_that_was_wrapped() -> None:
    """Its wrappers do not see the reset, but the time limit within has begun to count anew."""
    env = limited()
    model = build(env)
    model.learn(8)
    env.reset()
    goes_on(model, 0, 1)


def test_what_is_no_reset() -> None:
    env = DummyVecEnv([lambda: Monitor(limited())] * 2)
    model = build(env)
    model.learn(8)
    for change in (lambda: env.seed(3), lambda: env.set_options({"a": 1}), lambda: env.get_attr("time")):
        change()
        goes_on(model, model.num_timesteps // 2 % LENGTH, 0)
    evaluate_policy(model, DummyVecEnv([lambda: Monitor(Clock())]), n_eval_episodes=1)
    goes_on(model, model.num_timesteps // 2 % LENGTH, 0)
    env.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(8)  # begins anew in any case


def test_a_training_that_was_stopped_or_failed() -> None:
    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls == 3:
                raise KeyboardInterrupt
            return True

    env = DummyVecEnv([lambda: Monitor(Clock())])
    model = build(env)
    model.learn(8)
    with pytest.raises(KeyboardInterrupt):
        model.learn(8, callback=Stop(), reset_num_timesteps=False)
    env.reset()
    goes_on(model, 0, 1)


def test_workers_that_are_gone_are_not_waited_for() -> None:
    """Under "fork" a dead worker's pipe stays open: who asks it waits for ever."""
    env = SubprocVecEnv([limited] * 2, start_method="fork")
    try:
        model = build(env)
        model.learn(8)
        env.processes[1].kill()
        env.processes[1].join()
        note_left(model)
        assert were_left_alone(model)
    finally:
        for process in env.processes:
            process.kill()
            process.join()


def test_nothing_of_it_is_in_the_model(tmp_path: Path) -> None:
    env = DummyVecEnv([Clock])
    model = build(env)
    model.learn(8)
    before = dict(vars(model))
    note_left(model)
    assert vars(model) == before
    model.save(tmp_path / "agent")
    loaded = MemoryPPO.load(tmp_path / "agent", copy.deepcopy(env))
    goes_on(loaded, 0, 0)
    goes_on(model, 8, 0)


def test_the_recall_tasks_vector_is_watched() -> None:
    env = make_sb3_vec("RMT/Memorize-v0", 2)
    model = build(env)
    model.learn(16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.learn(16, reset_num_timesteps=False)
    env.reset()
    with pytest.warns(UserWarning, match=MESSAGE):
        model.learn(16, reset_num_timesteps=False)
