"""Our own MiniGrid tasks need memory: a search over layouts and poses, a guess, a probe."""

import gymnasium as gym
import numpy as np
import pytest
from minigrid.core.constants import OBJECT_TO_IDX
from minigrid.core.world_object import Door, Wall

import envs.minigrid  # noqa: F401  # registers the ids
from envs.minigrid import GridTask, optimal_way
from envs.minigrid.fast_view import view_offsets
from envs.minigrid.search import Cell, Pose, explore
from envs.minigrid.task import USE
from envs.minigrid.tasks import GRID_TASKS, PRESETS

LARGEST = {task: name for name, (task, _) in PRESETS.items()}
SEARCHED = sorted({*GRID_TASKS, *LARGEST.values()})
CHANCE = {"CorridorL11": 1 / 2, "DoorsN2": 1 / 2, "FetchN2": 1 / 2, "Keys": 1 / 4}


def view(env: GridTask, pose: Pose) -> tuple[np.ndarray, set[Cell]]:
    """What an agent in a pose observes, and the cells of the map that it sees."""
    env.agent_pos, env.agent_dir = pose[:2], pose[2]
    image = env.gen_obs()["image"]
    dx, dy = view_offsets(env.agent_view_size)[pose[2]]
    seen = image[:, :, 0] != OBJECT_TO_IDX["unseen"]
    return image, set(zip((pose[0] + dx)[seen].tolist(), (pose[1] + dy)[seen].tolist(), strict=True))


def layouts(name: str, view_size: int, seeds: int) -> list[GridTask]:
    """Layouts with every door open, which shows the most and leads furthest."""
    made = []
    for seed in range(seeds):
        env = gym.make(f"RMT/MiniGrid-{name}-v0", view_size=view_size)
        env.reset(seed=seed)
        for thing in env.unwrapped.grid.grid:
            if isinstance(thing, Door):
                thing.is_open = True
        made.append(env.unwrapped)
    return made


@pytest.mark.parametrize("view_size", [7, 3])
@pytest.mark.parametrize("name", SEARCHED)
def test_no_view_shows_both_cue_and_question_or_two_questions(name: str, view_size: int) -> None:
    for env in layouts(name, view_size, seeds=2 if "501" in name else 6):
        parts = (env.cue_cells, *env.questions)
        shown: set[int] = set()
        for pose in explore(env.grid, env.pose):
            _, seen = view(env, pose)
            together = {index for index, part in enumerate(parts) if seen & part}
            assert len(together) <= 1, (pose, together)
            shown |= together
        assert shown == set(range(len(parts)))


@pytest.mark.parametrize("name", sorted(GRID_TASKS))
def test_the_search_finds_what_a_view_too_wide_shows(name: str) -> None:
    env = layouts(name, 7, seeds=1)[0]
    distance = min(x for x, _ in env.questions[0]) - max(x for x, _ in env.cue_cells)
    assert distance > env.agent_view_size
    env.agent_view_size, env.see_through_walls = 2 * distance + 1, True
    _, seen = view(env, (max(x for x, _ in env.cue_cells), env.middle, 0))
    assert seen & env.cue_cells and seen & env.questions[0]


@pytest.mark.parametrize("name", SEARCHED)
def test_nothing_but_memory_carries_the_cue_across(name: str) -> None:
    """All ways lead over single cells entered looking east, where nothing tells which cue there was."""
    for env in layouts(name, 7, seeds=2):
        west = max(x for x, _ in env.cue_cells)
        east = min(x for part in env.questions for x, _ in part)
        free = {
            x: [y for y in range(env.height) if not isinstance(env.grid.get(x, y), Wall)]
            for x in range(west + 2, east)
        }
        single = [x for x, rows in free.items() if rows == [env.middle]]
        assert len(single) >= env.agent_view_size
        poses = [pose for pose in explore(env.grid, env.pose) if pose[0] >= single[0]]
        before = {pose: view(env, pose) for pose in poses}
        for cell in env.cue_cells:
            env.grid.set(*cell, None)
        changed = {pose for pose in poses if (view(env, pose)[0] != before[pose][0]).any()}
        assert changed and all(pose[2] != 0 and pose[0] in single for pose in changed)


