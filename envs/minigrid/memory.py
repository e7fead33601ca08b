"""MiniGrid's memory task: see an object in a first room, go to the one like it at the end of a corridor.

``RMT/MiniGrid-MemoryS7-v0`` and so on for S9, S11, S13, S13Random and S17Random are MiniGrid's own tasks; in
``RMT/MiniGrid-Memory-v0`` each episode is of one of these sizes, for a curriculum.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any, cast

import gymnasium as gym
from minigrid.envs.memory import MemoryEnv

from envs.minigrid.levels import LevelledEnv
from envs.minigrid.oracle import clues_of, sees, way_to_see
from envs.minigrid.search import Cell
from envs.minigrid.wrappers import MiniGridIds, check_max_steps, check_view_size

MEMORY_LEVELS: dict[str, dict[str, Any]] = {
    "S7": {"size": 7},
    "S9": {"size": 9},
    "S11": {"size": 11},
    "S13": {"size": 13},
    "S13Random": {"size": 13, "random_length": True},
    "S17Random": {"size": 17, "random_length": True},
}
"""MiniGrid's registered sizes, in order of difficulty."""

CHANCE = 0.5
"""Success rate of an agent that reaches the fork and guesses."""


class MemoryTask(MiniGridIds):
    """MiniGrid's ``MemoryEnv`` of one registered size; observation and action are those of `MiniGridIds`.

    The agent starts in a corridor, looking east. West of it, in the first room, lies a key or a ball; at the
    far end the corridor forks, with a key and a ball beside its two arms.

    Reward: 1 - .9 steps / max_steps at the arm of the matching object, 0 at the other.

    End: at either arm, or truncated after ``max_steps`` (5 size^2).
    """

    def __init__(
        self,
        level: str,
        *,
        view_size: int = 7,
        max_steps: int | None = None,
        render_mode: str | None = None,
        **wrapper: Any,
    ) -> None:
        """Make the task of one size.

        Args:
            level: one of `MEMORY_LEVELS`.
            view_size: side of the agent's view. With 7, cue and answer are seen at once in S7 and S9, and in
                some layouts of the random ones; with 3 never.
            max_steps: time limit in steps; 5 size^2 by default.
            render_mode: None, "rgb_array" or "human".
            wrapper: further options of `MiniGridIds`.

        Raises:
            ValueError: for a level there is not, or a view or time limit that is not possible.
        """
        if level not in MEMORY_LEVELS:
            raise ValueError(f"level must be one of {list(MEMORY_LEVELS)}, got {level!r}")
        if max_steps is not None:
            check_max_steps(max_steps)
        env = MemoryEnv(
            **MEMORY_LEVELS[level],
            max_steps=max_steps,
            agent_view_size=check_view_size(view_size),
            render_mode=render_mode,
        )
        super().__init__(env, level=level, **wrapper)
        self._unseen: list[frozenset[Cell]] = []

    def informed_action(self) -> int:
        """The best action of one who knows what this episode has shown; to be asked at every step of it.

        It looks for the cue first, then for an object at the fork, then goes to the right arm.
        """
        task = cast(MemoryEnv, self.unwrapped)
        if task.step_count == 0:
            self._unseen = clues_of(task)
        self._unseen = [cells for cells in self._unseen if not sees(task, cells)]
        return way_to_see(task, self._unseen[0])[0] if self._unseen else self.optimal_action()


class MemoryCurriculum(LevelledEnv):
    """`MemoryTask` of a size drawn at each episode; see `LevelledEnv.set_levels`."""

    metadata = MemoryEnv.metadata

    def __init__(
        self,
        levels: Sequence[str] | None = None,
        probabilities: Sequence[float] | None = None,
        render_mode: str | None = None,
        **task: Any,
    ) -> None:
        """Make the task of every size, to be played at some of them.

        Args:
            levels: names among `MEMORY_LEVELS` that episodes are drawn from at first; by default all.
            probabilities: how often each of ``levels`` is drawn; by default all alike.
            render_mode: None, "rgb_array" or "human".
            task: further options of `MemoryTask`, for every size.
        """
        makers: dict[Hashable, Callable[[], gym.Env[Any, Any]]] = {
            name: partial(MemoryTask, name, render_mode=render_mode, **task) for name in MEMORY_LEVELS
        }
        super().__init__(makers, levels, probabilities, render_mode)


def register() -> None:
    """Register the ids of this file with Gymnasium."""
    for level in MEMORY_LEVELS:
        env_id = f"RMT/MiniGrid-Memory{level}-v0"
        if env_id not in gym.registry:  # `envs.gyms` may have been first
            gym.register(env_id, "envs.minigrid.memory:MemoryTask", kwargs={"level": level})
    gym.register("RMT/MiniGrid-Memory-v0", "envs.minigrid.memory:MemoryCurriculum")
