"""What environments hand over, whatever its type; and rollouts that are left early and gone on with."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback, StopTrainingOnMaxEpisodes
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecEnvWrapper

from rmt_rl import MemoryA2C, MemoryPPO
from rmt_rl.rollouts import take_dones, take_rewards
from tests.rmt_rl.test_memory_ppo import build, worlds
from tests.rmt_rl.worlds import CORE_KWARGS, Noise

POLICY = dict(core="rmt", core_kwargs=CORE_KWARGS["rmt"], net_arch=[8])

# -- rewards


def read_only(rewards: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    rewards.flags.writeable = False
    return rewards


REWARDS: dict[str, Callable[[np.ndarray[Any, Any]], Any]] = {
    "int": lambda r: r.astype(np.int64),
    "uint8": lambda r: r.astype(np.uint8),
    "bool": lambda r: r.astype(bool),
    "float64": lambda r: r.astype(np.float64),
    "read-only": read_only,
    "column": lambda r: r.reshape(-1, 1),
    "list": lambda r: r.tolist(),
    "object": lambda r: r.astype(object),
}


class GivesRewards(VecEnvWrapper):
    """Hands over rewards 0, 1, 2 as ``change`` makes them, and looks whether they are written to."""

    def __init__(self, venv: VecEnv, change: Callable[[np.ndarray[Any, Any]], Any]) -> None:
        super().__init__(venv)
        self.change, self.given = change, [(np.zeros(0), "")]

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        obs, _, dones, infos = self.venv.step_wait()
        assert all(repr(rewards) == text for rewards, text in self.given[1:])
        rewards = self.change(np.arange(3, dtype=np.float32))
        self.given.append((rewards, repr(rewards)))
        return obs, rewards, dones, infos


@pytest.mark.parametrize("kind", REWARDS)
@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
def test_rewards_of_every_type(kind: str, algorithm: Any) -> None:
    """Episodes of 3 steps, each cut by a time limit, so that something is added to some rewards."""
    env = GivesRewards(worlds(length=(3, 3), truncates=1.0), REWARDS[kind])
    batch = dict(batch_size=18) if algorithm is MemoryPPO else {}
    model = algorithm("MlpPolicy", env, n_steps=6, sequence_length=6, policy_kwargs=POLICY, seed=0, **batch)
    stored: list[Any] = []

    class Read(BaseCallback):
        def _on_step(self) -> bool:
            assert self.locals["rewards"].dtype == np.float32 and self.locals["rewards"].shape == (3,)
            return True

        def _on_rollout_end(self) -> None:
            stored.append(self.model.rollout_buffer.rewards.copy())  # type: ignore[attr-defined]

    model.learn(18, callback=Read())
    expected = [0.0, 1.0, 1.0 if kind == "bool" else 2.0]
    not_cut = [0, 1, 3, 4]
    np.testing.assert_array_equal(stored[0][not_cut], [expected] * 4)
    assert (stored[0][[2, 5]] != expected).all()


@pytest.mark.parametrize("start_method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_integer_rewards_and_a_time_limit_in_workers(start_method: str) -> None:
    env = SubprocVecEnv([CutWithIntegers] * 2, start_method=start_method)
    model = build(env)
    model.learn(24)
    env.close()
    assert model.rollout_buffer.rewards.dtype == np.float32


class CutWithIntegers(Noise):
    def __init__(self) -> None:
        super().__init__(length=(2, 2), truncates=1.0)

    def step(self, action: Any) -> Any:
        obs, _, terminated, truncated, info = super().step(action)
        return obs, 1, terminated, truncated, info


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        (np.zeros((3, 2)), r"shape \(3, 2\).*each of the 3 environments"),
        (np.zeros(2), r"shape \(2,\)"),
        (["a", "b", "c"], "no numbers.*'a'"),
        ([None, 1, 2], "no numbers|NaN"),
        ([[1], [1, 2], [3]], "no numbers"),
        (np.array([0.0, 1e60, 1.0]), r"too large for float32, .*\(environment 1, at step 7 of.*1e\+60"),
        (np.array([0.0, np.inf, 1.0]), r"infinite number, .*environment 1, at step 7 of"),
    ],
)
def test_what_is_no_reward(rewards: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        take_rewards(rewards, 3, step=7)


def test_ends_of_episodes_of_every_type() -> None:
    for dones in ([0, 1, 0], [[False], [True], [False]], np.array([0.0, 1.0, 0.0])):
        np.testing.assert_array_equal(take_dones(dones, 3), [False, True, False])
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        take_dones([0, 1], 3)


# -- rollouts that are left early


class Counter(gym.Env[Any, Any]):
    """Shows its number and how many steps it has made; keeps what it has shown, one list an episode."""

    def __init__(self, number: int, length: int = 7) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.number, self.length = number, length
        self.episodes: list[list[Any]] = []
        self.at_step: Callable[[Counter], None] = lambda _: None
        self.steps = 0

    def _show(self) -> Any:
        obs = np.array([self.number, len(self.episodes), len(self.episodes[-1])], np.float32)
        self.episodes[-1].append(obs)
        return obs

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.episodes.append([])
        return self._show(), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.at_step(self)
        over = len(self.episodes[-1]) == self.length
        return self._show(), 0.0, over, False, {}


class Stop(BaseCallback):
    """Ends the training at a step by returning False or by raising an error."""

    def __init__(self, step: int, error: type[BaseException] | None) -> None:
        super().__init__()
        self.step, self.error = step, error

    def _on_step(self) -> bool:
        if self.n_calls != self.step:
            return True
        if self.error is None:
            return False
        raise self.error


def counters(count: int = 3) -> DummyVecEnv:
    return DummyVecEnv([lambda number=number: Counter(number, 6 + number) for number in range(count)])


def check_position(model: Any, env: DummyVecEnv) -> None:
    """What the model goes on from is the last observation, and a memory of just this episode before it."""
    seen = [one.episodes[-1] for one in env.envs]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(model._last_obs, [episode[-1] for episode in seen])
    np.testing.assert_array_equal(model._last_episode_starts, [len(episode) == 1 for episode in seen])
    probe = np.ones((len(seen), 3), np.float32)
    own, starts = model._memory, th.as_tensor(model._last_episode_starts)
    values = model.policy.predict_values(th.as_tensor(probe), own, starts)
    for row, episode in enumerate(seen):
        state = None if len(episode) == 1 else model.warm_up(np.stack(episode[:-1])[None]).states
        states = model.policy.initial_states(1) if state is None else state
        expected = model.policy.predict_values(th.as_tensor(probe[:1]), states, th.zeros(1, dtype=th.bool))
        th.testing.assert_close(values[row], expected[0])


@pytest.mark.parametrize(
    ("algorithm", "error"),
    [(MemoryPPO, None), (MemoryPPO, KeyboardInterrupt), (MemoryA2C, ArithmeticError)],
)
@pytest.mark.parametrize("step", [1, 6, 7, 12, 17])
def test_going_on_after_a_callback_has_ended_it(algorithm: Any, error: Any, step: int) -> None:
    """Step 6 ends the first environment's episode, 7 the second's, 12 the rollout; 17 is in the second."""
    env = counters()
    batch = dict(batch_size=12) if algorithm is MemoryPPO else {}
    model = algorithm(
        "MlpPolicy",
        env,
        n_steps=12,
        sequence_length=6,
        policy_kwargs=POLICY,
        learning_rate=0.0,
        seed=0,
        **batch,
    )
    try:
        model.learn(72, callback=Stop(step, error))
    except (ArithmeticError, KeyboardInterrupt):
        assert error is not None
    assert model.num_timesteps == 3 * step == sum(one.steps for one in env.envs)  # type: ignore[attr-defined]
    check_position(model, env)
    errors: list[float] = []
    record = model.replay_error
    model.replay_error = lambda: errors.append(record()) or errors[-1]
    model.learn(72, reset_num_timesteps=False)
    assert len(errors) == 2 and max(errors) < 1e-5
    check_position(model, env)
    lengths = [len(episode) - 1 for one in env.envs for episode in one.episodes[:-1]]  # type: ignore[attr-defined]
    assert set(lengths) == {6, 7, 8}  # no episode was begun before the last one's end


def test_going_on_after_stopping_at_a_number_of_episodes() -> None:
    env = counters()
    model = build(env, learning_rate=0.0)
    model.learn(360, callback=StopTrainingOnMaxEpisodes(max_episodes=1))
    assert model.num_timesteps < 360
    check_position(model, env)
    model.learn(36, reset_num_timesteps=False)
    check_position(model, env)


def test_episodes_that_end_with_the_training_are_counted() -> None:
    class Reports(Counter):
        def step(self, action: Any) -> Any:
            obs, reward, over, truncated, info = super().step(action)
            return obs, reward, over, truncated, {"episode": {"r": 1.0, "l": 6}} if over else info

    model = build(DummyVecEnv([lambda: Reports(0, 6)]))
    model.learn(36, callback=Stop(6, None))
    assert list(model.ep_info_buffer or []) == [{"r": 1.0, "l": 6}]


@pytest.mark.parametrize("number", [0, 1, 2])
def test_ctrl_c_while_the_environments_step(number: int) -> None:
    """The other environments make their step, too."""

    def press(env: Counter) -> None:
        if env.steps == 8:
            os.kill(os.getpid(), signal.SIGINT)

    env = counters()
    env.envs[number].at_step = press  # type: ignore[attr-defined]
    model = build(env, learning_rate=0.0)
    with pytest.raises(KeyboardInterrupt):
        model.learn(72)
    assert [one.steps for one in env.envs] == [8, 8, 8]  # type: ignore[attr-defined]
    assert model.num_timesteps == 24
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    check_position(model, env)
    model.learn(36, reset_num_timesteps=False)
    check_position(model, env)


def test_a_second_ctrl_c_waits_for_nothing() -> None:
    def press(env: Counter) -> None:
        if env.steps == 8:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
            raise AssertionError("was not interrupted")

    env = counters()
    env.envs[0].at_step = press  # type: ignore[attr-defined]
    with pytest.raises(KeyboardInterrupt):
        build(env, learning_rate=0.0).learn(72)


def test_ones_own_handler_of_ctrl_c_is_left_alone() -> None:
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        env = counters()
        env.envs[0].at_step = lambda one: os.kill(os.getpid(), signal.SIGINT)  # type: ignore[attr-defined]
        build(env, learning_rate=0.0).learn(36)
        assert pressed == [signal.SIGINT] * 12
    finally:
        signal.signal(signal.SIGINT, before)


def test_going_on_after_an_environments_error_begins_new_episodes() -> None:
    """Some environments have made the step and others not: there is nothing to go on from."""

    def fail(env: Counter) -> None:
        if env.steps == 8:
            raise ArithmeticError

    env = counters()
    env.envs[1].at_step = fail  # type: ignore[attr-defined]
    model = build(env, learning_rate=0.0)
    with pytest.raises(ArithmeticError):
        model.learn(72)
    left = [one.episodes[-1] for one in env.envs]  # type: ignore[attr-defined]
    lengths = [len(episode) for episode in left]
    model.learn(12, reset_num_timesteps=False)
    assert [len(episode) for episode in left] == lengths
    check_position(model, env)


def test_callbacks_find_what_sb3_gives_them() -> None:
    """The names that SB3's own callbacks and its users' read in ``self.locals``."""

    class Look(BaseCallback):
        def _on_step(self) -> bool:
            names = self.locals
            assert {"obs_tensor", "values", "log_probs", "new_obs", "rewards", "dones", "infos"} <= set(names)
            assert (np.abs(names["actions"]) > 2).any()
            np.testing.assert_array_equal(names["clipped_actions"], np.clip(names["actions"], -2, 2))
            return True

    model = build(worlds(action="box"))
    with th.no_grad():
        model.policy.log_std.fill_(3.0)
    model.learn(36, callback=Look())
