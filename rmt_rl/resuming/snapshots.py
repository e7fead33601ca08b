"""The whole state of a training between two rollouts: taken as a file of SB3's, and put back bit for bit."""

from __future__ import annotations

import io
import pickle
import random
import warnings
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.save_util import load_from_zip_file
from stable_baselines3.common.utils import check_for_correct_spaces
from stable_baselines3.common.vec_env import VecEnv

from rmt_rl.cores.base import map_state
from rmt_rl.on_policy import MemoryOnPolicyAlgorithm
from rmt_rl.resuming import env_states
from rmt_rl.resuming.env_states import EnvStates, data_of, only_data
from rmt_rl.saving.origin import check_attributes

ENTRY = "training.pt"
"""what ``model.save`` leaves out; ``load`` passes over it"""
COUNTERS = (
    "num_timesteps", "_episode_num", "_n_updates", "_iteration", "_current_progress_remaining",
    "ep_info_buffer", "ep_success_buffer",
)  # fmt: skip
POSITION = ("_last_obs", "_last_episode_starts", "_last_original_obs")
"""Where in their episodes the environments are."""
NO_OPTIONS = {"num_timesteps", "start_time", "verbose", "tensorboard_log", "seed"}
LOGGED = ("name_to_value", "name_to_count", "name_to_excluded")


class Saved(NamedTuple):
    """A checkpoint's file, read."""

    data: dict[str, Any]
    """the model's attributes"""
    parameters: dict[str, Any]
    """of policy and optimizer"""
    training: dict[str, Any] | None
    """the rest; None in a file of ``model.save``"""


class Snapshots:
    """Takes and restores the state of a model and of the callbacks that it trains with.

    Options stay those of the present program, be they the model's or a callback's: of these objects only what
    has changed since training began is state.

    :param model: with its environments
    :param callbacks: all of them, in their order; those with ``state_dict`` and ``load_state_dict`` are asked
        for their state, of others it is the attributes that are plain data
    """

    def __init__(self, model: MemoryOnPolicyAlgorithm, callbacks: list[BaseCallback]) -> None:
        self.model = model
        self.callbacks: dict[str, BaseCallback] = {}
        for callback in callbacks:
            kind = type(callback).__name__
            count = sum(name.startswith(f"{kind} ") for name in self.callbacks)
            self.callbacks[f"{kind} {count}"] = callback
        self._began = {name: _fingerprints(data_of(callback)) for name, callback in self.callbacks.items()}
        self._options = _fingerprints(self._present_options())

    def take(self, complete: bool = True) -> bytes:
        """The state as a zip file that ``load`` takes as well.

        :param complete: false inside a rollout, where the environments cannot be gone back to
        """
        model = self.model
        assert model.env is not None
        # What is restored lies in memory in its plain order. What goes on without a break has to as well, as
        # sums may round otherwise in another.
        model._last_obs = _in_plain_order(model._last_obs)
        if model._memory is not None:
            plain = th.contiguous_format
            model._memory = map_state(lambda leaf: leaf.clone(memory_format=plain), model._memory)
        environments = env_states.take(model.env)
        if not complete:
            environments = env_states.no_rows("the training ended inside a rollout", environments.layers)
        training = {
            "memory": None if model._memory is None else map_state(lambda leaf: leaf.cpu(), model._memory),
            "environments": environments,
            "callbacks": {name: self._state_of(name, callback) for name, callback in self.callbacks.items()},
            "options": _changed(self._present_options(), self._options),
            "logged": {name: only_data(getattr(model.logger, name)) for name in LOGGED},
            "generators": _generators(model),
        }
        buffer, part = io.BytesIO(), io.BytesIO()
        model.save(buffer)
        th.save(training, part)
        with zipfile.ZipFile(buffer, "a") as archive:
            archive.writestr(ENTRY, part.getvalue())
        return buffer.getvalue()

    def restore(self, saved: Saved, restart: bool = True) -> None:
        """Go back to where ``saved`` was taken, as far as that is possible; warns if it is not all the way.

        :param restart: whether episodes that cannot be gone on with are to be begun anew
        :raises ValueError: if it was taken of another model, or of other environments
        """
        model, training = self.model, saved.training or {}
        assert model.env is not None
        check_attributes(type(model), saved.data)
        count = saved.data.get("n_envs")
        if count != model.n_envs:
            raise ValueError(f"the checkpoint has {count} environments, this model has {model.n_envs}")
        check_for_correct_spaces(model.env, saved.data["observation_space"], saved.data["action_space"])
        try:
            model.set_parameters(saved.parameters, exact_match=True, device=model.device)
        except RuntimeError as error:
            raise ValueError(f"the checkpoint is another model's: {error}") from error
        _put(model, {name: saved.data[name] for name in COUNTERS if saved.data.get(name) is not None})
        _put(model, training.get("options", {}))
        model._num_timesteps_at_start = model.num_timesteps  # for frames per second
        nothing = env_states.no_rows("the checkpoint has no state of them", [])
        states: EnvStates = training.get("environments", nothing)
        if saved.training is not None:
            env_states.put(model.env, states)
        if states.rows is not None:
            _put(model, {name: saved.data[name] for name in POSITION})
            memory = training["memory"]
            model._memory = None if memory is None else map_state(lambda leaf: leaf.to(model.device), memory)
        elif restart:
            self._restart(states.reason)
        for name, state in training.get("callbacks", {}).items():
            if name in self.callbacks:
                _restore_callback(self.callbacks[name], state)
        for name, values in training.get("logged", {}).items():
            getattr(model.logger, name).clear()
            getattr(model.logger, name).update(values)
        if "generators" in training:
            _set_generators(model, training["generators"])

    def _restart(self, reason: str) -> None:
        model = self.model
        assert model.env is not None
        if model.num_timesteps:  # or there was no training yet, and no episodes
            warnings.warn(
                f"the episodes begin anew, as the environments cannot be gone on with: {reason}. The "
                "training goes on from what was learnt, but not exactly as it would have without a break",
                stacklevel=2,
            )
        if model.seed is not None:
            model.env.seed(restart_seed(model.seed, model.num_timesteps))
        model._last_obs = model.env.reset()  # type: ignore[assignment]
        model._last_episode_starts = np.ones(model.n_envs, dtype=bool)
        if model._vec_normalize_env is not None:
            model._last_original_obs = model._vec_normalize_env.get_original_obs()
        model._memory = None

    def _present_options(self) -> dict[str, Any]:
        return {
            name: value
            for name, value in vars(self.model).items()
            if isinstance(value, bool | int | float | str | None)
            and not name.startswith("_")
            and name not in NO_OPTIONS
        }

    def _state_of(self, name: str, callback: BaseCallback) -> dict[str, Any]:
        counts = {"n_calls": callback.n_calls, "num_timesteps": callback.num_timesteps}
        state: dict[str, Any] = {"counts": counts}
        if hasattr(callback, "state_dict"):
            state["own"] = callback.state_dict()
        else:
            state["data"] = _changed(data_of(callback), self._began[name])
        state["environments"] = {name: env_states.take(env) for name, env in _envs_of(callback).items()}
        return state


