"""The `gymnasium.Env` face: one row of a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from envs.recall.base import BatchedTask, State
from envs.recall.contract import Observations
from envs.recall.faces import (
    RENDER_FPS,
    RENDER_MODES,
    action_space,
    check_options,
    check_render_mode,
    observation_space,
)
from envs.recall.parameters import Level
from envs.recall.tasks import make_task


class RecallEnv(gym.Env[Observations, np.int64]):
    """A recall task for one agent. Observations, actions and rewards are described with the task.

    The parameters of the task are attributes: reading gives the value for later episodes, setting changes it
    (through wrappers: `set_wrapper_attr` or, on a vector of environments, `env_method("set_parameters",
    ...)`). On the last step of an episode `info` has `is_success` (bool) and `level` (as given to
    `set_levels`).

    Args:
        task: name or class of the task.
        render_mode: None, "ansi" (text) or "rgb_array".
        **parameters: those of the task.

    Raises:
        ValueError: an unknown task or render mode, or a parameter outside its range.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": RENDER_FPS}
    task: BatchedTask

    def __init__(
        self, task: str | type[BatchedTask] = "Memorize", render_mode: str | None = None, **parameters: Any
    ) -> None:
        self.task = make_task(task, 1, parameters)
        self.render_mode = check_render_mode(render_mode)
        self.observation_space = observation_space(self.task)
        self.action_space = action_space(self.task)

    def __getattr__(self, name: str) -> Any:
        """Parameters of the task; called for names that are not attributes otherwise."""
        if name != "task" and name in (*self.task.settings.names, "levels"):
            return self.task.settings.get(name)[0]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a parameter of the task, from the next episode on, or an ordinary attribute."""
        if "task" in self.__dict__ and name in self.task.settings.names:
            self.task.set_parameters(**{name: value})
        else:
            super().__setattr__(name, value)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observations, dict[str, Any]]:
        """Begin an episode; the same seed begins the same run of episodes."""
        super().reset(seed=seed)
        check_options(options)
        if seed is None and not self.task.seeded:
            seed = self.np_random_seed  # drawn at random by Gymnasium, and so on record
        return self.task.reset(seed)[0], {}

    def step(self, action: Any) -> tuple[Observations, float, bool, bool, dict[str, Any]]:
        """Take an action.

        Raises:
            ValueError: an action that is no integer in the action space.
            gymnasium.error.ResetNeeded: no episode is running.
        """
        outcome = self.task.step(np.asarray(action)[None])
        terminated, truncated = bool(outcome.terminated[0]), bool(outcome.truncated[0])
        info: dict[str, Any] = {}
        if terminated or truncated:
            info = {"is_success": bool(self.task.success[0]), "level": self.task.levels[0]}
        return self.task.observe()[0], float(outcome.rewards[0]), terminated, truncated, info

    def render(self) -> Any:
        """The present step as text or picture, by `render_mode`; None without one."""
        if self.render_mode is None:
            return None
        return self.task.render_text() if self.render_mode == "ansi" else self.task.render_rgb()

    def set_levels(self, levels: Sequence[Level], probabilities: Sequence[float] | None = None) -> None:
        """Draw the level of each later episode from these; see `BatchedTask.set_levels`."""
        self.task.set_levels(levels, probabilities)

    def set_parameters(self, **values: Any) -> None:
        """Change constructor arguments from the next episode on; see `BatchedTask.set_parameters`."""
        self.task.set_parameters(**values)

    def non_reactive_steps(self) -> int:
        """Steps from now, the present one included, whose actions have no effect."""
        return int(self.task.non_reactive_steps()[0])

    def advance(self, n: int) -> Observations:
        """Play `n` steps whose actions have no effect; the observations (n, D), see `BatchedTask.advance`."""
        observations: Observations = self.task.advance(n)[0]
        return observations

    def observe(self) -> Observations:
        """The present observation (D,) once more."""
        observation: Observations = self.task.observe()[0]
        return observation

    def get_state(self) -> State:
        """The hidden state; arrays of one row."""
        return self.task.get_state()

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go back to a `get_state`."""
        self.task.set_state(state)

    def optimal_action(self) -> int:
        """The best action, read from the hidden state."""
        return int(self.task.optimal_action()[0])

    @property
    def best_return(self) -> float:
        """The return of the best policy in the present episode."""
        return float(self.task.best_return[0])

    @property
    def chance(self) -> float:
        """Success rate of the best policy without memory."""
        return self.task.chance
