"""The `gymnasium.vector.VectorEnv` face: all rows of a task, reset in the step that ends their episode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from envs.recall.base import BatchedTask
from envs.recall.contract import Finished, Observations
from envs.recall.faces import (
    RENDER_FPS,
    RENDER_MODES,
    action_space,
    check_options,
    check_render_mode,
    observation_space,
)
from envs.recall.parameters import Level, UnknownAttributeError
from envs.recall.tasks import make_task


class RecallVectorEnv(VectorEnv[Observations, NDArray[np.int64], NDArray[Any]]):
    """A recall task for `num_envs` agents: a `SyncVectorEnv` of `RecallEnv`s with same-step autoreset.

    Where an episode ends, `infos["final_obs"]` holds the last observation and `infos["final_info"]` the
    arrays `is_success` and `level`, each with its mask (`_final_obs`, ...), as Gymnasium 1.x has it.

    Args:
        num_envs: number of agents, N.
        task: name or class of the task.
        render_mode: None, "ansi" or "rgb_array".
        **parameters: those of the task.

    Raises:
        ValueError: an unknown task or render mode, or a parameter outside its range.
    """

    metadata: dict[str, Any] = {
        "render_modes": list(RENDER_MODES),
        "render_fps": RENDER_FPS,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        task: str | type[BatchedTask] = "Memorize",
        render_mode: str | None = None,
        **parameters: Any,
    ) -> None:
        self.task = make_task(task, num_envs, parameters)
        self.num_envs = num_envs
        self.render_mode = check_render_mode(render_mode)
        self.single_observation_space = observation_space(self.task)
        self.single_action_space = action_space(self.task)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode in every row, or in those where `options["reset_mask"]` (N,) is true.

        An int seeds row i with `seed` + i; a sequence has one seed for each row.
        """
        remaining = dict(options or {})
        mask = remaining.pop("reset_mask", None)
        check_options(remaining)
        rows = None if mask is None else self._rows_of(mask)
        super().reset(seed=seed if isinstance(seed, int) else None)
        if seed is None and not self.task.seeded:
            seed = self.np_random_seed
        return self.task.reset(seed, rows), {}

    def _rows_of(self, mask: Any) -> NDArray[np.int64]:
        array = np.asarray(mask)
        if array.shape != (self.num_envs,) or array.dtype != np.bool_ or not array.any():
            raise ValueError(
                f"reset_mask={mask!r}: must be {self.num_envs} booleans, at least one of them true"
            )
        return np.flatnonzero(array)

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Observations, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Take the actions (N,); observations (N, D) of ended rows are the first of their next episodes."""
        observations, outcome, finished = self.task.step_and_restart(actions)
        infos = {} if finished is None else self._final_infos(finished)
        return observations, outcome.rewards, outcome.terminated, outcome.truncated, infos

    def _final_infos(self, finished: Finished) -> dict[str, Any]:
        ended = np.zeros(self.num_envs, dtype=np.bool_)
        ended[finished.rows] = True
        final_obs = np.full(self.num_envs, None, dtype=object)
        for row, observation in zip(finished.rows, finished.observations, strict=True):
            final_obs[row] = observation
        success = np.zeros(self.num_envs, dtype=np.bool_)
        success[finished.rows] = finished.success
        # Integer levels make an integer array as in Gymnasium; ranges need one of objects.
        plain = all(type(level) is int for level in finished.levels)
        levels: NDArray[Any] = (
            np.zeros(self.num_envs, dtype=np.int64) if plain else np.full_like(final_obs, None)
        )
        levels[finished.rows] = finished.levels
        final_info = {
            "is_success": success,
            "_is_success": ended.copy(),
            "level": levels,
            "_level": ended.copy(),
        }
        return {
            "final_obs": final_obs,
            "_final_obs": ended,
            "final_info": final_info,
            "_final_info": ended.copy(),
        }

    def render(self) -> tuple[Any, ...] | None:
        """One text or picture for each row; None without a render mode."""
        if self.render_mode is None:
            return None
        draw = self.task.render_text if self.render_mode == "ansi" else self.task.render_rgb
        return tuple(draw(row) for row in range(self.num_envs))

    def set_levels(self, levels: Sequence[Level], probabilities: Sequence[float] | None = None) -> None:
        """Draw the level of each later episode from these; see `BatchedTask.set_levels`."""
        self.task.set_levels(levels, probabilities)

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """A parameter's value for each row."""
        return tuple(self.task.settings.get(name))

    def set_attr(self, name: str, values: Any) -> None:
        """Set a parameter for later episodes: one value for all rows, or a list or tuple of one for each.

        As a tuple is one value for each row, the same range for all is `[(low, high)] * num_envs`.

        Raises:
            UnknownAttributeError: no such parameter.
            ValueError: a value outside its range, or the wrong number of them.
        """
        if name not in self.task.settings.names:
            raise UnknownAttributeError(
                f"{name!r} is no parameter: there are {', '.join(self.task.settings.names)}"
            )
        if not isinstance(values, list | tuple):
            self.task.set_parameters(**{name: values})
            return
        if len(values) != self.num_envs:
            raise ValueError(f"{name}={values!r}: must be one value, or {self.num_envs}, one for each row")
        for row, value in enumerate(values):
            self.task.set_parameters(np.array([row]), **{name: value})
