"""Episodes as pictures: what happens, beside what the agent sees."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from PIL import Image

from agents.actions import random_actions
from agents.environments import EVALUATION_SEED, find_spec, naming_bad_arguments
from agents.levels import Level, format_level
from agents.pictures import BAD, GOOD, INK, compose, look
from agents.recipes import Recipe
from rmt_rl import MemoryPPO
from rmt_rl.masking import METHOD, get_action_masks, is_masking_supported

AnyEnv = gym.Env[Any, Any]
Act = Callable[[Any, bool], Any]
"""From an observation, and whether it is an episode's first, to an action."""

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
    level: Level | None,
    *,
    episodes: int = 3,
    seed: int = EVALUATION_SEED,
    deterministic: bool = True,
    fps: float = 8.0,
) -> Iterator[Frame]:
    """Play episodes of a recipe's task at a level; see ``film_episodes``.

    :param model: the agent; None acts at random
    :param level: None for an environment without levels
    :param seed: of the environment; by default one that no training plays
    :param deterministic: take the likeliest action, or draw one
    :param fps: pictures per second
    :raises ValueError: if the environment has no such level
    """
    env = open_env(recipe.env_id, **recipe.make_env_kwargs())
    set_level(env, level)
    act = act_at_random(env, seed) if model is None else act_by(env, model, deterministic)
    segment = None if model is None else getattr(model.policy.core, "segment_length", None)
    title = "" if level is None else f"level {format_level(level)}, "
    return film_episodes(env, act, episodes=episodes, seed=seed, fps=fps, title=title, segment_length=segment)


def open_env(env_id: str, **kwargs: Any) -> AnyEnv:
    """An environment that renders pictures, if it renders at all.

    :raises ValueError: for an unknown id
    """
    find_spec(env_id)
    with warnings.catch_warnings():
        # Gymnasium warns of an environment that lists no such mode; then it renders nothing.
        warnings.filterwarnings("ignore", "(?s).*not in the possible render_modes", UserWarning)
        with naming_bad_arguments(env_id, kwargs):
            try:
                return gym.make(env_id, render_mode="rgb_array", disable_env_checker=True, **kwargs)
            except TypeError:
                # It takes no render mode; a TypeError of another cause comes again.
                return gym.make(env_id, disable_env_checker=True, **kwargs)


def set_level(env: AnyEnv, level: Level | None) -> None:
    """Play every later episode at a level; None leaves the environment as it is.

    :raises ValueError: if it has no levels, or not this one
    """
    if level is None:
        return
    try:
        set_levels = env.get_wrapper_attr("set_levels")
    except AttributeError:
        name = "the environment" if env.spec is None else env.spec.id
        raise ValueError(f"{name} has no levels: leave --level out") from None
    try:
        set_levels([level])
    except (LookupError, TypeError) as error:
        raise ValueError(f"the environment has no level {format_level(level)}: {error}") from error


def act_by(env: AnyEnv, model: MemoryPPO, deterministic: bool = True) -> Act:
    """An agent, which remembers from call to call. It goes by action masks where the environment has some."""
    state = None
    masked = has_masks(env)

    def act(observation: Any, first: bool) -> Any:
        nonlocal state
        masks = get_action_masks(env) if masked else None
        action, state = model.predict(observation, state, np.array([first]), deterministic, masks)
        return action

    return act


def act_at_random(env: AnyEnv, seed: int) -> Act:
    """Random actions, of those that the environment allows."""
    draw = random_actions(env.action_space, seed)
    masked = has_masks(env)
    return lambda observation, first: draw(get_action_masks(env) if masked else None)


def has_masks(env: AnyEnv) -> bool:
    """Whether the environment says which actions it allows."""
    return is_masking_supported(env) and callable(env.get_wrapper_attr(METHOD))


def act_best(env: AnyEnv) -> Act:
    """The best actions, from the environment's hidden state.

    :raises ValueError: if the environment does not say which they are
    """
    try:
        best = env.get_wrapper_attr("optimal_action")
    except AttributeError:
        spec = "this environment" if env.spec is None else env.spec.id
        raise ValueError(f"{spec} does not say which action is best: watch it with random ones") from None
    return lambda observation, first: best()


def film_episodes(
    env: AnyEnv,
    act: Act,
    *,
    episodes: int = 3,
    seed: int = EVALUATION_SEED,
    fps: float = 8.0,
    title: str = "",
    segment_length: int | None = None,
) -> Iterator[Frame]:
    """Play episodes, a frame for each step and one for what came of it, and close the environment.

    :param title: in front of the number of the step, below the picture
    :param segment_length: to say in which segment a step is
    :raises ValueError: for fewer than 1 episode, a seed below 0, or a frame rate of 0 or less
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}")
    if not fps > 0:
        raise ValueError(f"fps must be above 0, got {fps}")
    if seed < 0:
        raise ValueError(f"seed must be at least 0, got {seed}")
    return _film(env, act, episodes, seed, fps, title, segment_length)


def _film(
    env: AnyEnv, act: Act, episodes: int, seed: int, fps: float, title: str, segment_length: int | None
) -> Iterator[Frame]:
    try:
        for episode in range(episodes):
            observation, _ = env.reset(seed=seed if episode == 0 else None)
            words, total = [f"{title}step 1{_segment(segment_length, 0)}"], 0.0
            for step in count():
                yield Frame(compose(look(env, observation), words), 1.0 / fps)
                action = act(observation, step == 0)
                observation, reward, terminated, truncated, info = env.step(action)
                total += float(reward)
                if terminated or truncated:
                    break
                words = [
                    f"{title}step {step + 2}{_segment(segment_length, step + 1)}",
                    f"last action {_action(action)}",
                ]
            success, outcome = info.get("is_success"), f"return {total:.2f}"
            if success is not None:
                outcome = "success" if success else "failure"
            words = [f"{title}{step + 1} steps", f"last action {_action(action)}: {outcome}"]
            ink = INK if success is None else GOOD if success else BAD
            yield Frame(compose(look(env, observation), words, ink), SECONDS_AT_END, last=True)
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


def _segment(length: int | None, step: int) -> str:
    return "" if length is None else f", segment {step // length + 1}"


def _action(action: Any) -> str:
    return str(np.asarray(action).tolist())
