"""Worker processes under wrappers of every kind; one that dies is named, wherever somebody waits for it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.vec_env import (
    SubprocVecEnv,
    VecEnv,
    VecEnvWrapper,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
)

from rmt_rl import MemoryA2C, MemoryPPO
from rmt_rl.workers import DeadEnvironmentError
from tests.rmt_rl.test_memory_ppo import build, worlds
from tests.rmt_rl.worlds import CORE_KWARGS, Noise


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at silent workers more often, as each of these tests waits for one that is dead."""
    monkeypatch.setattr("rmt_rl.workers.PATIENCE", 0.05)


class RepeatsInWait(VecEnvWrapper):
    """Makes every action twice, within ``step_wait``."""

    calls = 0

    def reset(self) -> Any:
        return self.venv.reset()

    def step_async(self, actions: Any) -> None:
        self.actions = actions

    def step_wait(self) -> Any:
        self.calls += 1
        self.venv.step_async(self.actions)
        self.venv.step_wait()
        self.venv.step_async(self.actions)
        return self.venv.step_wait()


class RepeatsInStep(VecEnvWrapper):
    """Makes every action twice, in a ``step`` of its own."""

    calls = 0

    def reset(self) -> Any:
        return self.venv.reset()

    def step_wait(self) -> Any:
        return self.venv.step_wait()

    def step(self, actions: Any) -> Any:
        self.calls += 1
        self.venv.step(actions)
        return self.venv.step(actions)


def workers(make: Any = Noise, start_method: str = "fork") -> SubprocVecEnv:
    return SubprocVecEnv([make, make], start_method=start_method)


def kill(env: VecEnv, index: int) -> None:
    os.kill(env.unwrapped.processes[index].pid, signal.SIGKILL)  # type: ignore[attr-defined]


class Call(BaseCallback):
    """Calls something at the 4th step."""

    def __init__(self, what: Callable[[], Any]) -> None:
        super().__init__()
        self.what = what

    def _on_step(self) -> bool:
        if self.n_calls == 4:
            self.what()
        return True


@pytest.mark.parametrize("wrapper", [RepeatsInWait, RepeatsInStep])
@pytest.mark.parametrize("outer", [lambda env: env, VecMonitor])
def test_wrappers_step_as_they_like(wrapper: Any, outer: Any) -> None:
    inner = wrapper(workers())
    env = outer(inner)
    build(env).learn(24)
    # A wrapper's own ``step`` is called only by whoever calls the wrapper itself.
    assert inner.calls == (0 if wrapper is RepeatsInStep and env is not inner else 12)
    env.close()


@pytest.mark.parametrize("start_method", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "wrap", [lambda env: env, RepeatsInWait, RepeatsInStep, lambda env: VecFrameStack(VecNormalize(env), 2)]
)
def test_a_dead_worker_is_named_under_wrappers(wrap: Any, start_method: str) -> None:
    env = wrap(workers(start_method=start_method))
    with pytest.raises(DeadEnvironmentError, match=r"environment 1 is dead.*killed by signal 9"):
        build(env).learn(48, callback=Call(lambda: kill(env, 1)))
    env.close()


@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
@pytest.mark.parametrize(
    "ask",
    [
        lambda env: env.env_method("__str__"),
        lambda env: env.get_attr("length"),
        lambda env: env.set_attr("length", (3, 3)),
        lambda env: env.reset(),
    ],
    ids=["env_method", "get_attr", "set_attr", "reset"],
)
def test_whoever_asks_a_dead_worker(ask: Any, algorithm: Any) -> None:
    env = workers()

    def kill_and_ask() -> None:
        kill(env, 1)  # whose pipe the first worker holds open under "fork"
        ask(env)

    core = dict(core="gru", core_kwargs=CORE_KWARGS["gru"])
    batch = dict(batch_size=12) if algorithm is MemoryPPO else {}
    model = algorithm("MlpPolicy", env, n_steps=12, sequence_length=6, policy_kwargs=core, **batch)
    with pytest.raises(DeadEnvironmentError, match="environment 1 is dead"):
        model.learn(48, callback=Call(kill_and_ask))


def test_a_worker_that_died_between_two_calls_of_learn() -> None:
    env = workers()
    model = build(env).learn(24)
    kill(env, 1)
    with pytest.raises(DeadEnvironmentError, match="environment 1 is dead"):
        model.learn(24, reset_num_timesteps=False)


def test_a_worker_that_a_callback_plays() -> None:
    played = workers()
    callback = EvalCallback(played, eval_freq=5, n_eval_episodes=2, verbose=0)
    with pytest.raises(DeadEnvironmentError, match="environment 1 is dead"):
        build(worlds(2)).learn(48, callback=[Call(lambda: kill(played, 1)), callback])
    assert played.closed


def test_pipes_are_the_vectors_own_after_learning() -> None:
    env = workers()
    pipes = env.remotes
    build(env).learn(24)
    assert env.remotes is pipes
    env.close()


@pytest.mark.parametrize("dies", [False, True])
def test_workers_of_another_process(dies: bool) -> None:
    """Made here, stepped in a forked child: whose children they are not."""
    env = workers()
    model = build(env)
    child = os.fork()
    if not child:
        code = 1
        try:
            callback = Call(lambda: kill(env, 1)) if dies else None
            model.learn(24, callback=callback)
            code = 3
        except DeadEnvironmentError as error:
            code = 4 if error.index == 1 and error.exitcode is None else 2
        except BaseException:
            traceback.print_exc(file=sys.stderr)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == (4 if dies else 3)
    if not dies:
        env.close()
