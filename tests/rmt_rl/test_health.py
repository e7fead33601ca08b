"""A training that breaks ends with a reason and a checkpoint of the last state that was in order."""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecNormalize

from rmt_rl import CORES, MemoryPPO
from rmt_rl.health import Health, UnhealthyTrainingError, memory_norm
from rmt_rl.resuming.checkpoints import STOPPED, ExactCheckpoint, checkpoints_of
from rmt_rl.resuming.snapshots import read
from rmt_rl.workers import DeadEnvironmentError
from tests.rmt_rl.worlds import CORE_KWARGS, Noise

STEPS = 12
ROLLOUT = 2 * STEPS


def build(env: VecEnv | None = None, core: str = "rmt", **changes: Any) -> MemoryPPO:
    env = env or DummyVecEnv([lambda seed=seed: Noise(seed=seed) for seed in range(2)])
    options: dict[str, Any] = dict(
        n_steps=STEPS, sequence_length=6, batch_size=12, n_epochs=2, seed=0, device="cpu",
        policy_kwargs=dict(core=core, core_kwargs=CORE_KWARGS[core], net_arch=[8]),
    )  # fmt: skip
    return MemoryPPO("MlpPolicy", env, **(options | changes))


class At(BaseCallback):
    """Does something at a step."""

    def __init__(self, steps: int, do: Callable[[MemoryPPO], object]) -> None:
        super().__init__()
        self.steps, self.do = steps, do

    def _on_step(self) -> bool:
        if self.num_timesteps == self.steps:
            self.do(self.model)  # type: ignore[arg-type]
        return True


def breaks(
    folder: Path,
    model: MemoryPPO,
    error: type[BaseException],
    words: str,
    kept: int,
    *callbacks: BaseCallback,
) -> BaseException:
    """Train until it breaks: with this error, and with the state of step ``kept`` on disk, in order."""
    weights: dict[int, Any] = {}

    class Look(BaseCallback):
        def _on_rollout_start(self) -> None:
            weights[model.num_timesteps] = model.policy.parameters_to_vector()

        def _on_step(self) -> bool:
            return True

    checkpoint = ExactCheckpoint(folder, 10**9)
    with pytest.raises(error, match=words) as raised:
        model.learn(20 * ROLLOUT, callback=[*callbacks, checkpoint, Look(), Health()])
    (path,) = checkpoints_of(folder)
    assert checkpoint.path == path and int(path.name) == kept
    saved = MemoryPPO.load(path / "model.zip", device="cpu")
    np.testing.assert_array_equal(saved.policy.parameters_to_vector(), weights[kept])
    assert np.isfinite(weights[kept]).all()
    assert read(path / "model.zip").training is not None
    assert f"kept in {path}" in raised.value.__notes__[-1]
    said = (folder / STOPPED).read_text()
    assert said.startswith(f"step {model.num_timesteps}: {error.__name__}: ") and str(raised.value) in said
    return raised.value


# -- numbers that are none


