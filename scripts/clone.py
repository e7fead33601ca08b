"""Let an agent learn what an expert does, by maximum likelihood; then measure it, or go on by reinforcement.

    python scripts/clone.py memorize --levels 60
    python scripts/clone.py envs.minigrid:RMT/MiniGrid-Memory-v0 --levels S7 --core gru
    python scripts/train.py --resume runs/memorize-rmt-seed0-cloned      # from the cloned agent on

The expert is the environment's scripted policy: a method ``optimal_action()`` or ``informed_action()`` that
tells the action of now; see agents/cloning.py. The checkpoint is like one of train.py's, at step 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro

from agents.checkpoints import FOLDER, save_checkpoint
from agents.cloning import clone, find_expert, record
from agents.environments import make_env, set_levels, training_seed, with_levels
from agents.evaluation import default_levels, evaluate
from agents.recipes import RECIPES, Recipe
from agents.training import build_curriculum, build_model, curriculum_state
from scripts.console import (
    LiveTable,
    check_device,
    check_folder,
    read_arguments,
    run,
    say,
    set_threads,
)
from scripts.sources import read_source, short_name


@dataclass(frozen=True)
class Arguments:
    """Clone an expert's behaviour. Every field of the recipe is an option; those of PPO are of no effect."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    out: Path = Path("runs")
    """folder for runs"""
    name: str | None = None
    """name of this run's folder; by default recipe or environment, core and seed"""
    demonstrations: int = 4096
    """steps of the expert in each environment"""
    epochs: int = 10
    """passes over them"""
    rate: float = 1e-3
    """step size of Adam at the beginning; it falls in a line to a tenth"""
    episodes: int = 256
    """episodes to measure the agent by, at the last level"""
    device: str = "auto"
    """cpu, cuda, or auto for cuda where there is one"""
    threads: int = 1
    """threads of torch; small models are fastest with one"""


def parse(argv: Sequence[str]) -> tuple[str, Arguments]:
    """The run's name and the arguments.

    :raises ValueError: for an unknown recipe or environment, or a number out of range
    """
    if set(argv) & {"-h", "--help"} and (not argv or argv[0].startswith("-")):
        read_arguments(Arguments, argv, Arguments(RECIPES["memorize"]), "clone.py RECIPE|ID")
    source, recipe, rest = read_source(argv)
    arguments = read_arguments(Arguments, rest, Arguments(recipe), f"clone.py {source}")
    if arguments.demonstrations < 1 or arguments.epochs < 1:
        raise ValueError(
            "there must be demonstrations and epochs, at least 1 of each, got "
            f"{arguments.demonstrations} and {arguments.epochs}"
        )
    if arguments.episodes < 1 or not arguments.rate > 0:
        raise ValueError(
            f"episodes must be at least 1 and rate above 0, got {arguments.episodes} and {arguments.rate}"
        )
    recipe = with_levels(arguments.recipe)
    default = f"{short_name(source)}-{recipe.core.rpartition(':')[2]}-seed{recipe.seed}-cloned"
    return arguments.name or default, replace(arguments, recipe=recipe)


def main(argv: Sequence[str]) -> None:
    """Record, clone, keep and measure."""
    name, arguments = parse(argv)
    recipe, folder = arguments.recipe, arguments.out / name
    if (folder / FOLDER).exists():
        raise ValueError(f"{folder} holds a run already: give another --name")
    set_threads(arguments.threads)
    check_device(arguments.device)
    check_folder(folder)
    env = make_env(recipe, recipe.n_envs, training_seed(recipe.seed, 0))
    try:
        curriculum = curriculum_state(build_curriculum(recipe))
        model = build_model(recipe, env, arguments.device)
        expert = find_expert(env)
        if recipe.levels:
            set_levels(env, recipe.levels)
        demonstrations = record(env, expert, arguments.demonstrations, recipe.sequence_length)
    finally:
        env.close()
    say(
        f"{name}: {recipe.core} learns from {arguments.demonstrations * recipe.n_envs:,} steps of "
        f"an expert on {recipe.env_id}, in {folder}"
    )
    clone(
        model,
        demonstrations,
        epochs=arguments.epochs,
        learning_rate=arguments.rate,
        max_grad_norm=recipe.max_grad_norm,
        on_epoch=lambda loss: say(f"loss {loss:.4f}"),
    )
    checkpoint = save_checkpoint(folder, model, recipe, curriculum)
    with LiveTable(f"{recipe.core} on {recipe.env_id}, cloned") as table:
        evaluate(model, recipe, default_levels(recipe)[:1], episodes=arguments.episodes, on_level=table.add)
    say(f"checkpoint: {checkpoint}")
    say(f"next: python scripts/evaluate.py {folder}, or train.py --resume {folder}")


if __name__ == "__main__":
    run(main)
