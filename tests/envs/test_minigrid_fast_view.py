"""The fast picture is MiniGrid's own, whatever happens in the grid."""

import copy
from collections.abc import Iterator

import gymnasium as gym
import numpy as np
import pytest
from minigrid.core.grid import Grid
from minigrid.core.world_object import Ball, Box, Door, Key, Wall, WorldObj
from minigrid.envs import EmptyEnv, MemoryEnv
from minigrid.minigrid_env import MiniGridEnv

from envs.minigrid import FastView, optimal_way
from envs.minigrid.fast_view import sight

MEMORY_IDS = [f"MiniGrid-Memory{size}-v0" for size in ("S7", "S9", "S11", "S13", "S13Random", "S17Random")]
# Doors and keys; boxes that hold keys; balls that move by themselves; lava; goals; rooms full of things.
OTHER_IDS = [
    "MiniGrid-DoorKey-8x8-v0",
    "MiniGrid-ObstructedMaze-Full-v1",
    "MiniGrid-Dynamic-Obstacles-6x6-v0",
    "MiniGrid-LavaCrossingS9N2-v0",
    "MiniGrid-Fetch-8x8-N3-v0",
    "MiniGrid-PutNear-6x6-N2-v0",
    "MiniGrid-Playground-v0",
]
# Our own: doors opened by hand and by keys that are used up, things taken, one wall object for all walls.
OWN_IDS = [f"RMT/MiniGrid-{name}-v0" for name in ("CorridorL11", "DoorsN6", "FetchN8", "Keys", "KeysN6")]


def fast(env_id: str, view_size: int = 7) -> MiniGridEnv:
    env = gym.make(env_id).unwrapped
    assert isinstance(env, MiniGridEnv)
    env.agent_view_size = view_size
    assert FastView.install(env)
    return env


def assert_equals_own(env: MiniGridEnv, observation: dict) -> None:
    own = MiniGridEnv.gen_obs(env)
    assert observation["image"].dtype == np.uint8 and observation["image"].flags.c_contiguous
    np.testing.assert_array_equal(observation["image"], own["image"])
    assert observation["direction"] == own["direction"] and observation["mission"] == own["mission"]


@pytest.mark.parametrize("view_size", [7, 3])
@pytest.mark.parametrize("env_id", MEMORY_IDS + OTHER_IDS)
def test_equals_minigrids_own_on_a_random_walk(env_id: str, view_size: int) -> None:
    env = fast(env_id, view_size)
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    # Walk, pick up, drop, toggle; mostly walk, or nothing is ever met.
    actions = rng.choice(
        int(env.action_space.n),
        size=1500,
        p=None if env.action_space.n == 3 else [0.15, 0.15, 0.4, 0.1, 0.05, 0.1, 0.05],
    )
    for action in actions:
        assert_equals_own(env, observation)
        observation, _, terminated, truncated, _ = env.step(int(action))
        if terminated or truncated:
            observation, _ = env.reset()


@pytest.mark.parametrize("view_size", [7, 3])
@pytest.mark.parametrize("env_id", OWN_IDS)
def test_equals_minigrids_own_on_the_way_to_an_answer(env_id: str, view_size: int) -> None:
    env = fast(env_id, view_size)
    rng, ends = np.random.default_rng(0), 0
    observation, _ = env.reset(seed=0)
    while ends < 12:
        assert_equals_own(env, observation)
        # In every other episode half of the actions are random; the others go straight to the right answers.
        stray = ends % 2 and rng.random() < 0.5
        action = int(rng.integers(env.action_space.n)) if stray else optimal_way(env)[0]
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            assert_equals_own(env, observation)
            ends += 1
            env.see_through_walls = ends % 3 == 2
            observation, _ = env.reset()


@pytest.mark.parametrize("view_size", [3, 5, 7, 9])
def test_every_pose_with_and_without_walls_in_the_way(view_size: int) -> None:
    env = fast("MiniGrid-ObstructedMaze-1Dlhb-v0", view_size)
    env.reset(seed=1)
    for env.see_through_walls in (False, True):
        for x in range(env.width):
            for y in range(env.height):
                for env.agent_dir in range(4):
                    env.agent_pos = (x, y)
                    assert_equals_own(env, env.gen_obs())


