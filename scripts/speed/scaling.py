"""``scaling``: what training costs as the work grows, on Memorize: distances, environments, widths."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from rich.table import Table

from rmt_rl.lengths import check_lengths
from scripts.console import WIDE, check_output
from scripts.rows import Row, put
from scripts.speed.plots import plot_scaling
from scripts.speed.subjects import Subject
from scripts.speed.workloads import BASELINES, Workload, check_cores, check_positive, memorize_workload

ORDER = ("setting", "sweep", "name")
SEGMENTS = 7
"""from cue to query, where it is not the distance that grows"""
SWEEPS = {
    "delay": "segments from cue to query",
    "environments": "environments side by side",
    "width": "width of the memory",
}


@dataclass(frozen=True)
class Scaling:
    """Cost of training as the work grows, its exponents, and a picture of both."""

    cores: list[str] = field(default_factory=lambda: ["none", "gru", "xl", "rmt", "rmt_xl", "armt"])
    """memory cores of MemoryPPO; sb3-contrib's RecurrentPPO comes with them"""
    delays: list[int] = field(default_factory=lambda: [1, 2, 8, 32, 128, 512])
    """distances from cue to query, in segments"""
    environments: list[int] = field(default_factory=lambda: [1, 4, 16, 64, 256, 1024])
    """numbers of environments side by side"""
    widths: list[int] = field(default_factory=lambda: [16, 32, 64, 128, 256])
    """widths of the memory"""
    n_envs: int = 64
    """environments, where their number does not grow"""
    n_steps: int = 64
    """steps of each between two updates"""
    n_epochs: int = 1
    """epochs of an update"""
    batch_size: int = 4096
    """in steps; a smaller rollout is one minibatch"""
    sequence_length: int = 64
    """of ours; RecurrentPPO has none"""
    segment_length: int = 16
    """steps of a segment"""
    width: int = 64
    """of the memory, where it does not grow"""
    layers: int = 2
    """of the transformers; recurrent cores have one, as RecurrentPPO does"""
    repeats: int = 3
    """measurements of each, in turns: one rollout and its update"""
    threads: int = 2
    """threads of torch"""
    results: Path = Path("runs/speed/scaling.json")
    """file of the figures; the picture beside it ends in .png"""

    def __str__(self) -> str:
        return (
            f"Memorize: {self.n_envs} environments x {self.n_steps} steps, {SEGMENTS} segments of "
            f"{self.segment_length}, width {self.width}, {self.layers} layers, sequences of "
            f"{self.sequence_length}, epochs: {self.n_epochs}, minibatches of at most {self.batch_size} "
            f"steps, threads: {self.threads}; but for what grows"
        )


def workload(args: Scaling, segments: int = SEGMENTS, **sizes: int) -> Workload:
    """Memorize at a distance, with other sizes than the usual ones where they are given."""
    names = ("n_envs", "n_steps", "n_epochs", "batch_size", "sequence_length", "width", "layers", "threads")
    sizes = {name: getattr(args, name) for name in names} | sizes
    made = memorize_workload(segments, args.segment_length, **sizes)
    return replace(made, batch_size=min(made.batch_size, made.rollout))


def points(args: Scaling) -> Iterator[tuple[str, int, Workload]]:
    """All that is measured: what grows, how large it is, and the workload."""
    for segments in args.delays:
        yield "delay", segments, workload(args, segments)
    for n_envs in args.environments:
        yield "environments", n_envs, workload(args, n_envs=n_envs)
    for width in args.widths:
        yield "width", width, workload(args, width=width)


