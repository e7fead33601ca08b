"""The batched task: one numpy implementation of an environment, for any number of rows.

The three faces (`env.RecallEnv`, `vector_env.RecallVectorEnv`, `sb3_vec.RecallVecEnv`) drive a `BatchedTask`
and add nothing to its dynamics, so they play the same episodes. Invariants, tested for every task:

1. A row depends on its own seed, its own actions and its parameters only: N rows equal N tasks of one row.
2. Observations are a function of the hidden state. Looking twice shows the same; any later observation of a
   stretch in which actions have no effect can be computed at once (`advance`).
3. `get_state` holds everything that decides how a row goes on, randomness included. Parameters for later
   episodes are settings and not part of it.
4. Parameters and levels changed while an episode runs apply to the row's next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from envs.recall.contract import Bools, Finished, Floats, Observations, Outcome, Task
from envs.recall.hashing import Ints, UInts, episode_keys, uniforms
from envs.recall.parameters import Level, Parameter
from envs.recall.settings import Settings

State = dict[str, NDArray[Any]]

_LEVEL_STREAM = 0
_LEVEL_DRAWS: Ints = np.array([[0], [1]])
_SEED = Parameter("seed", int, low=0)


class BatchedTask(Task):
    """`n_envs` independent episodes of one task, stepped together; unlike the faces it does not restart rows.

    Subclasses fill in the hooks of `Task`, from these arrays (N,) and with these means:

    - `now`: the parameters of the running episodes by name; `_size`: the number drawn from their level;
    - `_t`: steps taken since an episode began; `_keys`: what to draw its randomness from, with `hashing`;
    - `_allocate`: arrays for a hidden state of their own.

    Args:
        n_envs: number of rows, N.
        values: the value of every parameter by name, the level included.

    Raises:
        ValueError: a parameter outside its range.
    """

    def __init__(self, n_envs: int, values: Mapping[str, Any]) -> None:
        self.settings = Settings(n_envs, self.PARAMETERS, self.LEVEL, values, self.check_parameters)
        self.n_envs = self.settings.n_envs
        self._arrays: State = {}
        # The parameters of the present episodes: those of the settings as they were when each began.
        self.now = {name: self._allocate(name, array.dtype) for name, array in self.settings.values.items()}
        self._seeds: UInts = self._allocate("seed", np.uint64)
        self._episodes: UInts = self._allocate("episode", np.uint64)
        self._keys: UInts = self._allocate("key", np.uint64)
        self.levels: NDArray[np.object_] = self._allocate("level", np.object_)
        self._size: Ints = self._allocate("size", np.int64)
        self._t: Ints = self._allocate("t", np.int64)
        self._returns: Floats = self._allocate("return", np.float64)
        self._last_action: Ints = self._allocate("last_action", np.int64)
        self.success: Bools = self._allocate("success", np.bool_)
        self.ended: Bools = self._allocate("ended", np.bool_)
        self.ended[:] = True
        self.seeded = False

    def _allocate(self, name: str, dtype: Any, shape: tuple[int, ...] = ()) -> NDArray[Any]:
        """An array (N, *shape) of hidden state. Write into it; never rebind it, or `set_state` loses it."""
        self._arrays[name] = np.zeros((self.n_envs, *shape), dtype)
        return self._arrays[name]

    # Changing it.

    def set_levels(
        self,
        levels: Sequence[Level],
        probabilities: Sequence[float] | None = None,
        rows: Ints | slice = slice(None),
    ) -> None:
        """Draw the level of each later episode of the rows from these.

        Args:
            levels: numbers or (low, high) ranges, both included, of the parameter `LEVEL`.
            probabilities: one per level, adding up to 1; equal if None.
            rows: (R,) indices; all if not given.

        Raises:
            ValueError: no levels, a bad level, or bad probabilities.
        """
        self.settings.set_levels(rows, levels, probabilities)

    def set_parameters(self, rows: Ints | slice = slice(None), **values: Any) -> None:
        """Set constructor arguments for the later episodes of the rows; all of them or, on an error, none.

        Raises:
            ValueError: a value outside its range, or a new one where the spaces depend on it.
            UnknownAttributeError: an unknown name; also a ValueError.
        """
        self.settings.set(rows, values)

    # Driving it.

    def reset(
        self, seeds: int | Sequence[int | None] | None = None, rows: Ints | None = None
    ) -> Observations:
        """Begin a new episode and return the observations of all rows, (N, D).

        Args:
            seeds: an int seeds row i with `seeds` + i; a sequence holds one seed per row of the task, None to
                leave a row's stream where it is. A task never seeded before takes fresh entropy.
            rows: (R,) indices of the rows to reset; all if None.

        Raises:
            ValueError: a negative seed or the wrong number of them.
        """
        rows = np.arange(self.n_envs) if rows is None else rows
        if not self.seeded:
            self._seeds[:] = np.random.SeedSequence().generate_state(self.n_envs, np.uint64)
            self.seeded = True
        if seeds is not None:
            self._seed(seeds, rows)
        self.restart(rows)
        return self.observe()

    def _seed(self, seeds: int | Sequence[int | None], rows: Ints) -> None:
        if isinstance(seeds, int | np.integer):
            seeds = [seeds + row for row in range(self.n_envs)]
        if len(seeds) != self.n_envs:
            raise ValueError(f"{len(seeds)} seeds were given: must be an integer or {self.n_envs}, one a row")
        checked = [None if seed is None else int(_SEED.check(seed)) for seed in seeds]
        for row in rows.tolist():
            if (seed := checked[row]) is not None:
                self._seeds[row] = seed % 2**64
                self._episodes[row] = 0

    def restart(self, rows: Ints) -> None:
        """Begin the next episode of the rows (R,)."""
        self._episodes[rows] += np.uint64(1)
        keys = episode_keys(self._seeds[rows], self._episodes[rows])
        self._keys[rows] = keys
        choice, value = uniforms(keys, _LEVEL_STREAM, _LEVEL_DRAWS)
        self.levels[rows], self._size[rows] = self.settings.draw(rows, choice, value)
        for name, array in self.settings.values.items():
            self.now[name][rows] = array[rows]
        self._t[rows] = 0
        self._returns[rows] = 0.0
        self._last_action[rows] = -1
        self.success[rows] = False
        self.ended[rows] = False
        self._start(rows)

    def step(self, actions: Any) -> Outcome:
        """Take the actions (N,). Rows whose episode ends stay there until restarted.

        Raises:
            ValueError: actions of another shape or type, or outside [0, n_actions).
            ResetNeeded: a row has not been reset, or its episode has ended.
        """
        checked = self._check_actions(actions)
        if self.ended.any():
            raise ResetNeeded(
                f"rows {np.flatnonzero(self.ended).tolist()} have no running episode: reset first"
            )
        outcome, success = self._step(checked)
        self._t += 1
        self._returns += outcome.rewards
        self._last_action[:] = checked
        np.logical_or(outcome.terminated, outcome.truncated, out=self.ended)
        np.logical_and(success, self.ended, out=self.success)
        return outcome

    def step_and_restart(self, actions: Any) -> tuple[Observations, Outcome, Finished | None]:
        """`step`, and begin the next episode of rows that ended; the observations (N, D) are those after."""
        outcome = self.step(actions)
        rows = np.flatnonzero(self.ended)
        finished = None
        if rows.size:
            finished = Finished(
                rows,
                self.observe(rows),
                outcome.truncated[rows] & ~outcome.terminated[rows],
                self.success[rows],
                self.levels[rows],
                self._returns[rows],
                self._t[rows],
            )
            self.restart(rows)
        return self.observe(), outcome, finished

    def observe(self, rows: Ints | None = None) -> Observations:
        """What the rows (R,), or all, see now: (R, D), a new array."""
        chosen = slice(None) if rows is None else rows
        return self._observe(chosen, self._t[chosen][:, None])[:, 0]

    def advance(self, n: int) -> Observations:
        """Play `n` steps whose actions have no effect, at once.

        Returns:
            (N, n, D): the present observation and the n - 1 after it. The next one is then the present one.

        Raises:
            ValueError: `n` negative or above the least of `non_reactive_steps()`.
        """
        limit = 0 if self.ended.any() else int(self.non_reactive_steps().min())
        n = int(Parameter("n", int, low=0, high=limit).check(n))
        observations = self._observe(slice(None), self._t[:, None] + np.arange(n))
        self._t += n
        return observations

    def get_state(self) -> State:
        """Copies of the arrays of hidden state by name, each (N, ...); `set_state` takes them back."""
        return {name: array.copy() for name, array in self._arrays.items()}

    def set_state(self, state: Mapping[str, NDArray[Any]], rows: Ints | None = None) -> None:
        """Go back to the state of a `get_state` of this task with as many rows (R,), or all.

        Raises:
            ValueError: missing or unknown names, or arrays of other shapes.
        """
        if state.keys() != self._arrays.keys():
            raise ValueError(f"state has {sorted(state)}: must have exactly {sorted(self._arrays)}")
        count = self.n_envs if rows is None else len(rows)
        for name, array in self._arrays.items():
            if np.shape(state[name]) != (count, *array.shape[1:]):
                raise ValueError(
                    f"{name} has shape {np.shape(state[name])}: must be {(count, *array.shape[1:])}"
                )
        for name, array in self._arrays.items():
            array[slice(None) if rows is None else rows] = state[name]
        # A state from before the first reset has no seeds yet.
        self.seeded = self.seeded or bool(self._episodes.any())

    def _check_actions(self, actions: Any) -> Ints:
        array = np.asarray(actions)
        if array.shape != (self.n_envs,) or array.dtype.kind not in "iu":
            raise ValueError(
                f"actions have shape {array.shape} and type {array.dtype}: must be integers of shape "
                f"({self.n_envs},)"
            )
        if array.min() < 0 or array.max() >= self.n_actions:
            raise ValueError(f"actions={array.tolist()}: must be from 0 to {self.n_actions - 1}")
        return array.astype(np.int64, copy=False)
