"""What agents learn that nobody has tuned: ``MemoryPPO(policy, env)`` with nothing but the core's name.

    python scripts/benchmark_defaults.py
    python scripts/benchmark_defaults.py --tasks cartpole pendulum-no-velocity --n-envs 1 --cores rmt
    python scripts/benchmark_defaults.py --variant rate-1e-3 --ppo-kwargs learning_rate 0.001
    python scripts/benchmark_defaults.py --variant reconstruction --reconstruction coef 1.0 steps 4

Beside them sb3-contrib's RecurrentPPO at its own defaults (``--cores lstm-contrib``). Appends a row per run
to results/defaults.json: a deterministic evaluation after each quarter of the training, on environments that
no training plays. What has a row is not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from time import perf_counter, process_time
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from rich.table import Table
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv

from agents.environments import EVALUATION_SEED, make_vec
from agents.recipes import Value
from rmt_rl import MemoryPPO
from scripts.console import CONSOLE, WIDE, read_arguments, run
from scripts.rows import Row, measure_missing, read

CONTRIB = "lstm-contrib"
ORDER = ("variant", "task", "n_envs", "core", "seed")
EPISODES = 24


class Keep(gym.ObservationWrapper[Any, Any, Any]):
    """Shows some of the numbers of an observation: without velocities, a task needs a memory."""

    def __init__(self, env: gym.Env[Any, Any], numbers: tuple[int, ...]) -> None:
        super().__init__(env)
        box, self.numbers = env.observation_space, list(numbers)
        assert isinstance(box, spaces.Box)
        self.observation_space = spaces.Box(box.low[self.numbers], box.high[self.numbers])

    def observation(self, observation: Any) -> Any:
        return observation[self.numbers]


@dataclass(frozen=True)
class Task:
    """An environment, how long it is trained, and what counts as learnt."""

    make: Callable[[int, int], VecEnv]
    """from number and seed"""
    steps: int
    enough: float
    """mean return"""


def single(env_id: str, *numbers: int) -> Callable[[int, int], VecEnv]:
    """Vectors of an environment of Gymnasium, of whose observations some numbers are shown."""

    def make(count: int, seed: int) -> VecEnv:
        wrap = dict(wrapper_class=Keep, wrapper_kwargs=dict(numbers=numbers)) if numbers else {}
        return make_vec_env(env_id, count, seed=seed, **wrap)  # type: ignore[arg-type]

    return make


TASKS = {
    "cartpole": Task(single("CartPole-v1"), 50_000, 475.0),
    "cartpole-no-velocity": Task(single("CartPole-v1", 0, 2), 50_000, 475.0),
    "pendulum-no-velocity": Task(single("Pendulum-v1", 0, 1), 100_000, -250.0),
    "memorize": Task(
        lambda n, seed: make_vec("envs:RMT/Memorize-v0", n, seed, delay=(8, 12)), 1_000_000, 0.95
    ),
    "repeat-previous": Task(
        lambda n, seed: make_vec("envs.gyms:RMT/popgym-RepeatPreviousEasy-v0", n, seed), 1_000_000, 0.95
    ),
}


@dataclass(frozen=True)
class Arguments:
    """Train agents that nobody has tuned, and count which of them learn."""

    tasks: tuple[str, ...] = tuple(TASKS)
    n_envs: tuple[int, ...] = (1, 8, 64)
    cores: tuple[str, ...] = ("rmt", "xl", "gru", CONTRIB)
    seeds: tuple[int, ...] = (0, 1, 2)
    variant: str = "default"
    """name of the rows, for a trial of something else"""
    ppo_kwargs: dict[str, Value] = field(default_factory=dict)
    """arguments of MemoryPPO in such a trial"""
    core_kwargs: dict[str, Value] = field(default_factory=dict)
    """options of the core in such a trial"""
    reconstruction: dict[str, Value] = field(default_factory=dict)
    """options of an auxiliary loss in such a trial"""
    steps: int | None = None
    """of training in such a trial, in place of the tasks' own"""
    jobs: int = 2
    """runs at a time, each with one thread"""
    results: Path = Path("results/defaults.json")
    """file of the figures"""


