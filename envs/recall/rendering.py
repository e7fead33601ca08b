"""Pictures of the recall tasks, drawn with numpy alone."""

from __future__ import annotations

import colorsys
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Colour = tuple[int, int, int]
Picture = NDArray[np.uint8]

BACKGROUND: Colour = (22, 24, 31)
PANEL: Colour = (40, 44, 56)
TEXT: Colour = (226, 228, 235)
DIM: Colour = (120, 125, 140)
FLAG: Colour = (255, 214, 64)
GOOD: Colour = (72, 199, 116)
BAD: Colour = (236, 84, 84)

# A 3 x 5 font, each glyph five octal digits of three pixels from top to bottom.
_FONT = {
    " ": "00000", "?": "61202", "+": "02720", "-": "00700", ".": "00002", ":": "02020", "/": "11244",
    "0": "75557", "1": "26227", "2": "71747", "3": "71717", "4": "55711", "5": "74717", "6": "74757",
    "7": "71122", "8": "75757", "9": "75717", "A": "25755", "B": "65656", "C": "34443", "D": "65556",
    "E": "74647", "F": "74644", "G": "34553", "H": "55755", "I": "72227", "J": "11152", "K": "55655",
    "L": "44447", "M": "57755", "N": "65555", "O": "25552", "P": "65644", "Q": "25573", "R": "65655",
    "S": "34216", "T": "72222", "U": "55557", "V": "55552", "W": "55775", "X": "55255", "Y": "55222",
    "Z": "71247",
}  # fmt: skip


def canvas(height: int, width: int) -> Picture:
    """An empty picture (height, width, 3)."""
    return np.full((height, width, 3), BACKGROUND, dtype=np.uint8)


def rectangle(picture: Picture, top: int, left: int, height: int, width: int, colour: Colour) -> None:
    """Fill a rectangle."""
    picture[max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)] = colour


def frame(picture: Picture, top: int, left: int, height: int, width: int, line: int, colour: Colour) -> None:
    """Draw the outline of a rectangle, `line` pixels wide."""
    rectangle(picture, top, left, line, width, colour)
    rectangle(picture, top + height - line, left, line, width, colour)
    rectangle(picture, top, left, height, line, colour)
    rectangle(picture, top, left + width - line, height, line, colour)


def disc(picture: Picture, row: float, column: float, radius: float, colour: Colour) -> None:
    """Fill a disc around a point."""
    rows, columns = np.ogrid[: picture.shape[0], : picture.shape[1]]
    picture[(rows - row) ** 2 + (columns - column) ** 2 <= radius**2] = colour


def write(picture: Picture, text: str, top: int, centre: int, scale: int, colour: Colour) -> None:
    """Write a line of capitals and digits, 5 `scale` high, centred on a column."""
    left = centre - (4 * len(text) - 1) * scale // 2
    for character in text.upper():
        glyph = np.array(
            [[(int(line) >> bit) & 1 for bit in (2, 1, 0)] for line in _FONT.get(character, "77777")]
        )
        for row, column in zip(*np.nonzero(glyph), strict=True):
            rectangle(picture, top + int(row) * scale, left + int(column) * scale, scale, scale, colour)
        left += 4 * scale


def symbol_colour(index: int, count: int) -> Colour:
    """One of `count` colours, evenly spaced around the colour circle."""
    red, green, blue = colorsys.hsv_to_rgb(index / count, 0.72, 0.95)
    return round(255 * red), round(255 * green), round(255 * blue)


@dataclass(frozen=True)
class Chip:
    """A symbol that is seen: a text on a disc or a square."""

    text: str
    colour: Colour = DIM
    square: bool = False


QUESTION = Chip("?", TEXT, square=True)


def value_chip(value: int, count: int) -> Chip:
    """One of `count` symbols or answers: a coloured disc with its number."""
    return Chip(str(value), symbol_colour(value, count))


def key_chip(name: str) -> Chip:
    """Something to look up: a light square."""
    return Chip(name, TEXT, square=True)


def distractor_chip(number: int) -> Chip:
    """Something without meaning: a grey square."""
    return Chip(str(number), DIM, square=True)


