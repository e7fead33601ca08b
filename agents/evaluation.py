"""How often an agent succeeds, and its return, over episodes that it was not trained on; with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, stdev
from typing import Any, Protocol

import numpy as np
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper

from agents.environments import EVALUATION_SEED, make_env, masks_of, set_levels
from agents.levels import Level
from agents.recipes import Recipe
from rmt_rl import MemoryPPO, MemoryState


class Predict(Protocol):
    """As SB3's ``predict``: from observations, memory and episode starts to actions and memory."""

    def __call__(
        self,
        observations: Any,
        state: MemoryState | None,
        starts: np.ndarray[Any, Any] | None,
        deterministic: bool,
        /,
        *,
        action_masks: np.ndarray[Any, Any] | None = None,
    ) -> tuple[np.ndarray[Any, Any], MemoryState | None]:
        """``action_masks`` are given for environments that have them."""


MOST_ENVS = 128
"""environments side by side"""
BLOCK = 512
"""steps of a block that is streamed through the memory"""


def wilson_interval(successes: int, episodes: int, confidence: float = 0.95) -> tuple[float, float]:
    """The interval for a probability that is seen as ``successes`` of ``episodes`` (Wilson 1927).

    :raises ValueError: unless 0 <= successes <= episodes, episodes > 0 and 0 < confidence < 1
    """
    if not (0 <= successes <= episodes and episodes > 0):
        raise ValueError(
            f"successes must be from 0 to episodes, of at least 1, got {successes} of {episodes}"
        )
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    rate = successes / episodes
    centre = rate + z**2 / (2 * episodes)
    margin = z * math.sqrt(rate * (1.0 - rate) / episodes + z**2 / (4 * episodes**2))
    low, high = ((centre + sign * margin) / (1.0 + z**2 / episodes) for sign in (-1, 1))
    # Exact at the ends, where rounding would leave 1e-17.
    return (0.0 if successes == 0 else low), (1.0 if successes == episodes else high)


@dataclass(frozen=True)
class Result:
    """Outcome of the episodes at one level."""

    level: Level | None
    """None for an environment without levels"""
    episodes: int
    successes: int | None
    """None if no episode told whether it succeeded (``info["is_success"]``)"""
    mean_return: float
    mean_length: float
    return_deviation: float = field(default=math.nan, compare=False)
    """standard deviation of the returns; NaN for a single one"""

    @property
    def has_success(self) -> bool:
        """Whether the environment tells of success."""
        return self.successes is not None

    @property
    def success(self) -> float:
        """Share of the episodes.

        :raises ValueError: if no episode told
        """
        return self._told() / self.episodes

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval for it."""
        return wilson_interval(self._told(), self.episodes)

    @property
    def return_interval(self) -> tuple[float, float]:
        """The 95% interval of the mean return by the normal distribution; NaN for a single episode."""
        margin = NormalDist().inv_cdf(0.975) * self.return_deviation / math.sqrt(self.episodes)
        return self.mean_return - margin, self.mean_return + margin

    @property
    def score(self) -> float:
        """Success where the environment tells of it, else the mean return."""
        return self.success if self.has_success else self.mean_return

    def _told(self) -> int:
        if self.successes is None:
            raise ValueError("these episodes do not tell whether they succeeded: there is only their return")
        return self.successes


def evaluate(
    model: MemoryPPO,
    recipe: Recipe,
    levels: Sequence[Level | None] = (),
    *,
    episodes: int = 256,
    seed: int = EVALUATION_SEED,
    deterministic: bool = True,
    on_level: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Play episodes at each level.

    :param levels: by default the hardest that the agent was trained at and those that the recipe names
    :param episodes: number of episodes at each level
    :param seed: of the first environment; by default it is one that no training plays
    :param deterministic: take the likeliest action, or draw one
    :param on_level: called with each level's result
    :return: one result per level
    :raises ValueError: if there is no such level; nothing has been played then
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}")
    results = []
    levels = levels or default_levels(recipe)
    check_levels(recipe, levels)
    for level in levels:
        env = make_env(recipe, min(episodes, MOST_ENVS), seed)
        try:
            set_levels(env, [level])
            results.append(play(model, env, level, episodes, deterministic))
        finally:
            env.close()
        if on_level:
            on_level(results[-1])
    return results


def default_levels(recipe: Recipe) -> tuple[Level | None, ...]:
    """The hardest level of the curriculum, and those that the recipe names for evaluation.

    A single None if there are no levels.
    """
    return tuple(dict.fromkeys((*recipe.levels[-1:], *recipe.evaluation_levels))) or (None,)


def check_levels(recipe: Recipe, levels: Sequence[Level | None]) -> None:
    """Raise ValueError unless the recipe's environment has these levels."""
    env = make_env(recipe, 1, 0)
    try:
        for level in levels:
            set_levels(env, [level])
    finally:
        env.close()


