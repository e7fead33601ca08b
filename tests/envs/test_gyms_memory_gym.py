"""Memory Gym behind its adapter: its own pictures, the right ends, nothing leaked, many side by side."""

import os
from typing import Any

import gymnasium as gym
import numpy as np
import pygame
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from stable_baselines3.common.env_util import make_vec_env

from envs import gyms
from envs.gyms.catalogue import CATALOGUE
from tests.envs.gyms_play import episode, random_walk, total

every_id = pytest.mark.parametrize("env_id", gyms.MEMORY_GYM_IDS)
ENDLESS = [env_id for env_id in gyms.MEMORY_GYM_IDS if env_id.startswith("Endless")]
LIMITED = ["MysteryPath-v0", "MysteryPath-Grid-v0", "SearingSpotlights-v0", *ENDLESS]


def stand(env: gym.Env) -> Any:
    return 0 if isinstance(env.action_space, spaces.Discrete) else np.zeros(2, dtype=int)


def step_towards(game: Any, goal: tuple[int, int]) -> int:
    """Turn to, or go to, the next tile of the grid towards `goal`."""
    x, y = (int(goal[i]) - int(game.agent.grid_position[i]) for i in (0, 1))
    if x == y == 0:
        return 0
    # Rotations are anticlockwise from north.
    heading = (270 if x > 0 else 90) if x else (180 if y > 0 else 0)
    turn = (heading - game.agent.rotation) % 360
    return {0: 3, 90: 1, 180: 1, 270: 2}[turn]


def obey(env: Any) -> int:
    """MortarMayhem's commands, one after the other."""
    return 0 if env.game._command_visualization else step_towards(env.game, env.game._target_pos)


def follow(env: Any) -> int:
    """MysteryPath's way, from the start to the end."""
    game = env.game
    way = [(node.x, node.y) for node in game.mystery_path.path]
    way = way if way[0] == game.start else way[::-1]
    here = way.index(tuple(int(n) for n in game.agent.grid_position))
    return step_towards(game, way[here + 1])


@every_id
def test_shows_memory_gyms_own_pictures(env_id: str) -> None:
    env, own = gyms.make(env_id), gym.make(env_id, disable_env_checker=True).unwrapped
    env.action_space.seed(0)
    seen, expected = env.reset(seed=3)[0], own.reset(seed=3)[0]
    in_episode, episodes = 0, 0
    for _ in range(300):
        # That the previous agent is drawn while the first command is shown is mended.
        if episodes == 0 or in_episode == 0 or in_episode > 3 or env_id != "Endless-MortarMayhem-v0":
            assert data_equivalence(seen, expected)
        action = env.action_space.sample()
        seen, reward, terminated, truncated, _ = env.step(action)
        expected, own_reward, own_terminated, *_ = own.step(action)
        assert reward == own_reward and (terminated or truncated) == own_terminated
        in_episode += 1
        if own_terminated:
            seen, expected = env.reset()[0], own.reset()[0]
            in_episode, episodes = 0, episodes + 1


def test_an_episode_does_not_begin_with_the_agent_of_the_last() -> None:
    def beginning(env: gym.Env) -> list[np.ndarray]:
        return [env.reset(seed=5)[0], *(env.step(stand(env))[0] for _ in range(4))]

    env = gyms.make("Endless-MortarMayhem-v0")
    fresh = beginning(env)
    env.reset(seed=6)
    for _ in range(15):
        env.step(np.array([2, 2]))
    assert data_equivalence(beginning(env), fresh)


def test_an_episode_does_not_begin_with_the_lights_of_the_last() -> None:
    env = gyms.make("SearingSpotlights-v0", options={"light_dim_off_duration": 0})
    fresh = env.reset(seed=5)[0]
    for _ in range(20):
        env.step(stand(env))
    np.testing.assert_array_equal(env.reset(seed=5)[0], fresh)


@pytest.mark.parametrize("env_id", LIMITED)
def test_a_time_limit_truncates(env_id: str) -> None:
    env = gyms.make(env_id, options={"max_steps": 7})
    steps = episode(env, stand, seed=0)
    assert [step[2:4] for step in steps] == [(False, False)] * 6 + [(False, True)]
    assert all(step[4] == {} for step in steps[:-1])
    assert steps[-1][4].get("is_success", False) is False


def test_memory_gyms_own_time_limits_are_kept() -> None:
    limits = {env_id: gyms.make(env_id).unwrapped.options["max_steps"] for env_id in LIMITED}
    assert limits == {
        "MysteryPath-v0": 512,
        "MysteryPath-Grid-v0": 128,
        "SearingSpotlights-v0": 256,
        **dict.fromkeys(ENDLESS, -1),
    }
    steps = episode(gyms.make("MysteryPath-Grid-v0"), stand, seed=0)
    assert len(steps) == 128 and steps[-1][2:4] == (False, True)


