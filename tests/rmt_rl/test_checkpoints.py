"""Checkpoints are whole or not there, a folder has one user, and a training goes on where it was."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium.wrappers import TimeLimit
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecFrameStack, VecMonitor, VecNormalize

from envs import make_sb3_vec
from envs.recall.env import RecallEnv
from rmt_rl import MemoryPPO
from rmt_rl.health import UnhealthyTrainingError
from rmt_rl.resuming import checkpoints
from rmt_rl.resuming.checkpoints import STOPPED, ExactCheckpoint, checkpoints_of, write_checkpoint
from rmt_rl.resuming.locks import FolderLock
from rmt_rl.resuming.snapshots import read
from tests.rmt_rl.resume_runs import ROLLOUT, TASK, TOTAL, Callbacks, digests, make_env, make_model, train
from tests.rmt_rl.worlds import CORE_KWARGS, Noise


class StopAt(BaseCallback):
    """Ends a training at a step: by Ctrl-C, or as a callback may."""

    def __init__(self, steps: int, interrupt: bool = True) -> None:
        super().__init__()
        self.steps, self.interrupt = steps, interrupt

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.steps and self.interrupt:
            raise KeyboardInterrupt
        return self.num_timesteps < self.steps


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The state that an uninterrupted training comes to."""
    return train(tmp_path_factory.mktemp("whole"))


# -- files


def ends_in_child(function: Callable[[], object]) -> int:
    """Run it in a process forked off: how that ended."""
    child = os.fork()
    if child == 0:
        try:
            function()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def contents(folder: Path) -> dict[str, dict[str, bytes]]:
    return {path.name: {file.name: file.read_bytes() for file in path.iterdir()} for path in folder.iterdir()}


FIRST = {"model.zip": bytes(range(200)), "more": b"1"}
SECOND = {"model.zip": bytes(range(255, 0, -1)), "more": b"2"}


def test_killed_at_any_byte(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, 1, FIRST)

    def write(limit: int) -> None:
        # Beyond the limit the system kills the writer.
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        write_checkpoint(tmp_path, 2, SECOND)

    for limit in range(0, 255, 17):
        assert ends_in_child(lambda limit=limit: write(limit)) == -signal.SIGXFSZ  # type: ignore[misc]
        assert [path.name for path in checkpoints_of(tmp_path)] == ["000000001"]
    checkpoints._tidy(tmp_path)
    assert contents(tmp_path) == {"000000001": FIRST}
    assert ends_in_child(lambda: write(255)) == 0
    assert contents(tmp_path) == {"000000001": FIRST, "000000002": SECOND}


def test_a_failed_write_takes_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_checkpoint(tmp_path, 1, FIRST)
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            real, failures = getattr(os, name), iter([None, OSError("no space")])

            def fail(*arguments: Any, real: Any = real, failures: Any = failures) -> None:
                if (error := next(failures, None)) is not None:
                    raise error
                real(*arguments)

            patch.setattr(os, name, fail)
            with pytest.raises(OSError, match="no space"):
                write_checkpoint(tmp_path, 1, SECOND)
        assert contents(tmp_path) == {"000000001": FIRST}


