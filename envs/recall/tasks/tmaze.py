"""T-maze: see a cue at one end of a corridor, choose the side it names at the other.

Description
    A corridor with a cue in its first cell and a junction at its end, from which one step up or down leads to
    a goal::

                            goal up
        cue . start . . . . junction
                            goal down

    The cue names the right goal, up or down, each equally likely. The junction lies `length` steps right of
    the start. The passive agent starts on the cue; the active one `start_distance` steps right of it, and
    must first go and look. Follows the passive and active T-Maze of Ni et al. 2023, "When Do Transformers
    Shine in RL? Decoupling Memory from Credit Assignment", whose time limit (just enough for the best path)
    and penalty are the defaults. Differences: a goal ends the episode at once; running out of time is a
    truncation; the cue shows whenever the agent stands there.

Observation
    Box(0, 1, (4,), float32), one-hot: cue up, cue down, corridor, junction. Cells of the corridor look all
    the same. At a goal all components are 0.

Action
    Discrete(4): 0 left, 1 right, 2 up, 3 down. Walking into a wall does nothing.

Reward
    At the right goal `goal_reward`, at the wrong one 0. Any step before that leaves the agent at x cells from
    the cue at time t costs penalty / length where x < t - offset, with offset the distance of the start from
    the cue; the last step within the time limit is free. So an agent that makes for the junction, or first
    for the cue and then for the junction, never pays, and one that stands still pays `penalty` in all.

End
    Terminated by a goal, truncated after length + 2 offset + 1 + `slack` steps. `info["is_success"]`: at the
    right goal.

Level
    `length`: a number of at least 1, or a range (low, high).

Id
    `RMT/TMaze-v0`, with `active=True` for the active one. Without memory at best 1/2; best return
    `goal_reward`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.recall.base import BatchedTask
from envs.recall.contract import FIRST_STREAM, Bools, Floats, Observations, Outcome
from envs.recall.hashing import Ints, integers
from envs.recall.parameters import LARGEST, Level, Parameter
from envs.recall.rendering import draw_maze
from envs.recall.scripted import ScriptedPolicy

LEFT, RIGHT, UP, DOWN = range(4)
_CUE_UP, _CUE_DOWN, _CORRIDOR, _JUNCTION, _GOAL = range(5)
_SEEN = ("cue up", "cue down", "corridor", "junction", "goal")


class TMazePolicy(ScriptedPolicy["TMaze"]):
    """Looks for the cue, walks to the junction, turns as the cue said; without memory, walks and turns up."""

    def write(self, memory: Ints, observations: NDArray[np.float32]) -> None:
        """Remember the cue: 0 for up, 1 for down."""
        seen = observations[:, :_CORRIDOR].any(axis=1)
        memory[seen, 0] = observations[seen, :_CORRIDOR].argmax(axis=1)

    def act(self, memory: Ints, observations: NDArray[np.float32]) -> Ints:
        """Left in the corridor as long as the cue is unknown, right otherwise; at the junction up or down."""
        lost = (memory[:, 0] < 0) & self.remember
        turn = np.where(memory[:, 0] == 1, DOWN, UP)
        walk = np.where(lost, LEFT, RIGHT)
        return np.where(observations[:, _JUNCTION] == 1.0, turn, walk)


class TMaze(BatchedTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        length: steps from the start to the junction, at least 1, or a (low, high) range.
        active: whether the agent must walk to the cue.
        start_distance: steps from the start to the cue if active, at least 1.
        slack: steps allowed beyond those of the best path, at least 0.
        goal_reward: above 0.
        penalty: cost of standing still all along, at least 0.

    Raises:
        ValueError: an argument outside its range.
    """

    PARAMETERS = (
        Parameter("active", bool),
        Parameter("start_distance", int, low=1, high=LARGEST),
        Parameter("slack", int, low=0, high=LARGEST),
        Parameter("goal_reward", float),
        Parameter("penalty", float, low=0.0),
    )
    LEVEL = Parameter("length", int, low=1, high=LARGEST)
    observation_dim = 4
    n_actions = 4
    policy_class = TMazePolicy

    def __init__(
        self,
        n_envs: int = 1,
        *,
        length: Level = 10,
        active: bool = False,
        start_distance: int = 1,
        slack: int = 0,
        goal_reward: float = 1.0,
        penalty: float = 1.0,
    ) -> None:
        super().__init__(
            n_envs,
            {
                "length": length,
                "active": active,
                "start_distance": start_distance,
                "slack": slack,
                "goal_reward": goal_reward,
                "penalty": penalty,
            },
        )
        self._table = np.eye(5, 4, dtype=np.float32)
        self._x: Ints = self._allocate("x", np.int64)
        self._y: Ints = self._allocate("y", np.int64)  # 1 at the goal up, -1 at the goal down
        self._goal: Ints = self._allocate("goal", np.int64)  # 1 or -1
        self._offset: Ints = self._allocate("offset", np.int64)

    @staticmethod
    def check_parameters(values: Mapping[str, NDArray[Any]]) -> None:
        """Reaching the right goal must earn something."""
        reward = values["goal_reward"]
        if (reward <= 0).any():
            raise ValueError(f"goal_reward={reward.min():g}: must be above 0")

    def _start(self, rows: Ints) -> None:
        up = integers(self._keys[rows], FIRST_STREAM, np.zeros_like(rows), 2)
        self._goal[rows] = 1 - 2 * up
        self._offset[rows] = self.now["active"][rows] * self.now["start_distance"][rows]
        self._x[rows] = self._offset[rows]
        self._y[rows] = 0

    @property
    def _best_length(self) -> Ints:
        return self._size + 2 * self._offset + 1

    def _step(self, actions: Ints) -> tuple[Outcome, Bools]:
        junction = self._offset + self._size
        turn = (actions == UP).astype(np.int64) - (actions == DOWN)
        self._y[:] = np.where(self._x == junction, turn, 0)
        self._x += (actions == RIGHT).astype(np.int64) - (actions == LEFT)
        np.clip(self._x, 0, junction, out=self._x)
        terminated = self._y != 0
        success = self._y == self._goal
        truncated = (self._t + 1 >= self._best_length + self.now["slack"]) & ~terminated
        lags = (self._x < self._t + 1 - self._offset) & ~terminated & ~truncated
        rewards = np.where(success, self.now["goal_reward"], 0.0)
        rewards -= lags * (self.now["penalty"] / self._size)
        return Outcome(rewards, terminated, truncated), success

    def _symbols(self, rows: Ints | slice) -> Ints:
        x = self._x[rows]
        symbols = np.where(x == self._offset[rows] + self._size[rows], _JUNCTION, _CORRIDOR)
        cue = np.where(self._goal[rows] > 0, _CUE_UP, _CUE_DOWN)
        return np.where(self._y[rows] != 0, _GOAL, np.where(x == 0, cue, symbols))

    def _observe(self, rows: Ints | slice, steps: Ints) -> Observations:
        symbols = np.broadcast_to(self._symbols(rows)[:, None], steps.shape)
        return self._table.take(symbols, axis=0)

    def non_reactive_steps(self) -> Ints:
        """(N,) zeros: every step moves the agent."""
        return np.zeros(self.n_envs, dtype=np.int64)

    def optimal_action(self, state: Mapping[str, NDArray[Any]] | None = None) -> Ints:
        """Straight to the right goal, which the hidden state tells, without a look at the cue: (N,)."""
        state = self._arrays if state is None else state
        at_junction = state["x"] == state["offset"] + state["size"]
        return np.where(at_junction, np.where(state["goal"] > 0, UP, DOWN), RIGHT)

    @property
    def best_return(self) -> Floats:
        """(N,) `goal_reward`, reached without penalty."""
        return self.now["goal_reward"].copy()

    @property
    def chance(self) -> float:
        """One half: walk to the junction and guess."""
        return 0.5

    @property
    def random_success(self) -> Floats:
        """(N,) half the chance that a walk with equally likely actions reaches a goal in time."""
        limits = self._best_length + self.now["slack"]
        cases = list(zip(self._size.tolist(), self._offset.tolist(), limits.tolist(), strict=True))
        known = {case: 0.5 * _arrival_probability(*case) for case in set(cases)}
        return np.array([known[case] for case in cases])

    def render_text(self, row: int = 0) -> str:
        """The step and what is seen, and below it the maze: cue, agent (@), junction."""
        x, y, junction = int(self._x[row]), int(self._y[row]), int(self._offset[row] + self._size[row])
        cells = ["^" if self._goal[row] > 0 else "v", *"." * (junction - 1), "+"]
        pad = " " * junction
        if y == 0:
            cells[x] = "@"
        limit = int(self._best_length[row] + self.now["slack"][row])
        seen = _SEEN[self._symbols(np.array([row]))[0]]
        head = f"step {min(int(self._t[row]) + 1, limit)} of {limit}: sees {seen}"
        return "\n".join((head, pad + "o@"[y > 0], "".join(cells), pad + "o@"[y < 0]))

    def render_rgb(self, row: int = 0) -> NDArray[np.uint8]:
        """(160, 320, 3): the maze with cue, agent and goals; what the agent sees in words."""
        junction = self._offset[row] + self._size[row]
        return draw_maze(
            position=float(self._x[row] / junction),
            side=int(self._y[row]),
            goal=int(self._goal[row]),
            start=float(self._offset[row] / junction),
            caption=_SEEN[self._symbols(np.array([row]))[0]],
            progress=float(self._t[row] / (self._best_length[row] + self.now["slack"][row])),
        )


def _arrival_probability(length: int, offset: int, limit: int) -> float:
    """Chance that uniformly random actions lead from the start into either goal within `limit` steps."""
    chances = np.zeros(length + offset + 1)
    chances[offset] = 1.0
    arrived = 0.0
    for _ in range(limit):
        arrived += 0.5 * chances[-1]
        moved = 0.5 * chances
        moved[-1] = 0.0
        moved[1:] += 0.25 * chances[:-1]
        moved[:-1] += 0.25 * chances[1:]
        # Walking into either end of the corridor stays there.
        moved[0] += 0.25 * chances[0]
        moved[-1] += 0.25 * chances[-1]
        chances = moved
    return arrived
