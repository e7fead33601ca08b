"""Train an agent by a recipe.

python scripts/train.py memorize
python scripts/train.py minigrid-memory-s9 --core xl --seed 3 --total-steps 500000
python scripts/train.py memorize --core-kwargs memory_tokens 8 gated True
python scripts/train.py --resume runs/memorize-rmt-seed0 --total-steps 2000000
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import torch
import tyro

from agents.checkpoints import Checkpoint, checkpoints_of, find_checkpoint
from agents.levels import format_level
from agents.progress import ProgressReport
from agents.recipes import RECIPES, Recipe, get_recipe
from agents.training import train
from rmt_rl.health import UnhealthyTrainingError
from scripts.console import CONSOLE, fail, read_arguments, run


@dataclass(frozen=True)
class Arguments:
    """Train an agent by a recipe, or go on with a run. Every field of the recipe is an option."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    out: Path = Path("runs")
    """folder for runs"""
    name: str | None = None
    """name of this run's folder; by default recipe, core and seed"""
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

    :raises ValueError: for an unknown recipe, or a change that cannot be made to a run
    """
    prog = "train.py"
    if argv and not argv[0].startswith("-"):
        name, rest = argv[0], argv[1:]
        recipe = get_recipe(name)
        arguments = read_arguments(Arguments, rest, Arguments(recipe), f"{prog} {name}")
        if arguments.resume is not None:
            raise ValueError(f"--resume brings its own recipe: leave {name!r} out")
        default_name = f"{name}-{arguments.recipe.core}-seed{arguments.recipe.seed}"
        return arguments.name or default_name, arguments, None
    if any(word == "--resume" or word.startswith("--resume=") for word in argv):
        index, word = next((i, w) for i, w in enumerate(argv) if w.startswith("--resume"))
        path = word.partition("=")[2] if "=" in word else next(iter(argv[index + 1 :]), "")
        if not path or path.startswith("-"):
            raise ValueError("--resume needs the folder of a run or checkpoint")
        checkpoint = find_checkpoint(Path(path))
        arguments = read_arguments(Arguments, argv, Arguments(checkpoint.recipe), prog)
        if replace(arguments.recipe, total_steps=checkpoint.recipe.total_steps) != checkpoint.recipe:
            raise ValueError(
                "a run goes on by its own recipe: beside --resume only --total-steps can be changed"
            )
        return checkpoint.run.name, arguments, checkpoint
    if set(argv) & {"-h", "--help"}:
        read_arguments(Arguments, argv, Arguments(RECIPES["memorize"]), f"{prog} {{{','.join(RECIPES)}}}")
    raise ValueError(f"the first argument must be a recipe ({', '.join(RECIPES)}), or give --resume RUN")


def main(argv: Sequence[str]) -> None:
    """Train, and say what came of it."""
    name, arguments, checkpoint = parse(argv)
    recipe = arguments.recipe
    folder = arguments.out / name if checkpoint is None else checkpoint.run
    if checkpoint is None and checkpoints_of(folder):
        raise ValueError(
            f"{folder} holds a run already: go on with --resume {folder}, or give another --name"
        )
    torch.set_num_threads(arguments.threads)
    begin = "" if checkpoint is None else f" from step {checkpoint.steps:,}"
    CONSOLE.print(
        f"[bold]{name}[/]: {recipe.core} on {recipe.env_id}{begin} to step {recipe.total_steps:,}, "
        f"in {folder}"
    )
    report = ProgressReport(CONSOLE)
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
        fail("\n".join((str(error), *error.__notes__)))
    finally:
        report.close()
    curriculum = trained.curriculum
    level = format_level(curriculum.levels[curriculum.stage])
    if curriculum.solved_at is not None:
        CONSOLE.print(f"every level is solved, the last one at step {curriculum.solved_at:,}")
    else:
        CONSOLE.print(f"reached level {level} with success {curriculum.success_rate:.2f}")
    CONSOLE.print(f"checkpoint: {trained.checkpoint}")
    if trained.finished:
        CONSOLE.print(f"next: python scripts/evaluate.py {folder}")
    else:
        CONSOLE.print(f"stopped; go on with: python scripts/train.py --resume {folder}")


if __name__ == "__main__":
    run(main)
