"""Pictures of the tasks that show symbols and pairs of symbols and ask for several answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from envs.recall.rendering import (
    BACKGROUND,
    BAD,
    DIM,
    GOOD,
    PANEL,
    TEXT,
    Picture,
    canvas,
    disc,
    frame,
    rectangle,
    symbol_colour,
    write,
)

SIDE = 192


@dataclass(frozen=True)
class Card:
    """One thing that is seen."""

    kind: str
    """"symbol", a disc; "key", a square; "distractor", a grey square; "question"."""
    index: int = 0
    count: int = 1
    """Number of things of the kind, which decides the colour."""


QUESTION = Card("question")


def draw_cards(
    cards: Sequence[Card], caption: str, said: tuple[int, bool] | None, progress: float
) -> Picture:
    """What an agent sees, (192, 192, 3).

    Args:
        cards: one or two, shown side by side, or none.
        caption: a few words under them.
        said: the last answer and whether it was right, None before the first.
        progress: share of the episode that is over, 0 to 1.
    """
    picture = canvas(SIDE, SIDE)
    rectangle(picture, 16, 24, 104, 144, PANEL)
    for place, card in enumerate(cards):
        _draw_card(picture, card, SIDE // 2 + 34 * (2 * place + 1 - len(cards)), 44 if len(cards) < 2 else 29)
    write(picture, caption, 132, SIDE // 2, 3 if len(caption) < 16 else 2, TEXT)
    if said is not None:
        colour = GOOD if said[1] else BAD
        frame(picture, 16, 24, 104, 144, 5, colour)
        write(picture, f"SAID {said[0]}", 154, SIDE // 2, 3, colour)
    rectangle(picture, SIDE - 14, 16, 6, SIDE - 32, PANEL)
    rectangle(picture, SIDE - 14, 16, 6, round((SIDE - 32) * min(progress, 1.0)), DIM)
    return picture


def _draw_card(picture: Picture, card: Card, column: int, radius: int) -> None:
    """A card around a column, about 2 `radius` high, in the middle of the panel."""
    middle = 68
    if card.kind == "question":
        scale = radius // 4
        write(picture, "?", middle - 5 * scale // 2, column, scale, TEXT)
        return
    if card.kind == "symbol":
        disc(picture, middle - 0.5, column - 0.5, radius, symbol_colour(card.index, card.count))
    else:
        colour = DIM if card.kind == "distractor" else symbol_colour(card.index, card.count)
        half = round(0.85 * radius)
        rectangle(picture, middle - half, column - half, 2 * half, 2 * half, colour)
    text = str(card.index)
    scale = max(1, min(radius // 7, 2 * radius // (4 * len(text))))
    write(picture, text, middle - 5 * scale // 2, column, scale, BACKGROUND)
