"""Measure how often a trained agent succeeds and what it gets, on episodes that it was not trained on.

    python scripts/evaluate.py runs/memorize-rmt-seed0
    python scripts/evaluate.py runs/memorize-rmt-seed0 --levels 110 1022 8190 --episodes 512

Where the environment tells of no success, there are returns alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from agents.checkpoints import find_checkpoint
from agents.environments import EVALUATION_SEED
from agents.evaluation import Result, default_levels, evaluate
from agents.levels import Level
from scripts.console import LiveTable, check_device, check_output, read_arguments, run, set_threads


@dataclass(frozen=True)
class Arguments:
    """Measure an agent's success and return over held-out episodes, with 95% intervals."""

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
    set_threads(arguments.threads)
    check_device(arguments.device)
    checkpoint = find_checkpoint(arguments.checkpoint)
    recipe = checkpoint.recipe
    model = checkpoint.load_model(device=arguments.device)
    check_output(arguments.json)
    with LiveTable(f"{recipe.core} on {recipe.env_id} after {checkpoint.steps:,} steps") as table:
        results = evaluate(
            model,
            recipe,
            arguments.levels or default_levels(recipe),
            episodes=arguments.episodes,
            seed=arguments.seed,
            deterministic=not arguments.stochastic,
            on_level=table.add,
        )
    if arguments.json is not None:
        rows = [row(result) for result in results]
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(
            json.dumps({"checkpoint": str(checkpoint.path), "results": rows}, indent=2) + "\n"
        )


def row(result: Result) -> dict[str, Any]:
    """A result as JSON keeps it: null for what is not known."""
    single = math.isnan(result.return_deviation)
    return {
        **asdict(result),
        "return_deviation": None if single else result.return_deviation,
        "success": result.success if result.has_success else None,
        "interval": result.interval if result.has_success else None,
        "return_interval": None if single else result.return_interval,
    }


if __name__ == "__main__":
    run(main)
