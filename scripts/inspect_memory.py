"""Does this agent use its memory? Plots an episode, and takes the memory away.

    python scripts/inspect_memory.py results/minigrid-memory-s17random-rmt-seed0
    python scripts/inspect_memory.py runs/memorize-rmt-seed0 --level 110 --out memory.png

The picture shows, step by step, how much of each layer's attention goes to the memory, to the cache of
earlier segments and to the step's own segment, and norms and changes of what is remembered. The table has
success as the agent is; with the memory frozen, so that segments hand nothing on; with actions from another
episode's state; and with no past at all. "Use" is the share of the success that is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.table import Table

from agents.checkpoints import find_checkpoint
from agents.environments import EVALUATION_SEED
from agents.inspection import memory_use, record_episode
from agents.levels import Level, format_level
from agents.plots import plot_memory
from scripts.console import CONSOLE, percent, read_arguments, run


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


def main(argv: Sequence[str]) -> None:
    """Plot, measure and print."""
    arguments = read_arguments(Arguments, argv, prog="inspect_memory.py")
    torch.set_num_threads(arguments.threads)
    checkpoint = find_checkpoint(arguments.checkpoint)
    recipe, model = checkpoint.recipe, checkpoint.load_model(device="cpu")
    level = recipe.levels[-1] if arguments.level is None else arguments.level
    recording, success = record_episode(model, recipe, level, arguments.seed)
    out = arguments.out or checkpoint.run / "memory.png"
    title = f"{recipe.env_id}, level {format_level(level)}: {'success' if success else 'failure'}"
    plot_memory(recording, title, out)
    use = memory_use(model, recipe, level, episodes=arguments.episodes, seed=arguments.seed)
    table = Table(title=f"{recipe.core} on {recipe.env_id}, level {format_level(level)}")
    for column in ("memory", "success (95% interval)"):
        table.add_column(column)
    for name, result in (
        ("as it is", use.whole),
        ("frozen: stays as at the beginning", use.frozen),
        ("swapped: another episode's past", use.swapped),
        ("nothing but the present observation", use.alone),
    ):
        table.add_row(name, percent(result))
    CONSOLE.print(table)
    CONSOLE.print(
        f"use of what is handed on from segment to segment: {use.use:.2f}, of the past at all: "
        f"{use.use_of_past:.2f} (0: none, 1: all success hangs on it). Picture: {out}"
    )


if __name__ == "__main__":
    run(main)
