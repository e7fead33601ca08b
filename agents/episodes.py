"""Episodes as pictures: what happens, beside what the agent sees."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from agents.environments import EVALUATION_SEED, find_spec
from agents.levels import Level, format_level
from agents.recipes import Recipe
from rmt_rl import MemoryPPO

Ink = tuple[int, int, int]
Picture = np.ndarray[Any, Any]
AnyEnv = gym.Env[Any, Any]

HEIGHT, MARGIN, LINE, LINES = 320, 12, 22, 2  # pixels, but for the last: lines of words
INK, PAPER, GOOD, BAD = (30, 30, 30), (250, 250, 247), (20, 120, 60), (180, 40, 30)
SECONDS_AT_END = 1.5


@dataclass(frozen=True)
class Frame:
    """One picture, and how long it stays."""

    image: Image.Image
    seconds: float
    last: bool = False
    """whether it is its episode's last"""


class Reel:
    """Keeps the first and the last frames of an episode, and of those between so many that they fit.

    :param most: how many frames it keeps at most
    """

    def __init__(self, most: int) -> None:
        if most < 4:
            raise ValueError(f"an episode needs at least 4 frames, got {most}")
        end = max(1, most // 4)
        self.head: list[Frame] = []
        self.middle: list[Frame] = []
        self.tail: deque[Frame] = deque()
        self.end, self.room = end, most - 2 * end
        self.stride, self.passed = 1, 0

    def add(self, frame: Frame) -> None:
        """Take the next frame."""
        if len(self.head) < self.end:
            self.head.append(frame)
            return
        self.tail.append(frame)
        if len(self.tail) <= self.end:
            return
        frame = self.tail.popleft()
        if self.passed % self.stride == 0:
            self.middle.append(frame)
        self.passed += 1
        if len(self.middle) > self.room:
            self.middle = self.middle[::2]
            self.stride *= 2

    def frames(self) -> list[Frame]:
        """Those kept, in order."""
        return [*self.head, *self.middle, *self.tail]


def play_frames(
    recipe: Recipe,
    model: MemoryPPO | None,
    level: Level,
    *,
    episodes: int = 3,
    seed: int = EVALUATION_SEED,
    deterministic: bool = True,
    fps: float = 8.0,
) -> Iterator[Frame]:
    """Play episodes of a level, a frame for each step and one for what came of it.

    :param model: the agent; None acts at random
    :param seed: of the environment; by default one that no training plays
    :param deterministic: take the likeliest action, or draw one
    :param fps: pictures per second
    :raises ValueError: if the environment has no such level
    """
    find_spec(recipe.env_id)
    env: AnyEnv = gym.make(
        recipe.env_id, render_mode="rgb_array", disable_env_checker=True, **recipe.make_env_kwargs()
    )
    try:
        env.get_wrapper_attr("set_levels")([level])
        env.action_space.seed(seed)
        for episode in range(episodes):
            observation, _ = env.reset(seed=seed if episode == 0 else None)
            state, words = None, [f"level {format_level(level)}, step 1{_segment(model, 0)}"]
            for step in count():
                yield Frame(compose(look(env), words), 1.0 / fps)
                if model is None:
                    action = env.action_space.sample()
                else:
                    action, state = model.predict(observation, state, np.array([step == 0]), deterministic)
                observation, _, terminated, truncated, info = env.step(action)
                if terminated or truncated:
                    break
                words = [
                    f"level {format_level(level)}, step {step + 2}{_segment(model, step + 1)}",
                    f"last action {_action(action)}",
                ]
            success = bool(info["is_success"])
            words = [
                f"level {format_level(level)}, {step + 1} steps",
                f"last action {_action(action)}: {'success' if success else 'failure'}",
            ]
            yield Frame(compose(look(env), words, GOOD if success else BAD), SECONDS_AT_END, last=True)
    finally:
        env.close()


def film(frames: Iterable[Frame], most: int = 160) -> list[Frame]:
    """Keep at most so many frames of each episode; the first and the last ones are all kept."""
    kept: list[Frame] = []
    reel = Reel(most)
    for frame in frames:
        reel.add(frame)
        if frame.last:
            kept += reel.frames()
            reel = Reel(most)
    return kept + reel.frames()


def save_gif(frames: Sequence[Frame], path: Path) -> None:
    """Write an animated GIF that repeats.

    :raises ValueError: if there are no frames
    """
    if not frames:
        raise ValueError(f"there are no frames for {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    first, *others = [frame.image.quantize(64, dither=Image.Dither.NONE) for frame in frames]
    # GIF counts in hundredths of a second, and viewers slow down below two of them.
    durations = [max(20, round(frame.seconds * 100) * 10) for frame in frames]
    first.save(path, save_all=True, append_images=others, duration=durations, loop=0, disposal=1)


def look(env: AnyEnv) -> list[tuple[str, Picture]]:
    """What is to be seen of an environment now: labelled pictures (H, W, 3)."""
    world: Any = env.render()
    playing = getattr(env.unwrapped, "playing", env).unwrapped
    if not hasattr(playing, "get_frame"):
        return [("", world)]
    return [("the world", world), ("what the agent sees", playing.get_frame(tile_size=32, agent_pov=True))]


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


def _segment(model: MemoryPPO | None, step: int) -> str:
    length = getattr(model.policy.core, "segment_length", None) if model is not None else None
    return "" if length is None else f", segment {step // length + 1}"


def _action(action: Any) -> str:
    return str(np.asarray(action).tolist())
