"""``training``: steps per second, where the time goes, and what it takes, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import torch
from rich.table import Table

from rmt_rl.lengths import check_lengths
from scripts.console import WIDE, check_output
from scripts.rows import Row, put
from scripts.speed.measures import PARTS, product_rate
from scripts.speed.subjects import at_once, side_by_side
from scripts.speed.workloads import (
    BASELINES,
    WORKLOADS,
    Workload,
    check_cores,
    check_positive,
    environments_alone,
)

ALONE = "environments alone"
ORDER = ("workload", "setting", "name")
WIDE_REPEATS = 3
"""at most, of what is measured once more at another width"""


@dataclass(frozen=True)
class Training:
    """Steps per second of training, where the time goes, and what it takes."""

    workloads: list[str] = field(default_factory=lambda: list(WORKLOADS))
    """minigrid: MemoryS9, 3x3 view; memorize: 256 batched environments, 7 segments; popgym:
    RepeatPreviousMedium. Sizes that are not given are those that the workload has by default"""
    cores: list[str] = field(default_factory=lambda: ["none", "gru", "lstm", "xl", "rmt", "rmt_xl", "armt"])
    """memory cores of MemoryPPO; SB3's PPO and sb3-contrib's RecurrentPPO come with them"""
    n_envs: int | None = None
    """environments side by side"""
    n_steps: int | None = None
    """steps of each between two updates"""
    n_epochs: int | None = None
    """epochs of an update"""
    batch_size: int | None = None
    """in steps, for every algorithm"""
    sequence_length: int | None = None
    """of ours; RecurrentPPO has none"""
    segment_length: int | None = None
    """steps of a segment, for cores that have segments"""
    width: int | None = None
    """of the memory, and of the layers of SB3's PPO"""
    wide: int = 256
    """width at which minigrid is measured once more; 0: it is not"""
    layers: int | None = None
    """of the transformers; recurrent cores have one, as RecurrentPPO does"""
    feedforward: int | None = None
    """hidden width of the transformers' feed-forward sub-layers; by default 4 * width"""
    shared_lstm: bool = False
    """give RecurrentPPO one LSTM for actor and critic, as ours have one memory"""
    rollouts: int = 1
    """per repeat"""
    repeats: int = 5
    """measurements of each, in turns"""
    threads: int = 2
    """threads of torch"""
    results: Path = Path("runs/speed/training.json")
    """file of the figures; what was measured with the same settings before is replaced"""


class Rounds(NamedTuple):
    """Measurements of one workload; every list has one entry per repeat."""

    alone: list[float]
    """steps per second of the environments"""
    product: list[float]
    """floating-point operations per second of a plain product"""
    seconds: dict[str, list[dict[str, float]]]
    """of each algorithm, by ``PARTS``"""
    steps: int
    """that an algorithm makes in a repeat"""


def wanted(args: Training) -> list[tuple[Workload, int]]:
    """The workloads asked for, with the options given, and the repeats of each.

    :raises ValueError: for a name that there is not, a number out of range, or lengths that do not fit
    """
    if unknown := [name for name in args.workloads if name not in WORKLOADS]:
        raise ValueError(f"unknown workloads {unknown}; there are {', '.join(WORKLOADS)}")
    check_cores(args.cores)
    names = {one.name for one in fields(Workload)} & {one.name for one in fields(Training)}
    given = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    check_positive(rollouts=args.rollouts, repeats=args.repeats)
    check_positive(**{name: value for name, value in given.items() if name != "shared_lstm"})
    if args.wide < 0:
        raise ValueError(f"wide must be a width, or 0 for none, got {args.wide}")
    found = []
    for name in args.workloads:
        workload = replace(WORKLOADS[name], **given)
        check_lengths(workload.n_steps, workload.sequence_length, workload.batch_size)
        found.append((workload, args.repeats))
        if name == "minigrid" and args.wide not in (0, workload.width):
            found.append((replace(workload, width=args.wide), min(args.repeats, WIDE_REPEATS)))
    return found


