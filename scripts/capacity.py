"""What each memory core can hold, without reinforcement learning: the RMT and ARMT papers' tasks.

    python scripts/capacity.py
    python scripts/capacity.py --tasks Copy Reverse --cores rmt xl --seeds 0 1 2

A core with a linear head is trained by cross-entropy on episodes of the recall tasks, from short ones to the
paper's length, and tested on new ones. Writes a row per run into results/capacity.json and prints a table
beside the published figures; what has a row is not run again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist, mean, stdev
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.table import Table

from agents.supervised import Answerer, Episodes, Fitting, Source, accuracy, fit
from envs.recall.base import BatchedTask
from envs.recall.tasks import make_task
from scripts.console import CONSOLE, read_arguments, run
from scripts.rows import Row, measure_missing, read


class Setting(NamedTuple):
    """A task as a paper has it, cut into segments."""

    task: str
    segments: int
    segment_length: int
    parameters: dict[str, Any]
    level: int
    """the difficulty to reach"""
    beyond: tuple[int, ...] = ()
    """difficulties to test at as well"""
    published: dict[str, str] = {}
    """by core"""


# Bulatov et al. 2022, table 1; Rodkin et al. 2024, figure 4.
SETTINGS = [
    *(
        Setting("Copy", n, 72 // n, dict(symbols=10, repeats=2, delay=0), 24, (), {"rmt": "1.0", "xl": xl})
        for n, xl in ((3, "1.0"), (6, ".90-1.0"), (9, ".19-.45"))
    ),
    *(
        Setting("Reverse", n, 48 // n, dict(symbols=10, delay=0), 24, (), {"rmt": rmt, "xl": xl})
        for n, rmt, xl in ((2, "1.0", ".39-.96"), (4, "1.0", ".83-.88"), (6, ".70-1.0", ".63-.70"))
    ),
    *(
        Setting(
            "AssociativeRetrieval", n, length, dict(keys=26, values=10, delay=delay), 4, (),
            {"rmt": rmt, "xl": xl},
        )
        for n, length, delay, rmt, xl in (
            (2, 3, 0, ".96-1.0", "1.0"),
            (3, 2, 0, "1.0", "1.0"),
            (4, 2, 2, ".99-1.0", ".67-.97"),
            (5, 2, 4, ".92-.99", ".97-1.0"),
        )
    ),
    Setting("Rewrite", 7, 8, dict(keys=16, values=16, delay=0), 50, (500,), {"armt": "1.0; 1.0 at 500"}),
]  # fmt: skip


@dataclass(frozen=True)
class Arguments:
    """Train memory cores by cross-entropy on the RMT and ARMT papers' tasks."""

    tasks: tuple[str, ...] = ("Copy", "Reverse", "AssociativeRetrieval", "Rewrite")
    cores: tuple[str, ...] = ("rmt", "xl", "armt", "gru")
    seeds: tuple[int, ...] = (0, 1, 2)
    width: int = 64
    layers: int = 2
    memory_tokens: int = 8
    updates: int = 3000
    """at most, for each run"""
    batch: int = 64
    """episodes of an update"""
    episodes: int = 500
    """new episodes of each figure"""
    jobs: int = 2
    """runs at a time, each with one thread"""
    results: Path = Path("results/capacity.json")
    """file of the figures"""


def core_kwargs(core: str, setting: Setting, arguments: Arguments) -> dict[str, Any]:
    """Options of a core; the window of ``xl`` is one segment."""
    if core in ("gru", "lstm"):
        return dict(width=2 * arguments.width)
    options: dict[str, Any] = dict(width=arguments.width, layers=arguments.layers)
    if core.startswith("rmt") or core == "armt":
        options |= dict(segment_length=setting.segment_length, memory_tokens=arguments.memory_tokens)
    if core.endswith("xl"):
        options["memory_length"] = setting.segment_length
    return options


def play(setting: Setting, seed: int) -> Source:
    """New episodes of a setting, of any difficulty; another seed gives others."""
    tasks: dict[int, BatchedTask] = {}

    def source(level: int, count: int) -> Episodes:
        if count not in tasks:
            tasks[count] = make_task(setting.task, count, setting.parameters)
            tasks[count].reset(seed)
        task = tasks[count]
        task.set_levels([level])
        task.restart(np.arange(count))
        observations, answers, due = [], [], []
        while not task.ended.any():
            observations.append(task.observe())
            due.append(task.non_reactive_steps() == 0)
            answers.append(task.optimal_action())
            task.step(answers[-1])
        return Episodes(np.stack(observations, 1), np.stack(answers, 1), np.stack(due, 1))

    return source


