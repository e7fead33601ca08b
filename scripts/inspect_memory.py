"""Does this agent use its memory? Plots an episode, and takes the memory away.

    python scripts/inspect_memory.py results/minigrid-memory-s17random-rmt-seed0
    python scripts/inspect_memory.py runs/memorize-rmt-seed0 --level 110 --out memory.png

The picture shows, step by step, how much of each layer's attention goes to the memory, to the cache of
earlier segments and to the step's own segment, and norms and changes of what is remembered. The table has
success (or returns, where the environment tells of no success) as the agent is; with the memory frozen, so
that segments hand nothing on; with actions from another episode's state; and with no past at all. "Use" is
the share of what is above chance that is lost: 1 if nothing but chance is left. Chance is what the
environment or the list of tasks says of itself; where neither does, random actions are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.table import Table

from agents.checkpoints import find_checkpoint
from agents.environments import EVALUATION_SEED
from agents.evaluation import Result, default_levels
from agents.inspection import Use, find_chance, memory_use, record_episode
from agents.levels import Level, format_level
from agents.plots import plot_memory
from agents.recipes import Recipe
from envs.catalogue import tasks
from scripts.console import (
    CONSOLE,
    check_output,
    mean_return,
    percent,
    read_arguments,
    run,
    say,
    set_threads,
)


@dataclass(frozen=True)
class Arguments:
    """Look into an agent's memory."""

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """folder of a checkpoint or run"""
    level: Level | None = None
    """difficulty, such as 110 or S9; by default the hardest of training"""
    episodes: int = 256
    """of each figure"""
    out: Path | None = None
    """picture to write; by default memory.png in the run's folder"""
    seed: int = EVALUATION_SEED
    """of the environments"""
    threads: int = 1
    """threads of torch"""


def chance_of(recipe: Recipe, level: Level | None, is_success: bool) -> tuple[float | None, str]:
    """What is reached without a memory, as success or as return, and who says so; None if nobody does."""
    if is_success and (told := find_chance(recipe, level)) is not None:
        return told, "chance, as the environment tells"
    name = recipe.env_id.rpartition(":")[2]
    for task in tasks():
        is_it = task.env_id.rpartition(":")[2] == name
        if is_it and task.chance is not None and (task.score == "success") == is_success:
            what = "chance" if is_success else "random actions"
            return task.chance, f"{what}, by the list of tasks"
    return None, "random actions, as measured"


def outcome(result: Result) -> str:
    """What came of a single episode."""
    if result.has_success:
        return "success" if result.successes else "failure"
    return f"return {result.mean_return:.2f}"


def use_table(title: str, use: Use, who: str) -> Table:
    """Scores with and without the memory, and what to hold them against."""
    has_success = use.whole.has_success
    table = Table(title=title, title_justify="left")
    table.add_column("memory")
    table.add_column(
        "success (95% interval)" if has_success else "mean return (95% interval)", justify="right"
    )
    for name, result in (
        ("as it is", use.whole),
        ("frozen: stays as at the beginning", use.frozen),
        ("swapped: another episode's past", use.swapped),
        ("nothing but the present observation", use.alone),
    ):
        told = percent(result) if result.has_success else "0 told" if has_success else mean_return(result)
        table.add_row(name, told)
    table.add_row(who, f"{100 * use.baseline:.1f}%" if has_success else f"{use.baseline:.2f}", style="dim")
    return table


def verdict(use: Use) -> str:
    """How much hangs on the memory, in a sentence."""
    handed_on = "use of what is handed on from segment to segment"
    if not use.is_above_chance:
        return (
            f"{handed_on}: cannot be told, as this agent is not above chance for sure: train it longer, or "
            "measure more --episodes"
        )
    what = "success" if use.whole.has_success else "return"
    return (
        f"{handed_on}: {use.use:.2f} of the {what} above chance, of the past at all: {use.use_of_past:.2f} "
        "(0: none, 1: all of it hangs on the memory)"
    )


def main(argv: Sequence[str]) -> None:
    """Plot, measure and print."""
    arguments = read_arguments(Arguments, argv, prog="inspect_memory.py")
    set_threads(arguments.threads)
    if arguments.episodes < 2:
        raise ValueError(f"episodes must be at least 2, got {arguments.episodes}")
    checkpoint = find_checkpoint(arguments.checkpoint)
    recipe, model = checkpoint.recipe, checkpoint.load_model(device="cpu")
    level = default_levels(recipe)[0] if arguments.level is None else arguments.level
    out = arguments.out or checkpoint.run / "memory.png"
    check_output(out)
    recording, result = record_episode(model, recipe, level, arguments.seed)
    where = recipe.env_id if level is None else f"{recipe.env_id}, level {format_level(level)}"
    plot_memory(recording, f"{where}: {outcome(result)}", out)
    chance, who = chance_of(recipe, level, result.has_success)
    use = memory_use(model, recipe, level, episodes=arguments.episodes, seed=arguments.seed, chance=chance)
    CONSOLE.print(use_table(f"{recipe.core} on {where}", use, who))
    say(f"{verdict(use)}. Picture: {out}")


if __name__ == "__main__":
    run(main)
