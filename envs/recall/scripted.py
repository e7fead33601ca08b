"""Policies that remember by a rule: what an agent is measured against, with memory and without."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from envs.recall.hashing import Ints

TaskT = TypeVar("TaskT")


class ScriptedPolicy(ABC, Generic[TaskT]):
    """A policy that sees observations only. Its `predict` is an SB3 model's: `evaluate_policy` takes it.

    Args:
        task: the task it plays; only its fixed properties are read.
        remember: without it the memory is emptied before every step: the best that a policy without memory
            can do.
    """

    memory_size: int = 1

    def __init__(self, task: TaskT, remember: bool = True) -> None:
        self.task = task
        self.remember = remember

    @abstractmethod
    def write(self, memory: Ints, observations: NDArray[np.float32]) -> None:
        """Write into the memories (N, memory_size), -1 where empty, what the observations (N, D) tell."""

    @abstractmethod
    def act(self, memory: Ints, observations: NDArray[np.float32]) -> Ints:
        """The actions (N,) given memories (N, memory_size) and observations (N, D)."""

    def predict(
        self,
        observation: Any,
        state: Ints | None = None,
        episode_start: Any = None,
        deterministic: bool = True,
    ) -> tuple[Ints, Ints]:
        """Actions (N,) and the memories (N, memory_size) to hand in as the next `state`.

        Args:
            observation: (N, D), or (D,) for N = 1.
            state: the memories returned by the last call; None empties all.
            episode_start: (N,) rows whose memory is emptied before they look.
            deterministic: there is no other way; here for SB3.
        """
        observations = np.atleast_2d(np.asarray(observation, dtype=np.float32))
        if state is None or not self.remember:
            memory: Ints = np.full((len(observations), self.memory_size), -1, dtype=np.int64)
        else:
            memory = state.copy()
        if episode_start is not None:
            memory[np.broadcast_to(np.asarray(episode_start, dtype=bool), len(memory))] = -1
        self.write(memory, observations)
        return self.act(memory, observations), memory
