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
from time import process_time
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.table import Table

from agents.supervised import Answerer, Episodes, Fitting, Source, Stage, accuracy, fit
from envs.recall.base import BatchedTask
from envs.recall.tasks import make_task
from scripts.console import CONSOLE, check_output, read_arguments, run
from scripts.rows import Row, measure_missing, read
from scripts.speed.workloads import check_cores, check_positive


class Setting(NamedTuple):
    """A task as a paper has it, cut into segments, and how to come to it."""

    task: str
    segments: int
    segment_length: int
    parameters: dict[str, Any]
    level: int
    """the difficulty to reach"""
    curriculum: list[tuple[int, int, dict[str, Any]]]
    """one after the other: ranges of the difficulty, and the parameters that differ"""
    updates: int
    """at most"""
    learning_rate: float
    settling: int = 300
    """updates at the end, over which the learning rate falls to 0"""
    memory_tokens: int = 8
    beyond: tuple[int, ...] = ()
    """difficulties to test at as well"""
    published: dict[str, str] = {}
    """by core"""


def sequences(task: str, segments: int, parts: int, repeats: dict[str, int], **published: str) -> Setting:
    """24 symbols shown in so many segments, a ``parts``-th of all; learnt from one segment of them on.

    If that one has them all, learnt from few symbols on, with distractors for the others: so that a segment
    of symbols stays one, and the first question comes when the next begins.
    """
    length = 24 * parts // segments
    stages: list[Any] = [(n, n, {}) for n in range(length, 25, length)]
    updates, learning_rate, settling = 3000, 2e-3, 300
    if len(stages) == 1:
        stages = [(n, n, dict(delay=length - n)) for n in (6, 12, 18, 24)]
        updates, learning_rate, settling = 8000, 1e-3, 500
    parameters = dict(symbols=10, delay=0, **repeats)
    return Setting(
        task, segments, length, parameters, 24, stages, updates, learning_rate, settling, published=published
    )


def retrieval(segments: int, **published: str) -> Setting:
    """4 pairs, distractors that fill the segments, and one question.

    In training all keys are asked for, as one answer an episode says little; and the first stages have no
    distractors, so that two pairs and a question fit into one segment.
    """
    parameters = dict(keys=26, values=10, delay=3 * (segments - 2))
    near = dict(queries=4, delay=0)
    stages: list[Any] = [(1, 2, near), (1, 4, near), (4, 4, dict(queries=4))]
    return Setting(
        "AssociativeRetrieval", segments, 3, parameters, 4, stages, 6000, 1e-3, published=published
    )


# Bulatov et al. 2022, table 1; Rodkin et al. 2024, figure 4.
SETTINGS = [
    sequences("Copy", 3, 3, dict(repeats=2), rmt="1.0", xl="1.0"),
    sequences("Copy", 6, 3, dict(repeats=2), rmt="1.0", xl=".90-1.0"),
    sequences("Copy", 9, 3, dict(repeats=2), rmt="1.0", xl=".19-.45"),
    sequences("Reverse", 2, 2, {}, rmt="1.0", xl=".39-.96"),
    sequences("Reverse", 4, 2, {}, rmt="1.0", xl=".83-.88"),
    sequences("Reverse", 6, 2, {}, rmt=".70-1.0", xl=".63-.70"),
    retrieval(2, rmt=".96-1.0", xl="1.0"),
    retrieval(3, rmt="1.0", xl="1.0"),
    retrieval(4, rmt=".99-1.0", xl=".67-.97"),
    retrieval(5, rmt=".92-.99", xl=".97-1.0"),
    # A pair is a segment, as in the paper, and so is a question.
    Setting(
        "Rewrite", 51, 1, dict(keys=16, values=16, delay=0), 50,
        [(low, high, dict(queries=4)) for low, high in ((1, 8), (4, 16), (8, 32), (1, 50))], 1600, 2e-3,
        memory_tokens=1, beyond=(500,), published={"armt": "1.0; 1.0 at 500"},
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Arguments:
    """Train memory cores by cross-entropy on the RMT and ARMT papers' tasks."""

    tasks: tuple[str, ...] = ("Copy", "Reverse", "AssociativeRetrieval", "Rewrite")
    cores: tuple[str, ...] = ()
    """by default, for each setting, those with published figures and ``gru``"""
    seeds: tuple[int, ...] = (0, 1, 2)
    width: int = 64
    layers: int = 2
    updates: int | None = None
    """at most, for each run, in place of the settings' own"""
    batch: int = 32
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
        options |= dict(segment_length=setting.segment_length, memory_tokens=setting.memory_tokens)
    if core == "armt":  # 96 features: more matrix than that costs memory traffic and holds no more pairs here
        options["memory_width"] = arguments.width // 4
    if core.endswith("xl"):
        options["memory_length"] = setting.segment_length
    return options


def play(setting: Setting, seed: int, **changed: Any) -> Source:
    """New episodes of a setting, of any difficulty; another seed gives others.

    :param changed: parameters of the task in place of the setting's
    """
    parameters = setting.parameters | changed
    tasks: dict[int, BatchedTask] = {}

    def source(level: int, count: int) -> Episodes:
        if count not in tasks:
            tasks[count] = make_task(setting.task, count, parameters)
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


def work(number: int, core: str, seed: int, arguments: Arguments) -> Row:
    """One run, to its row."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    setting = SETTINGS[number]
    task = make_task(setting.task, 1, setting.parameters)
    options = core_kwargs(core, setting, arguments)
    model = Answerer(core, task.observation_dim, task.n_actions, **options)
    stages = [
        Stage(play(setting, 2 * seed, **changed), low, high) for low, high, changed in setting.curriculum
    ]
    updates = arguments.updates or setting.updates
    fitting = Fitting(stages, updates, arguments.batch, setting.learning_rate, setting.settling, seed=seed)
    begin = process_time()
    fitted = fit(model, fitting)
    minutes = (process_time() - begin) / 60
    shares = {
        str(level): accuracy(model, play(setting, 2 * seed + 1_000_001), level, arguments.episodes)
        for level in (setting.level, *setting.beyond)
    }
    return dict(
        task=setting.task, segments=setting.segments, core=core, seed=seed, core_kwargs=options,
        updates=fitted.updates, solved=fitted.solved, cpu_minutes=minutes,
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
    check_cores(arguments.cores)
    check_positive(episodes=arguments.episodes, jobs=arguments.jobs, batch=arguments.batch)
    check_output(arguments.results)
    done = {(row["task"], row["segments"], row["core"], row["seed"]) for row in read(arguments.results)}
    wanted = [
        (number, core, seed, arguments)
        for seed in arguments.seeds
        for number, setting in enumerate(SETTINGS)
        for core in arguments.cores or (*setting.published, "gru")
        if setting.task in arguments.tasks and (setting.task, setting.segments, core, seed) not in done
    ]
    measure_missing(
        arguments.results, work, wanted, ("task", "segments", "core", "seed"), arguments.jobs,
        lambda row: CONSOLE.print(
            f"{row['task']}, {row['segments']} segments, {row['core']}, seed {row['seed']}: "
            f"{row['accuracy']} after {row['updates']} updates, {row['cpu_minutes']:.1f} minutes of one core"
        ),
    )  # fmt: skip
    CONSOLE.print(table(read(arguments.results)))


if __name__ == "__main__":
    run(main)
