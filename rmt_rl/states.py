"""The memory of a batch of agents, as ``predict`` hands it out and takes it back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor

from rmt_rl.cores.base import map_state

CoreStates = tuple[tuple[Any, ...], ...]
"""One state per core of a policy: the shared one, or the actor's and the critic's."""


class SequenceBatch(NamedTuple):
    """Whole training sequences, as ``evaluate_actions`` takes them. B sequences of T steps."""

    observations: PyTorchObs
    """(B * T, ...), a sequence's steps next to each other"""
    states: CoreStates
    """what the cores remembered before the first step of every sequence; every leaf (B, ...)"""
    episode_starts: Tensor
    """(B, T) bool"""
    action_masks: Tensor | None = None
    """(B * T, A) bool, true for what was allowed; None if all was"""


@dataclass(frozen=True, eq=False, repr=False)
class MemoryState:
    """Opaque: pass what ``predict`` returned to the next ``predict``.

    It can be pickled; for a machine without its device, pickle ``state.to("cpu")``. States are equal if they
    hold the same numbers of the same core.
    """

    core: str
    """description of the core that it belongs to"""
    batch_size: int
    states: CoreStates

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, MemoryState):
            return NotImplemented
        if (self.core, self.batch_size) != (other.core, other.batch_size):
            return False
        return all(map(_same, leaves(self.states), leaves(other.states)))

    def __hash__(self) -> int:
        return hash((self.core, self.batch_size))

    def __repr__(self) -> str:
        tensors = list(leaves(self.states))
        where = f" on {tensors[0].device}" if tensors else ""
        name, environments = self.core.split("(")[0], "environment" + "s" * (self.batch_size != 1)
        count = sum(tensor.numel() for tensor in tensors)
        return f"<MemoryState of {name}: {self.batch_size} {environments}, {count} numbers{where}>"

    def check(self, core: str, batch_size: int, device: torch.device) -> None:
        """Raise ValueError unless this state fits a policy and a number of observations."""
        if self.core != core:
            raise ValueError(
                f"this state comes from the core {self.core}, the policy's is {core}; "
                "pass the state that this policy's predict returned, or None to begin afresh"
            )
        if self.batch_size != batch_size:
            raise ValueError(
                f"this state holds the memory of {self.batch_size} environments, {batch_size} observations "
                "were given; pass one observation per environment, or None to begin afresh"
            )
        for leaf in leaves(self.states):
            if leaf.device == device:
                continue
            if leaf.device.type != device.type or (leaf.device.index or 0) != (device.index or 0):
                raise ValueError(
                    f"this state lies on {leaf.device}, the policy on {device}; "
                    f"move it with state.to({str(device)!r}), or pass None to begin afresh"
                )

    def to(self, device: torch.device | str) -> MemoryState:
        """The same memory on another device."""
        return MemoryState(self.core, self.batch_size, map_state(lambda leaf: leaf.to(device), self.states))


def _same(one: Tensor, other: Tensor) -> bool:
    """Whether two leaves hold the same numbers in the same place."""
    if one is other:
        return True
    alike = (one.shape, one.dtype, one.device) == (other.shape, other.dtype, other.device)
    return alike and not one.is_meta and torch.equal(one, other)


def leaves(states: tuple[Any, ...]) -> Iterator[Tensor]:
    """The tensors of nested states, in order."""
    for part in states:
        if isinstance(part, tuple):
            yield from leaves(part)
        else:
            yield part
