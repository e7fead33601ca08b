"""Train an agent with a memory and one without side by side, and see how far each remembers.

    make demo
    python scripts/demo.py --out demo --seed 1

Both learn to recall one of four cues, over at most 7 segments of 16 steps. Then they are asked for it over up
to 512 segments.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty
from typing import Any

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from agents.callbacks import Reports
from agents.checkpoints import find_checkpoint
from agents.episodes import film, play_frames, save_gif
from agents.evaluation import Result, evaluate, wilson_interval
from agents.inspection import find_chance
from agents.levels import format_level
from agents.plots import plot_curves
from agents.recipes import Recipe, get_recipe, longest
from agents.training import read_logs, train
from scripts.console import CONSOLE, check_folder, percent, read_arguments, run

SEGMENTS = (1, 7, 64, 512)
CORES = ("rmt", "none")
HEADLINE_TASK = "MiniGrid-MemoryS17Random"
HEADLINE_FILE = Path(__file__).resolve().parent.parent / "results" / "minigrid_memory.json"


@dataclass(frozen=True)
class Arguments:
    """Train rmt and the control without memory side by side, and see how far each remembers."""

    out: Path = Path("demo")
    """folder for checkpoints, picture and film; a former demo in it is replaced"""
    recipe: str = "memorize"
    """recipe of a recall task; its levels must be delays"""
    total_steps: int | None = None
    """steps of training for each; by default the recipe's"""
    episodes: int = 256
    """episodes for each figure"""
    seed: int = 0
    """of both trainings"""


@dataclass(frozen=True)
class Report:
    """What one agent's process has to say."""

    core: str
    steps: int
    words: str


def work(recipe: Recipe, run: Path, episodes: int, reports: Any) -> list[Result]:
    """Train one agent and measure it; runs in a process of its own."""
    torch.set_num_threads(1)

    def tell(steps: int, words: str) -> None:
        reports.put(Report(recipe.core, steps, words))

    trained = train(recipe, run, device="cpu", checkpoint_every=recipe.total_steps, callbacks=[Reports(tell)])
    if not trained.finished:
        raise KeyboardInterrupt
    tell(recipe.total_steps, "measured: ")
    delays = [longest(count, recipe.segment_length) for count in SEGMENTS]
    return evaluate(
        trained.model,
        recipe,
        delays,
        episodes=episodes,
        on_level=lambda result: tell(recipe.total_steps, f"measured over {result.mean_length:,.0f} steps"),
    )


