"""Measure how often a trained agent succeeds, on episodes that it was not trained on.

python scripts/evaluate.py runs/memorize-rmt-seed0
python scripts/evaluate.py runs/memorize-rmt-seed0 --levels 110 1022 8190 --episodes 512
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.live import Live

from agents.checkpoints import find_checkpoint
from agents.environments import EVALUATION_SEED
from agents.evaluation import default_levels, evaluate
from agents.levels import Level
from scripts.console import CONSOLE, add_result, read_arguments, results_table, run


@dataclass(frozen=True)
class Arguments:
    """Measure an agent's success over held-out episodes, with 95% intervals."""

    checkpoint: tyro.conf.Positional[Path]
    """folder of a checkpoint, or of a run for its newest one"""
    levels: Annotated[tuple[Level, ...], tyro.conf.arg(aliases=["--delays"])] = ()
    """such as 110, 1-14 or S9; by default the last one of training and the recipe's longer ones"""
    episodes: int = 256
    """episodes at each level"""
    seed: int = EVALUATION_SEED
    """of the first environment; no training plays the default's episodes"""
    stochastic: bool = False
    """draw actions from the policy in place of the likeliest"""
    json: Path | None = None
    """file to write the figures to as well"""
    device: str = "cpu"
    """cpu, cuda or auto"""
    threads: int = 1
    """threads of torch"""


def main(argv: Sequence[str]) -> None:
    """Measure, level by level, and print a table."""
    arguments = read_arguments(Arguments, argv, prog="evaluate.py")
    torch.set_num_threads(arguments.threads)
    checkpoint = find_checkpoint(arguments.checkpoint)
    recipe = checkpoint.recipe
    model = checkpoint.load_model(device=arguments.device)
    table = results_table(f"{recipe.core} on {recipe.env_id} after {checkpoint.steps:,} steps")
    with Live(table, console=CONSOLE):
        results = evaluate(
            model,
            recipe,
            arguments.levels or default_levels(recipe),
            episodes=arguments.episodes,
            seed=arguments.seed,
            deterministic=not arguments.stochastic,
            on_level=lambda result: add_result(table, result),
        )
    if arguments.json is not None:
        rows = [
            {**asdict(result), "success": result.success, "interval": result.interval} for result in results
        ]
        arguments.json.write_text(
            json.dumps({"checkpoint": str(checkpoint.path), "results": rows}, indent=2) + "\n"
        )


if __name__ == "__main__":
    run(main)