DARK = {"initial_spawns": 0, "spawn_interval": 1000}


@pytest.mark.parametrize(
    ("env_id", "options", "length"),
    [("Endless-MysteryPath-v0", {}, 20), ("Endless-SearingSpotlights-v0", DARK, 160)],
)
def test_clocks_that_the_agent_can_put_off_terminate(
    env_id: str, options: dict[str, Any], length: int
) -> None:
    steps = episode(gyms.make(env_id, options=options), stand, seed=0)
    assert len(steps) == length and steps[-1][2:4] == (True, False)


@pytest.mark.parametrize("late", [0, 1])
def test_the_goal_at_the_last_permitted_step_terminates(late: int) -> None:
    free = episode(gyms.make("MysteryPath-Grid-v0"), follow, seed=1)
    assert free[-1][2:4] == (True, False) and free[-1][4] == {"num_fails": 0.0, "is_success": True}
    assert total(free) == CATALOGUE["RMT/MemoryGym-MysteryPath-Grid-v0"].oracle
    env = gyms.make("MysteryPath-Grid-v0", options={"max_steps": len(free) - late})
    steps = episode(env, follow, seed=1)
    assert steps[-1][2:4] == (not late, bool(late))
    assert steps[-1][4]["is_success"] is not bool(late)


@pytest.mark.parametrize("env_id", ["MortarMayhem-Grid-v0", "MortarMayhemB-Grid-v0"])
def test_who_obeys_every_command_succeeds(env_id: str) -> None:
    steps = episode(gyms.make(env_id), obey, seed=0)
    assert steps[-1][2:4] == (True, False)
    assert steps[-1][4] == {"commands_completed": 1.0, "is_success": True}
    assert total(steps) == pytest.approx(CATALOGUE[f"RMT/MemoryGym-{env_id}"].oracle)


@pytest.mark.parametrize("missed", [1, 4, 10])
def test_a_missed_command_is_no_success_the_last_neither(missed: int) -> None:
    """Memory Gym reports a success where only the last command was missed."""

    def act(env: Any) -> int:
        game = env.game
        moves = game._current_command == missed - 1 and not game.arena.tiles_on
        if not moves or game._command_visualization:
            return obey(env)
        # Off the tile that is commanded, at the last moment even where it is to stay.
        at_goal = tuple(game.agent.grid_position) == tuple(game._target_pos)
        return (1 if game._command_steps < 5 else 3) if at_goal else 0

    for seed in range(20):  # some end at a wall, and so on the right tile after all
        steps = episode(gyms.make("MortarMayhem-Grid-v0"), act, seed)
        if not steps[-1][4]["is_success"]:
            break
    assert steps[-1][2:4] == (True, False)
    assert steps[-1][4] == {"commands_completed": (missed - 1) / 10, "is_success": False}
    assert total(steps) == pytest.approx(0.1 * (missed - 1))


def test_who_leaves_a_tile_too_early_has_obeyed_the_command_before() -> None:
    def act(env: Any) -> int:
        game = env.game
        return 3 if game._current_command == 3 and game.arena.tiles_on else obey(env)

    for seed in range(20):
        last = episode(gyms.make("MortarMayhem-Grid-v0"), act, seed)[-1][4]
        if not last["is_success"]:
            break
    assert last == {"commands_completed": 0.3, "is_success": False}


@pytest.mark.parametrize("env_id", ENDLESS)
def test_info_does_not_hold_what_is_to_be_remembered(env_id: str) -> None:
    env = gyms.make(env_id, options={"max_steps": 40})
    assert "ground_truth" in env.unwrapped.game.reset(seed=0)[1]
    ended = 0
    for _, _, terminated, truncated, info in random_walk(env, 100, seed=0):
        ended += terminated or truncated
        assert (info != {}) == (terminated or truncated) and "ground_truth" not in info
    assert ended > 1


def test_closing_one_environment_leaves_the_others() -> None:
    names = ("MysteryPath-v0", "MortarMayhemB-Grid-v0", "SearingSpotlights-v0")
    envs = [gyms.make(env_id) for env_id in names]
    expected = [list(random_walk(env, 5, seed=0)) for env in envs]
    gyms.make("MysteryPath-v0").close()
    pygame.quit()  # which other packages do
    assert all(
        data_equivalence(list(random_walk(env, 5, seed=0)), steps)
        for env, steps in zip(envs, expected, strict=True)
    )


def test_a_window_of_the_process_is_neither_drawn_over_nor_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    pygame.display.init()
    window = pygame.display.set_mode((120, 50))
    window.fill((1, 2, 3))
    monkeypatch.setenv("SDL_VIDEODRIVER", "x11")
    env = gyms.make("Endless-SearingSpotlights-v0")
    list(random_walk(env, 5, seed=0))
    assert os.environ["SDL_VIDEODRIVER"] == "x11"
    assert pygame.display.get_surface() is window and window.get_size() == (120, 50)
    assert (pygame.surfarray.array3d(window) == (1, 2, 3)).all()
    pygame.display.quit()


