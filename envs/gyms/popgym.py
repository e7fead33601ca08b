"""POPGym's 48 environments, as Stable-Baselines3 can use them: flat observations, no answers in `info`.

The ids are POPGym's own behind a namespace: ``RMT/popgym-RepeatPreviousEasy-v0``, each as Easy, Medium and
Hard. Reference: Morad et al., POPGym: Benchmarking Partially Observable Reinforcement Learning, ICLR 2023.
"""

from __future__ import annotations

import importlib
import random
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from envs.gyms.encoding import Encoder, Vector, plain_action
from envs.gyms.rendering import RENDER_MODES, check_render_mode, draw_step

NAMES = (
    "Autoencode",
    "Battleship",
    "Concentration",
    "CountRecall",
    "HigherLower",
    "LabyrinthEscape",
    "LabyrinthExplore",
    "MineSweeper",
    "MultiarmedBandit",
    "NoisyPositionOnlyCartPole",
    "NoisyPositionOnlyPendulum",
    "PositionOnlyCartPole",
    "PositionOnlyPendulum",
    "RepeatFirst",
    "RepeatPrevious",
    "VelocityOnlyCartpole",  # POPGym spells this one with a small p
)
DIFFICULTIES = ("Easy", "Medium", "Hard")
POPGYM_IDS = tuple(f"popgym-{name}{difficulty}-v0" for name in NAMES for difficulty in DIFFICULTIES)
"""POPGym's own ids."""

INSTALL = "pip install -c constraints.txt -e '.[popgym]'"


class POPGymTask(gym.Env[Vector, Any]):
    """One of POPGym's environments.

    Observation: Box (n,) float32: POPGym's observation, one-hot where it is discrete; then, with
    ``previous_action``, the last action, one-hot where it is discrete and zeros at the first step; then 1 at
    the first step and 0 later, which tells a first step from an action of zeros.

    Action and reward: POPGym's. Returns are at most 1, and at least -1 in most of them.

    End: POPGym's, but an episode is truncated only if it does not end by itself at the same step. That a deck
    of cards is dealt is an end of its own; MultiarmedBandit, Battleship, Concentration, MineSweeper, the
    Labyrinths, CartPoles and Pendulums have time limits, which truncate.

    ``info`` is empty: CountRecall's holds the counts that are asked for, MultiarmedBandit's the chances of
    every arm, the Labyrinths' the map. What is hidden is read with `get_state`.

    Mazes are drawn by a library that uses Python's and numpy's global generators; here they follow the
    environment's own seed and leave the global generators as they were.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 8}

    def __init__(self, env_id: str, *, previous_action: bool = True, render_mode: str | None = None) -> None:
        """Make the environment.

        Args:
            env_id: one of `POPGYM_IDS`.
            previous_action: whether the observation holds the last action. Battleship, MineSweeper,
                Concentration and MultiarmedBandit cannot be solved without.
            render_mode: None, "ansi" (text) or "rgb_array": what the agent saw and did last.

        Raises:
            ImportError: if POPGym, or for the Labyrinths mazelib, is not installed.
            ValueError: an id or a render mode that there is not.
        """
        self.render_mode = check_render_mode(render_mode)
        self.game = _make_game(env_id)
        """POPGym's environment."""
        self._draws_mazes = "Labyrinth" in env_id
        self._sees = Encoder(self.game.observation_space)
        self._does = Encoder(self.game.action_space)
        self._previous_action = previous_action
        low, high = [self._sees.low], [self._sees.high]
        if previous_action:
            low += [np.minimum(self._does.low, 0.0), np.zeros(1, np.float32)]
            high += [np.maximum(self._does.high, 0.0), np.ones(1, np.float32)]
        self.observation_space = spaces.Box(np.concatenate(low), np.concatenate(high), dtype=np.float32)
        self.action_space = self.game.action_space
        self._last: tuple[Any, Any, float] = (None, None, 0.0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Vector, dict[str, Any]]:
        """Begin an episode; the same seed begins the same run of episodes.

        Raises:
            ValueError: any options; POPGym has none.
        """
        super().reset(seed=seed)
        if options:
            raise ValueError(f"options={options!r}: POPGym's environments have none; leave it None")
        if self._draws_mazes:
            with _own_global_generators(self.np_random):
                seen, _ = self.game.reset(seed=seed)
        else:
            seen, _ = self.game.reset(seed=seed)
        self._last = (seen, None, 0.0)
        return self._vector(seen, None), {}

    def step(self, action: Any) -> tuple[Vector, float, bool, bool, dict[str, Any]]:
        """Take one step; see `gymnasium.Env.step`."""
        action = plain_action(self.action_space, action)
        seen, reward, terminated, truncated, _ = self.game.step(action)
        terminated, truncated = bool(terminated), bool(truncated and not terminated)
        self._last = (seen, action, float(reward))
        return self._vector(seen, action), float(reward), terminated, truncated, {}

    def render(self) -> Any:
        """The last step as text, or as a picture (height, width, 3) uint8; None without a render mode."""
        seen, action, reward = self._last
        if self.render_mode == "rgb_array":
            return draw_step(seen, self._sees.counts, action, reward)
        if self.render_mode == "ansi":
            did = "" if action is None else f"did {np.round(action, 2)}, reward {reward:+.3f}, "
            return f"{did}sees {np.round(np.asarray(seen), 2)}\n"
        return None

    def get_state(self) -> Any:
        """What is hidden, as a member of `state_space`."""
        return self.game.get_state()

    @property
    def state_space(self) -> spaces.Space[Any]:
        """The space of `get_state`."""
        space: spaces.Space[Any] = self.game.state_space
        return space

    def close(self) -> None:
        """Close POPGym's environment."""
        self.game.close()

    def _vector(self, seen: Any, action: Any) -> Vector:
        vector = np.zeros(self.observation_space.shape or (), dtype=np.float32)
        self._sees.write(seen, vector[: self._sees.size])
        if self._previous_action:
            if action is None:
                vector[-1] = 1.0
            else:
                self._does.write(action, vector[self._sees.size : -1])
        return vector


def _make_game(env_id: str) -> Any:
    if env_id not in POPGYM_IDS:
        raise ValueError(f"env_id={env_id!r}: must be one of {', '.join(POPGYM_IDS)}")
    try:
        importlib.import_module("popgym")  # which registers the ids
    except ImportError as error:
        raise ImportError(f"{env_id} needs popgym ({error}); install it with: {INSTALL}") from error
    if env_id not in gym.registry:  # POPGym leaves the Labyrinths out where mazelib is missing
        raise ImportError(f"{env_id} needs popgym[navigation], with mazelib; install it with: {INSTALL}")
    with warnings.catch_warnings():
        # The Labyrinths warn each time that they can be solved without memory; `CATALOGUE` says so.
        warnings.simplefilter("ignore", DeprecationWarning)
        return gym.make(env_id, disable_env_checker=True).unwrapped


@contextmanager
def _own_global_generators(generator: np.random.Generator) -> Iterator[None]:
    """Seed Python's and numpy's global generators from `generator`; put them back afterwards."""
    ours, numpys = random.getstate(), np.random.get_state()  # noqa: NPY002  # mazelib draws from these
    seed = int(generator.integers(2**32))
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(ours)
        np.random.set_state(numpys)  # noqa: NPY002