class Bad(Noise):
    """Gives a reward that is none at its 31st step: the third rollout's seventh."""

    count = 0

    def __init__(self, reward: float, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.reward = reward

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        self.count += 1
        return obs, self.reward if self.count == 31 else reward, terminated, truncated, info


def test_nan_reward(tmp_path: Path) -> None:
    env = DummyVecEnv([lambda: Bad(math.nan), lambda: Noise(seed=1)])
    breaks(tmp_path, build(env), ValueError, "rewards .*NaN, the first at index .0", 2 * ROLLOUT)


def test_infinite_reward(tmp_path: Path) -> None:
    env = DummyVecEnv([lambda: Noise(seed=1), lambda: Bad(math.inf)])
    words = (
        r"rewards .*1 infinite number, the first at index \(1,\) \(environment 1, at step 62 of training\)"
    )
    breaks(tmp_path, build(env), ValueError, words, 2 * ROLLOUT)


def test_reward_whose_square_is_infinite(tmp_path: Path) -> None:
    env = DummyVecEnv([lambda: Noise(seed=1), lambda: Bad(3e38)])
    words = f"gradient's norm is (nan|inf) in minibatch 1 of the update at step {3 * ROLLOUT}"
    breaks(tmp_path, build(env), UnhealthyTrainingError, words, 2 * ROLLOUT)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_bad_loss_never_reaches_the_weights(value: float, tmp_path: Path) -> None:
    model, calls = build(), 0
    evaluate = model.policy.evaluate_actions

    def poisoned(*arguments: Any) -> Any:
        nonlocal calls
        values, log_prob, entropy = evaluate(*arguments)
        calls += th.is_grad_enabled()
        # Two updates of 2 epochs with 2 minibatches: the third's second epoch.
        return values * value if calls == 11 else values, log_prob, entropy

    model.policy.evaluate_actions = poisoned  # type: ignore[method-assign]
    words = f"norm is nan in minibatch 3 of the update at step {3 * ROLLOUT}"
    breaks(tmp_path, model, UnhealthyTrainingError, words, 2 * ROLLOUT)
    assert np.isfinite(model.policy.parameters_to_vector()).all()


def spoil(model: MemoryPPO) -> None:
    with th.no_grad():
        model.policy.action_net.weight[0, 0] = math.nan


def test_nan_weights_while_acting(tmp_path: Path) -> None:
    error = breaks(tmp_path, build(), ValueError, "nan", 3 * ROLLOUT, At(3 * ROLLOUT + 4, spoil))
    assert "weights are no numbers any more: action_net.weight" in error.__notes__[0]


def test_nan_weights_after_an_update(tmp_path: Path) -> None:
    class Spoil(BaseCallback):
        def _on_rollout_end(self) -> None:
            if self.num_timesteps == 2 * ROLLOUT:
                model.policy.optimizer.register_step_post_hook(lambda *_: spoil(model))

        def _on_step(self) -> bool:
            return True

    # The only minibatch of the update is the last one before the weights are looked at.
    model = build(n_epochs=1, batch_size=ROLLOUT)
    words = "weights are no numbers any more: action_net.weight"
    breaks(tmp_path, model, UnhealthyTrainingError, words, ROLLOUT, Spoil())


# -- divergence


def test_exploding_kl(tmp_path: Path) -> None:
    def heat(model: MemoryPPO) -> None:
        model.max_grad_norm = math.inf
        model.lr_schedule = lambda _: 3.0

    words = f"diverged: kl is .* at step {4 * ROLLOUT}, beyond max_kl=1. lower learning_rate"
    breaks(tmp_path, build(), UnhealthyTrainingError, words, 3 * ROLLOUT, At(3 * ROLLOUT + 2, heat))


def test_what_is_kept_is_from_before_the_first_sign(tmp_path: Path) -> None:
    class Signs(Health):
        """Beyond a bound from the third update on."""

        def _figures(self) -> dict[str, float]:
            return {"train/loss": 2.0 if self.model.num_timesteps >= 3 * ROLLOUT else 0.0}

    checkpoint = ExactCheckpoint(tmp_path, ROLLOUT, keep=None)
    model = build()
    with pytest.raises(UnhealthyTrainingError, match="beyond max_loss=1 after 3 updates on end"):
        model.learn(9 * ROLLOUT, callback=[checkpoint, Signs(3, max_loss=1.0)])
    assert model.num_timesteps == 5 * ROLLOUT
    assert [int(path.name) // ROLLOUT for path in checkpoints_of(tmp_path)] == [1, 2]
    # A training that comes to its end is kept as it is.
    model.learn(2 * ROLLOUT, callback=[checkpoint, Signs(9, max_loss=1.0)], reset_num_timesteps=False)
    assert int(checkpoints_of(tmp_path)[-1].name) == 7 * ROLLOUT


def test_what_has_been_judged_is_not_judged_again(tmp_path: Path) -> None:
    """Bounds that an update has left count once, also for a training that is taken up again there."""
    build().learn(2 * ROLLOUT, callback=[ExactCheckpoint(tmp_path, 1), Health(3, max_loss=1e-9)])
    model = build()
    with pytest.warns(match="begin anew"), pytest.raises(UnhealthyTrainingError, match="3 updates"):
        model.learn(
            9 * ROLLOUT, callback=[ExactCheckpoint(tmp_path, 1, resume=True), Health(3, max_loss=1e-9)]
        )
    assert model.num_timesteps == 3 * ROLLOUT


@pytest.mark.parametrize(
    ("bound", "value", "what"),
    [
        ("max_loss", 1e-9, "loss"),
        ("max_grad_norm", 1e-9, "grad norm"),
        ("max_kl", -1.0, "kl"),
        ("min_entropy", 2.0, "entropy"),
        ("max_entropy", 0.1, "entropy"),
        ("max_memory_norm", 1e-9, "memory norm"),
        ("max_replay_error", -1.0, "replay error"),
    ],
)
@pytest.mark.parametrize("patience", [1, 2])
def test_every_bound_is_watched(bound: str, value: float, what: str, patience: int) -> None:
    model = build()
    with pytest.raises(UnhealthyTrainingError, match=f"{what} is .* beyond {bound}={value:g}"):
        model.learn(9 * ROLLOUT, callback=Health(patience, **{bound: value}))
    assert model.num_timesteps == patience * ROLLOUT
    build().learn(2 * ROLLOUT, callback=Health(patience=1))


def test_updates_are_counted_on_end() -> None:
    health = Health(patience=2, max_loss=1.0)
    health._check({"train/loss": -3.0})
    health._check({"train/loss": 0.5})
    health._check({"train/loss": 0.5, "train/value_loss": 2.0})
    assert health.beyond["max_loss"] == 1
    health.model = build()
    with pytest.raises(UnhealthyTrainingError, match="loss is 3"):
        health._check({"train/loss": -3.0})


@pytest.mark.parametrize(
    ("options", "words"), [(dict(patience=0), "patience"), (dict(max_kl=math.nan), "max_kl must be a number")]
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Health(**options)


# -- what is logged


class Read(BaseCallback):
    """What is in the log at the beginning of each rollout, and the memory there."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []
        self.memories: list[Any] = []

    def _on_rollout_start(self) -> None:
        self.rows.append(dict(self.logger.name_to_value))
        self.memories.append(self.model._memory)  # type: ignore[attr-defined]

    def _on_step(self) -> bool:
        return True


def test_gradient_norm_is_that_before_clipping(monkeypatch: pytest.MonkeyPatch) -> None:
    clip, norms = th.nn.utils.clip_grad_norm_, []

    def record(*arguments: Any, **options: Any) -> Any:
        norms.append(float(clip(*arguments, **options)))

    monkeypatch.setattr(th.nn.utils, "clip_grad_norm_", record)
    look = Read()
    build(max_grad_norm=1e-3).learn(3 * ROLLOUT, callback=[look, Health()])
    expected = np.reshape(norms, (3, 4)).mean(axis=1)  # 2 epochs of 2 minibatches
    assert (expected > 1e-2).all()
    np.testing.assert_allclose([row["train/grad_norm"] for row in look.rows[1:]], expected[:2], rtol=1e-5)


@pytest.mark.parametrize("core", CORES)
def test_memory_norm(core: str) -> None:
    look, model = Read(), build(core=core)
    model.learn(2 * ROLLOUT, callback=[look, Health()])
    if core == "none":
        assert "train/memory_norm" not in look.rows[-1]
        return
    state = look.memories[-1][0]
    floats = (
        [state.memory] if hasattr(state, "memory") else [leaf for leaf in state if leaf.is_floating_point()]
    )
    rows = np.concatenate([leaf.flatten(1).numpy() for leaf in floats], axis=1)
    expected = np.sqrt((rows.astype(np.float64) ** 2).mean(axis=1)).max()
    assert look.rows[-1]["train/memory_norm"] == pytest.approx(expected, rel=1e-5)
    assert 0.01 < expected < 100


def test_memory_norm_is_of_the_largest() -> None:
    model = build()
    (state,) = model.policy.initial_states(3)
    memory = th.zeros_like(state.memory)
    memory[1] = 2.0
    memory[1, 0] = 0.0  # one of two tokens
    assert memory_norm((state._replace(memory=memory),)) == pytest.approx(2.0 / math.sqrt(2))


def test_watching_changes_nothing() -> None:
    def train(*callbacks: BaseCallback) -> Any:
        return build().learn(3 * ROLLOUT, callback=list(callbacks)).policy.parameters_to_vector()

    np.testing.assert_array_equal(train(), train(Health()))


def test_hooks_go_with_the_training() -> None:
    model, health = build(), Health()
    model.learn(ROLLOUT, callback=health)
    with pytest.raises(ZeroDivisionError):
        model.learn(ROLLOUT, callback=[health, At(4, lambda _: 1 // 0)])
    assert not health._hooks
    assert not any(p._post_accumulate_grad_hooks for p in model.policy.parameters())
    assert not model.policy.optimizer._optimizer_step_pre_hooks


# -- environments that die


class Fails(Noise):
    """Raises an error at its 31st step."""

    count = 0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        if self.count == 31:
            raise ArithmeticError("the world has ended")
        return super().step(action)


def kill(index: int) -> Callable[[MemoryPPO], None]:
    def do(model: MemoryPPO) -> None:
        workers: Any = model.env and model.env.unwrapped
        os.kill(workers.processes[index].pid, signal.SIGKILL)

    return do


def test_an_error_in_an_environment(tmp_path: Path) -> None:
    env = DummyVecEnv([lambda: Noise(), Fails])
    breaks(tmp_path, build(env), ArithmeticError, "the world has ended", 2 * ROLLOUT)


@pytest.mark.parametrize("method", ["spawn", pytest.param("forkserver", marks=pytest.mark.slow), "fork"])
def test_a_worker_is_killed(method: str, tmp_path: Path) -> None:
    env = VecNormalize(SubprocVecEnv([Noise, Noise], start_method=method))
    processes = env.unwrapped.processes  # type: ignore[attr-defined]
    pid = processes[1].pid
    words = f"environment 1 is dead: its worker process {pid} has ended .killed by signal 9"
    error = breaks(
        tmp_path, build(env), DeadEnvironmentError, words, 2 * ROLLOUT, At(2 * ROLLOUT + 6, kill(1))
    )
    assert isinstance(error, DeadEnvironmentError) and (error.index, error.pid) == (1, pid)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert not any(process.is_alive() for process in processes)
    env.close()  # does not wait for the dead


def test_a_worker_is_killed_between_rollouts(tmp_path: Path) -> None:
    class Kill(BaseCallback):
        def _on_rollout_end(self) -> None:
            if self.num_timesteps == 2 * ROLLOUT:
                kill(0)(model)

        def _on_step(self) -> bool:
            return True

    env = SubprocVecEnv([Noise, Noise], start_method="fork")
    model = build(env)
    breaks(tmp_path, model, DeadEnvironmentError, "environment 0 is dead", ROLLOUT, Kill())


def test_a_worker_with_an_error(tmp_path: Path) -> None:
    env = SubprocVecEnv([Noise, Fails], start_method="fork")
    words = "environment 1 is dead.*ended .code 1.*has printed"
    breaks(tmp_path, build(env), DeadEnvironmentError, words, 2 * ROLLOUT)


def test_monitors_and_slow_workers_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmt_rl.workers.PATIENCE", 0.01)
    env = SubprocVecEnv([lambda: Monitor(Slow())] * 2, start_method="fork")
    build(env).learn(ROLLOUT)
    env.close()
    assert multiprocessing.active_children() == []


class Slow(gym.Wrapper[Any, Any, Any, Any]):
    def __init__(self) -> None:
        super().__init__(Noise())

    def step(self, action: Any) -> Any:
        signal.sigtimedwait([], 0.03)
        return super().step(action)
