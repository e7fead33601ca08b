"""The recipes as rl_zoo3 reads hyperparameters: a dict for each environment."""

from __future__ import annotations

from typing import Any

from agents.recipes import RECIPES, MiniGridRecipe, Recipe
from agents.zoo import env_id
from rmt_rl.schedules import HoldThenLinear


def from_recipe(recipe: Recipe) -> dict[str, Any]:
    """A recipe for ``memory_ppo``, with its curriculum.

    rl_zoo3 knows learning rates that stay or fall in a line to 0: ``hold`` and ``final_learning_rate`` are
    not carried over, but for the entropy bonus they are.
    """
    callbacks: list[dict[str, dict[str, Any]]] = [
        {
            "rmt_rl.callbacks.CurriculumCallback": dict(
                levels=recipe.levels,
                threshold=recipe.threshold,
                window=recipe.window,
                easier=recipe.easier,
                stop_when_solved=recipe.stop_when_solved,
            )
        }
    ]
    if recipe.final_ent_coef is not None:
        schedule = HoldThenLinear(recipe.ent_coef, recipe.final_ent_coef, recipe.hold)
        callbacks.append({"agents.callbacks.EntropySchedule": dict(schedule=schedule)})
    return dict(
        policy="MultiInputPolicy" if isinstance(recipe, MiniGridRecipe) else "MlpPolicy",
        n_timesteps=recipe.total_steps,
        n_envs=recipe.n_envs,
        n_steps=recipe.n_steps,
        batch_size=recipe.batch_size,
        sequence_length=recipe.sequence_length,
        n_epochs=recipe.n_epochs,
        learning_rate=f"lin_{recipe.learning_rate}",
        gamma=recipe.gamma,
        gae_lambda=recipe.gae_lambda,
        clip_range=recipe.clip_range,
        ent_coef=recipe.ent_coef,
        vf_coef=recipe.vf_coef,
        max_grad_norm=recipe.max_grad_norm,
        target_kl=recipe.target_kl,
        normalize_advantage=recipe.normalize_advantage,
        policy_kwargs=recipe.make_policy_kwargs(),
        callback=callbacks,
    )


def from_recipes() -> dict[str, dict[str, Any]]:
    """Every recipe, by the id of its environment."""
    return {env_id(name): from_recipe(recipe) for name, recipe in RECIPES.items()}