def curriculum(level: int) -> list[tuple[int, int]]:
    """Six ranges that add up to 1 ... level, or fewer for a small one, and at last ``level`` alone."""
    ends = sorted({max(1, level * n // 6) for n in range(1, 7)})
    begins = [1, *(end + 1 for end in ends)]
    return [*zip(begins, ends, strict=False), (level, level)]


def work(number: int, core: str, seed: int, arguments: Arguments) -> Row:
    """One run, to its row."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    setting = SETTINGS[number]
    task = make_task(setting.task, 1, setting.parameters)
    options = core_kwargs(core, setting, arguments)
    model = Answerer(core, task.observation_dim, task.n_actions, **options)
    begin = perf_counter()
    fitting = Fitting(curriculum(setting.level), arguments.updates, arguments.batch, seed=seed)
    fitted = fit(model, play(setting, 2 * seed), fitting)
    minutes = (perf_counter() - begin) / 60
    shares = {
        str(level): accuracy(model, play(setting, 2 * seed + 1_000_001), level, arguments.episodes)
        for level in (setting.level, *setting.beyond)
    }
    return dict(
        task=setting.task, segments=setting.segments, core=core, seed=seed, core_kwargs=options,
        updates=fitted.updates, solved=fitted.solved, minutes=minutes,
        accuracy={level: mean(of) for level, of in shares.items()},
        exact={level: mean(share == 1.0 for share in of) for level, of in shares.items()},
    )  # fmt: skip


def interval(values: Sequence[float]) -> str:
    """Mean of seeds and, with several, half of its 95% interval."""
    if len(values) < 2:
        return f"{mean(values):.3f}"
    # Student's t for 3 seeds is 4.30; in general scipy's would be needed for little.
    t = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45, 8: 2.36, 9: 2.31, 10: 2.26}.get(
        len(values), NormalDist().inv_cdf(0.975)
    )
    return f"{mean(values):.3f} ± {t * stdev(values) / len(values) ** 0.5:.3f}"


def table(rows: Sequence[Row]) -> Table:
    """Task by segments, cores side by side."""
    cores = list(dict.fromkeys(row["core"] for row in rows))
    out = Table(title="Share of right answers, mean over seeds ± half of its 95% interval")
    for column in ("task", "segments", "difficulty", *cores, "published"):
        out.add_column(column)
    for setting in SETTINGS:
        for level in (setting.level, *setting.beyond):
            cells = []
            for core in cores:
                of = [
                    row["accuracy"][str(level)]
                    for row in rows
                    if (row["task"], row["segments"], row["core"]) == (setting.task, setting.segments, core)
                ]
                cells.append(interval(of) if of else "")
            published = ", ".join(f"{core} {value}" for core, value in setting.published.items())
            if any(cells):
                out.add_row(setting.task, str(setting.segments), str(level), *cells, published)
    return out


def main(argv: Sequence[str]) -> None:
    """Run what is missing, and print the table."""
    arguments = read_arguments(Arguments, argv, prog="capacity.py")
    known = list(dict.fromkeys(setting.task for setting in SETTINGS))
    if unknown := [task for task in arguments.tasks if task not in known]:
        raise ValueError(f"unknown tasks {unknown}; there are {', '.join(known)}")
    done = {(row["task"], row["segments"], row["core"], row["seed"]) for row in read(arguments.results)}
    wanted = [
        (number, core, seed, arguments)
        for seed in arguments.seeds
        for number, setting in enumerate(SETTINGS)
        for core in arguments.cores
        if setting.task in arguments.tasks and (setting.task, setting.segments, core, seed) not in done
    ]
    measure_missing(
        arguments.results, work, wanted, ("task", "segments", "core", "seed"), arguments.jobs,
        lambda row: CONSOLE.print(
            f"{row['task']}, {row['segments']} segments, {row['core']}, seed {row['seed']}: "
            f"{row['accuracy']} after {row['updates']} updates, {row['minutes']:.1f} minutes"
        ),
    )  # fmt: skip
    CONSOLE.print(table(read(arguments.results)))


if __name__ == "__main__":
    run(main)