def train_side_by_side(recipes: Sequence[Recipe], out: Path, episodes: int) -> list[list[Result]]:
    """One process and one thread for each recipe, and a bar for each."""
    context = multiprocessing.get_context("spawn")
    columns = (
        TextColumn("{task.fields[core]:5}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with (
        context.Manager() as manager,
        ProcessPoolExecutor(len(recipes), mp_context=context) as pool,
        Progress(*columns, console=CONSOLE) as progress,
    ):
        reports = manager.Queue()
        bars = {
            recipe.core: progress.add_task("starts", total=recipe.total_steps, core=recipe.core)
            for recipe in recipes
        }
        futures: list[Future[list[Result]]] = [
            pool.submit(work, recipe, out / recipe.core, episodes, reports) for recipe in recipes
        ]
        while wait(futures, timeout=0).not_done or not reports.empty():
            try:
                report = reports.get(timeout=0.2)
            except Empty:
                continue
            progress.update(bars[report.core], completed=report.steps, description=report.words)
        return [future.result() for future in futures]


def results_table(results: dict[str, list[Result]], chance: float) -> Table:
    """Success of each agent at each distance."""
    table = Table(title="success (95% interval), by segments from cue to query", title_justify="left")
    table.add_column("core")
    for count, result in zip(SEGMENTS, results[CORES[0]], strict=True):
        plural = "" if count == 1 else "s"
        table.add_column(f"{count} segment{plural}\n{result.mean_length:,.0f} steps", justify="right")
    for core, row in results.items():
        table.add_row(core, *map(percent, row))
    table.add_row("chance", *[f"{100 * chance:.0f}%"] * len(SEGMENTS), style="dim")
    return table


def verdicts(results: dict[str, list[Result]], chance: float, replay_error: float) -> list[tuple[bool, str]]:
    """What the demonstration claims, and whether it came out."""
    memory, control = results[CORES[0]], results[CORES[1]]
    # With four intervals of 95%, one in six demonstrations would miss chance by chance.
    intervals = (wilson_interval(result.successes, result.episodes, 0.999) for result in control)
    guesses = all(low <= chance <= high for low, high in intervals)
    return [
        (min(r.success for r in memory) >= 0.99, "rmt remembers: at least 99% at every distance"),
        (guesses, f"none guesses: chance, {chance:g}, lies in every 99.9% interval"),
        (replay_error <= 1e-4, f"training replays what acting did: largest replay error {replay_error:.1e}"),
    ]


def headline(file: Path = HEADLINE_FILE) -> Table | str:
    """Recorded results on MiniGrid's memory task, or a line that says where they would be."""
    if not file.exists():
        return f"{HEADLINE_TASK}: no results in {file.parent.name}/{file.name} yet"
    rows = [row for row in json.loads(file.read_text()) if row["task"] == HEADLINE_TASK]
    table = Table(title=f"{HEADLINE_TASK}, held-out seeds (recorded results)", title_justify="left")
    for name in ("core", "seed", "steps to solve", "success (95% interval)", "episodes"):
        table.add_column(name, justify="left" if name == "core" else "right")
    for row in rows:
        solved = "-" if row["steps_to_solve"] is None else f"{row['steps_to_solve']:,}"
        low, high = row["interval"]
        success = f"{100 * row['success']:.1f}% ({100 * low:.1f} to {100 * high:.1f})"
        table.add_row(row["core"], str(row["seed"]), solved, success, f"{row['episodes']:,}")
    return table


def main(argv: Sequence[str]) -> None:
    """Train, measure, draw, film, print."""
    arguments = read_arguments(Arguments, argv, prog="demo.py")
    began = time.monotonic()
    base = replace(get_recipe(arguments.recipe), seed=arguments.seed)
    if arguments.total_steps is not None:
        base = replace(base, total_steps=arguments.total_steps)
    recipes = [replace(base, core=core) for core in CORES]
    if arguments.episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {arguments.episodes}")
    chance = find_chance(base, base.levels[-1])
    if chance is None or any(isinstance(level, str) for level in base.levels):
        raise ValueError(f"the recipe {arguments.recipe!r} has no delays as levels: take memorize or detect")
    check_folder(arguments.out)
    for core in CORES:
        shutil.rmtree(arguments.out / core, ignore_errors=True)
    hardest = format_level(base.levels[-1])
    CONSOLE.print(
        f"Training [bold]rmt[/] and, for comparison, [bold]none[/] on {base.env_id}: {base.total_steps:,} "
        f"steps each, delays up to {hardest}. This takes some minutes.\n"
    )
    results = dict(zip(CORES, train_side_by_side(recipes, arguments.out, arguments.episodes), strict=True))
    logs = {core: read_logs(arguments.out / core) for core in CORES}
    curves, movie = arguments.out / "learning_curve.png", arguments.out / "episodes.gif"
    plot_curves(logs, base.levels, chance, curves)
    checkpoint = find_checkpoint(arguments.out / CORES[0])
    model = checkpoint.load_model(device="cpu")
    frames = play_frames(base, model, longest(3, base.segment_length), episodes=3, fps=12.0)
    save_gif(film(frames, most=80), movie)

    CONSOLE.print()
    CONSOLE.print(results_table(results, chance))
    replay_error = max(row.get("train/replay_error", 0.0) for row in logs[CORES[0]])
    for good, words in verdicts(results, chance, replay_error):
        CONSOLE.print(f"[green]yes[/] {words}" if good else f"[red]NO[/]  {words}")
    CONSOLE.print(f"\ncheckpoint      {checkpoint.path}\nlearning curve  {curves}\nfilm            {movie}\n")
    CONSOLE.print(headline())
    CONSOLE.print(f"\n{time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    run(main)
