"""What is to be seen of an environment, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from PIL import Image, ImageDraw, ImageFont

Ink = tuple[int, int, int]
Picture = np.ndarray[Any, Any]

HEIGHT, MARGIN, LINE, LINES = 320, 12, 22, 2  # pixels, but for the last: lines of words
INK, PAPER, GOOD, BAD = (30, 30, 30), (250, 250, 247), (20, 120, 60), (180, 40, 30)


def look(env: gym.Env[Any, Any], observation: Any) -> list[tuple[str, Picture]]:
    """What is to be seen of an environment now: labelled pictures (H, W, 3).

    :param env: one with ``render_mode="rgb_array"``, or one that renders nothing: then it is the observation
    :param observation: the present one
    """
    world: Any = env.render() if env.render_mode is not None else None
    if world is None:
        return [("the observation", draw_observation(env.observation_space, observation))]
    playing = getattr(env.unwrapped, "playing", env).unwrapped
    if not hasattr(playing, "get_frame"):
        return [("", world)]
    return [("the world", world), ("what the agent sees", playing.get_frame(tile_size=32, agent_pov=True))]


def draw_observation(space: spaces.Space[Any], observation: Any) -> Picture:
    """An observation of any space as a picture: pictures are themselves, numbers are grey squares.

    Black is the lowest, white the highest that an entry can be; without bounds, that of this observation.
    """
    if isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8:
        return np.asarray(observation)
    values: Picture = np.asarray(spaces.flatten(space, observation), dtype=np.float64)
    flat = spaces.flatten_space(space)
    low, high = (flat.low, flat.high) if isinstance(flat, spaces.Box) else (0.0, 1.0)
    low = np.where(np.isfinite(low), low, values.min(initial=0.0))
    high = np.where(np.isfinite(high), high, values.max(initial=1.0))
    grey = np.clip((values - low) / np.maximum(high - low, 1e-9), 0.0, 1.0) * 255.0
    columns = int(np.ceil(np.sqrt(len(grey))))
    rows = -(-len(grey) // columns)
    cells = np.full(rows * columns, 128.0)
    cells[: len(grey)] = grey
    side = max(1, HEIGHT // max(rows, columns))
    squares = np.kron(cells.reshape(rows, columns), np.ones((side, side))).astype(np.uint8)
    return np.repeat(squares[:, :, None], 3, axis=2)


def compose(pictures: Sequence[tuple[str, Picture]], words: Sequence[str], ink: Ink = INK) -> Image.Image:
    """Pictures side by side at one height, their labels above and lines of words below."""
    font = ImageFont.load_default(size=15)
    scaled = []
    for _, picture in pictures:
        image = Image.fromarray(np.asarray(picture, dtype=np.uint8))
        scaled.append(
            image.resize((round(image.width * HEIGHT / image.height), HEIGHT), Image.Resampling.NEAREST)
        )
    width = sum(image.width for image in scaled) + MARGIN * (len(scaled) + 1)
    top = MARGIN + (LINE if any(label for label, _ in pictures) else 0)
    canvas = Image.new("RGB", (width, top + HEIGHT + MARGIN + LINE * LINES), PAPER)
    draw = ImageDraw.Draw(canvas)
    left = MARGIN
    for (label, _), image in zip(pictures, scaled, strict=True):
        draw.text((left, MARGIN // 2), label, INK, font)
        canvas.paste(image, (left, top))
        left += image.width + MARGIN
    for line, text in enumerate(words):
        draw.text((MARGIN, top + HEIGHT + MARGIN // 2 + LINE * line), text, ink, font)
    return canvas