@pytest.mark.parametrize("name", ["Doors", "Fetch", "Keys"])
def test_nothing_can_be_used_before_the_question(name: str) -> None:
    env = layouts(name, 7, seeds=1)[0]
    east = min(x for x, _ in env.questions[0])
    before, used = env.grid.copy(), 0
    for pose in list(explore(env.grid, env.pose)):
        if pose[0] < east - 1:
            env.agent_pos, env.agent_dir = pose[:2], pose[2]
            _, reward, terminated, _, _ = env.step(USE)
            used += 1
            assert reward == 0 and not terminated and env.carrying is None
    assert used > 50 and env.grid == before


def guesses(name: str, episodes: int) -> tuple[list[bool], np.ndarray, np.ndarray]:
    """Play with guesses: successes; what was observed before the first answer, and whether that was right."""
    env = gym.make(f"RMT/MiniGrid-{name}-v0", view_size=3)
    rng = np.random.default_rng(1)
    env.reset(seed=1)
    successes, observations, right = [], [], []
    for _ in range(episodes):
        observation, _ = env.reset()
        task = env.unwrapped
        guess = task.answers[rng.integers(len(task.answers))]
        first, done = True, False
        while not done:
            for action in optimal_way(env, guess):
                before = observation
                observation, _, terminated, truncated, info = env.step(action)
                done = terminated or truncated
                if done:
                    break
            if first:
                observations.append(np.append(before["image"].ravel(), 10 + before["direction"]))
                right.append(guess[0] == task.answer[0])
                first = False
        successes.append(info["is_success"])
    ids = np.array(observations)
    one_hot = (ids[:, :, None] == np.arange(14)).reshape(len(ids), -1).astype(float)
    return successes, one_hot, np.array(right)


def probe(features: np.ndarray, labels: np.ndarray) -> float:
    """Accuracy, on a held-out half, of ridge regression of a yes or no."""
    x, half = np.hstack([features, np.ones((len(features), 1))]), len(features) // 2
    target = 2.0 * labels - 1
    weights = np.linalg.solve(x[:half].T @ x[:half] + np.eye(x.shape[1]), x[:half].T @ target[:half])
    return float(np.mean((x[half:] @ weights > 0) == labels[half:]))


@pytest.mark.parametrize("name", CHANCE)
def test_a_guess_stays_at_chance_and_a_probe_finds_no_answer_in_what_is_seen(name: str) -> None:
    n = 500
    successes, observations, right = guesses(name, n)
    chance = CHANCE[name]
    assert abs(np.mean(successes) - chance) < 4 * np.sqrt(chance * (1 - chance) / n)
    assert abs(probe(observations, right) - 0.5) < 4 * np.sqrt(0.25 / (n // 2))
    assert probe(np.column_stack([observations, right]), right) > 0.99  # one number that tells would be found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["CorridorL11", "DoorsN2", "Doors", "FetchN2", "Fetch", "Keys", "KeysN3"])
def test_a_guess_stays_at_chance_over_ten_thousand_episodes(name: str) -> None:
    n = 10_000
    successes = guesses(name, n)[0]
    env = gym.make(f"RMT/MiniGrid-{name}-v0").unwrapped
    env.reset(seed=0)
    chance = env.chance(env.number)
    assert abs(np.mean(successes) - chance) < 4 * np.sqrt(chance * (1 - chance) / n)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANCE)
def test_random_actions_stay_below_chance_over_ten_thousand_episodes(name: str) -> None:
    env = gym.make(f"RMT/MiniGrid-{name}-v0", view_size=3, max_steps=100)
    rng, n, successes = np.random.default_rng(0), 10_000, 0
    env.reset(seed=0)
    for _ in range(n):
        env.reset()
        done = False
        while not done:
            _, _, terminated, truncated, info = env.step(int(rng.integers(env.action_space.n)))
            done = terminated or truncated
        successes += info["is_success"]
    chance = CHANCE[name]
    assert successes / n < chance + 4 * np.sqrt(chance * (1 - chance) / n)
