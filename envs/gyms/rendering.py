"""Pictures of environments that have none: what the agent saw, did and was rewarded with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from envs.recall.rendering import (
    BACKGROUND,
    BAD,
    DIM,
    GOOD,
    TEXT,
    Picture,
    canvas,
    rectangle,
    symbol_colour,
    write,
)

RENDER_MODES = ("ansi", "rgb_array")
CELL = 24
COLUMNS = 13  # a suit of cards in a row


def check_render_mode(render_mode: str | None, modes: Sequence[str] = RENDER_MODES) -> str | None:
    """The render mode, or ValueError with those there are."""
    if render_mode is not None and render_mode not in modes:
        raise ValueError(f"render_mode={render_mode!r}: must be None or one of {', '.join(modes)}")
    return render_mode


def draw_step(seen: Any, counts: Sequence[int], action: Any, reward: float) -> Picture:
    """What an agent saw after its last action, (height, width, 3).

    Args:
        seen: the observation: discrete components, or real numbers.
        counts: how many values each discrete component has; empty for real numbers.
        action: the last action; None at the first step.
        reward: what it was rewarded with.
    """
    values = np.asarray(seen).reshape(-1)
    per_row = COLUMNS if counts else 2
    rows = -(-len(values) // per_row)
    picture = canvas(rows * CELL + 64, COLUMNS * CELL + 16)
    for index, value in enumerate(values):
        row, column = divmod(index, per_row)
        top = 8 + row * CELL
        if counts:
            left = 8 + column * CELL
            rectangle(picture, top, left, CELL - 2, CELL - 2, symbol_colour(int(value), counts[index]))
            write(picture, str(value), top + 6, left + CELL // 2 - 1, 2, BACKGROUND)
        else:
            write(picture, f"{value:.2f}", top + 6, 84 + 156 * column, 3, TEXT)
    middle, line = picture.shape[1] // 2, rows * CELL + 16
    if action is not None:
        did = " ".join(f"{number:.2f}".removesuffix(".00") for number in np.asarray(action).reshape(-1))
        write(picture, f"DID {did}", line, middle, 3, DIM)
    colour = GOOD if reward > 0 else BAD if reward < 0 else DIM
    write(picture, f"{reward:+.3f}", line + 22, middle, 3, colour)
    return picture