def _restore_callback(callback: BaseCallback, state: dict[str, Any]) -> None:
    _put(callback, state["counts"])
    if "own" in state and hasattr(callback, "load_state_dict"):
        callback.load_state_dict(state["own"])
    _put(callback, state.get("data", {}))
    for name, env in _envs_of(callback).items():
        if name in state["environments"]:
            env_states.put(env, state["environments"][name])


def read(path: Path) -> Saved:
    """Read a file of ``Snapshots.take`` or of ``model.save``.

    :raises ValueError: if it is damaged or something else
    """
    try:
        data, parameters, _ = load_from_zip_file(path, device="cpu")
        with zipfile.ZipFile(path) as archive:
            part = archive.read(ENTRY) if ENTRY in archive.namelist() else None
        training = None if part is None else th.load(io.BytesIO(part), map_location="cpu", weights_only=False)
    # What SB3, torch and pickle raise, depending on where they stumble.
    except (
        AttributeError, AssertionError, EOFError, ImportError, KeyError, OSError, RuntimeError, TypeError,
        ValueError, pickle.UnpicklingError, zipfile.BadZipFile,
    ) as error:  # fmt: skip
        raise ValueError(f"{path} is damaged, or no checkpoint: {error}") from error
    if data is None or "policy" not in parameters:
        raise ValueError(f"{path} is damaged, or no checkpoint: it holds no model")
    return Saved(data, parameters, training)


def restart_seed(seed: int, steps: int) -> int:
    """Seed of the first environment of a training that is taken up again, its episodes begun anew.

    Trainings with other seeds play other episodes, and so does each part of one. It is below 2**29.
    """
    return int(np.random.SeedSequence((seed, steps)).generate_state(1)[0]) >> 3


def _generators(model: MemoryOnPolicyAlgorithm) -> dict[str, Any]:
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(),  # noqa: NPY002 - SB3's buffers draw from it
        "torch": th.get_rng_state(),
        "cuda": th.cuda.get_rng_state_all() if model.device.type == "cuda" else [],
        "actions": model.action_space.np_random.bit_generator.state,
    }


def _set_generators(model: MemoryOnPolicyAlgorithm, states: dict[str, Any]) -> None:
    random.setstate(states["python"])
    np.random.set_state(states["numpy"])  # noqa: NPY002
    th.set_rng_state(states["torch"])
    if states["cuda"] and th.cuda.is_available():
        th.cuda.set_rng_state_all(states["cuda"])
    model.action_space.np_random.bit_generator.state = states["actions"]


def _in_plain_order(observations: Any) -> Any:
    if isinstance(observations, dict):
        return {key: np.ascontiguousarray(part) for key, part in observations.items()}
    return np.ascontiguousarray(observations)


def _put(thing: object, attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        setattr(thing, name, value)


def _envs_of(callback: BaseCallback) -> dict[str, VecEnv]:
    """Environments that a callback evaluates in, where their state can be had."""
    envs = {name: value for name, value in vars(callback).items() if isinstance(value, VecEnv)}
    return {name: env for name, env in envs.items() if not env_states.why_not(env.unwrapped)}


def _fingerprints(data: dict[str, Any]) -> dict[str, bytes]:
    return {name: pickle.dumps(value) for name, value in data.items()}


def _changed(data: dict[str, Any], before: dict[str, bytes]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if pickle.dumps(value) != before.get(name)}
