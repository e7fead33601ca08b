"""Memory Gym's ten environments, as Stable-Baselines3 can use them, any number of them side by side.

The ids are Memory Gym's own behind a namespace and the gym's name: ``RMT/MemoryGym-MortarMayhem-Grid-v0``.
Reference: Pleines et al., Memory Gym: Towards Endless Tasks to Benchmark Memory Capabilities of Agents, 2024.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from envs.gyms.encoding import Encoder, plain_action
from envs.gyms.offscreen import Offscreen, kept_in_environment
from envs.gyms.rendering import check_render_mode

Statistics = dict[str, Callable[[Any], float]]

# What Memory Gym reports at the end of an episode, read from the environment itself: so it is there after a
# time-out too, and right. (Memory Gym takes a last command for completed that was not.)
COMMANDS: Statistics = {"commands_completed": lambda game: _commands_completed(game) / game.num_commands}
FALLS: Statistics = {"num_fails": lambda game: game.num_fails}
HEALTH: Statistics = {"agent_health": lambda game: game.current_agent_health / game.agent_health}
STATISTICS: dict[str, Statistics] = {
    "MortarMayhem-v0": COMMANDS,
    "MortarMayhem-Grid-v0": COMMANDS,
    "MortarMayhemB-v0": COMMANDS,
    "MortarMayhemB-Grid-v0": COMMANDS,
    "Endless-MortarMayhem-v0": {"commands_completed": lambda game: game._total_commands_completed},
    "MysteryPath-v0": FALLS,
    "MysteryPath-Grid-v0": FALLS,
    "Endless-MysteryPath-v0": {**FALLS, "tiles_visited": lambda game: game.tiles_visited},
    "SearingSpotlights-v0": {**HEALTH, "coins_collected": lambda game: game.coins_collected / game.num_coins},
    "Endless-SearingSpotlights-v0": {**HEALTH, "coins_collected": lambda game: game.coins_collected},
}

MEMORY_GYM_IDS = tuple(STATISTICS)
"""Memory Gym's own ids."""

INSTALL = "pip install --no-deps -r requirements-memory-gym.txt"
NO_LIMIT = -1
PICTURE, PREVIOUS_ACTION = "visual_observation", "previous_action"