def fit_exponent(x: Sequence[float], y: Sequence[float]) -> float:
    """The e of y = c x^e, by least squares of the logarithms.

    :raises ValueError: for fewer than two different x, or numbers that are not above 0
    """
    if len(set(x)) < 2 or min(*x, *y) <= 0:
        raise ValueError(f"an exponent needs two or more different sizes and costs above 0, got {x} and {y}")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def measure(args: Scaling, on_round: Callable[[int], None] = lambda done: None) -> list[Row]:
    """Everything in turns: a row for each algorithm and thing that grows.

    :param on_round: called before each of the repeats
    """
    torch.set_num_threads(args.threads)
    names = [BASELINES[1], *args.cores]
    subjects = {
        (sweep, name, size): Subject(name, made) for sweep, size, made in points(args) for name in names
    }
    for subject in subjects.values():
        subject.warm_up()
    seconds: dict[Any, list[dict[str, float]]] = {key: [] for key in subjects}
    for done in range(args.repeats):
        on_round(done)
        for key, subject in subjects.items():
            seconds[key].append(subject.measure(1))
    rows = []
    for sweep in dict.fromkeys(sweep for sweep, _, _ in subjects):
        for name in names:
            keys = [key for key in subjects if key[:2] == (sweep, name)]
            steps = [subjects[key].workload.rollout for key in keys]
            spent = [[sum(one.values()) for one in seconds[key]] for key in keys]
            learning = [[one["learning"] for one in seconds[key]] for key in keys]
            x = [size for _, _, size in keys]
            row: Row = dict(
                setting=str(args), sweep=sweep, name=name, sizes=x,
                steps_per_second=[n / median(of) for n, of in zip(steps, spent, strict=True)],
                learning_microseconds=[1e6 * median(of) / n for n, of in zip(steps, learning, strict=True)],
                repeats=args.repeats,
            )  # fmt: skip
            row["exponent"] = fit_exponent(x, row["steps_per_second"])
            row["learning_exponent"] = fit_exponent(x, row["learning_microseconds"])
            rows.append(row)
    return rows


def table(rows: Sequence[Row], key: str, exponent: str, title: str) -> Table:
    """Algorithms by sizes, and the exponent."""
    out = Table(title=title, title_justify="left")
    out.add_column("")
    for size in rows[0]["sizes"]:
        out.add_column(f"{size:,}", justify="right")
    out.add_column("exponent", justify="right")
    for row in rows:
        values = row[key]
        digits = 0 if min(values) >= 100 else 1
        out.add_row(row["name"], *(f"{value:,.{digits}f}" for value in values), f"{row[exponent]:+.2f}")
    return out


def check(args: Scaling) -> None:
    """Raise ValueError for an option out of range, or lengths that do not fit."""
    check_cores(args.cores)
    for name in ("delays", "environments", "widths"):
        sizes = getattr(args, name)
        if len(set(sizes)) < 2 and sizes:
            raise ValueError(f"{name} must be two or more different numbers, or none, got {sizes}")
        check_positive(**{f"{name}[{place}]": size for place, size in enumerate(sizes)})
    if not (args.delays or args.environments or args.widths):
        raise ValueError("nothing grows: delays, environments and widths are all empty")
    names = ("n_envs", "n_steps", "n_epochs", "batch_size", "segment_length", "width", "layers")
    check_positive(repeats=args.repeats, threads=args.threads)
    check_positive(**{name: getattr(args, name) for name in names})
    for _, _, made in points(args):
        check_lengths(made.n_steps, made.sequence_length, made.batch_size)


def scaling(args: Scaling) -> None:
    """Measure, print, draw."""
    check(args)
    check_output(args.results)
    WIDE.print(str(args))
    rows = measure(args, lambda done: WIDE.print(f"repeat {done + 1} of {args.repeats}"))
    put(args.results, rows, ORDER)
    for sweep, meaning in SWEEPS.items():
        if of := [row for row in rows if row["sweep"] == sweep]:
            WIDE.print(table(of, "steps_per_second", "exponent", f"steps/s of training, by {meaning}"))
    if of := [row for row in rows if row["sweep"] == "delay"]:
        title = "microseconds of learning per step, by segments of an episode"
        WIDE.print(table(of, "learning_microseconds", "learning_exponent", title))
    picture = args.results.with_suffix(".png")
    plot_scaling(rows, picture)
    WIDE.print(f"rows: {args.results}, picture: {picture}")
