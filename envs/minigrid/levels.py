"""One environment out of several, drawn anew for each episode: an ordered difficulty for a curriculum."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
import numpy.typing as npt

AnyEnv = gym.Env[Any, Any]


class LevelledEnv(gym.Env[Any, Any]):
    """Plays one of several environments of equal spaces, drawn at each reset.

    Observation, action, reward and end are those of the environment being played. On the last step of an
    episode ``info["level"]`` names the level it was played at.

    The draws are deterministic under ``reset(seed=...)``, and so are the episodes: each environment is seeded
    from this one's generator the first time it is played after that.
    """

    metadata: dict[str, Any] = {"render_modes": [], "render_fps": 10}

    def __init__(
        self,
        makers: Mapping[Hashable, Callable[[], AnyEnv]],
        levels: Sequence[Hashable] | None = None,
        probabilities: Sequence[float] | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Take the levels there are; an environment is made when it is first played.

        Args:
            makers: for each level, in order of difficulty, what makes its environment.
            levels: the levels episodes are drawn from at first; by default all.
            probabilities: how often each of ``levels`` is drawn; by default all alike.
            render_mode: the render mode that the makers give their environments.

        Raises:
            ValueError: for no makers, or what `set_levels` refuses.
        """
        if not makers:
            raise ValueError("makers must name at least one level, got none")
        self._makers = dict(makers)
        self._envs: dict[Hashable, AnyEnv] = {}
        self._unseeded: set[Hashable] = set()
        self.render_mode = render_mode
        self.set_levels(list(makers) if levels is None else levels, probabilities)
        self._level = self._levels[0]
        first = self._env_of(self._level)
        self.observation_space, self.action_space = first.observation_space, first.action_space
        self.metadata = first.metadata

    @property
    def all_levels(self) -> tuple[Hashable, ...]:
        """The levels there are, in order of difficulty."""
        return tuple(self._makers)

    @property
    def level(self) -> Hashable:
        """The level of the present episode."""
        return self._level

    @property
    def playing(self) -> AnyEnv:
        """The environment of the present episode."""
        return self._env_of(self._level)

    def set_levels(self, levels: Sequence[Hashable], probabilities: Sequence[float] | None = None) -> None:
        """Draw the level of each episode, from the next reset on, from ``levels``.

        Args:
            levels: names of levels, at least one.
            probabilities: one per level, summing to 1; by default all alike.

        Raises:
            ValueError: for a level there is not, or probabilities that are not ones.
        """
        if isinstance(levels, str):
            raise ValueError(
                f"levels must be a sequence of levels such as [{levels!r}], got the string {levels!r}"
            )
        unknown = [level for level in levels if level not in self._makers]
        if unknown or not len(levels):
            raise ValueError(f"levels must be among {list(self._makers)}, got {unknown or 'none'}")
        chances = (
            np.full(len(levels), 1.0 / len(levels))
            if probabilities is None
            else np.array(probabilities, dtype=float)
        )
        if chances.shape != (len(levels),) or not (chances >= 0).all() or not np.isclose(chances.sum(), 1.0):
            raise ValueError(
                f"probabilities must be {len(levels)} numbers, one per level, at least 0 and summing to 1, "
                f"got {probabilities}"
            )
        self._levels = list(levels)
        self._thresholds: npt.NDArray[np.float64] = np.cumsum(chances / chances.sum())
        # Rounding must not leave a draw above the last threshold, nor pick a level of probability 0.
        self._thresholds[self._thresholds >= self._thresholds[-1]] = 1.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Draw a level and start an episode of it; see `gymnasium.Env.reset`."""
        super().reset(seed=seed)
        if seed is not None:
            self._unseeded = set(self._makers)
        self._level = self._levels[
            int(np.searchsorted(self._thresholds, self.np_random.random(), side="right"))
        ]
        env_seed = None
        if self._level in self._unseeded:
            self._unseeded.discard(self._level)
            env_seed = int(self.np_random.integers(2**31))
        return self._env_of(self._level).reset(seed=env_seed, options=options)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take one step of the environment being played; see `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self._envs[self._level].step(action)
        if terminated or truncated:
            info["level"] = self._level
        return observation, reward, terminated, truncated, info

    def optimal_action(self) -> Any:
        """The best action in the environment being played, if it tells."""
        return self.playing.get_wrapper_attr("optimal_action")()

    def informed_action(self) -> Any:
        """The best action of one who knows what the episode has shown, if the environment tells."""
        return self.playing.get_wrapper_attr("informed_action")()

    def render(self) -> Any:
        """Render the environment being played."""
        return self.playing.render()

    def close(self) -> None:
        """Close every environment that was made."""
        for env in self._envs.values():
            env.close()
        self._envs.clear()

    def _env_of(self, level: Hashable) -> AnyEnv:
        if level not in self._envs:
            env = self._makers[level]()
            for made in list(self._envs.values())[:1]:
                spaces, expected = (
                    (env.observation_space, env.action_space),
                    (made.observation_space, made.action_space),
                )
                if spaces != expected:
                    raise ValueError(
                        f"every level must have the same spaces; level {level!r} has {spaces}, not {expected}"
                    )
            self._envs[level] = env
        return self._envs[level]
