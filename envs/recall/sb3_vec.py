"""The Stable-Baselines3 `VecEnv` face. Imported only when asked for, as it needs SB3 (and with it torch)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec
from numpy.typing import NDArray
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices, VecEnvStepReturn

from envs.recall.base import BatchedTask
from envs.recall.contract import Finished, Observations
from envs.recall.faces import action_space, check_options, check_render_mode, observation_space
from envs.recall.hashing import Ints
from envs.recall.parameters import Level, UnknownAttributeError
from envs.recall.scripted import ScriptedPolicy
from envs.recall.tasks import make_task

__all__ = ["RecallVecEnv", "VecEnv", "make_monitored_vec", "make_recall_vec"]


class RecallVecEnv(VecEnv):
    """A recall task for `n_envs` agents inside SB3, equal to a `DummyVecEnv` of monitored `RecallEnv`s.

    The infos of a last step hold `episode` (r, l, t, as `VecMonitor` writes it: no monitor is needed),
    `terminal_observation`, `TimeLimit.truncated`, `is_success` and `level`; all others are empty.
    The parameters of the task are attributes for `get_attr` and `set_attr`.

    Args:
        task: name or class of the task.
        n_envs: number of agents, N.
        render_mode: None, "ansi" or "rgb_array".
        **parameters: those of the task.

    Raises:
        ValueError: an unknown task or render mode, or a parameter outside its range.
    """

    METHODS = (
        "set_levels",
        "set_parameters",
        "set_wrapper_attr",
        "get_state",
        "set_state",
        "optimal_action",
        "non_reactive_steps",
        "observe",
        "render",
    )
    """What `env_method` can call, with the arguments of the `RecallEnv` method of that name."""

    def __init__(
        self,
        task: str | type[BatchedTask] = "Memorize",
        n_envs: int = 1,
        render_mode: str | None = None,
        **parameters: Any,
    ) -> None:
        self.task = make_task(task, n_envs, parameters)
        self.render_mode = check_render_mode(render_mode)
        self.spec: EnvSpec | None = None
        self._actions: Any = None
        self._start_time = time.time()
        super().__init__(n_envs, observation_space(self.task), action_space(self.task))

    def reset(self) -> Observations:
        """Begin an episode in every row, with the seeds given to `seed`, if any: (N, D)."""
        for options in self._options:
            check_options(options)
        observations = self.task.reset(None if all(seed is None for seed in self._seeds) else self._seeds)
        self._reset_seeds()
        self._reset_options()
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Take note of the actions (N,)."""
        self._actions = actions

    def step_wait(self) -> VecEnvStepReturn:
        """Take them; observations (N, D) of ended rows are the first ones of their next episodes."""
        observations, outcome, finished = self.task.step_and_restart(self._actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if finished is not None:
            self._fill_infos(infos, finished)
        return observations, outcome.rewards.astype(np.float32), outcome.terminated | outcome.truncated, infos

    def _fill_infos(self, infos: list[dict[str, Any]], finished: Finished) -> None:
        elapsed = round(time.time() - self._start_time, 6)
        for i, row in enumerate(finished.rows.tolist()):
            infos[row] = {
                "episode": {"r": float(finished.returns[i]), "l": int(finished.lengths[i]), "t": elapsed},
                "is_success": bool(finished.success[i]),
                "level": finished.levels[i],
                "terminal_observation": finished.observations[i],
                "TimeLimit.truncated": bool(finished.truncated[i]),
            }

    def observe(self) -> Observations:
        """The present observations (N, D) once more."""
        return self.task.observe()

    def non_reactive_steps(self) -> Ints:
        """(N,) steps from now whose actions have no effect; see `BatchedTask.non_reactive_steps`."""
        return self.task.non_reactive_steps()

    def advance(self, n: int) -> Observations:
        """Play `n` steps whose actions have no effect; observations (N, n, D), see `BatchedTask.advance`."""
        return self.task.advance(n)

    def scripted_policy(self, remember: bool = True) -> ScriptedPolicy[Any]:
        """The best policy that sees observations only, with or without memory."""
        return self.task.policy_class(self.task, remember)

    def set_levels(self, levels: Sequence[Level], probabilities: Sequence[float] | None = None) -> None:
        """Draw the level of each later episode from these; see `BatchedTask.set_levels`."""
        self.task.set_levels(levels, probabilities)

    def close(self) -> None:
        """Nothing to release."""

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """A picture of each row, or None for each without the render mode "rgb_array"."""
        if self.render_mode != "rgb_array":
            return [None] * self.num_envs
        return [self.task.render_rgb(row) for row in range(self.num_envs)]

    def has_attr(self, attr_name: str) -> bool:
        """Whether there is such an attribute or method."""
        return attr_name in self.METHODS or super().has_attr(attr_name)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """A parameter or another attribute of the rows; UnknownAttributeError if there is none."""
        rows = self._rows(indices)
        if attr_name in (*self.task.settings.names, "levels"):
            values = self.task.settings.get(attr_name)
        elif attr_name in ("best_return", "random_success"):
            values = getattr(self.task, attr_name).tolist()
        elif attr_name in ("render_mode", "spec", "observation_space", "action_space"):
            values = [getattr(self, attr_name)] * self.num_envs
        elif attr_name == "chance":
            values = [self.task.chance] * self.num_envs
        else:
            raise self._unknown(attr_name)
        return [values[row] for row in rows]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Set a parameter of the rows for their later episodes.

        Raises:
            UnknownAttributeError: no such parameter.
            ValueError: a value outside its range, or another one where the spaces depend on it.
        """
        if attr_name not in self.task.settings.names:
            raise self._unknown(attr_name)
        self.task.set_parameters(self._rows(indices), **{attr_name: value})

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call one of `METHODS` for the rows; a list with the result of each."""
        rows = self._rows(indices)
        if method_name not in self.METHODS:
            raise self._unknown(method_name)
        if method_name in ("set_levels", "set_parameters"):
            getattr(self.task, method_name)(*method_args, **{**method_kwargs, "rows": rows})
            return [None] * len(rows)
        if method_name == "set_wrapper_attr":
            name, value = method_args
            self.set_attr(name, value, indices)
            return [True] * len(rows)
        if method_name == "set_state":
            (state,) = method_args
            for row in rows:
                self.task.set_state(state, np.array([row]))
            return [None] * len(rows)
        if method_name == "get_state":
            state = self.task.get_state()
            return [{name: array[row : row + 1] for name, array in state.items()} for row in rows]
        if method_name == "render":
            draw = self.task.render_text if self.render_mode == "ansi" else self.task.render_rgb
            return [draw(row) if self.render_mode else None for row in rows]
        results = getattr(self.task, method_name)(*method_args, **method_kwargs)
        return [results[row] for row in rows]

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """True for SB3's `Monitor`, whose work is done here: evaluation then reads `info["episode"]`."""
        return [wrapper_class is Monitor for _ in self._rows(indices)]

    def _rows(self, indices: VecEnvIndices) -> Ints:
        chosen: Iterable[int] = self._get_indices(indices)
        return np.arange(self.num_envs)[np.array(list(chosen), dtype=np.int64)]

    def _unknown(self, name: str) -> UnknownAttributeError:
        parameters, methods = ", ".join(self.task.settings.names), ", ".join(self.METHODS)
        return UnknownAttributeError(
            f"{name!r} is no attribute: there are the parameters {parameters} and the methods {methods}"
        )


def make_recall_vec(spec: EnvSpec, n_envs: int, seed: int | None, kwargs: dict[str, Any]) -> RecallVecEnv:
    """The task of a registered id, with its arguments overridden by `kwargs`; see `factory.make_sb3_vec`."""
    vec_env = RecallVecEnv(n_envs=n_envs, **{**spec.kwargs, **kwargs})
    vec_env.spec = spec
    if seed is not None:
        vec_env.seed(seed)
    return vec_env


def make_monitored_vec(env_id: str, n_envs: int, seed: int | None, kwargs: dict[str, Any]) -> VecEnv:
    """Single environments of any other id in a `DummyVecEnv`, each in a `Monitor`."""
    return make_vec_env(env_id, n_envs=n_envs, seed=seed, env_kwargs=kwargs)
