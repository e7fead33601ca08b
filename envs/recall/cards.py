"""Pictures of what a question-and-answer task shows: cards with up to a few dozen chips on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from envs.recall.rendering import (
    BACKGROUND,
    BAD,
    DIM,
    GOOD,
    PANEL,
    TEXT,
    Colour,
    Picture,
    canvas,
    disc,
    draw_progress,
    frame,
    rectangle,
    symbol_colour,
    write,
)

_TOP, _LEFT, _SIDE = 16, 40, 112  # the card within the picture


class Chip(NamedTuple):
    """A symbol on a card: a text on a disc or a square."""

    text: str
    colour: Colour = DIM
    square: bool = False


def value_chip(value: int, count: int) -> Chip:
    """One of `count` answers: a coloured disc with its number."""
    return Chip(str(value), symbol_colour(value, count))


def key_chip(name: str) -> Chip:
    """Something to look up: a light square."""
    return Chip(name, TEXT, square=True)


def distractor_chip(number: int) -> Chip:
    """Something without meaning: a grey square."""
    return Chip(str(number), DIM, square=True)


def draw_card(
    chips: Sequence[Chip], caption: str, progress: float, success: bool | None = None, asks: bool = False
) -> Picture:
    """A card with its caption, (192, 192, 3).

    Args:
        chips: what is on it, in reading order, in the squarest grid; none leaves it empty.
        caption: a line of at most 15 characters below it.
        progress: share of the episode that is over, 0 to 1.
        success: whether the episode was one, once it is over.
        asks: whether the present step asks for an answer: a light frame.
    """
    picture = canvas(192, 192)
    rectangle(picture, _TOP, _LEFT, _SIDE, _SIDE, PANEL)
    colour = TEXT if success is None else GOOD if success else BAD
    if success is not None or asks:
        frame(picture, _TOP, _LEFT, _SIDE, _SIDE, 4, colour)
    columns = max(math.ceil(math.sqrt(len(chips))), 1)
    lines = max(math.ceil(len(chips) / columns), 1)
    cell = (_SIDE - 12) / columns
    top = _TOP + (_SIDE - lines * cell) / 2
    for number, chip in enumerate(chips):
        line, column = divmod(number, columns)
        _draw_chip(picture, chip, top + (line + 0.5) * cell, _LEFT + 6 + (column + 0.5) * cell, 0.92 * cell)
    write(picture, caption, 142, 96, 3 if len(caption) <= 15 else 2, colour)
    draw_progress(picture, progress)
    return picture


def _draw_chip(picture: Picture, chip: Chip, row: float, column: float, size: float) -> None:
    if chip.square:
        left, top = round(column - size / 2), round(row - size / 2)
        rectangle(picture, top, left, int(size), int(size), chip.colour)
    else:
        disc(picture, row - 0.5, column - 0.5, size / 2, chip.colour)
    scale = max(int(0.8 * size / (4 * len(chip.text) - 1)), 1) if chip.text else 1
    scale = min(scale, max(int(0.6 * size / 5), 1))
    write(picture, chip.text, round(row - 2.5 * scale), round(column), scale, BACKGROUND)
