"""Small recipes that train in a second."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agents.recipes import RECIPES, Recipe

TINY: dict[str, Any] = dict(
    n_envs=4,
    n_steps=16,
    sequence_length=16,
    n_minibatches=2,
    n_epochs=1,
    total_steps=128,
    window=2,
    heads=(8,),
)


def tiny(name: str = "memorize", **changes: Any) -> Recipe:
    """A recipe cut down: two updates of a few steps."""
    return replace(RECIPES[name], **{**TINY, **changes})
