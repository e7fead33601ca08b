"""Whether an agent uses its memory: what success is left when the memory is taken away, or is another's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from agents.environments import EVALUATION_SEED, make_env, set_levels
from agents.evaluation import MOST_ENVS, Predict, Result, play
from agents.levels import Level
from agents.recipes import Recipe
from rmt_rl import MemoryPPO, MemoryState
from rmt_rl.cores import map_state
from rmt_rl.recording import Recording, record


@dataclass(frozen=True)
class Use:
    """Outcomes over the same episodes."""

    whole: Result
    """of the agent as it is"""
    frozen: Result
    """with a memory that stays what it is at an episode's beginning"""
    swapped: Result
    """with actions that come from another episode's state, its present segment included"""
    alone: Result
    """with nothing but the present observation: every step is an episode's first"""

    @property
    def use(self) -> float:
        """How much of the success hangs on what segments hand on: the share that is lost without.

        An agent that is done within one segment has none of it, however much it remembers there.
        """
        return _lost(self.whole, self.frozen)

    @property
    def use_of_past(self) -> float:
        """How much hangs on the episode's own past: the share that is lost at least, without one or with
        another's.
        """
        return _lost(self.whole, self.swapped, self.alone)


def _lost(whole: Result, *without: Result) -> float:
    if whole.success == 0.0:
        return 0.0
    return max(0.0, 1.0 - max(result.success for result in without) / whole.success)


def memory_use(
    model: MemoryPPO, recipe: Recipe, level: Level, *, episodes: int = 256, seed: int = EVALUATION_SEED
) -> Use:
    """Play the same episodes as it is, and with less.

    :raises ValueError: for fewer than 2 episodes: memories are swapped between two that run side by side
    """
    if episodes < 2:
        raise ValueError(f"episodes must be at least 2, got {episodes}")
    results = []
    for predict in (None, freezing(model), swapping(model), forgetting(model)):
        env = make_env(recipe, min(episodes, MOST_ENVS), seed)
        try:
            set_levels(env, [level])
            results.append(play(model, env, level, episodes, predict=predict))
        finally:
            env.close()
    return Use(*results)


def freezing(model: MemoryPPO) -> Predict:
    """``predict`` whose memory never changes; steps of the present segment are still seen."""

    def predict(
        observations: Any, state: MemoryState | None, starts: np.ndarray[Any, Any] | None, deterministic: bool
    ) -> tuple[np.ndarray[Any, Any], MemoryState]:
        # A write that is due would be made within the call: it is put off by beginning the segment here.
        if state is not None:
            state = replace(state, states=tuple(map(_forgotten, _cores(model), state.states)))
        return model.predict(observations, state, starts, deterministic)

    return predict


def swapping(model: MemoryPPO) -> Predict:
    """``predict`` whose actions come from the next row's state; each row's own goes on unseen."""

    def predict(
        observations: Any, state: MemoryState | None, starts: np.ndarray[Any, Any] | None, deterministic: bool
    ) -> tuple[np.ndarray[Any, Any], MemoryState]:
        actions, own = model.predict(observations, state, starts, deterministic)
        if state is None:
            return actions, own
        other = replace(state, states=map_state(lambda leaf: leaf.roll(1, 0), state.states))
        return model.predict(observations, other, starts, deterministic)[0], own

    return predict


def forgetting(model: MemoryPPO) -> Predict:
    """``predict`` for which every step is an episode's first."""

    def predict(
        observations: Any, state: MemoryState | None, starts: np.ndarray[Any, Any] | None, deterministic: bool
    ) -> tuple[np.ndarray[Any, Any], MemoryState]:
        return model.predict(
            observations, None, None if starts is None else np.ones_like(starts), deterministic
        )

    return predict


def record_episode(
    model: MemoryPPO, recipe: Recipe, level: Level, seed: int = EVALUATION_SEED
) -> tuple[Recording, bool]:
    """One episode, step by step: what was seen of the (actor's) core, and whether it succeeded."""
    env = make_env(recipe, 1, seed)
    try:
        set_levels(env, [level])
        with record(model.policy.core) as recording:
            result = play(model, env, level, 1, predict=model.predict)
    finally:
        env.close()
    return recording, result.success == 1.0


def _cores(model: MemoryPPO) -> list[Any]:
    return [core for core in (model.policy.core, model.policy.critic_core) if core is not None]


@torch.no_grad()
def _forgotten(core: Any, state: Any) -> Any:
    """A state whose memory is that of an episode's beginning."""
    rows = next(iter(state)).shape[0] if len(state) else 0
    if not rows:
        return state
    first = core.initial_state(rows)
    if "memory" not in getattr(state, "_fields", ()):
        return first
    due = state.position == core.segment_length
    # Where a write is due, the next step begins a segment with the first memory: as in an episode's first.
    return map_state(
        lambda now, then: torch.where(due.view(-1, *(1 for _ in now.shape[1:])), then, now),
        state._replace(memory=first.memory),
        first,
    )
