"""The recall tasks at a few settings each, and how to play them."""

from __future__ import annotations

from typing import Any

import numpy as np

from envs.recall.base import BatchedTask
from envs.recall.tasks import TASKS

CASES: list[tuple[str, dict[str, Any]]] = [
    ("Memorize", {}),
    ("Memorize", {"delay": (1, 6), "cues": 3, "distractors": 2, "noise": 0.5, "reward_wrong": -0.5}),
    ("DetectAndMemorize", {}),
    ("DetectAndMemorize", {"delay": (1, 6), "cues": 5, "noise": 0.3, "earliest": 0.2, "latest": 0.8}),
    ("TMaze", {}),
    ("TMaze", {"active": True, "length": (1, 6), "start_distance": 2, "slack": 3, "goal_reward": 4.0}),
    ("Reasoning", {}),
    ("Reasoning", {"delay": (1, 6), "holders": 3, "places": 5, "distractors": 1, "reward_wrong": -0.5}),
    ("ReasoningParity", {}),
    ("ReasoningParity", {"delay": (1, 6), "modulus": 3, "distractors": 2, "reward_correct": 0.3}),
    ("FactRecall", {}),
    ("FactRecall", {"facts": (6, 9), "keys": 9, "values": 3, "hops": 2, "queries": 3, "delay": 5}),
    ("MemoryLength", {}),
    ("MemoryLength", {"length": (1, 6), "reward_wrong": 0.0, "reward_correct": 0.7}),
    ("MemorySize", {}),
    ("MemorySize", {"bits": (1, 7), "max_bits": 7, "length": 4, "reward_wrong": 0.0}),
    ("CountRecall", {}),
    ("CountRecall", {"length": (1, 9), "symbols": 2, "every": 3, "max_count": 4, "reward_wrong": -1.0}),
    ("Copy", {}),
    ("Copy", {"length": (1, 6), "symbols": 3, "repeats": 2, "delay": 0, "show_position": True}),
    ("Reverse", {}),
    ("Reverse", {"length": (1, 6), "symbols": 5, "delay": 2, "distractors": 1, "reward_wrong": -0.3}),
    ("AssociativeRetrieval", {}),
    ("AssociativeRetrieval", {"pairs": (1, 6), "keys": 6, "queries": 3, "delay": 0, "reward_correct": 3.0}),
    ("Rewrite", {}),
    ("Rewrite", {"pairs": (1, 9), "keys": 3, "values": 5, "queries": 2, "delay": 1, "reward_wrong": -1.0}),
    ("RepeatPrevious", {}),
    ("RepeatPrevious", {"lag": (1, 6), "symbols": 3, "answers": 7, "reward_wrong": -1.0}),
]
IDS = [f"{name}{'-varied' if kwargs else ''}" for name, kwargs in CASES]
# How to make episodes short, by task.
SHORT: dict[str, dict[str, Any]] = {
    "Memorize": {"delay": (1, 4)},
    "DetectAndMemorize": {"delay": (1, 4)},
    "TMaze": {"length": (1, 3), "active": True, "slack": 4},
    "Reasoning": {"delay": (1, 4)},
    "ReasoningParity": {"delay": (1, 4)},
    "FactRecall": {"facts": (1, 4), "delay": 2},
    "MemoryLength": {"length": (1, 4)},
    "MemorySize": {"bits": (1, 4)},
    "CountRecall": {"length": (1, 4), "every": 2},
    "Copy": {"length": (1, 2), "repeats": 2, "delay": 1},
    "Reverse": {"length": (1, 3), "delay": 0},
    "AssociativeRetrieval": {"pairs": (1, 4), "queries": 2, "delay": 1},
    "Rewrite": {"pairs": (1, 4), "queries": 2, "delay": 0},
    "RepeatPrevious": {"lag": (1, 3), "answers": 2},
}


def make(name: str, n_envs: int, **kwargs: Any) -> BatchedTask:
    return TASKS[name](n_envs, **kwargs)


def random_actions(task: BatchedTask, steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, task.n_actions, (steps, task.n_envs))


def play(task: BatchedTask, act: Any, episodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Successes, returns and lengths of as many first episodes from each row, `act(obs, starts)` acting.

    The first `episodes` to finish would not do: they would be the short ones.
    """
    share = -(-episodes // task.n_envs)
    records: list[list[tuple[bool, float, int]]] = [[] for _ in range(task.n_envs)]
    observations, starts = task.observe(), np.ones(task.n_envs, dtype=bool)
    while min(map(len, records)) < share:
        observations, _, finished = task.step_and_restart(act(observations, starts))
        starts = np.zeros(task.n_envs, dtype=bool)
        if finished is not None:
            starts[finished.rows] = True
            for row, *record in zip(
                finished.rows, finished.success, finished.returns, finished.lengths, strict=True
            ):
                records[row].append(tuple(record))
    successes, returns, lengths = zip(*[record for row in records for record in row[:share]], strict=True)
    return np.array(successes), np.array(returns), np.array(lengths)


def assert_rate(successes: np.ndarray, expected: float) -> None:
    """The share of successes is within four standard errors of the expected one."""
    error = np.sqrt(expected * (1 - expected) / len(successes))
    assert abs(successes.mean() - expected) <= 4 * error, (successes.mean(), expected)
