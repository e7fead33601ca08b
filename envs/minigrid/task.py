"""What our own MiniGrid tasks share: a cue, a corridor, a question, and levels for a curriculum."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import numpy as np
from gymnasium import spaces
from minigrid.core.actions import Actions
from minigrid.core.grid import Grid
from minigrid.core.mission import MissionSpace
from minigrid.core.world_object import Wall, WorldObj
from minigrid.minigrid_env import MiniGridEnv

from envs.minigrid.search import Cell, Pose, ahead_of
from envs.minigrid.wrappers import check_max_steps, check_view_size
from envs.recall.parameters import Level, LevelTable, Parameter

USE = 3
"""The action after left, right and forward: picks up or opens what lies ahead, as the task has it."""

STEPS_PER_COLUMN = 20
LONGEST = 501

MAX_PIXELS, MIN_TILE, MAX_TILE = 4096, 8, 32
"""Pictures of long maps have smaller tiles."""


class GridTask(MiniGridEnv):
    """A map whose west shows a cue, whose east asks for it, and between them nothing but a corridor.

    The corridor is one cell wide and at least as long as the view, so that no view shows both sides. Nor does
    anything but memory carry the cue across: whatever an agent did in the west, it enters each cell of the
    corridor looking east, with nothing from there in its hands or in view.

    Observation: MiniGrid's, the same text in every episode; see `MiniGridIds`.

    Action: Discrete: 0 left, 1 right, 2 forward and, in tasks that need it, 3 to use what lies ahead.

    Reward: 1 - .9 steps / max_steps for the right answer, 0 for a wrong one and all else.

    End: at a wrong answer, when all is answered, or truncated after ``max_steps``. On the last step
    ``info["level"]`` is the level played.
    """

    difficulty: ClassVar[Parameter]
    """Name and range of what makes the task harder: the level is a number of it, or a range."""
    actions_needed: ClassVar[int] = USE + 1
    middle: ClassVar[int] = 3
    """Row of the corridor; the map has as many rows on either side."""

    answer: tuple[int, ...]
    """The truth, which no observation tells at the time: one of `answers`."""
    cue_cells: frozenset[Cell]
    """Where the cue lies."""
    questions: tuple[frozenset[Cell], ...]
    """For each question, where what is asked and what can be answered lie."""

    def __init__(
        self,
        level: Level,
        *,
        view_size: int = 7,
        corridor: int | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        """Prepare; nothing is drawn before the first reset.

        Args:
            level: the difficulty, or a range (low, high) from which each episode draws its own.
            view_size: side of the agent's view, odd, at least 3.
            corridor: cells between cue and question, from ``view_size`` (the default) to 501.
            max_steps: time limit in steps; by default 20 for each column of the map.
            render_mode: None, "rgb_array" or "human".

        Raises:
            ValueError: for anything outside its range, with the range.
        """
        self.agent_view_size = check_view_size(view_size)
        self._corridor = corridor
        self._check_corridor()
        self.set_levels([level])
        super().__init__(
            MissionSpace(mission_func=self._mission),
            width=self._map_width(self._largest()),
            height=2 * self.middle + 1,
            max_steps=0 if max_steps is None else check_max_steps(max_steps),
            agent_view_size=view_size,
            render_mode=render_mode,
        )
        self.action_space = spaces.Discrete(self.actions_needed)

    @property
    def max_steps(self) -> int:
        """Time limit of the present episode, in steps."""
        return self._max_steps or STEPS_PER_COLUMN * self.width

    @max_steps.setter
    def max_steps(self, max_steps: int) -> None:
        self._max_steps = max_steps

    @property
    def parameter(self) -> Parameter:
        """`difficulty` as the present view allows it."""
        return self.difficulty

    @property
    def levels(self) -> tuple[Level, ...]:
        """What episodes are drawn from."""
        return self._table.levels

    def set_levels(self, levels: Sequence[Level], probabilities: Sequence[float] | None = None) -> None:
        """Draw the level of each episode, from the next reset on, from ``levels``.

        Args:
            levels: numbers or ranges (low, high) of the difficulty, at least one.
            probabilities: one per level, summing to 1; by default all alike.

        Raises:
            ValueError: for a level out of range, a range upside down, or probabilities that are not ones.
        """
        if isinstance(levels, str):
            raise ValueError(f"levels={levels!r}: must be a sequence of levels, not text")
        self._table = LevelTable(self.parameter, levels, probabilities)

    @abstractmethod
    def answers_of(self, number: int) -> list[tuple[int, ...]]:
        """All answers there can be at a difficulty, each as likely as the others."""

    def chance(self, number: int) -> float:
        """Success rate, at a difficulty, of an agent that walks as the best do and guesses."""
        return 1.0 / len(self.answers_of(number))

    @property
    def answers(self) -> list[tuple[int, ...]]:
        """All answers there can be in the present episode."""
        return self.answers_of(self.number)

    @property
    def pose(self) -> Pose:
        """Where the agent is and looks."""
        x, y = self.agent_pos
        return int(x), int(y), int(self.agent_dir)

    @property
    def carried(self) -> WorldObj | None:
        """What the agent carries."""
        return cast(WorldObj | None, self.carrying)  # MiniGrid declares it None

    @abstractmethod
    def target(self, answer: tuple[int, ...]) -> tuple[Cell, bool]:
        """The cell to go to next if ``answer`` is right, and whether to use it rather than enter it."""

    @property
    def closed(self) -> frozenset[Cell]:
        """Cells whose entering is an answer."""
        return frozenset()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take one step; see `gymnasium.Env.step`.

        Raises:
            ValueError: for an action that there is not.
        """
        if not self.action_space.contains(action):
            raise ValueError(f"action must be from 0 to {self.actions_needed - 1}, got {action!r}")
        right = self._use(ahead_of(self.pose)) if action == USE else None
        # MiniGrid's own pickup and toggle know nothing of answers: for it, using something is to do nothing.
        observation, _, _, truncated, info = super().step(Actions.done if action == USE else action)
        if action != USE:
            right = self._arrive(self.pose[:2])
        terminated = right is not None
        if terminated or truncated:
            info["level"] = self.level
        return observation, self._reward() if right else 0.0, terminated, truncated, info

    def _arrive(self, cell: Cell) -> bool | None:
        """Whether being at a cell ends the episode with the right answer, a wrong one, or not at all."""
        return None

    def _use(self, cell: Cell) -> bool | None:
        """Use what lies in a cell: true at the last right answer, false at a wrong one, otherwise None."""
        return None

    @abstractmethod
    def _map_width(self, number: int) -> int:
        """Columns of the map at a difficulty."""

    @abstractmethod
    def _furnish(self, number: int) -> None:
        """Dig the rooms, place everything and set `answer`, `cue_cells` and `questions`."""

    @staticmethod
    def _mission() -> str:
        return "remember"

    def _largest(self) -> int:
        summary = self._table.summary
        return summary if isinstance(summary, int) else summary[1]

    @property
    def corridor(self) -> int:
        """Cells between cue and question."""
        return self.agent_view_size if self._corridor is None else self._corridor

    def _check_corridor(self) -> None:
        Parameter("corridor", int, self.agent_view_size, LONGEST).check(self.corridor)

    def _gen_grid(self, width: int, height: int) -> None:
        level, number = self._table.draw(self.np_random.random(1), self.np_random.random(1))
        self.level: Level = level[0]
        # Again, as the view may have been changed since.
        self._check_corridor()
        self.number = int(self.parameter.check(int(number[0])))
        self.width = self._map_width(self.number)
        self.tile_size = int(np.clip(MAX_PIXELS // self.width, MIN_TILE, MAX_TILE))
        self.mission = self._mission()
        self.grid = Grid(self.width, height)
        # The same wall everywhere: `FastView` then has one object to watch, not one for each cell.
        self.grid.grid = [Wall()] * len(self.grid.grid)
        self.agent_pos, self.agent_dir = (1, self.middle), 0
        self._furnish(self.number)

    def _dig(self, left: int, top: int, right: int, bottom: int) -> None:
        """Empty a rectangle of cells, ends included."""
        for x in range(left, right + 1):
            for y in range(top, bottom + 1):
                self.grid.set(x, y, None)

    def _put(self, kind: Callable[[str], WorldObj], colour: str, cell: Cell) -> None:
        """Place a new object."""
        self.put_obj(kind(colour), *cell)

    def _take(self, cell: Cell) -> None:
        """Have the agent carry what lies in a cell."""
        self.carrying = self.grid.get(*cell)  # type: ignore[assignment]
        self.grid.set(*cell, None)
