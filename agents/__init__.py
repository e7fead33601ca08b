"""Ready agents: recipes that say how to train one, and what trains, keeps, measures and films it."""

from agents.checkpoints import Checkpoint, find_checkpoint
from agents.evaluation import Result, evaluate, wilson_interval
from agents.recipes import RECIPES, MiniGridRecipe, Recipe, get_recipe
from agents.training import Trained, train

__all__ = [
    "RECIPES",
    "Checkpoint",
    "MiniGridRecipe",
    "Recipe",
    "Result",
    "Trained",
    "evaluate",
    "find_checkpoint",
    "get_recipe",
    "train",
    "wilson_interval",
]