def test_sight_equals_minigrids_flood_on_random_patterns() -> None:
    rng = np.random.default_rng(2)
    for size in (3, 5, 7, 9):
        for density in rng.uniform(0, 0.7, size=60):
            opaque = (rng.random((size, size)) < density).astype(np.uint8)
            grid = Grid(size, size)
            for i, j in np.argwhere(opaque):
                grid.set(i, j, Wall())
            np.testing.assert_array_equal(sight(opaque)[:, :, 0], grid.process_vis((size // 2, size - 1)))


class Lamp(WorldObj):
    """An object that changes in every way MiniGrid allows, where it stands."""

    on = False

    def encode(self) -> tuple[int, int, int]:
        return (7, 3, int(self.on))

    def see_behind(self) -> bool:
        return self.on


def test_shows_every_change_of_the_grid_in_the_next_picture() -> None:
    env = fast("MiniGrid-Empty-8x8-v0")
    env.reset(seed=0)
    env.agent_pos, env.agent_dir, env.see_through_walls = (1, 4), 0, False
    door, lamp, wall = Door("red", is_locked=True), Lamp("box", "red"), Wall()

    def changes() -> Iterator[bool]:
        """Change the grid; yield whether the picture must differ from the last."""
        env.grid.set(3, 4, door)
        yield True
        door.is_locked = False
        yield True
        door.is_open = True
        yield True
        door.color = "blue"
        yield True
        env.grid.set(2, 3, Ball("green"))
        yield True
        env.grid.get(2, 3).color = "yellow"
        yield True
        env.grid.set(2, 3, Key("yellow"))
        yield True
        env.grid.set(3, 5, lamp)
        yield True
        lamp.on = True
        yield True
        env.grid.grid[4 * env.width + 2] = wall  # not through set
        yield True
        wall.color = "purple"
        yield True
        env.carrying = Box("red")
        yield True
        env.carrying.color = "green"
        yield True
        env.grid = env.grid.copy()
        yield False
        env.grid.vert_wall(2, 1, 6)
        yield True
        env.see_through_walls = True
        yield True
        env.grid.set(2, 4, None)
        yield True
        env.agent_view_size = 5
        yield True

    before = env.gen_obs()["image"]
    for differs in changes():
        after = env.gen_obs()
        assert_equals_own(env, after)
        assert np.array_equal(before, after["image"]) != differs
        before = after["image"]


def test_a_picture_stays_as_it_was_when_the_next_is_made() -> None:
    env = fast("MiniGrid-MemoryS7-v0")
    observation, _ = env.reset(seed=0)
    kept = observation["image"].copy()
    observation["image"][:] = 99
    env.step(0)
    np.testing.assert_array_equal(env.step(1)[0]["image"], kept)


def test_a_copied_environment_sees_its_own_grid() -> None:
    env = fast("MiniGrid-MemoryS7-v0")
    env.reset(seed=0)
    other = copy.deepcopy(env)
    other.grid.set(1, 2, Ball("red"))
    other.agent_dir = env.agent_dir = 2
    assert_equals_own(other, other.gen_obs())
    assert_equals_own(env, env.gen_obs())


class OwnView(EmptyEnv):
    def gen_obs(self) -> dict:
        return {"image": np.zeros((7, 7, 3), np.uint8), "direction": 0, "mission": ""}


class OwnGrid(Grid):
    def encode(self, vis_mask=None) -> np.ndarray:
        return super().encode(vis_mask)[::-1]

    def slice(self, *args) -> Grid:
        part = super().slice(*args)
        part.__class__ = OwnGrid
        return part


def test_leaves_alone_what_it_does_not_know() -> None:
    assert not FastView.install(OwnView())
    with pytest.raises(ValueError, match="OwnView builds its own observations"):
        FastView(OwnView())
    env = MemoryEnv(size=7)
    FastView.install(env)
    env.reset(seed=0)
    env.grid.__class__ = OwnGrid
    assert_equals_own(env, env.gen_obs())


def test_shows_an_object_that_stands_in_many_cells_change() -> None:
    env = fast("RMT/MiniGrid-Doors-v0")
    before = env.reset(seed=0)[0]["image"]
    wall = env.grid.get(0, 0)
    assert sum(cell is wall for cell in env.grid.grid) > 50
    wall.color = "red"
    after = env.gen_obs()
    assert_equals_own(env, after)
    assert not np.array_equal(before, after["image"])
