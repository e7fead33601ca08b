"""See an agent at work: an animated GIF, or a window.

    python scripts/watch.py runs/memorize-rmt-seed0
    python scripts/watch.py runs/minigrid-memory-s9-rmt-seed0 --level S9 --episodes 5 --out s9.gif
    python scripts/watch.py minigrid-memory-s17random --window

A recipe's name in place of a checkpoint shows its task, with random actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro

from agents.checkpoints import find_checkpoint
from agents.environments import EVALUATION_SEED
from agents.episodes import film, play_frames, save_gif
from agents.levels import Level, format_level
from agents.recipes import RECIPES, Recipe, get_recipe
from agents.windows import show
from rmt_rl import MemoryPPO
from scripts.console import CONSOLE, read_arguments, run


@dataclass(frozen=True)
class Arguments:
    """Watch episodes: what happens, beside what the agent sees."""

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT|RECIPE")]
    """folder of a checkpoint or run; or a recipe, whose task is then shown with random actions"""
    level: Level | None = None
    """difficulty, such as 110 or S9; by default the hardest of training"""
    episodes: int = 3
    """how many"""
    out: Path | None = None
    """GIF to write; by default episodes.gif in the run's folder, or runs/RECIPE.gif"""
    window: bool = False
    """show them in a window in place of writing a GIF"""
    fps: float = 8.0
    """pictures per second"""
    most_frames: int = 160
    """frames kept of an episode; of longer ones the beginning and the end are whole"""
    seed: int = EVALUATION_SEED
    """of the environment"""
    stochastic: bool = False
    """draw actions from the policy in place of the likeliest"""
    threads: int = 1
    """threads of torch"""


def open_source(source: str) -> tuple[Recipe, MemoryPPO | None, Path]:
    """The recipe, the agent, if there is one, and where a film of it goes.

    :raises ValueError: if it is neither a folder with a checkpoint nor a recipe
    """
    if source not in RECIPES and (Path(source).exists() or "/" in source):
        checkpoint = find_checkpoint(Path(source))
        return checkpoint.recipe, checkpoint.load_model(device="cpu"), checkpoint.run / "episodes.gif"
    return get_recipe(source), None, Path("runs") / f"{source}.gif"


def main(argv: Sequence[str]) -> None:
    """Play, and show or write."""
    arguments = read_arguments(Arguments, argv, prog="watch.py")
    torch.set_num_threads(arguments.threads)
    recipe, model, default_out = open_source(arguments.source)
    level = recipe.levels[-1] if arguments.level is None else arguments.level
    if model is None:
        CONSOLE.print(f"no agent: {recipe.env_id} with random actions")
    frames = play_frames(
        recipe,
        model,
        level,
        episodes=arguments.episodes,
        seed=arguments.seed,
        deterministic=not arguments.stochastic,
        fps=arguments.fps,
    )
    if arguments.window:
        show(frames, f"{recipe.env_id}, level {format_level(level)}")
        return
    kept = film(frames, arguments.most_frames)
    out = arguments.out or default_out
    save_gif(kept, out)
    CONSOLE.print(f"{arguments.episodes} episodes at level {format_level(level)}: {out}, {len(kept)} frames")


if __name__ == "__main__":
    run(main)
