"""MiniGrid as Stable-Baselines3 can use it: ids that are not taken for a picture, a compass, no text."""

from __future__ import annotations

from typing import Any, SupportsFloat, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX, STATE_TO_IDX
from minigrid.minigrid_env import MiniGridEnv

from envs.minigrid.fast_view import FastView

MOVES = 3
"""Left, right, forward: the first three of MiniGrid's seven actions."""

ID_COUNTS = (len(OBJECT_TO_IDX), len(COLOR_TO_IDX), len(STATE_TO_IDX))
"""How many ids each channel of the image has: objects, colours, states of a door."""

Observation = dict[str, Any]


class MiniGridIds(gym.Wrapper[Observation, int, Any, int], gym.utils.RecordConstructorArgs):
    """A MiniGrid environment with a Dict observation of ids.

    Observation, a Dict:
        - ``image``: Box (view, view, 3) uint8: object, colour and state of each cell the agent sees, the
          agent at ``[view // 2, view - 1]`` looking towards ``[view // 2, 0]``. ``high`` is each channel's
          largest id (10, 5, 2), so that Stable-Baselines3 does not take it for a picture and an extractor can
          read off how many ids there are.
        - ``direction``: Discrete(4): east, south, west, north.
        - ``previous_action`` (with ``previous_action=True``): Discrete(n + 1): 0 at the first step, then one
          more than the action just taken.
        - ``previous_reward`` (with ``previous_reward=True``): Box (1,) float32: 0 at the first step.

    Action: Discrete(``actions``): 0 left, 1 right, 2 forward, then MiniGrid's others (pickup, drop, toggle,
    done).

    Reward: MiniGrid's.

    End: as MiniGrid's, except that an episode that ends by itself at its last permitted step is only
    terminated. On the last step ``info["is_success"]`` says whether its reward was positive, and
    ``info["level"]`` is ``level`` where that is given.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        view_size: int | None = None,
        actions: int = MOVES,
        previous_action: bool = False,
        previous_reward: bool = False,
        max_steps: int | None = None,
        level: Any = None,
        fast: bool = True,
    ) -> None:
        """Wrap ``env``.

        Args:
            env: a MiniGrid environment, bare or wrapped, whose observations are MiniGrid's own.
            view_size: side of the agent's view, odd, at least 3; by default the environment's own (7).
            actions: how many of MiniGrid's actions the agent has: 3 are enough to walk, all are 7.
            previous_action: whether the observation holds the last action.
            previous_reward: whether the observation holds the last reward.
            max_steps: time limit in steps; by default the environment's own. MiniGrid's reward depends on it.
            level: what ``info["level"]`` says on the last step.
            fast: whether pictures are built by `FastView` (the same pictures, built faster).

        Raises:
            TypeError: if ``env`` is not a MiniGrid environment.
            ValueError: for a view, a number of actions or a time limit that is not possible.
        """
        gym.utils.RecordConstructorArgs.__init__(
            self,
            view_size=view_size,
            actions=actions,
            previous_action=previous_action,
            previous_reward=previous_reward,
            max_steps=max_steps,
            level=level,
            fast=fast,
        )
        gym.Wrapper.__init__(self, env)
        grid_env = env.unwrapped
        if not isinstance(grid_env, MiniGridEnv):
            raise TypeError(f"env must be a MiniGrid environment, got {type(grid_env).__name__}")
        available = int(cast(spaces.Discrete, grid_env.action_space).n)
        if not MOVES <= actions <= available:
            raise ValueError(f"actions must be from {MOVES} to {available}, got {actions}")
        if view_size is not None:
            # What MiniGrid's constructor argument sets; the attribute is read at each observation.
            grid_env.agent_view_size = check_view_size(view_size)
            own_space = cast(spaces.Dict, grid_env.observation_space)
            own_space["image"] = spaces.Box(0, 255, (view_size, view_size, 3), dtype=np.uint8)
        if max_steps is not None:
            grid_env.max_steps = check_max_steps(max_steps)
        if fast:
            FastView.install(grid_env)
        self.level = level
        self._previous_action = previous_action
        self._previous_reward = previous_reward

        size = grid_env.agent_view_size
        high = np.broadcast_to(np.array(ID_COUNTS, dtype=np.uint8) - 1, (size, size, 3))
        parts: dict[str, spaces.Space[Any]] = {
            "image": spaces.Box(np.zeros_like(high), high.copy(), dtype=np.uint8),
            "direction": spaces.Discrete(4),
        }
        if previous_action:
            parts["previous_action"] = spaces.Discrete(actions + 1)
        if previous_reward:
            parts["previous_reward"] = spaces.Box(-np.inf, np.inf, (1,), dtype=np.float32)
        self.observation_space = spaces.Dict(parts)
        self.action_space = cast(spaces.Space[int], spaces.Discrete(actions))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode; see `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._ids(observation, 0, 0.0), info

    def step(self, action: int) -> tuple[Observation, SupportsFloat, bool, bool, dict[str, Any]]:
        """Take one step; see `gymnasium.Env.step`."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            truncated = not terminated
            info["is_success"] = bool(float(reward) > 0.0)
            if self.level is not None:
                info["level"] = self.level
        return self._ids(observation, action + 1, reward), reward, terminated, truncated, info

    def optimal_action(self) -> int:
        """The best action, read from the hidden state; see `envs.minigrid.optimal_action`."""
        from envs.minigrid.oracle import optimal_action  # which knows the tasks, which know this wrapper

        return optimal_action(self)

    def _ids(self, observation: dict[str, Any], action: int, reward: SupportsFloat) -> Observation:
        ids: Observation = {"image": observation["image"], "direction": int(observation["direction"])}
        if self._previous_action:
            ids["previous_action"] = int(action)
        if self._previous_reward:
            ids["previous_reward"] = np.array([reward], dtype=np.float32)
        return ids


def check_view_size(view_size: int) -> int:
    """Return ``view_size``, or raise ValueError where MiniGrid has no such view."""
    if view_size < 3 or view_size % 2 == 0:
        raise ValueError(f"view_size must be odd and at least 3 (MiniGrid's own is 7), got {view_size}")
    return view_size


def check_max_steps(max_steps: int) -> int:
    """Return ``max_steps``, or raise ValueError where an episode could not even have one step."""
    if max_steps < 1:
        raise ValueError(f"max_steps must be at least 1, got {max_steps}")
    return max_steps
