"""Train cores on MiniGrid's memory tasks over several seeds, and measure them on held-out episodes.

    python scripts/benchmark_minigrid.py
    python scripts/benchmark_minigrid.py --tasks s9 --cores rmt gru --seeds 0 1 2

Writes a row per run into results/minigrid_memory.json once it is done. What has a row already is not run
again; a run that was cut short goes on from its last checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from rich.table import Table

from agents.checkpoints import checkpoints_of, find_checkpoint
from agents.evaluation import evaluate
from agents.recipes import get_recipe, recipe_to_json
from agents.training import read_logs, train
from scripts.console import CONSOLE, check_output, read_arguments, run
from scripts.rows import measure_missing, read
from scripts.speed.workloads import check_cores, check_positive

TASKS = {
    "s17random": ("minigrid-memory-s17random", "MiniGrid-MemoryS17Random", "S17Random"),
    "s13": ("minigrid-memory-s13", "MiniGrid-MemoryS13", "S13"),
    "s11": ("minigrid-memory-s11", "MiniGrid-MemoryS11", "S11"),
    "s9": ("minigrid-memory-s9", "MiniGrid-MemoryS9, 3x3 view", "S9"),
}
"""Recipe, name in the results, and level to be measured at."""


@dataclass(frozen=True)
class Arguments:
    """Train cores on MiniGrid's memory tasks over several seeds, and measure them on held-out episodes."""

    tasks: tuple[str, ...] = ("s17random", "s9")
    cores: tuple[str, ...] = ("rmt", "gru", "xl")
    seeds: tuple[int, ...] = (0, 1, 2)
    total_steps: int | None = None
    """steps of training; by default the recipe's"""
    episodes: int = 1000
    """held-out episodes of each figure"""
    jobs: int = 2
    """runs at a time, each with one thread"""
    runs: Path = Path("runs/minigrid")
    """folder for checkpoints"""
    results: Path = Path("results/minigrid_memory.json")
    """file of the figures"""


def work(task: str, core: str, seed: int, arguments: Arguments) -> dict[str, Any]:
    """One run from its beginning, or from its last checkpoint, to its row of figures."""
    torch.set_num_threads(1)
    recipe_name, name, level = TASKS[task]
    recipe = replace(get_recipe(recipe_name), core=core, seed=seed)
    if arguments.total_steps is not None:
        recipe = replace(recipe, total_steps=arguments.total_steps)
    folder = arguments.runs / f"{recipe_name}-{core}-seed{seed}"
    resume = find_checkpoint(folder) if checkpoints_of(folder) else None
    if resume is None or resume.steps < recipe.total_steps:
        trained = train(recipe, folder, resume=resume, device="cpu", checkpoint_every=50_000)
        if not trained.finished:
            raise KeyboardInterrupt
    checkpoint = find_checkpoint(folder)
    result = evaluate(checkpoint.load_model(device="cpu"), recipe, [level], episodes=arguments.episodes)[0]
    logs = read_logs(folder)
    return {
        "task": name,
        "core": core,
        "seed": seed,
        "steps": checkpoint.steps,
        "steps_to_solve": checkpoint.curriculum["solved_at"],
        "stages": checkpoint.curriculum["history"],
        "success": result.success,
        "interval": list(result.interval),
        "episodes": result.episodes,
        "mean_length": result.mean_length,
        "replay_error": max(row.get("train/replay_error", 0.0) for row in logs),
        "minutes": max(row.get("time/time_elapsed", 0.0) for row in logs) / 60,
        "recipe": recipe_to_json(recipe),
    }


def table(rows: list[dict[str, Any]]) -> Table:
    """The rows as a person reads them."""
    out = Table(title="MiniGrid's memory task, held-out episodes", title_justify="left")
    for column in ("task", "core", "seed", "steps", "solved at", "success (95% interval)", "minutes"):
        out.add_column(column, justify="left" if column in ("task", "core") else "right")
    for row in rows:
        low, high = row["interval"]
        solved = "-" if row["steps_to_solve"] is None else f"{row['steps_to_solve']:,}"
        out.add_row(
            row["task"], row["core"], str(row["seed"]), f"{row['steps']:,}", solved,
            f"{row['success']:.3f} ({low:.3f} to {high:.3f})", f"{row['minutes']:.0f}",
        )  # fmt: skip
    return out


def main(argv: Sequence[str]) -> None:
    """Run what is missing, two at a time, and print the table."""
    arguments = read_arguments(Arguments, argv, prog="benchmark_minigrid.py")
    unknown = [task for task in arguments.tasks if task not in TASKS]
    if unknown:
        raise ValueError(f"unknown tasks {unknown}; there are {', '.join(TASKS)}")
    check_cores(arguments.cores)
    check_positive(episodes=arguments.episodes, jobs=arguments.jobs)
    check_output(arguments.results)
    done = {(row["task"], row["core"], row["seed"]) for row in read(arguments.results)}
    wanted = [
        (task, core, seed)
        for core in arguments.cores
        for task in arguments.tasks
        for seed in arguments.seeds
        if (TASKS[task][1], core, seed) not in done
    ]
    measure_missing(
        arguments.results,
        work,
        [(*key, arguments) for key in wanted],
        ("task", "core", "seed"),
        arguments.jobs,
        lambda row: CONSOLE.print(f"{row['task']}, {row['core']}, seed {row['seed']}: {row['success']:.3f}"),
    )
    CONSOLE.print(table(read(arguments.results)))


if __name__ == "__main__":
    run(main)
