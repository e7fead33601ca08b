"""See an agent at work: an animated GIF, or a window.

    python scripts/watch.py runs/memorize-rmt-seed0
    python scripts/watch.py runs/minigrid-memory-s9-rmt-seed0 --level S9 --episodes 5 --out s9.gif
    python scripts/watch.py minigrid-memory-s17random --window
    python scripts/watch.py envs:RMT/TMaze-v0 --best

A recipe's name or an environment's id in place of a checkpoint shows the task, with random actions or with
the best ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from agents.checkpoints import find_checkpoint
from agents.environments import EVALUATION_SEED
from agents.episodes import (
    Frame,
    Reel,
    act_at_random,
    act_best,
    film,
    film_episodes,
    open_env,
    play_frames,
    save_gif,
    set_level,
)
from agents.evaluation import default_levels
from agents.levels import Level, format_level
from agents.recipes import get_recipe
from agents.windows import check_display, show
from scripts.console import check_output, read_arguments, run, say, set_threads
from scripts.sources import is_env_id, is_known_task, with_module


@dataclass(frozen=True)
class Arguments:
    """Watch episodes: what happens, beside what the agent sees."""

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="CHECKPOINT|RECIPE|ID")]
    """folder of a checkpoint or run; or a recipe or an environment's id, to see the task without an agent"""
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
    best: bool = False
    """without an agent: play the best actions in place of random ones, where the environment tells them"""
    stochastic: bool = False
    """draw actions from the policy in place of the likeliest"""
    threads: int = 1
    """threads of torch"""


def frames_of_agent(folder: Path, arguments: Arguments) -> tuple[Iterator[Frame], str, Path]:
    """Frames of an agent's episodes, what they are called, and where a film of them goes."""
    checkpoint = find_checkpoint(folder)
    recipe = checkpoint.recipe
    level = default_levels(recipe)[0] if arguments.level is None else arguments.level
    frames = play_frames(
        recipe,
        checkpoint.load_model(device="cpu"),
        level,
        episodes=arguments.episodes,
        seed=arguments.seed,
        deterministic=not arguments.stochastic,
        fps=arguments.fps,
    )
    title = recipe.env_id if level is None else f"{recipe.env_id}, level {format_level(level)}"
    return frames, title, checkpoint.run / "episodes.gif"


def frames_of_task(source: str, arguments: Arguments) -> tuple[Iterator[Frame], str, Path]:
    """The same without an agent, of a recipe's task or of an environment's id."""
    level = arguments.level
    if is_env_id(source):
        env = open_env(with_module(source))
    else:
        recipe = get_recipe(source)
        env = open_env(recipe.env_id, **recipe.make_env_kwargs())
        level = default_levels(recipe)[0] if level is None else level
    set_level(env, level)
    title = "" if level is None else f"level {format_level(level)}, "
    act = act_best(env) if arguments.best else act_at_random(env, arguments.seed)
    frames = film_episodes(
        env, act, episodes=arguments.episodes, seed=arguments.seed, fps=arguments.fps, title=title
    )
    say(f"no agent: {source} with {'the best' if arguments.best else 'random'} actions")
    name = source.rpartition(":")[2].replace("/", "-")
    return frames, f"{title}{source}", Path("runs") / f"{name}.gif"


def main(argv: Sequence[str]) -> None:
    """Play, and show or write."""
    arguments = read_arguments(Arguments, argv, prog="watch.py")
    set_threads(arguments.threads)
    source = arguments.source
    Reel(arguments.most_frames)  # refuses a number that is too small
    if arguments.window:
        check_display()
    else:
        check_output(arguments.out)
    if not is_known_task(source) and (Path(source).exists() or "/" in source):
        frames, name, default_out = frames_of_agent(Path(source), arguments)
    else:
        frames, name, default_out = frames_of_task(source, arguments)
    if arguments.window:
        show(frames, name)
        return
    out = arguments.out or default_out
    check_output(out)
    kept = film(frames, arguments.most_frames)
    save_gif(kept, out)
    say(f"{arguments.episodes} episodes of {name}: {out}, {len(kept)} frames")


if __name__ == "__main__":
    run(main)