@dataclass(frozen=True)
class Sight:
    """What the agent of a task that asks sees at a step."""

    words: str
    chips: Sequence[Chip] = ()
    """Up to a few dozen, in reading order."""
    caption: str = ""
    """A line of at most 22 capitals and digits, better 15."""
    flagged: bool = False


def draw_sight(sight: Sight, said: tuple[int, bool] | None, progress: float) -> Picture:
    """What an agent sees, (192, 192, 3): chips on a card, in the squarest grid, and a caption below it.

    Args:
        sight: chips and caption.
        said: the answer just given and whether it was right, which frames the card; None if none was.
        progress: share of the episode that is over, 0 to 1.
    """
    top, left, side = 14, 41, 110
    picture = canvas(192, 192)
    rectangle(picture, top, left, side, side, PANEL)
    columns = max(math.ceil(math.sqrt(len(sight.chips))), 1)
    cell = (side - 12) / columns
    above = top + (side - math.ceil(len(sight.chips) / columns) * cell) / 2
    for number, chip in enumerate(sight.chips):
        line, column = divmod(number, columns)
        _draw_chip(picture, chip, above + (line + 0.5) * cell, left + 6 + (column + 0.5) * cell, 0.92 * cell)
    write(picture, sight.caption, 131, 96, 3 if len(sight.caption) <= 15 else 2, TEXT)
    if sight.flagged:
        frame(picture, top, left, side, side, 4, FLAG)
    if said is not None:
        colour = GOOD if said[1] else BAD
        frame(picture, top, left, side, side, 4, colour)
        write(picture, f"SAID {said[0]}", 154, 96, 3, colour)
    draw_progress(picture, progress)
    return picture


def _draw_chip(picture: Picture, chip: Chip, row: float, column: float, size: float) -> None:
    if chip.square:
        rectangle(picture, round(row - size / 2), round(column - size / 2), int(size), int(size), chip.colour)
    else:
        disc(picture, row - 0.5, column - 0.5, size / 2, chip.colour)
    scale = int(min(0.8 * size / max(4 * len(chip.text) - 1, 1), 0.6 * size / 5))
    write(picture, chip.text, round(row - 2.5 * scale), round(column), max(scale, 1), BACKGROUND)


def draw_maze(position: float, side: int, goal: int, start: float, caption: str, progress: float) -> Picture:
    """A T-maze, (160, 320, 3); a corridor of any length fills the picture's width.

    Args:
        position: the agent's place in the corridor, 0 at the cue to 1 at the junction.
        side: 1 or -1 once the agent is at the upper or lower goal, else 0.
        goal: the right goal, 1 or -1, shown by the arrow at the cue.
        start: where the agent started, as `position`.
        caption: what the agent sees.
        progress: share of the time that is over, 0 to 1.
    """
    picture = canvas(160, 320)
    left, right, middle, arm = 30, 280, 76, 34
    rectangle(picture, middle - 12, left - 14, 25, right - left + 28, PANEL)
    rectangle(picture, middle - arm - 12, right - 14, 2 * arm + 25, 28, PANEL)
    rectangle(picture, middle + 9, round(left + start * (right - left)) - 6, 3, 13, DIM)
    for which in (1, -1):
        reached = side == which
        mark = DIM if not reached else GOOD if which == goal else BAD
        frame(picture, middle - which * arm - 11, right - 13, 23, 26, 3, mark)
    disc(picture, middle - side * arm, left + position * (right - left), 8, TEXT)
    colour = symbol_colour(0 if goal > 0 else 1, 2)
    for row in range(10):  # a triangle that points to the right goal
        width = 2 * row + 1
        top = middle - 5 + row if goal > 0 else middle + 5 - row
        rectangle(picture, top, left - row, 1, width, colour)
    write(picture, f"SEES {caption}", 128, 160, 2, TEXT)
    draw_progress(picture, progress)
    return picture


def draw_progress(picture: Picture, progress: float) -> None:
    """Draw the bar at the bottom: the share of the episode that is over, 0 to 1."""
    height, width = picture.shape[:2]
    rectangle(picture, height - 14, 16, 6, width - 32, PANEL)
    rectangle(picture, height - 14, 16, 6, round((width - 32) * min(progress, 1.0)), DIM)
