"""Let an agent learn what an expert does, by maximum likelihood; then measure it, or go on by reinforcement.

    python scripts/clone.py memorize --levels 60
    python scripts/clone.py envs.minigrid:RMT/MiniGrid-Memory-v0 --levels S7 --core gru
    python scripts/train.py --resume runs/memorize-rmt-seed0-cloned      # from the cloned agent on

The expert is the environment's scripted policy. The checkpoint is like one of train.py's, at step 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import torch
import tyro
from rich.live import Live

from agents.checkpoints import FOLDER, save_checkpoint
from agents.cloning import clone, find_expert, record
from agents.environments import make_env, make_vec, set_levels, training_seed
from agents.evaluation import evaluate
from agents.levels import Level
from agents.recipes import RECIPES, MiniGridRecipe, Recipe, get_recipe
from agents.training import build_curriculum, build_model
from scripts.console import CONSOLE, add_result, read_arguments, results_table, run


@dataclass(frozen=True)
class Arguments:
    """Clone an expert's behaviour. Every field of the recipe is an option; those of PPO are of no effect."""

    recipe: Annotated[Recipe, tyro.conf.arg(name="")]
    out: Path = Path("runs")
    """folder for runs"""
    name: str | None = None
    """name of this run's folder; by default recipe, core and seed"""
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


def recipe_of(env_id: str) -> Recipe:
    """A recipe with all defaults for an environment, at the levels that it has.

    :raises ValueError: for an unknown id, or an environment without levels
    """
    env = make_vec(env_id, 1, 0)
    levels: Sequence[Level] = ()
    for name in ("levels", "all_levels"):
        with suppress(AttributeError):
            levels = levels or env.get_attr(name)[0]
    env.close()
    if not levels:
        raise ValueError(f"{env_id} has no levels, as agents need them")
    kind = MiniGridRecipe if "MiniGrid" in env_id else Recipe
    return kind(env_id=env_id, levels=tuple(levels), n_envs=32, n_steps=128, sequence_length=128)


def parse(argv: Sequence[str]) -> tuple[str, Arguments]:
    """The run's name and the arguments.

    :raises ValueError: for an unknown recipe or environment
    """
    source = argv[0] if argv and not argv[0].startswith("-") else ""
    if not source and not set(argv) & {"-h", "--help"}:
        raise ValueError(f"the first argument must be a recipe ({', '.join(RECIPES)}) or an environment's id")
    recipe = recipe_of(source) if ":" in source else get_recipe(source or "memorize")
    rest = argv[1:] if source else argv
    arguments = read_arguments(Arguments, rest, Arguments(recipe), f"clone.py {source or 'RECIPE|ID'}")
    short = source.rpartition("/")[2].lower()
    default = f"{short}-{arguments.recipe.core}-seed{arguments.recipe.seed}-cloned"
    return arguments.name or default, arguments


def main(argv: Sequence[str]) -> None:
    """Record, clone, keep and measure."""
    name, arguments = parse(argv)
    recipe, folder = arguments.recipe, arguments.out / name
    if (folder / FOLDER).exists():
        raise ValueError(f"{folder} holds a run already: give another --name")
    torch.set_num_threads(arguments.threads)
    env = make_env(recipe, recipe.n_envs, training_seed(recipe.seed, 0))
    try:
        set_levels(env, recipe.levels)
        model = build_model(recipe, env, arguments.device)
        expert = find_expert(env)
        demonstrations = record(env, expert, arguments.demonstrations, recipe.sequence_length)
    finally:
        env.close()
    CONSOLE.print(
        f"[bold]{name}[/]: {recipe.core} learns from {arguments.demonstrations * recipe.n_envs:,} steps of "
        f"an expert on {recipe.env_id}, in {folder}"
    )
    clone(
        model,
        demonstrations,
        epochs=arguments.epochs,
        learning_rate=arguments.rate,
        max_grad_norm=recipe.max_grad_norm,
        on_epoch=lambda loss: CONSOLE.print(f"loss {loss:.4f}"),
    )
    checkpoint = save_checkpoint(folder, model, recipe, build_curriculum(recipe).state_dict())
    table = results_table(f"{recipe.core} on {recipe.env_id}, cloned")
    with Live(table, console=CONSOLE):
        evaluate(
            model,
            recipe,
            recipe.levels[-1:],
            episodes=arguments.episodes,
            on_level=lambda result: add_result(table, result),
        )
    CONSOLE.print(f"checkpoint: {checkpoint}")
    CONSOLE.print(f"next: python scripts/evaluate.py {folder}, or train.py --resume {folder}")


if __name__ == "__main__":
    run(main)
