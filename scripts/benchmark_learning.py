"""How many updates a memory core needs to learn to use its memory, without reinforcement learning.

    python scripts/benchmark_learning.py
    python scripts/benchmark_learning.py --only repeat-4 pairs-4 --cores rmt gru --seeds 0 1
    python scripts/benchmark_learning.py --cores rmt --variant tokens-8 --core-kwargs memory_tokens 8

Cores with equally many parameters are trained by cross-entropy on the tasks of ``agents/micro_tasks.py``, 32
episodes an update, Adam at 1e-3, until .97 of the answers that lie in an earlier segment are right. Writes a
row per run into results/learning.json and prints a table; what has a row is not run again. A change to a core
is tried here first, under a name of its own (``--variant``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from time import process_time
from typing import Any

import torch
from rich.table import Table

from agents.micro_tasks import MICRO_TASKS, SYMBOLS
from agents.recipes import Value
from agents.supervised import Answerer, learn_micro_task
from scripts.console import CONSOLE, WIDE, read_arguments, run
from scripts.rows import Row, measure_missing, read

SIZES: dict[str, dict[str, Any]] = {
    "gru": dict(width=176),
    "lstm": dict(width=152),
    "xl": dict(width=64, feedforward=224, memory_length=64),
    "rmt": dict(width=64),
    "rmt_xl": dict(width=64, feedforward=224, memory_length=16),
    "rmt_encoder": dict(width=64),
    "armt": dict(width=64, feedforward=192),
}
"""Options at which all have 97,000 to 103,000 parameters."""

ORDER = ("variant", "task", "core", "seed")


@dataclass(frozen=True)
class Arguments:
    """Train memory cores by cross-entropy until they use their memory, and count the updates."""

    only: tuple[str, ...] = tuple(MICRO_TASKS)
    """tasks"""
    cores: tuple[str, ...] = ("gru", "lstm", "xl", "rmt", "rmt_xl", "armt")
    """``rmt_encoder``, not among them, takes ten times as long"""
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    variant: str = "default"
    """name of the rows, for a trial of something else"""
    core_kwargs: dict[str, Value] = field(default_factory=dict)
    """options of the cores, over the bench's own"""
    learning_rate: float = 1e-3
    updates: int | None = None
    """at most, in place of the tasks' own numbers"""
    jobs: int = 1
    """runs at a time, each with one thread"""
    results: Path = Path("results/learning.json")
    """file of the figures"""


def options_of(core: str, name: str, changed: dict[str, Any]) -> dict[str, Any]:
    """Options of a core for a task."""
    options = dict(SIZES[core])
    if core.startswith("rmt") or core == "armt":
        task = MICRO_TASKS[name]
        options |= dict(segment_length=task.segment_length, memory_tokens=task.memory_tokens)
    return options | changed


def work(name: str, core: str, seed: int, arguments: Arguments) -> Row:
    """One run, to its row."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    task, options = MICRO_TASKS[name], options_of(core, name, arguments.core_kwargs)
    model = Answerer(core, task.input_dim, SYMBOLS, **options)
    begin = process_time()
    learnt = learn_micro_task(
        model, task, seed, updates=arguments.updates, learning_rate=arguments.learning_rate
    )
    return dict(
        variant=arguments.variant, task=name, core=core, seed=seed, core_kwargs=options,
        parameters=sum(parameter.numel() for parameter in model.core.parameters()),
        learning_rate=arguments.learning_rate, updates=learnt.updates, solved=learnt.solved,
        right=learnt.right, cpu_seconds=process_time() - begin,
    )  # fmt: skip


def summary(rows: Sequence[Row]) -> str:
    """Mean updates of runs, and how many were not solved, which count with all their updates."""
    if not rows:
        return ""
    failed = sum(not row["solved"] for row in rows)
    return f"{mean(row['updates'] for row in rows):,.0f}" + (f" ({failed} not)" if failed else "")


def table(rows: Sequence[Row]) -> Table:
    """Variants and cores by task."""
    out = Table(title="Updates until solved, mean over seeds (how many were not)")
    for column in ("variant", "core", "parameters", *MICRO_TASKS):
        out.add_column(column)
    for variant, core in dict.fromkeys((row["variant"], row["core"]) for row in rows):
        of = [row for row in rows if (row["variant"], row["core"]) == (variant, core)]
        cells = [summary([row for row in of if row["task"] == name]) for name in MICRO_TASKS]
        low, high = min(row["parameters"] for row in of), max(row["parameters"] for row in of)
        out.add_row(variant, core, f"{low:,}" if low == high else f"{low:,}-{high:,}", *cells)
    return out


def main(argv: Sequence[str]) -> None:
    """Run what is missing, and print the table."""
    arguments = read_arguments(Arguments, argv, prog="benchmark_learning.py")
    for kind, names, known in (("tasks", arguments.only, MICRO_TASKS), ("cores", arguments.cores, SIZES)):
        if unknown := [name for name in names if name not in known]:
            raise ValueError(f"unknown {kind} {unknown}; there are {', '.join(known)}")
    done = {tuple(row[name] for name in ORDER) for row in read(arguments.results)}
    wanted = [
        (name, core, seed, arguments)
        for seed in arguments.seeds
        for core in arguments.cores
        for name in arguments.only
        if (arguments.variant, name, core, seed) not in done
        and not (core == "xl" and MICRO_TASKS[name].beyond_window)
    ]
    measure_missing(
        arguments.results, work, wanted, ORDER, arguments.jobs,
        lambda row: CONSOLE.print(
            f"{row['variant']}, {row['task']}, {row['core']}, seed {row['seed']}: "
            f"{'solved' if row['solved'] else 'not solved'} after {row['updates']:,} updates, "
            f"{row['cpu_seconds']:.0f} s"
        ),
    )  # fmt: skip
    WIDE.print(table(read(arguments.results)))


if __name__ == "__main__":
    run(main)