def test_render_shows_the_environments_own_picture_upright() -> None:
    env, other = (gyms.make("MysteryPath-Grid-v0", render_mode="rgb_array") for _ in range(2))
    seen, _ = env.reset(seed=0)
    other.reset(seed=1)
    picture = env.render()
    assert picture.shape == (336, 336, 3)
    np.testing.assert_array_equal(picture[2::4, 1::4], seen.transpose(1, 0, 2))
    seen, *_ = env.step(1)
    np.testing.assert_array_equal(env.render()[2::4, 1::4], seen.transpose(1, 0, 2))


def test_options_last_until_they_are_changed() -> None:
    def shown(env: gym.Env) -> int:
        env.reset()
        return len(env.unwrapped.game._commands)

    env = gyms.make("MortarMayhem-Grid-v0", options={"command_count": [3]})
    assert [shown(env) for _ in range(3)] == [3, 3, 3]
    env.reset(options={"command_count": [2], "explosion_delay": [4]})
    assert [shown(env) for _ in range(3)] == [2, 2, 2]
    env.unwrapped.set_options({"command_count": [5]})
    assert [shown(env) for _ in range(2)] == [5, 5]
    assert env.unwrapped.options["command_count"] == [5] and env.unwrapped.options["explosion_delay"] == [4]
    assert env.unwrapped.options["arena_size"] == 5


def test_options_last_through_the_resets_of_a_vec_env() -> None:
    options = {"max_steps": 3}
    venv = make_vec_env("RMT/MemoryGym-MysteryPath-Grid-v0", 2, seed=0, env_kwargs={"options": options})
    venv.reset()
    lengths = []
    for step in range(12):
        if step == 6:
            venv.env_method("set_options", {"max_steps": 2})
        _, _, dones, infos = venv.step(np.zeros(2, dtype=int))
        lengths += [info["episode"]["l"] for info in infos if "episode" in info]
        assert [info["TimeLimit.truncated"] for info in infos] == dones.tolist()
    assert lengths == [3, 3, 3, 3, 3, 3, 2, 2]
    venv.close()


@pytest.mark.parametrize(
    ("env_id", "options", "words"),
    [
        ("MysteryPath-v0", {"max_step": 3}, "there is no 'max_step', only .*did you mean max_steps"),
        ("MysteryPath-v0", {"max_steps": 0}, "max_steps=0: must be at least 1, or -1 for no limit"),
        ("MortarMayhem-v0", {"max_steps": 3}, "there is no 'max_steps'"),
        ("MortarMayhem-v0", {"arena_size": 7}, r"\{'arena_size': 7\}: outside what Memory Gym allows"),
        ("MortarMayhem-v0", {"command_count": 7}, r"command_count=7: must be a list such as \[10\]"),
    ],
)
def test_refuses_options_that_cannot_be(env_id: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        gyms.make(env_id, options=options)
    env = gyms.make(env_id)
    with pytest.raises(ValueError, match=words):
        env.reset(options=options)


def test_refuses_an_id_or_a_render_mode_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="env_id='MysteryPath': must be one of MortarMayhem-v0"):
        gyms.MemoryGymTask("MysteryPath")
    with pytest.raises(ValueError, match="render_mode='ansi': must be None or one of rgb_array"):
        gyms.MemoryGymTask("MysteryPath-v0", render_mode="ansi")


@pytest.mark.parametrize("env_id", ["MortarMayhem-v0", "MortarMayhemB-v0"])
def test_the_previous_action_is_seen_on_request(env_id: str) -> None:
    plain, env = gyms.make(env_id), gyms.make(env_id, previous_action=True)
    assert env.observation_space["previous_action"] == spaces.Box(0, 1, (6,), np.float32)
    seen, expected = env.reset(seed=0)[0], plain.reset(seed=0)[0]
    for previous in ([0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 1, 0]):
        assert seen in env.observation_space and seen.pop("previous_action").tolist() == previous
        assert data_equivalence(seen if "B" in env_id else seen["visual_observation"], expected)
        seen, expected = (one.step(np.array([2, 1]))[0] for one in (env, plain))


def test_an_action_that_is_changed_later_changes_nothing() -> None:
    env = gyms.make("SearingSpotlights-v0")
    pictures = []
    for reused in (True, False):
        env.reset(seed=0)
        action = np.array([2, 1])
        env.step(action)
        if reused:  # as by who fills one array at every step; the game shows the last action
            action[:] = 0
        pictures.append(env.step(np.array([0, 0]))[0])
    np.testing.assert_array_equal(*pictures)
