"""MiniGrid's observation, bit for bit, without its Python loops over cells.

MiniGrid builds each observation by copying the view cell by cell, rotating it, flooding it with sight and
encoding it again. The picture is a function of the grid, the agent's pose and what it carries, so here the
grid's encoding is kept as one padded numpy array from which a view is a single gather, and sight, a function
of which cells of the view are opaque, is looked up.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from minigrid.core.constants import COLOR_TO_IDX, OBJECT_TO_IDX
from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Box, Floor, Goal, Key, Lava, Wall, WorldObj
from minigrid.minigrid_env import MiniGridEnv

Code = tuple[int, int, int, int]

OPAQUE = 3
"""Channel of a cell's code, after MiniGrid's three, that is 1 where sight ends."""

EMPTY_CODE = (OBJECT_TO_IDX["empty"], 0, 0, 0)
WALL_CODES = {colour: (OBJECT_TO_IDX["wall"], index, 0, 1) for colour, index in COLOR_TO_IDX.items()}
EMPTY_BYTES = bytes(EMPTY_CODE)
WALL_BYTES = {colour: bytes(code) for colour, code in WALL_CODES.items()}

# Objects of exactly these classes can change only in colour; everything else (doors, a user's own objects) is
# asked for its encoding and its transparency at each observation.
COLOUR_ONLY = frozenset({Wall, Floor, Goal, Lava, Key, Ball, Box})

MAX_SIGHT_PATTERNS = 50_000

_colour = attrgetter("color")
_sight: dict[tuple[int, bytes], npt.NDArray[np.uint8]] = {}
_offsets: dict[int, npt.NDArray[np.intp]] = {}


def view_offsets(view_size: int) -> npt.NDArray[np.intp]:
    """Where the cells of a view lie on the map, from the agent.

    Returns an array (4 directions, 2, view, view): the x and y distance from the agent to the cell that
    MiniGrid shows at ``image[i, j]``; the agent itself is at ``image[view // 2, view - 1]``.
    """
    if view_size not in _offsets:
        i, j = np.meshgrid(np.arange(view_size), np.arange(view_size), indexing="ij")
        right, ahead = i - view_size // 2, view_size - 1 - j
        _offsets[view_size] = np.array(
            [(ahead, right), (-right, ahead), (-ahead, -right), (right, -ahead)], dtype=np.intp
        )
    return _offsets[view_size]


def _row_of_sight(seen: int, clear: int, width: int) -> tuple[int, int]:
    """Flood one row with sight, on bit sets: what is seen of it, and what that lights of the row ahead.

    MiniGrid sweeps a row once to the right and once to the left; a seen, transparent cell lights its
    neighbour in the sweep's direction and, in the row ahead, that neighbour's cell and its own. The last cell
    of a sweep lights nothing.
    """
    last = 1 << (width - 1)
    for bit in range(width - 1):
        seen |= (seen & clear & (1 << bit)) << 1
    lit = seen & clear & ~last
    ahead = lit | lit << 1
    for bit in range(width - 1, 0, -1):
        seen |= (seen & clear & (1 << bit)) >> 1
    lit = seen & clear & ~1
    return seen, ahead | lit | lit >> 1


def sight(opaque: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Which cells of a view are seen.

    Args:
        opaque: (view, view) uint8, 1 where a cell stops sight, indexed as MiniGrid's image.

    Returns:
        (view, view, 1) uint8, 1 where the cell is seen. Shared between calls: not to be written to.
    """
    size = len(opaque)
    key = (size, opaque.tobytes())
    mask = _sight.get(key)
    if mask is None:
        mask = np.zeros((size, size, 1), dtype=np.uint8)
        clear = [sum(1 << i for i in range(size) if not opaque[i, j]) for j in range(size)]
        row = 1 << (size // 2)
        for j in range(size - 1, -1, -1):
            row, ahead = _row_of_sight(row, clear[j], size)
            mask[:, j, 0] = [row >> i & 1 for i in range(size)]
            row = ahead
        mask.setflags(write=False)
        if len(_sight) >= MAX_SIGHT_PATTERNS:
            _sight.clear()
        _sight[key] = mask
    return mask


def _code(cell: WorldObj | None) -> Code:
    return EMPTY_CODE if cell is None else (*cell.encode(), int(not cell.see_behind()))


class FastView:
    """A drop-in ``gen_obs`` for one MiniGrid environment, equal to its own and several times as fast.

    Every call compares the grid's cells with those last seen (by identity, in C) and the objects in it that
    may change where they stand with their last encoding, so whatever way the environment changes its grid,
    the next picture shows it. Where a grid is not MiniGrid's own class, MiniGrid's own ``gen_obs`` is called.
    """

    def __init__(self, env: MiniGridEnv) -> None:
        """Prepare for ``env``; nothing is read before the first call.

        Raises:
            ValueError: if the environment's class builds its observations in a way of its own.
        """
        if not self.supports(env):
            raise ValueError(
                f"{type(env).__name__} builds its own observations; FastView knows MiniGridEnv's only"
            )
        self._env = env
        self._grid: Grid | None = None
        self._cells: list[WorldObj | None] = []
        self._layout = (0, 0, 0)  # view size, width and height of the grid
        self._stride = 0
        self._pad = 0
        self._indices: list[npt.NDArray[np.intp]] = []
        self._codes: npt.NDArray[np.uint8] = np.empty((0, 4), dtype=np.uint8)
        self._plain: list[WorldObj] = []
        self._colours: list[str] = []
        self._others: list[WorldObj] = []
        self._states: list[Code] = []

    @staticmethod
    def supports(env: MiniGridEnv) -> bool:
        """Whether the class of ``env`` leaves MiniGrid's way of building an observation as it is."""
        names = ("gen_obs", "gen_obs_grid", "get_view_exts")
        return all(getattr(type(env), name) is getattr(MiniGridEnv, name) for name in names)

    @classmethod
    def install(cls, env: MiniGridEnv) -> bool:
        """Make ``env`` use a fast view, where its class allows it. Returns whether it does."""
        if not cls.supports(env):
            return False
        setattr(env, "gen_obs", cls(env))  # noqa: B010  # on the instance, where the class has a method
        return True

    def __call__(self) -> dict[str, Any]:
        """Build MiniGrid's observation: image (view, view, 3) uint8, its own array; direction; mission."""
        env = self._env
        grid, size = env.grid, env.agent_view_size
        if type(grid) is not Grid:
            own: dict[str, Any] = MiniGridEnv.gen_obs(env)  # type: ignore[no-untyped-call]
            return own
        if grid is not self._grid or (size, grid.width, grid.height) != self._layout:
            self._read(grid, size)
        elif (
            grid.grid != self._cells
            or list(map(_colour, self._plain)) != self._colours
            or (self._others and list(map(_code, self._others)) != self._states)
        ):
            self._read_changes(grid)
        x, y = env.agent_pos
        indices = self._indices[env.agent_dir] + (y * self._stride + x)
        view = self._codes.take(indices, axis=0)
        image = view[:, :, :OPAQUE]
        image = image.copy() if env.see_through_walls else image * sight(view[:, :, OPAQUE])
        # The agent's own cell shows what it carries, whatever it stands on.
        carried = cast(WorldObj | None, env.carrying)
        image[size // 2, size - 1] = EMPTY_CODE[:3] if carried is None else carried.encode()
        return {"image": image, "direction": env.agent_dir, "mission": env.mission}

    def _read(self, grid: Grid, size: int) -> None:
        """Encode the whole grid, with a border of wall wide enough for any view from inside."""
        if (size, grid.width, grid.height) != self._layout:
            self._layout = (size, grid.width, grid.height)
            self._pad = size - 1
            self._stride = grid.width + 2 * self._pad
            dx, dy = view_offsets(size).swapaxes(0, 1)
            self._indices = list((dy + self._pad) * self._stride + dx + self._pad)
            self._codes = np.empty((self._stride * (grid.height + 2 * self._pad), 4), dtype=np.uint8)
            self._codes[:] = WALL_CODES["grey"]
        self._grid = grid
        codes = b"".join(
            EMPTY_BYTES
            if cell is None
            else WALL_BYTES[cell.color]
            if type(cell) is Wall
            else bytes(_code(cell))
            for cell in grid.grid
        )
        inside = self._codes.reshape(-1, self._stride, 4)[self._pad :, self._pad :]
        inside[: grid.height, : grid.width] = np.frombuffer(codes, np.uint8).reshape(
            grid.height, grid.width, 4
        )
        self._watch(grid)

    def _read_changes(self, grid: Grid) -> None:
        """Encode again the cells that hold another object than before, or one that may have changed."""
        stale = {
            k
            for k, (new, old) in enumerate(zip(grid.grid, self._cells, strict=True))
            if new is not old or (new and type(new) not in COLOUR_ONLY)
        }
        if list(map(_colour, self._plain)) != self._colours:
            stale.update(k for k, cell in enumerate(grid.grid) if cell is not None)
        for k in stale:
            y, x = divmod(k, grid.width)
            self._codes[(y + self._pad) * self._stride + x + self._pad] = _code(grid.grid[k])
        self._watch(grid)

    def _watch(self, grid: Grid) -> None:
        """Remember what the codes were made from."""
        self._cells = list(grid.grid)
        # Each once, although an object may stand in many cells.
        objects = {id(cell): cell for cell in self._cells if cell is not None}.values()
        self._plain = [cell for cell in objects if type(cell) in COLOUR_ONLY]
        self._others = [cell for cell in objects if type(cell) not in COLOUR_ONLY]
        self._colours = list(map(_colour, self._plain))
        self._states = list(map(_code, self._others))
