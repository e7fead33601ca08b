"""The parameters that the next episodes of each row will have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.recall.hashing import Ints
from envs.recall.parameters import Level, LevelTable, Parameter, UnknownAttributeError

Values = Mapping[str, NDArray[Any]]


class Settings:
    """Parameters and levels per row, for episodes that begin later: a change never bends a running one.

    Args:
        n_envs: number of rows, N.
        parameters: the parameters but the level.
        level: the parameter that is the difficulty.
        values: the value of every one of them by name.
        check: raises ValueError for values (N,) by name that do not fit each other; the level comes as the
            lowest and the highest number (N, 2) to draw.

    Raises:
        ValueError: `n_envs` under 1, or a value outside its range.
    """

    def __init__(
        self,
        n_envs: int,
        parameters: Sequence[Parameter],
        level: Parameter,
        values: Mapping[str, Any],
        check: Callable[[Values], None],
    ) -> None:
        self.n_envs = int(Parameter("n_envs", int, low=1).check(n_envs))
        self.level = level
        self._parameters = {parameter.name: parameter for parameter in parameters}
        self._check = check
        self._values: dict[str, NDArray[Any]] = {
            name: np.full(n_envs, parameter.check(values[name]))
            for name, parameter in self._parameters.items()
        }
        self._tables = [LevelTable(level, [values[level.name]])]
        self._table_of: Ints = np.zeros(n_envs, dtype=np.int64)
        check({**self._values, level.name: self._ends()})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all parameters, the level first."""
        return (self.level.name, *self._parameters)

    @property
    def values(self) -> Values:
        """The values (N,) by name, without the level. Read only."""
        return self._values

    def get(self, name: str) -> list[Any]:
        """The value of a parameter for each row; of the level, what `LevelTable.summary` says.

        Raises:
            UnknownAttributeError: no such parameter.
        """
        if name == self.level.name:
            return [self._tables[index].summary for index in self._table_of]
        if name == "levels":
            return [self._tables[index].levels for index in self._table_of]
        if name not in self._parameters:
            raise self._unknown(name)
        return list(self._values[name].tolist())

    def set(self, rows: Ints | slice, values: Mapping[str, Any]) -> None:
        """Set parameters by name for the rows; all of them or, on an error, none.

        Raises:
            ValueError: a value outside its range, or another one for a parameter that the spaces depend on.
            UnknownAttributeError: no such parameter.
        """
        changed = dict(self._values)
        table: LevelTable | None = None
        for name, value in values.items():
            if name == self.level.name:
                table = LevelTable(self.level, [value])
                continue
            if name not in self._parameters:
                raise self._unknown(name)
            checked = self._parameters[name].check(value)
            if self._parameters[name].fixed and checked != self._values[name][0]:
                raise ValueError(
                    f"{name}={value!r}: must stay {self._values[name][0]}, as the spaces depend on it; make "
                    "another environment"
                )
            changed[name] = self._values[name].copy()
            changed[name][rows] = checked
        self._check({**changed, self.level.name: self._ends(table, rows)})
        self._values = changed
        if table is not None:
            self._use(table, rows)

    def set_levels(
        self, rows: Ints | slice, levels: Sequence[Level], probabilities: Sequence[float] | None = None
    ) -> None:
        """Draw the rows' later episodes from these levels.

        Raises:
            ValueError: no levels, a bad level, one that does not fit the parameters, or bad probabilities.
        """
        table = LevelTable(self.level, levels, probabilities)
        self._check({**self._values, self.level.name: self._ends(table, rows)})
        self._use(table, rows)

    def distribution(self, *names: str) -> tuple[Ints, NDArray[np.float64]]:
        """What later episodes draw, over all rows.

        Args:
            names: integer parameters to be told as well.

        Returns:
            (1 + M, K): numbers drawn from the levels, and with them the values of each of the M `names`.
            (K,): how often each such combination comes.
        """
        kinds = np.stack([self._table_of, *(self._values[name] for name in names)])
        kinds, counts = np.unique(kinds, axis=1, return_counts=True)
        drawn, shares = [], []
        for (index, *given), count in zip(kinds.T.tolist(), counts, strict=True):
            numbers, probabilities = self._tables[index].distribution
            drawn.append(np.stack([numbers, *(np.full_like(numbers, value) for value in given)]))
            shares.append(probabilities * (count / self.n_envs))
        merged, place = np.unique(np.concatenate(drawn, axis=1), axis=1, return_inverse=True)
        summed: NDArray[np.float64] = np.zeros(merged.shape[1])
        np.add.at(summed, place.ravel(), np.concatenate(shares))
        return merged, summed

    def draw(
        self, rows: Ints, choice: NDArray[np.float64], value: NDArray[np.float64]
    ) -> tuple[NDArray[np.object_], Ints]:
        """Levels and the numbers drawn from them for the rows (R,), from uniform draws (R,) in [0, 1)."""
        if len(self._tables) == 1:
            return self._tables[0].draw(choice, value)
        levels = np.empty(len(rows), dtype=object)
        numbers: Ints = np.zeros(len(rows), dtype=np.int64)
        tables = self._table_of[rows]
        for index in np.unique(tables):
            chosen = tables == index
            levels[chosen], numbers[chosen] = self._tables[index].draw(choice[chosen], value[chosen])
        return levels, numbers

    def _ends(self, table: LevelTable | None = None, rows: Ints | slice = slice(None)) -> Ints:
        """(N, 2) the lowest and highest number of each row's levels, or those if `rows` took `table`."""
        ends: Ints = np.array([old.ends for old in self._tables], dtype=np.int64)[self._table_of]
        if table is not None:
            ends[rows] = table.ends
        return ends

    def _use(self, table: LevelTable, rows: Ints | slice) -> None:
        self._table_of[rows] = len(self._tables)
        used, self._table_of[:] = np.unique(self._table_of, return_inverse=True)
        self._tables = [[*self._tables, table][index] for index in used]

    def _unknown(self, name: str) -> UnknownAttributeError:
        return UnknownAttributeError(
            f"{name!r} is no parameter: there are {', '.join(self.names)}, and set_levels()"
        )