def measure(workload: Workload, cores: Sequence[str], repeats: int, rollouts: int) -> list[Row]:
    """All algorithms on one workload in turns, each in a process of its own: a row for each.

    :raises ImportError: if the workload's environments are not installed
    """
    torch.set_num_threads(workload.threads)
    env = workload.make(workload.n_envs)
    if workload.settle is not None:
        workload.settle(env)
    hidden = workload.feedforward or 4 * workload.width
    with side_by_side([*BASELINES, *cores], workload) as subjects:
        held = at_once(subjects, "warm_up")
        rounds = Rounds([], [], {name: [] for name in subjects}, workload.rollout * rollouts)
        for _ in range(repeats):
            rounds.alone.append(environments_alone(env, workload.n_steps * rollouts))
            rounds.product.append(product_rate(workload.batch_size, workload.width, hidden))
            for name, subject in subjects.items():
                rounds.seconds[name].append(subject.call("measure", rollouts).result())
        peaks = at_once(subjects, "peak_memory")
        flops = at_once(subjects, "update_flops")
    env.close()
    shared: Row = dict(workload=workload.task, setting=str(workload), width=workload.width)
    rows = [shared | row for row in speeds(rounds)]
    for row in rows[1:]:
        name = row["name"]
        learning = [seconds["learning"] for seconds in rounds.seconds[name]]
        rates = [flops[name] * rollouts / spent for spent in learning]
        row |= dict(
            memory_bytes=held[name],
            peak_bytes=peaks[name],
            peak_over_ppo=peaks[name] - peaks["PPO"],
            update_flops=flops[name],
            learning_flops_per_second=median(rates),
            product_flops_per_second=median(rounds.product),
            share_of_product=median(r / p for r, p in zip(rates, rounds.product, strict=True)),
        )
    return rows


def speeds(rounds: Rounds) -> list[Row]:
    """Steps per second, ratios within a repeat and parts of the time, the environments alone first."""
    rates = {ALONE: rounds.alone}
    for name, seconds in rounds.seconds.items():
        rates[name] = [rounds.steps / sum(one.values()) for one in seconds]

    def over(values: list[float], others: list[float]) -> float:
        return median(a / b for a, b in zip(values, others, strict=True))

    rows = []
    for name, values in rates.items():
        row: Row = dict(
            name=name,
            steps_per_second=median(values),
            slowest=min(values),
            fastest=max(values),
            over_recurrent_ppo=over(values, rates["RecurrentPPO"]),
            over_ppo=over(values, rates["PPO"]),
            over_environments=over(values, rounds.alone),
            repeats=len(values),
        )
        if name != ALONE:
            # The sums of all repeats, so that the parts add up to the whole.
            sums = {part: sum(one[part] for one in rounds.seconds[name]) for part in PARTS}
            total = rounds.steps * len(values)
            row["microseconds"] = {part: 1e6 * spent / total for part, spent in sums.items()}
        rows.append(row)
    return rows


def speed_table(rows: Sequence[Row]) -> Table:
    """How fast, and where the time goes."""
    table = Table(title=f"{rows[0]['setting']}\nmedians of {rows[0]['repeats']}", title_justify="left")
    columns = ("", "steps/s", "min", "max", "x Rec.PPO", "x PPO", "of envs", "env", "act", "book", "learn")
    for column in columns:
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    for row in rows:
        spent: dict[str, float] = row.get("microseconds", {})
        whole = sum(spent.values())
        table.add_row(
            row["name"], *(f"{row[key]:,.0f}" for key in ("steps_per_second", "slowest", "fastest")),
            f"{row['over_recurrent_ppo']:.2f}", f"{row['over_ppo']:.2f}", f"{row['over_environments']:.1%}",
            *(f"{microseconds / whole:.0%}" for microseconds in spent.values()),
        )  # fmt: skip
    table.caption = "share of the time in the environments' steps, the policy's, bookkeeping, learning"
    return table


def cost_table(rows: Sequence[Row]) -> Table:
    """What training holds and multiplies."""
    columns = (
        "",
        "memories in the buffer",
        "peak",
        "over PPO's",
        "GFLOP/update",
        "GFLOP/s",
        "of a product's",
    )
    table = Table(title=f"The same, width {rows[0]['width']}: what it takes", title_justify="left")
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    mebi = 1 << 20
    for row in rows[1:]:
        table.add_row(
            row["name"], f"{row['memory_bytes']:,}",
            f"{row['peak_bytes'] / mebi:,.0f} MiB", f"{row['peak_over_ppo'] / mebi:+,.0f} MiB",
            f"{row['update_flops'] / 1e9:,.2f}", f"{row['learning_flops_per_second'] / 1e9:,.1f}",
            f"{row['share_of_product']:.0%}",
        )  # fmt: skip
    product = rows[1]["product_flops_per_second"] / 1e9
    table.caption = f"GFLOP/s: of the updates' matrix products while learning; a plain one has {product:,.1f}"
    return table


def training(args: Training) -> None:
    """Measure the workloads one after the other; print and keep the figures of each at once."""
    workloads = wanted(args)
    check_output(args.results)
    for workload, repeats in workloads:
        WIDE.print(f"{workload.task}, width {workload.width}: {2 + len(args.cores)} processes begin")
        try:
            rows = measure(workload, args.cores, repeats, args.rollouts)
        except ImportError as error:
            WIDE.print(f"left out: {workload.task} ({error})")
            continue
        put(args.results, rows, ORDER)
        for table in (speed_table(rows), cost_table(rows)):
            WIDE.print(table)
    WIDE.print(f"rows: {args.results}")