def play(
    model: MemoryPPO,
    env: VecEnv,
    level: Level | None,
    episodes: int,
    deterministic: bool = True,
    predict: Predict | None = None,
    streams: bool | None = None,
) -> Result:
    """Play the first episodes of every environment, as many as its share, and count.

    Each environment has a share of its own, so that short episodes do not crowd out long ones. Where the
    environments have action masks, actions are chosen by them.

    :param predict: in place of the model's; it is called at every step
    :param streams: whether steps whose actions have no effect go through the memory in blocks; None for yes,
        unless there is a ``predict``
    """
    streams = predict is None if streams is None else streams
    act: Predict = model.predict if predict is None else predict
    masks = masks_of(env)
    share = np.full(env.num_envs, episodes // env.num_envs)
    share[: episodes % env.num_envs] += 1
    successes: list[bool] = []
    returns: list[float] = []
    lengths = 0
    observations: Any = env.reset()
    starts = np.ones(env.num_envs, dtype=bool)
    state: MemoryState | None = None
    while share.any():
        if streams:
            observations, starts, state = stream(model, env, observations, starts, state)
        actions, state = act(observations, state, starts, deterministic, **masks())
        observations, _, dones, infos = env.step(actions)
        starts = np.asarray(dones, dtype=bool)
        for row in np.flatnonzero(starts & (share > 0)):
            share[row] -= 1
            if "is_success" in infos[row]:
                successes.append(bool(infos[row]["is_success"]))
            returns.append(float(infos[row]["episode"]["r"]))
            lengths += int(infos[row]["episode"]["l"])
    return Result(
        level,
        episodes,
        sum(successes) if successes else None,
        sum(returns) / episodes,
        lengths / episodes,
        stdev(returns) if episodes > 1 else math.nan,
    )


def stream(
    model: MemoryPPO, env: VecEnv, observations: Any, starts: np.ndarray[Any, Any], state: MemoryState | None
) -> tuple[Any, np.ndarray[Any, Any], MemoryState | None]:
    """Pass the steps at which no action has an effect through the memory in blocks.

    For environments with ``non_reactive_steps()`` (steps from now whose actions do nothing, one number per
    environment), ``advance(n)`` (the observations (N, n, ...) of the next n, which are then over) and
    ``observe()``; for others nothing is done. By the law of splitting, the memory is what stepping leads to.

    :return: the observations at which to act, whether each is its episode's first, and the memory before them
    """
    if isinstance(env, VecEnvWrapper) or not hasattr(env, "advance"):
        return observations, starts, state
    remaining = int(env.non_reactive_steps().min())  # type: ignore[attr-defined]
    if remaining == 0:
        return observations, starts, state
    for begin in range(0, remaining, BLOCK):
        block = env.advance(min(BLOCK, remaining - begin))
        block_starts = np.zeros(block.shape[:2], dtype=bool)
        block_starts[:, 0] = starts
        state = model.warm_up(block, state, block_starts)
        starts = np.zeros_like(starts)
    return env.observe(), starts, state  # type: ignore[attr-defined]