def build(core: str, env: VecEnv, seed: int, arguments: Arguments) -> Any:
    """A model at its defaults, or as a trial wants it."""
    is_dict = isinstance(env.observation_space, spaces.Dict)
    if core == CONTRIB:
        from sb3_contrib import RecurrentPPO

        policy = "MultiInputLstmPolicy" if is_dict else "MlpLstmPolicy"
        return RecurrentPPO(policy, env, seed=seed, device="cpu")
    policy_kwargs: dict[str, Any] = dict(core=core)
    if arguments.core_kwargs:
        policy_kwargs["core_kwargs"] = arguments.core_kwargs
    if arguments.reconstruction:
        policy_kwargs["reconstruction"] = arguments.reconstruction
    policy = "MultiInputPolicy" if is_dict else "MlpPolicy"
    options: dict[str, Any] = arguments.ppo_kwargs
    return MemoryPPO(policy, env, seed=seed, device="cpu", policy_kwargs=policy_kwargs, **options)


def work(name: str, n_envs: int, core: str, seed: int, arguments: Arguments) -> Row:
    """One run, to its row."""
    torch.set_num_threads(1)
    task = TASKS[name]
    # SB3 seeds environments with the model's seed, up to the number of environments on.
    env, held_out = task.make(n_envs, 1000 * seed), task.make(8, EVALUATION_SEED)
    model = build(core, env, 1000 * seed, arguments)
    begin, cpu, curve = perf_counter(), process_time(), []
    for quarter in range(1, 5):
        missing = (arguments.steps or task.steps) * quarter // 4 - model.num_timesteps
        if missing > 0:
            model.learn(missing, reset_num_timesteps=False)
        returns, _ = evaluate_policy(model, held_out, EPISODES, return_episode_rewards=True)
        curve.append((model.num_timesteps, float(np.mean(returns))))
    env.close()
    held_out.close()
    names = ("n_steps", "batch_size", "sequence_length", "n_epochs", "ent_coef")
    return dict(
        variant=arguments.variant, task=name, n_envs=n_envs, core=core, seed=seed, curve=curve,
        learnt=curve[-1][1] >= task.enough, seconds=perf_counter() - begin, cpu_seconds=process_time() - cpu,
        settings={key: getattr(model, key) for key in names if hasattr(model, key)},
        ppo_kwargs=arguments.ppo_kwargs, core_kwargs=arguments.core_kwargs,
        reconstruction=arguments.reconstruction,
    )  # fmt: skip


def table(rows: Sequence[Row]) -> Table:
    """Mean of the last evaluation, and how many runs have learnt, by task and number of environments."""
    columns = list(dict.fromkeys((row["task"], row["n_envs"]) for row in rows))
    out = Table(title="Return at the end, mean over seeds (runs that have learnt / runs)")
    for column in ("variant", "core", *(f"{task}, {count}" for task, count in columns), "learnt"):
        out.add_column(column)
    for variant, core in dict.fromkeys((row["variant"], row["core"]) for row in rows):
        of = [row for row in rows if (row["variant"], row["core"]) == (variant, core)]
        cells = []
        for column in columns:
            here = [row for row in of if (row["task"], row["n_envs"]) == column]
            learnt = sum(row["learnt"] for row in here)
            cells.append(
                f"{mean(row['curve'][-1][1] for row in here):.3g} ({learnt}/{len(here)})" if here else ""
            )
        out.add_row(variant, core, *cells, f"{sum(row['learnt'] for row in of)}/{len(of)}")
    return out


def main(argv: Sequence[str]) -> None:
    """Run what is missing, and print the table."""
    arguments = read_arguments(Arguments, argv, prog="benchmark_defaults.py")
    if unknown := [name for name in arguments.tasks if name not in TASKS]:
        raise ValueError(f"unknown tasks {unknown}; there are {', '.join(TASKS)}")
    done = {tuple(row[name] for name in ORDER) for row in read(arguments.results)}
    wanted = [
        (task, count, core, seed, arguments)
        for task in arguments.tasks
        for seed in arguments.seeds
        for count in arguments.n_envs
        for core in arguments.cores
        if (arguments.variant, task, count, core, seed) not in done
    ]
    measure_missing(
        arguments.results, work, wanted, ORDER, arguments.jobs,
        lambda row: CONSOLE.print(
            f"{row['variant']}, {row['task']}, {row['n_envs']}, {row['core']}, seed {row['seed']}: "
            + " ".join(f"{value:.3g}" for _, value in row["curve"]) + f", {row['cpu_seconds']:.0f} s"
        ),
    )  # fmt: skip
    WIDE.print(table(read(arguments.results)))


if __name__ == "__main__":
    run(main)
