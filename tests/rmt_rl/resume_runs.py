"""A training that can be killed anywhere, and all of its state, to be compared to the bit."""

from __future__ import annotations

import hashlib
import json
import os
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv, VecNormalize

from envs import make_sb3_vec
from rmt_rl import MemoryPPO
from rmt_rl.callbacks import CurriculumCallback
from rmt_rl.resuming.checkpoints import ExactCheckpoint
from rmt_rl.schedules import HoldThenLinear
from tests.rmt_rl.worlds import CORE_KWARGS

TASK = "envs:RMT/Memorize-v0"
LEVELS = [(1, 2), (2, 4), (3, 5), (4, 6)]
ENVS, STEPS = 4, 12
ROLLOUT = ENVS * STEPS
TOTAL = 8 * ROLLOUT


def make_env(kind: str) -> VecEnv:
    """ "batched", "dummy" or "spawn" (a worker process for every environment); normalised."""
    if kind == "batched":
        env = make_sb3_vec(TASK, ENVS)
    else:
        workers = dict(vec_env_cls=SubprocVecEnv, vec_env_kwargs=dict(start_method="spawn"))
        env = make_vec_env(TASK, ENVS, **(workers if kind == "spawn" else {}))  # type: ignore[arg-type]
    return VecNormalize(env, norm_obs=True)


def make_model(env: VecEnv, policy: str = "MlpPolicy", **changes: Any) -> MemoryPPO:
    """Everything that draws or counts is in use: noise, jitter, schedules."""
    core_kwargs = CORE_KWARGS["rmt"] | dict(memory_noise=0.5, segment_jitter=0.4)
    options: dict[str, Any] = dict(
        n_steps=STEPS, sequence_length=6, batch_size=24, n_epochs=2, seed=3, device="cpu",
        learning_rate=HoldThenLinear(3e-3, 0.0, 0.5), stats_window_size=10,
        policy_kwargs=dict(core="rmt", core_kwargs=core_kwargs, net_arch=[8]),
    )  # fmt: skip
    return MemoryPPO(policy, env, **(options | changes))


class Falling(BaseCallback):
    """An option of the model that changes with its progress."""

    def _on_rollout_start(self) -> None:
        self.model.ent_coef = 0.1 * self.model._current_progress_remaining  # type: ignore[attr-defined]

    def _on_step(self) -> bool:
        return True


class Callbacks:
    """Those of a training; the checkpoint stands among them wherever ``place`` says."""

    def __init__(self, checkpoint: BaseCallback | None, place: int = 1) -> None:
        self.curriculum = CurriculumCallback(LEVELS, threshold=0.3, window=20)
        evaluation = VecNormalize(make_sb3_vec(TASK, 2, seed=100, delay=3), training=False)
        self.evaluation = EvalCallback(evaluation, n_eval_episodes=2, eval_freq=31, verbose=0)
        self.all: list[BaseCallback] = [Falling(), self.curriculum, self.evaluation]
        if checkpoint is not None:
            self.all.insert(place, checkpoint)


def digests(model: MemoryPPO, callbacks: Callbacks) -> dict[str, str]:
    """A hash of each part of a training's state, whole in its bits; times of the clock are left out."""
    assert model.env is not None and model._memory is not None
    assert model.ep_info_buffer is not None and model.ep_success_buffer is not None
    normalize = model.get_vec_normalize_env()
    assert normalize is not None and not isinstance(normalize.obs_rms, dict)
    optimizer = model.policy.optimizer.state_dict()
    parts: dict[str, Any] = {
        "weights": [p.detach() for p in model.policy.parameters()],
        "optimizer": [optimizer["state"], optimizer["param_groups"]],
        "memory": model._memory,
        "observations": [model._last_obs, model._last_episode_starts],
        "episodes": [[{**info, "t": 0} for info in model.ep_info_buffer], list(model.ep_success_buffer)],
        "counters": [model.num_timesteps, model._n_updates, model._iteration, model.ent_coef],  # type: ignore[attr-defined]
        "environments": model.env.env_method("get_state"),
        "normalisation": [vars(normalize.obs_rms), vars(normalize.ret_rms), normalize.returns],
        "curriculum": callbacks.curriculum.state_dict(),
        "evaluation": [callbacks.evaluation.best_mean_reward, callbacks.evaluation.n_calls],
        "generators": [random.getstate(), np.random.get_state(), torch.get_rng_state()],  # noqa: NPY002
    }
    return {name: hashlib.sha256(b"".join(_bytes(part))).hexdigest() for name, part in parts.items()}


def _bytes(value: Any) -> list[bytes]:
    if isinstance(value, dict):
        return [piece for key in sorted(value) for piece in (str(key).encode(), *_bytes(value[key]))]
    if isinstance(value, list | tuple):
        return [piece for part in value for piece in _bytes(part)]
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        array = np.asarray(value)
        content = repr(array.tolist()).encode() if array.dtype.hasobject else array.tobytes()
        return [str((array.dtype, array.shape)).encode(), content]
    return [repr(value).encode()]


def train(
    folder: Path, kind: str = "batched", total: int = TOTAL, every: int = ROLLOUT, **changes: Any
) -> dict[str, str]:
    """Train to the end, from the newest checkpoint in a folder if there is one."""
    env = make_env(kind)
    callbacks = Callbacks(ExactCheckpoint(folder, every, resume=True))
    try:
        model = make_model(env, **changes).learn(total, callback=callbacks.all)
        return digests(model, callbacks)
    finally:
        env.close()


def work(folder: Path, kind: str, total: int, result: Path) -> None:
    """``train`` in a process of its own; what it reached comes as a file."""
    torch.set_num_threads(1)
    reached = train(folder, kind, total)
    draft = result.with_suffix(".draft")
    draft.write_text(json.dumps(reached))
    os.replace(draft, result)
