"""Pictures of the recall tasks, drawn with numpy alone."""

from __future__ import annotations

import colorsys

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


def draw_query_task(
    symbol: NDArray[np.float32],
    cues: int,
    progress: float,
    answer: int | None,
    correct: bool,
    has_flag: bool,
) -> Picture:
    """What an agent sees that waits for a query, (192, 192, 3).

    Args:
        symbol: the observation (D,) without noise: cues first, the question last, before it the flag if
            `has_flag`.
        cues: number of cues; these are coloured discs, other symbols grey squares.
        progress: share of the episode that is over, 0 to 1.
        answer: the answer given, None before the end.
        correct: whether it was right.
        has_flag: whether there is a flag, shown as a yellow frame.
    """
    picture = canvas(192, 192)
    rectangle(picture, 16, 40, 112, 112, PANEL)
    if answer is not None:
        disc(picture, 71.5, 95.5, 46, symbol_colour(answer, cues))
        write(picture, str(answer), 57, 96, 6, BACKGROUND)
        frame(picture, 16, 40, 112, 112, 6, GOOD if correct else BAD)
        write(picture, "RIGHT" if correct else "WRONG", 140, 96, 4, GOOD if correct else BAD)
    elif symbol[-1] == 1.0:
        write(picture, "?", 37, 96, 14, TEXT)
        write(picture, "WHICH CUE", 140, 96, 3, TEXT)
    elif symbol.any():
        index = int(symbol.argmax())
        if index < cues:
            disc(picture, 71.5, 95.5, 46, symbol_colour(index, cues))
            write(picture, str(index), 57, 96, 6, BACKGROUND)
        else:
            rectangle(picture, 36, 60, 72, 72, DIM)
            write(picture, str(index - cues), 57, 96, 6, BACKGROUND)
        if has_flag and symbol[-2] == 1.0:
            frame(picture, 16, 40, 112, 112, 6, FLAG)
            write(picture, "FLAG", 140, 96, 4, FLAG)
    draw_progress(picture, progress)
    return picture


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
