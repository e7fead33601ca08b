"""How many steps a second the environments make on one core, without an agent.

    python scripts/benchmark_envs.py
    python scripts/benchmark_envs.py --kind counting --repeats 5

Recall tasks run batched, as a Stable-Baselines3 vector of 256; all others one at a time, as they come, and
MiniGrid's own memory task without this project's wrapper beside them. Actions are random and drawn
beforehand. Of each the median over repeats that take turns, so that drift hits all alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np
from rich.table import Table

from envs.catalogue import TaskInfo, tasks
from envs.recall import make_sb3_vec
from scripts.console import CONSOLE, read_arguments, run
from scripts.speed.workloads import check_positive


@dataclass(frozen=True)
class Arguments:
    """Measure how fast the environments are."""

    kind: str | None = None
    """kind of memory, as in list_envs.py; by default all"""
    n_envs: int = 256
    """rows of a batched task"""
    seconds: float = 0.5
    """of each measurement, about"""
    repeats: int = 3
    """measurements of each environment"""
    only: str = ""
    """part of an id: others are left out"""


class Subject:
    """An environment and how to make it step.

    :param name: what the table calls it
    :param per_step: environments that a step moves
    :param step: takes the number of a call, makes a step and begins new episodes where they end
    """

    def __init__(self, name: str, per_step: int, step: Callable[[int], None]) -> None:
        self.name, self.per_step, self.step = name, per_step, step
        self.rates: list[float] = []

    def measure(self, seconds: float) -> None:
        """Step for about so long and note the steps per second."""
        count, begin = 0, time.perf_counter()
        while (spent := time.perf_counter() - begin) < seconds:
            for _ in range(32):
                self.step(count)
                count += 1
        self.rates.append(count * self.per_step / spent)


def batched(task: TaskInfo, n_envs: int) -> Subject:
    """A recall task as a vector."""
    env = make_sb3_vec(task.env_id, n_envs, seed=0)
    rng = np.random.default_rng(0)
    space: Any = env.action_space
    actions = rng.integers(space.n, size=(256, n_envs))
    env.reset()

    def step(count: int) -> None:
        env.step(actions[count % 256])

    return Subject(f"{task.env_id} x {n_envs}", n_envs, step)


def single(env_id: str) -> Subject:
    """One environment as Gymnasium makes it."""
    env = gym.make(env_id, disable_env_checker=True)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(256)]
    env.reset(seed=0)

    def step(count: int) -> None:
        _, _, terminated, truncated, _ = env.step(actions[count % 256])
        if terminated or truncated:
            env.reset()

    return Subject(env_id, 1, step)


def subjects(arguments: Arguments) -> list[Subject]:
    """What is measured; what is not installed is left out, with a word."""
    found = []
    for task in tasks(arguments.kind):
        if arguments.only not in task.env_id:
            continue
        try:
            is_recall = task.env_id.startswith("envs:")
            found.append(batched(task, arguments.n_envs) if is_recall else single(task.env_id))
        except ImportError as error:
            CONSOLE.print(f"left out: {task.env_id} ({error})")
    if arguments.kind in (None, "object") and arguments.only in "MiniGrid-MemoryS9-v0":
        found.append(single("MiniGrid-MemoryS9-v0"))
    if not found:
        raise ValueError(f"only={arguments.only!r}: no id has that in it; list_envs.py lists them")
    return found


def main(argv: Sequence[str]) -> None:
    """Measure in turns, and print the table."""
    arguments = read_arguments(Arguments, argv, prog="benchmark_envs.py")
    check_positive(n_envs=arguments.n_envs, repeats=arguments.repeats)
    measured = subjects(arguments)
    for _ in range(arguments.repeats):
        for subject in measured:
            subject.measure(arguments.seconds)
    table = Table(title="Steps per second on one core", title_justify="left")
    for column in ("environment", "median", "min", "max"):
        table.add_column(column, justify="left" if column == "environment" else "right", overflow="fold")
    for subject in measured:
        rates = (median(subject.rates), min(subject.rates), max(subject.rates))
        table.add_row(subject.name, *(f"{rate:,.0f}" for rate in rates))
    CONSOLE.print(table)


if __name__ == "__main__":
    run(main)