@pytest.mark.parametrize("steps", [1, 2])
def test_killed_at_any_operation(steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a checkpoint takes the place of an older one of its step."""
    count = 0

    def write(last: int) -> None:
        nonlocal count

        def watched(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
            nonlocal count
            if count == last:
                os._exit(9)
            count += 1
            return function(*args, **kwargs)

        for module, name in ((os, "fsync"), (os, "replace"), (shutil, "rmtree")):
            function = getattr(module, name)
            monkeypatch.setattr(module, name, lambda *a, f=function, **k: watched(f, *a, **k))
        write_checkpoint(tmp_path, steps, SECOND)

    for last in range(100):
        shutil.rmtree(tmp_path)
        write_checkpoint(tmp_path, 1, FIRST)
        after = {"000000001": FIRST} | {f"{steps:09d}": SECOND}
        status = ends_in_child(lambda last=last: write(last))  # type: ignore[misc]
        checkpoints._tidy(tmp_path)
        found = contents(tmp_path)
        if status == 0:
            break
        assert found in ({"000000001": FIRST}, after)
    assert last >= 6 + (steps == 1)
    assert found == after


def test_old_ones_go(tmp_path: Path) -> None:
    for keep, left in ((2, [2, 3]), (None, [1, 2, 3])):
        model = make_model(make_env("batched"), n_epochs=1)
        model.learn(3 * ROLLOUT, callback=ExactCheckpoint(tmp_path / str(keep), ROLLOUT, keep=keep))
        assert [int(path.name) // ROLLOUT for path in checkpoints_of(tmp_path / str(keep))] == left


def test_none_goes_for_older_ones(tmp_path: Path) -> None:
    """Going on from an old one, the later ones are not the oldest."""
    make_model(make_env("batched")).learn(3 * ROLLOUT, callback=ExactCheckpoint(tmp_path, ROLLOUT, keep=None))
    old = checkpoints_of(tmp_path)[0]
    checkpoint = ExactCheckpoint(tmp_path, ROLLOUT, keep=1, resume=old)
    make_model(make_env("batched")).learn(2 * ROLLOUT, callback=checkpoint)
    assert checkpoint.path == checkpoints_of(tmp_path)[0]
    assert [int(path.name) // ROLLOUT for path in checkpoints_of(tmp_path)] == [2, 3]


def test_every_so_many_steps(tmp_path: Path) -> None:
    make_model(make_env("batched"), n_epochs=1).learn(
        5 * ROLLOUT, callback=ExactCheckpoint(tmp_path, 2 * ROLLOUT - 1, keep=None)
    )
    assert [int(path.name) // ROLLOUT for path in checkpoints_of(tmp_path)] == [2, 4, 5]


# -- locks


def hold(folder: Path, ready: Any) -> None:
    lock = FolderLock(folder)
    ready.send(os.getpid())
    signal.pause()
    lock.release()


def test_a_folder_has_one_user(tmp_path: Path) -> None:
    with FolderLock(tmp_path), pytest.raises(ValueError, match=f"in use by this process, {os.getpid()}"):
        FolderLock(tmp_path)
    FolderLock(tmp_path).release()


def test_a_folder_has_one_process(tmp_path: Path) -> None:
    ours, theirs = multiprocessing.Pipe()
    other = multiprocessing.get_context("fork").Process(target=hold, args=(tmp_path, theirs))
    other.start()
    pid = ours.recv()
    model = make_model(make_env("batched"))
    with pytest.raises(ValueError, match=f"{tmp_path} is in use by process {pid} on .*give another folder"):
        model.learn(ROLLOUT, callback=ExactCheckpoint(tmp_path, ROLLOUT))
    other.kill()  # leaves its lock behind
    other.join()
    assert (tmp_path / ".lock").read_text().startswith(f"process {pid} ")
    model.learn(ROLLOUT, callback=ExactCheckpoint(tmp_path, ROLLOUT))
    assert (tmp_path / ".lock").read_text() == ""


def test_a_failed_start_locks_nothing(tmp_path: Path) -> None:
    class Fails(BaseCallback):
        def _init_callback(self) -> None:
            raise RuntimeError("no")

        def _on_step(self) -> bool:
            return True

    with pytest.raises(RuntimeError, match="no"):
        make_model(make_env("batched")).learn(1, callback=[ExactCheckpoint(tmp_path, 1), Fails()])
    FolderLock(tmp_path).release()


def test_a_failure_writes_nothing_into_anothers_folder(tmp_path: Path) -> None:
    checkpoint, model = ExactCheckpoint(tmp_path, TOTAL), make_model(make_env("batched"))
    with pytest.raises(KeyboardInterrupt):
        model.learn(TOTAL, callback=[checkpoint, StopAt(2 * ROLLOUT + 1)])
    shutil.rmtree(tmp_path)
    with FolderLock(tmp_path), pytest.raises(ValueError, match="in use by this process"):
        model.learn(ROLLOUT, callback=checkpoint)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    with pytest.raises(KeyboardInterrupt):
        model.learn(TOTAL, callback=[checkpoint, StopAt(1)])
    assert [path.name for path in checkpoints_of(tmp_path)] == ["000000000"]


# -- going on


@pytest.mark.parametrize("kind", ["batched", pytest.param("dummy", marks=pytest.mark.slow)])
def test_interrupted_anywhere(kind: str, tmp_path: Path, whole: dict[str, str]) -> None:
    """In the first rollout, early and late in others; wherever the checkpoint stands among the callbacks."""
    for place, steps in enumerate((5, 4 * ROLLOUT + 1, 7 * ROLLOUT)):
        env = make_env(kind)
        callbacks = Callbacks(ExactCheckpoint(tmp_path, 3 * ROLLOUT, resume=True), place)
        with pytest.raises(KeyboardInterrupt) as raised:
            make_model(env).learn(TOTAL, callback=[*callbacks.all, StopAt(steps)])
        kept = checkpoints_of(tmp_path)[-1]
        assert int(kept.name) == (steps - 1) // ROLLOUT * ROLLOUT
        assert raised.value.__notes__ == [f"the last state that was in order is kept in {kept}"]
        assert (tmp_path / STOPPED).read_text().startswith(f"step {-(-steps // 4) * 4}: KeyboardInterrupt")
    assert train(tmp_path, kind) == (whole if kind == "batched" else train(tmp_path / "whole", kind))
    assert not (tmp_path / STOPPED).exists()


def test_interrupted_in_an_update(
    tmp_path: Path, whole: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = make_env("batched")
    model, count = make_model(env), 0

    def update() -> None:
        nonlocal count
        count += 1
        if count == 18:
            raise KeyboardInterrupt
        step()

    step = model.policy.optimizer.step
    monkeypatch.setattr(model.policy.optimizer, "step", update)
    callbacks = Callbacks(ExactCheckpoint(tmp_path, TOTAL, resume=True))
    with pytest.raises(KeyboardInterrupt):
        model.learn(TOTAL, callback=callbacks.all)
    assert train(tmp_path) == whole


def test_a_finished_training_is_left_alone(tmp_path: Path, whole: dict[str, str]) -> None:
    assert train(tmp_path) == train(tmp_path) == whole


def test_a_longer_training_is_gone_on_with(tmp_path: Path) -> None:
    """If its options do not hang on its length, it is as if it had been meant to be longer."""

    def learn(folder: Path, steps: int) -> np.ndarray[Any, Any]:
        model = make_model(make_env("batched"), learning_rate=1e-3)
        model.learn(steps, callback=ExactCheckpoint(folder, 2 * ROLLOUT, resume=True))
        return model.policy.parameters_to_vector()

    learn(tmp_path / "parts", 3 * ROLLOUT)
    np.testing.assert_array_equal(
        learn(tmp_path / "parts", 5 * ROLLOUT), learn(tmp_path / "whole", 5 * ROLLOUT)
    )


def test_checkpoints_change_nothing(whole: dict[str, str]) -> None:
    callbacks = Callbacks(None)
    env = make_env("batched")
    assert digests(make_model(env).learn(TOTAL, callback=callbacks.all), callbacks) == whole


def test_further_calls_of_learn(tmp_path: Path) -> None:
    def train_twice(*callbacks: BaseCallback) -> np.ndarray[Any, Any]:
        model = make_model(make_env("batched"))
        model.learn(2 * ROLLOUT, callback=list(callbacks))
        model.learn(2 * ROLLOUT, callback=list(callbacks), reset_num_timesteps=False)
        return model.policy.parameters_to_vector()

    np.testing.assert_array_equal(train_twice(ExactCheckpoint(tmp_path, ROLLOUT, keep=None)), train_twice())
    assert [int(path.name) // ROLLOUT for path in checkpoints_of(tmp_path)] == [1, 2, 3, 4]


@pytest.mark.parametrize("frequency", [-1, 5])
def test_exploration_noise_that_depends_on_the_state(frequency: int, tmp_path: Path) -> None:
    def parts(folder: Path, *stops: int) -> np.ndarray[Any, Any]:
        for stop in (*stops, 10**9):
            env = DummyVecEnv([lambda: Monitor(Walk())])
            model = MemoryPPO(
                "MultiInputPolicy", env, n_steps=12, sequence_length=6, batch_size=6, seed=0, use_sde=True,
                sde_sample_freq=frequency, policy_kwargs=dict(core="gru", core_kwargs=dict(width=8)),
            )  # fmt: skip
            try:
                model.learn(48, callback=[StopAt(stop), ExactCheckpoint(folder, 12, resume=True)])
            except KeyboardInterrupt:
                continue
        return model.policy.parameters_to_vector()

    np.testing.assert_array_equal(parts(tmp_path / "parts", 20, 40), parts(tmp_path / "whole"))


class Picture(gym.Env[Any, Any]):
    """Noise as SB3 takes it for a picture, channels last, which it turns around."""

    observation_space = gym.spaces.Box(0, 255, (36, 36, 3), np.uint8)
    action_space = gym.spaces.Discrete(3)

    def get_state(self) -> Any:
        return self.np_random.bit_generator.state

    def set_state(self, state: Any) -> None:
        self.np_random.bit_generator.state = state

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.np_random.integers(0, 256, (36, 36, 3), np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        over = bool(self.np_random.random() < 0.2)
        return self.reset()[0], float(self.np_random.normal()), over, False, {}


class Walk(gym.Env[Any, Any]):
    """A Dict of observations, continuous actions, a state that can be had."""

    observation_space = gym.spaces.Dict(
        {"where": gym.spaces.Box(-9, 9, (2,), np.float32), "time": gym.spaces.Discrete(8)}
    )
    action_space = gym.spaces.Box(-1, 1, (2,), np.float32)

    def get_state(self) -> dict[str, Any]:
        return {"where": self.where.copy(), "time": self.time, "random": self.np_random.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> None:
        self.where, self.time = state["where"].copy(), state["time"]
        self.np_random.bit_generator.state = state["random"]

    def _look(self) -> dict[str, Any]:
        return {"where": self.where.astype(np.float32), "time": self.time}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.where, self.time = self.np_random.normal(size=2), 0
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.where, self.time = np.clip(self.where + action, -9, 9), self.time + 1
        return self._look(), -float(np.abs(self.where).sum()), self.time == 7, False, {}


WRAPPED: dict[str, Callable[[], VecEnv]] = {
    "picture": lambda: DummyVecEnv([Picture, Picture]),
    "monitor": lambda: VecMonitor(DummyVecEnv([Walk, Walk])),
    "frames": lambda: VecFrameStack(make_sb3_vec(TASK, 2, delay=5), 3),
    "both": lambda: VecFrameStack(VecNormalize(make_vec_env(TASK, 2, env_kwargs=dict(delay=4))), 2),
    "time limit": lambda: DummyVecEnv([lambda: Monitor(TimeLimit(RecallEnv(delay=30), 7))] * 2),
}


@pytest.mark.parametrize("kind", WRAPPED)
def test_wrappers(kind: str, tmp_path: Path) -> None:
    """What they know of running episodes comes back: rewards so far, frames, statistics, steps to a limit."""

    def learn(folder: Path, steps: int) -> list[Any]:
        env = WRAPPED[kind]()
        policy = {"monitor": "MultiInputPolicy", "picture": "CnnPolicy"}.get(kind, "MlpPolicy")
        model = make_model(env, policy, n_steps=9, sequence_length=9, batch_size=18, learning_rate=1e-3)
        model.learn(steps, callback=ExactCheckpoint(folder, 18, resume=True))
        episodes = [(info["r"], info["l"]) for info in model.ep_info_buffer or ()]
        return [episodes, *leaves(model._last_obs), model.policy.parameters_to_vector()]

    def leaves(obs: Any) -> list[Any]:
        return list(obs.values()) if isinstance(obs, dict) else [obs]

    whole = learn(tmp_path / "whole", 5 * 18)
    learn(tmp_path / "parts", 2 * 18)
    parts = learn(tmp_path / "parts", 5 * 18)
    assert parts[0] == whole[0] and (len(whole[0]) > 5 or kind == "picture")
    for one, other in zip(parts[1:], whole[1:], strict=True):
        np.testing.assert_array_equal(one, other)


class Unknown(gym.Wrapper[Any, Any, Any, Any]):
    """Nobody knows whether it keeps something."""


def begin_anew(build: Callable[[], MemoryPPO], source: Path, folder: Path, reason: str) -> MemoryPPO:
    """Go on for a rollout: the episodes begin anew, what was learnt stays, and it is said."""
    saved, model = read(source / "model.zip"), build()
    seen: list[tuple[Any, Any]] = []

    class Look(BaseCallback):
        def _on_rollout_start(self) -> None:
            seen.append((model._last_episode_starts, model._memory))
            for name, leaf in model.policy.state_dict().items():
                assert th.equal(leaf, saved.parameters["policy"][name])

        def _on_step(self) -> bool:
            return True

    checkpoint = ExactCheckpoint(folder, 1, resume=source)
    with pytest.warns(UserWarning, match="begin anew") as warned:
        model.learn(saved.data["num_timesteps"] + 1, callback=[checkpoint, Look()])
    messages = [str(one.message) for one in warned if "begin anew" in str(one.message)]
    assert len(messages) == 1 and reason in messages[0]
    ((starts, memory),) = seen
    assert starts.all() and memory is None
    assert model.num_timesteps == saved.data["num_timesteps"] + model.n_steps * model.n_envs
    return model


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: VecNormalize(DummyVecEnv([lambda: Noise(length=(5, 5))] * 4)), "no get_state"),
        (lambda: VecNormalize(make_vec_env(TASK, 4, wrapper_class=Unknown)), "the wrapper Unknown may"),
    ],
)
def test_environments_without_a_state(make: Callable[[], VecEnv], reason: str, tmp_path: Path) -> None:
    def build() -> MemoryPPO:
        return make_model(make())

    first = build().learn(2 * ROLLOUT, callback=ExactCheckpoint(tmp_path, ROLLOUT))
    second = begin_anew(build, checkpoints_of(tmp_path)[-1], tmp_path, reason)
    counts = [model.get_vec_normalize_env().obs_rms.count for model in (first, second)]  # type: ignore[union-attr]
    # A rollout more: what was counted before is not lost.
    assert counts[1] == counts[0] + ROLLOUT


def test_saved_by_sb3(tmp_path: Path) -> None:
    def build() -> MemoryPPO:
        return make_model(make_env("batched"))

    build().learn(2 * ROLLOUT).save(tmp_path / "model.zip")
    second = begin_anew(build, tmp_path, tmp_path / "run", "no state of them")
    assert second._n_updates == 3 * 2


def test_ended_by_a_callback_inside_a_rollout(tmp_path: Path) -> None:
    def build() -> MemoryPPO:
        return make_model(make_env("batched"))

    stop = StopAt(2 * ROLLOUT + 8, interrupt=False)
    build().learn(TOTAL, callback=[ExactCheckpoint(tmp_path, TOTAL), stop])
    (path,) = checkpoints_of(tmp_path)
    assert int(path.name) == 2 * ROLLOUT + 8
    begin_anew(build, path, tmp_path, "ended inside a rollout")


def test_load_takes_a_checkpoint(tmp_path: Path) -> None:
    model = make_model(make_env("batched")).learn(3 * ROLLOUT, callback=ExactCheckpoint(tmp_path, ROLLOUT))
    loaded = MemoryPPO.load(checkpoints_of(tmp_path)[-1] / "model.zip", device="cpu")
    np.testing.assert_array_equal(loaded.policy.parameters_to_vector(), model.policy.parameters_to_vector())
    assert loaded.num_timesteps == 3 * ROLLOUT


def test_options_are_the_programs(tmp_path: Path) -> None:
    """What the program says anew holds; what callbacks have changed comes back."""

    class Changes(BaseCallback):
        def __init__(self, size: int) -> None:
            super().__init__()
            self.size, self.sum, self.model_gamma = size, 0, 0.0

        def _on_step(self) -> bool:
            self.sum += self.size
            if self.n_calls == 1:
                self.model.vf_coef = 0.25  # type: ignore[attr-defined]
            return True

    make_model(make_env("batched")).learn(ROLLOUT, callback=[Changes(2), ExactCheckpoint(tmp_path, 1)])
    changes = Changes(3)
    model = make_model(make_env("batched"), gamma=0.5, vf_coef=0.7)
    model.learn(2 * ROLLOUT, callback=[changes, ExactCheckpoint(tmp_path, 1, resume=True)])
    assert (changes.size, changes.sum, changes.n_calls) == (3, 2 * 12 + 3 * 12, 24)
    assert (model.gamma, model.vf_coef) == (0.5, 0.25)


@pytest.mark.parametrize("interval", [1, 2])
def test_logs_go_on(interval: int, tmp_path: Path) -> None:
    """Iterations are counted on, every second is logged, and what an update has told is not lost."""

    def learn(folder: Path, *stops: int) -> list[dict[str, Any]]:
        written: list[dict[str, Any]] = []

        class Keep(Logger):
            def dump(self, step: int = 0) -> None:
                clock = ("time/fps", "time/time_elapsed")
                written.append({k: v for k, v in self.name_to_value.items() if k not in clock})
                super().dump(step)

        for stop in (*stops, 10**9):
            model = make_model(make_env("batched"))
            model.set_logger(Keep(None, []))
            callback = [StopAt(stop), ExactCheckpoint(folder, ROLLOUT, resume=True)]
            try:
                model.learn(5 * ROLLOUT, callback=callback, log_interval=interval)
            except KeyboardInterrupt:
                continue
        return written

    whole, parts = learn(tmp_path / "whole"), learn(tmp_path / "parts", ROLLOUT + 1, 3 * ROLLOUT + 1)
    assert [row["time/iterations"] for row in whole] == list(range(interval, 6, interval))
    assert parts == whole


# -- refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(every=0), "at least 1 step apart, got 0"),
        (dict(every=1, keep=0), "keep must be at least 1, got 0"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        ExactCheckpoint(tmp_path, **options)


def test_refuses_what_it_cannot_go_on_with(tmp_path: Path) -> None:
    def learn(env: VecEnv, resume: Any = True, **changes: Any) -> None:
        make_model(env, **changes).learn(2 * ROLLOUT, callback=ExactCheckpoint(run, 1, resume=resume))

    run = tmp_path / "run"
    learn(make_env("batched"))
    kept = {path.name for path in checkpoints_of(run)}
    with pytest.raises(ValueError, match=f"holds checkpoints already, the newest of step {2 * ROLLOUT}"):
        learn(make_env("batched"), resume=False)
    with pytest.raises(ValueError, match=r"has 4 environments, this model has 2"):
        learn(VecNormalize(make_vec_env(TASK, 2)))
    with pytest.raises(ValueError, match=r"wrappers are none, those of the checkpoint were VecNormalize"):
        learn(make_vec_env(TASK, 4))
    with pytest.raises(ValueError, match=r"memory core is RMT.*this one is GRU"):
        learn(make_env("batched"), policy_kwargs=dict(core="gru", core_kwargs=CORE_KWARGS["gru"]))
    with pytest.raises(ValueError, match="another model's"):
        policy = dict(core="rmt", core_kwargs=CORE_KWARGS["rmt"] | dict(memory_noise=0.5, segment_jitter=0.4))
        learn(make_env("batched"), policy_kwargs=policy | dict(net_arch=[9]))
    with pytest.raises(ValueError, match=r"nowhere.model\.zip is damaged, or no checkpoint"):
        learn(make_env("batched"), resume=tmp_path / "nowhere")
    file = run / f"{2 * ROLLOUT:09d}" / "model.zip"
    file.write_bytes(file.read_bytes()[:-1000])
    with pytest.raises(ValueError, match=r"model\.zip is damaged"):
        learn(make_env("batched"))
    assert {path.name for path in checkpoints_of(run)} == kept
    with pytest.raises(TypeError, match="for MemoryPPO, got PPO"):
        PPO("MlpPolicy", "CartPole-v1", device="cpu").learn(1, callback=ExactCheckpoint(tmp_path / "ppo", 1))


def test_no_checkpoint_of_nan(tmp_path: Path) -> None:
    class Poison(BaseCallback):
        def _on_rollout_end(self) -> None:
            if self.num_timesteps == 3 * ROLLOUT:
                self.model.learning_rate = float("nan")
                self.model._setup_lr_schedule()

        def _on_step(self) -> bool:
            return True

    # The weights are spoilt by the only minibatch of an update, and looked at next by the checkpoint.
    model = make_model(make_env("batched"), n_epochs=1, batch_size=ROLLOUT)
    with pytest.raises(UnhealthyTrainingError, match="weights are no numbers any more"):
        model.learn(TOTAL, callback=[Poison(), ExactCheckpoint(tmp_path, ROLLOUT)])
    assert int(checkpoints_of(tmp_path)[-1].name) == 2 * ROLLOUT
    saved = read(checkpoints_of(tmp_path)[-1] / "model.zip")
    assert all(th.isfinite(leaf).all() for leaf in saved.parameters["policy"].values())