class MemoryGymTask(gym.Env[Any, Any]):
    """One of Memory Gym's environments.

    Observation: a picture, Box (84, 84, 3) uint8, indexed by column first as Memory Gym has it. In
    MortarMayhemB, where nothing has to be remembered, a Dict of the picture, ``visual_observation``, and the
    commands, ``vector_observation``. With ``previous_action`` a Dict in every environment, and in it
    ``previous_action``, a Box (n,) float32: the last action one-hot, zeros at the first step.

    Action: Discrete(4) in the grid versions and Endless-MysteryPath, else MultiDiscrete([3, 3]).

    Reward: Memory Gym's.

    End: Memory Gym's, but that the option ``max_steps`` truncates, where Memory Gym terminates. Running out
    of stamina in Endless-MysteryPath and of time for a coin in Endless-SearingSpotlights terminates: what the
    agent does puts these off, and so they are part of the game. MortarMayhem ends by itself.

    ``info`` is empty before the last step. Then it holds ``is_success``, but in the endless environments,
    which have none, and Memory Gym's statistics (``commands_completed``, ``num_fails``, ``tiles_visited``,
    ``agent_health``, ``coins_collected``). The endless environments' ``ground_truth``, which tells where to
    go or where the coin is, is left out.

    Options (Memory Gym's "reset parameters", such as ``command_count``) last until they are changed.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 8}

    def __init__(
        self,
        env_id: str,
        *,
        options: Mapping[str, Any] | None = None,
        previous_action: bool = False,
        render_mode: str | None = None,
    ) -> None:
        """Make the environment.

        Args:
            env_id: one of `MEMORY_GYM_IDS`.
            options: Memory Gym's reset parameters that are to differ from its defaults.
            previous_action: whether the observation holds the last action.
            render_mode: None or "rgb_array": what the agent sees, upright and four times as large.

        Raises:
            ImportError: if Memory Gym is not installed.
            ValueError: an id, an option or a render mode that there is not.
        """
        self.render_mode = check_render_mode(render_mode, self.metadata["render_modes"])
        self.game, self._screen = _make_game(env_id)
        self._statistics = STATISTICS[env_id]
        self._has_success = not env_id.startswith("Endless")
        self._options: dict[str, Any] = {}
        self.set_options(options or {})
        self.action_space = self.game.action_space
        self.observation_space = self.game.observation_space
        self._does = Encoder(self.action_space) if previous_action else None
        if self._does is not None:
            own = self.observation_space
            parts = own.spaces if isinstance(own, spaces.Dict) else {PICTURE: own}
            self.observation_space = spaces.Dict({**parts, PREVIOUS_ACTION: self._does.space()})
        self._steps = 0
        self._picture = np.zeros((84, 84, 3), dtype=np.uint8)

    @property
    def options(self) -> dict[str, Any]:
        """Every option, with what it will be in the next episode."""
        return {**self.game.default_reset_parameters, **self._options}

    def set_options(self, options: Mapping[str, Any]) -> None:
        """Change options, from the next episode on.

        Raises:
            ValueError: a name there is not, or a value that Memory Gym refuses.
        """
        known = self.game.default_reset_parameters
        for name in options:
            if name not in known:
                near = get_close_matches(name, known, n=1, cutoff=0.0)[0]
                raise ValueError(
                    f"options: there is no {name!r}, only {', '.join(known)}; did you mean {near}?"
                )
            if isinstance(known[name], list) and not isinstance(options[name], list):
                raise ValueError(f"{name}={options[name]!r}: must be a list such as {known[name]}")
        limit = options.get("max_steps", 1)
        if limit != NO_LIMIT and limit < 1:
            raise ValueError(f"max_steps={limit}: must be at least 1, or {NO_LIMIT} for no limit")
        changed = {**self._options, **options}
        try:
            type(self.game).process_reset_params(changed)
        except AssertionError as error:
            raise ValueError(f"options={dict(options)}: outside what Memory Gym allows. {error}") from error
        self._options = changed

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; the same seed begins the same run of episodes.

        Args:
            seed: as in `gymnasium.Env.reset`.
            options: as for `set_options`: they last.
        """
        super().reset(seed=seed)
        if options:
            self.set_options(options)
        # The last episode's agent and lights would be in the first pictures of this one.
        self.game.rotated_agent_surface = self.game.rotated_agent_rect = None
        if hasattr(self.game, "spotlight_surface"):
            self.game.spotlight_surface.fill(0)
        chosen = dict(self._options)
        # The limit is counted here, since Memory Gym does not say which of its ends are time-outs.
        self._limit = self.options.get("max_steps", NO_LIMIT)
        if self._limit != NO_LIMIT:
            chosen["max_steps"] = NO_LIMIT
        self._steps = 0
        with self._screen.used():
            seen, _ = self.game.reset(seed=seed, options=chosen)
        return self._observation(seen, None), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step; see `gymnasium.Env.step`."""
        action = plain_action(self.action_space, action)
        with self._screen.used():
            seen, reward, terminated, _, ending = self.game.step(action)
        self._steps += 1
        truncated = not terminated and self._steps == self._limit
        info: dict[str, Any] = {}
        if terminated or truncated:
            info = {name: float(read(self.game)) for name, read in self._statistics.items()}
            if self._has_success:
                completed = info.get("commands_completed", 1.0) == 1.0
                info["is_success"] = bool(ending.get("success", 0)) and completed
        return self._observation(seen, action), float(reward), bool(terminated), truncated, info

    def render(self) -> Any:
        """The last picture (336, 336, 3) uint8; None without a render mode."""
        if self.render_mode is None:
            return None
        return self._picture.transpose(1, 0, 2).repeat(4, axis=0).repeat(4, axis=1)

    def close(self) -> None:
        """Nothing: Memory Gym would close pygame, and with it every other environment of the process."""

    def _observation(self, seen: Any, action: Any) -> Any:
        if isinstance(seen, dict):  # whose commands are one array, the same at every step
            seen = {name: part.copy() for name, part in seen.items()}
        parts = seen if isinstance(seen, dict) else {PICTURE: seen}
        self._picture = parts[PICTURE]
        return seen if self._does is None else {**parts, PREVIOUS_ACTION: self._does(action)}


def _commands_completed(game: Any) -> int:
    """Commands obeyed by the end of an episode: all that were checked, but for a last one that was missed."""
    missed = game._command_verify_step == 1 and game.normalized_agent_position != game._target_pos
    return int(game._current_command) - int(missed)


def _make_game(env_id: str) -> tuple[Any, Offscreen]:
    """One of Memory Gym's environments, and the screen it draws on."""
    if env_id not in MEMORY_GYM_IDS:
        raise ValueError(f"env_id={env_id!r}: must be one of {', '.join(MEMORY_GYM_IDS)}")
    try:
        screen = Offscreen()
        importlib.import_module("memory_gym")  # which registers the ids
        # Memory Gym would have every later window of the process, and of its children, be invisible.
        with screen.used(), kept_in_environment("SDL_VIDEODRIVER"):
            return gym.make(env_id, disable_env_checker=True).unwrapped, screen
    except (ImportError, gym.error.NameNotFound) as error:
        raise ImportError(
            f"{env_id} needs memory-gym 1.0.2 ({error}); install it with: {INSTALL} "
            "(an ordinary install would take gymnasium back to 0.29)"
        ) from error
