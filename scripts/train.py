"""Train an agent by a recipe, or on any environment.

    python scripts/train.py memorize
    python scripts/train.py minigrid-memory-s9 --core xl --seed 3 --total-steps 500000
    python scripts/train.py memorize --core-kwargs memory_tokens 8 gated True
    python scripts/train.py CartPole-v1 --total-steps 200000
    python scripts/train.py my_module:MyEnv-v0 --core my_module:MyCore --env-kwargs size 5
    python scripts/train.py --resume runs/memorize-rmt-seed0 --total-steps 2000000

An environment's id brings default settings and what levels the environment tells of, if any: without levels
there is no curriculum, and without ``info["is_success"]`` returns are told in place of success. Modules are
looked for in the present folder and along PYTHONPATH.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.markup import escape

from agents.callbacks import describe_episodes
from agents.checkpoints import Checkpoint, checkpoints_of, find_checkpoint
from agents.environments import with_levels
from agents.progress import ProgressReport
from agents.recipes import RECIPES, Recipe
from agents.training import train
from rmt_rl.health import UnhealthyTrainingError
from scripts.console import (
    CONSOLE,
    INTERRUPTED,
    check_device,
    check_folder,
    fail,
    read_arguments,
    run,
    say,
    set_threads,
)
from scripts.sources import EXPECTED, read_source, short_name, take_option


@dataclass(frozen=True)
class Arguments:
    """Train an agent by a recipe or on any environment, or go on with a run. Every field of the recipe is an
    option.
    """

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    out: Path = Path("runs")
    """folder for runs"""
    name: str | None = None
    """name of this run's folder; by default recipe or environment, core and seed"""
    resume: Path | None = None
    """run or checkpoint to go on with, in place of a recipe; only total-steps can then be changed"""
    checkpoint_every: int = 100_000
    """steps between checkpoints"""
    tensorboard: bool = False
    """write logs for tensorboard as well"""
    device: str = "auto"
    """cpu, cuda, or auto for cuda where there is one"""
    threads: int = 1
    """threads of torch; small models are fastest with one"""


def parse(argv: Sequence[str]) -> tuple[str, Arguments, Checkpoint | None]:
    """The run's name, the arguments, and the checkpoint to go on from, if any.

    :raises ValueError: for an unknown recipe or environment, or a change that cannot be made to a run
    """
    prog = "train.py"
    is_named = bool(argv) and not argv[0].startswith("-")
    path, _ = take_option(argv, "--resume")
    if not is_named and path is not None:
        if not path:
            raise ValueError("--resume needs the folder of a run or checkpoint")
        checkpoint = find_checkpoint(Path(path))
        arguments = read_arguments(Arguments, argv, Arguments(checkpoint.recipe), prog)
        if replace(arguments.recipe, total_steps=checkpoint.recipe.total_steps) != checkpoint.recipe:
            raise ValueError(
                "a run goes on by its own recipe: beside --resume only --total-steps can be changed"
            )
        return checkpoint.run.name, arguments, checkpoint
    asks_help = set(argv) & {"-h", "--help"}
    if asks_help and not is_named and take_option(argv, "--env-id")[0] is None:
        shown = f"{prog} {{{','.join(RECIPES)}}}|ID"
        read_arguments(Arguments, argv, Arguments(RECIPES["memorize"]), shown)
    try:
        source, recipe, rest = read_source(argv)
    except ValueError as error:
        raise ValueError(f"{error}, or give --resume RUN" if str(error) == EXPECTED else error) from error
    arguments = read_arguments(Arguments, rest, Arguments(recipe), f"{prog} {source}")
    if arguments.resume is not None:
        raise ValueError(f"--resume brings its own recipe: leave {source!r} out")
    recipe = with_levels(arguments.recipe)
    core = recipe.core.rpartition(":")[2]
    name = arguments.name or f"{short_name(source)}-{core}-seed{recipe.seed}"
    return name, replace(arguments, recipe=recipe), None


def main(argv: Sequence[str]) -> None:
    """Train, and say what came of it.

    :raises SystemExit: with status 130 after Ctrl-C
    """
    name, arguments, checkpoint = parse(argv)
    recipe = arguments.recipe
    folder = arguments.out / name if checkpoint is None else checkpoint.run
    if checkpoint is None and checkpoints_of(folder):
        raise ValueError(
            f"{folder} holds a run already: go on with --resume {folder}, or give another --name"
        )
    set_threads(arguments.threads)
    check_device(arguments.device)
    check_folder(folder)
    begin = "" if checkpoint is None else f" from step {checkpoint.steps:,}"
    report = ProgressReport(
        CONSOLE,
        f"[bold]{escape(name)}[/]: {escape(recipe.core)} on {escape(recipe.env_id)}{begin} to step "
        f"{recipe.total_steps:,}, in {escape(str(folder))}",
    )
    try:
        trained = train(
            recipe,
            folder,
            resume=checkpoint,
            device=arguments.device,
            checkpoint_every=arguments.checkpoint_every,
            tensorboard=arguments.tensorboard,
            callbacks=[report],
        )
    except UnhealthyTrainingError as error:
        report.close()
        fail(error)
    finally:
        report.close()
    curriculum = trained.curriculum
    if curriculum is not None and curriculum.solved_at is not None:
        say(f"every level is solved, the last one at step {curriculum.solved_at:,}")
    else:
        reached = "the last episodes: " if curriculum is None else "reached "
        say(f"{reached}{describe_episodes(trained.model, curriculum)}")
    say(f"checkpoint: {trained.checkpoint}")
    if not trained.finished:
        say(f"stopped; go on with: python scripts/train.py --resume {folder}")
        raise SystemExit(INTERRUPTED)
    say(f"next: python scripts/evaluate.py {folder}")


if __name__ == "__main__":
    run(main)
