"""Whether an agent uses its memory: what success is left when the memory is taken away, or is another's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.vec_env import VecEnv

from agents.actions import random_actions
from agents.environments import EVALUATION_SEED, make_env, set_levels
from agents.evaluation import MOST_ENVS, Predict, Result, play
from agents.levels import Level
from agents.recipes import Recipe
from rmt_rl import MemoryPPO, MemoryState
from rmt_rl.cores import RMTEncoder, map_state
from rmt_rl.cores.segmented import SegmentedCore
from rmt_rl.recording import Recording, record
from rmt_rl.states import leaves

State = MemoryState | None
Flags = np.ndarray[Any, Any] | None
Acted = tuple[np.ndarray[Any, Any], State]


@dataclass(frozen=True)
class Use:
    """Outcomes over the same episodes.

    Shares are of the success above chance, where the environment tells of success, else of the mean return
    above the baseline: so they are 1 where nothing but chance is left without the memory.
    """

    whole: Result
    """of the agent as it is"""
    frozen: Result
    """with a memory that stays what it is at an episode's beginning"""
    swapped: Result
    """with actions that come from another episode's state, its present segment included"""
    alone: Result
    """with nothing but the present observation: every step is an episode's first"""
    baseline: float
    """what is reached without any memory, in the unit of the scores"""
    random: Result | None = None
    """of random actions, where they are the baseline because no chance is known"""

    @property
    def use(self) -> float:
        """How much of what is above chance hangs on what segments hand on: the share that is lost without.

        An agent that is done within one segment has none of it, however much it remembers there.
        """
        return self._lost(self.frozen)

    @property
    def use_of_past(self) -> float:
        """How much hangs on the episode's own past: the share that is lost at least, without one or with
        another's.
        """
        return self._lost(self.swapped, self.alone)

    @property
    def is_above_chance(self) -> bool:
        """Whether the agent is better than chance for sure; if it is not, the shares mean nothing."""
        low, _ = self.whole.interval if self.whole.has_success else self.whole.return_interval
        return low > self.baseline

    def _lost(self, *without: Result) -> float:
        above = self.whole.score - self.baseline
        if above <= 0.0:
            return 0.0
        left = max(_score_like(self.whole, result) for result in without) - self.baseline
        return float(np.clip(1.0 - left / above, 0.0, 1.0))


def _score_like(whole: Result, result: Result) -> float:
    """A result's score in the unit of another's. No episode may have told of success where none succeeded."""
    if not whole.has_success:
        return result.mean_return
    return result.success if result.has_success else 0.0


def memory_use(
    model: MemoryPPO,
    recipe: Recipe,
    level: Level | None,
    *,
    episodes: int = 256,
    seed: int = EVALUATION_SEED,
    chance: float | None = None,
) -> Use:
    """Play the same episodes as it is, and with less.

    :param level: None for an environment without levels
    :param chance: what is reached without memory, as success or, where the environment tells of none, as
        return; None to measure random actions
    :raises ValueError: for fewer than 2 episodes: memories are swapped between two that run side by side
    """
    if episodes < 2:
        raise ValueError(f"episodes must be at least 2, got {episodes}")

    def measure(make_predict: Callable[[VecEnv], Predict | None]) -> Result:
        env = make_env(recipe, min(episodes, MOST_ENVS), seed)
        try:
            set_levels(env, [level])
            return play(model, env, level, episodes, predict=make_predict(env))
        finally:
            env.close()

    ways = (None, freezing(model), swapping(model), forgetting(model))
    whole, frozen, swapped, alone = (measure(lambda env, way=way: way) for way in ways)  # type: ignore[misc]
    if chance is not None:
        return Use(whole, frozen, swapped, alone, chance)
    random = measure(lambda env: at_random(env, seed))
    return Use(whole, frozen, swapped, alone, _score_like(whole, random), random)


def find_chance(recipe: Recipe, level: Level | None) -> float | None:
    """The rate of success by chance that the environment tells of itself at a level; None if it does not.

    It is an attribute ``chance``, or a method ``chance(level)`` for a number.
    """
    env = make_env(recipe, 1, 0)
    try:
        set_levels(env, [level])
        told = env.get_attr("chance")[0] if env.has_attr("chance") else None
        if callable(told):
            numbers = range(level[0], level[1] + 1) if isinstance(level, tuple) else [level]
            told = None if level is None else float(np.mean([told(number) for number in numbers]))
    finally:
        env.close()
    return float(told) if isinstance(told, Real) else None


def at_random(env: VecEnv, seed: int) -> Predict:
    """``predict`` that draws each action, of those that the environment allows, with equal probability."""
    draw = random_actions(env.action_space, seed)

    def predict(
        observations: Any, state: State, starts: Flags, deterministic: bool, /, *, action_masks: Flags = None
    ) -> Acted:
        rows = [None] * env.num_envs if action_masks is None else action_masks
        return np.stack([draw(row) for row in rows]), None

    return predict


def freezing(model: MemoryPPO) -> Predict:
    """``predict`` whose memory never changes; steps of the present segment are still seen."""

    def predict(
        observations: Any, state: State, starts: Flags, deterministic: bool, /, *, action_masks: Flags = None
    ) -> Acted:
        # A write that is due would be made within the call: it is put off by beginning the segment here.
        if state is not None:
            state = replace(state, states=tuple(map(_forgotten, _cores(model), state.states)))
        return model.predict(observations, state, starts, deterministic, action_masks)

    return predict


def swapping(model: MemoryPPO) -> Predict:
    """``predict`` whose actions come from the next row's state; each row's own goes on unseen."""

    def predict(
        observations: Any, state: State, starts: Flags, deterministic: bool, /, *, action_masks: Flags = None
    ) -> Acted:
        actions, own = model.predict(observations, state, starts, deterministic, action_masks)
        if state is None:
            return actions, own
        other = replace(state, states=map_state(lambda leaf: leaf.roll(1, 0), state.states))
        return model.predict(observations, other, starts, deterministic, action_masks)[0], own

    return predict


def forgetting(model: MemoryPPO) -> Predict:
    """``predict`` for which every step is an episode's first."""

    def predict(
        observations: Any, state: State, starts: Flags, deterministic: bool, /, *, action_masks: Flags = None
    ) -> Acted:
        first = None if starts is None else np.ones_like(starts)
        return model.predict(observations, None, first, deterministic, action_masks)

    return predict


def record_episode(
    model: MemoryPPO, recipe: Recipe, level: Level | None, seed: int = EVALUATION_SEED
) -> tuple[Recording, Result]:
    """One episode, step by step: what was seen of the (actor's) core, and what came of it."""
    env = make_env(recipe, 1, seed)
    try:
        set_levels(env, [level])
        with record(model.policy.core) as recording:
            result = play(model, env, level, 1, streams=False)
    finally:
        env.close()
    return recording, result


def _cores(model: MemoryPPO) -> list[Any]:
    return [core for core in (model.policy.core, model.policy.critic_core) if core is not None]


@torch.no_grad()
def _forgotten(core: Any, state: Any) -> Any:
    """A state whose memory is that of an episode's beginning."""
    rows = next((len(leaf) for leaf in leaves(state)), 0)
    if not rows:
        return state
    first = core.initial_state(rows)
    if not isinstance(core, SegmentedCore | RMTEncoder):
        return first
    due = state.position == core.segment_length
    # Where a write is due, the next step begins a segment with the first memory: as in an episode's first.
    return map_state(
        lambda now, then: torch.where(due.view(-1, *(1 for _ in now.shape[1:])), then, now),
        state._replace(memory=first.memory),
        first,
    )
