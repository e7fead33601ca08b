"""The contract of a memory core, and the helpers that every core shares.

Dimensions, named once: B rows, T steps, D width, H heads, L layers, S segment, M memory tokens, W window.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

StateT = TypeVar("StateT", bound=tuple[Any, ...])
"""A NamedTuple of tensors, or of such; every leaf has the batch as its first dimension."""
STATE = "a NamedTuple of tensors, each with the batch first, or of such NamedTuples"


class MemoryCore(nn.Module, ABC, Generic[StateT]):
    """A function of an episode's history, computed step by step or on whole sequences with the same result.

    Subclasses define ``initial_state`` and ``forward``; they keep no state on the module and never mutate
    what they are given. The laws that every core obeys (``tests/rmt_rl/test_core_laws.py`` checks them for
    every registered one):

    1. splitting: running ``x[:, :k]`` and then ``x[:, k:]`` is running ``x``, outputs and final state;
    2. causality: an output depends on no later input;
    3. reset isolation: an episode start replaces the state by the initial one *before* its step is consumed,
       by selection, so that neither values (NaN included) nor gradients cross it;
    4. batch independence: a row depends on itself alone;
    5. every parameter receives a gradient;
    6. the state stays finite and of constant size, however long the episode.
    """

    input_dim: int
    output_dim: int

    def __init__(self, input_dim: int, output_dim: int) -> None:
        super().__init__()
        self.input_dim = require_positive("input_dim", input_dim)
        self.output_dim = require_positive("output_dim", output_dim)

    @abstractmethod
    def initial_state(self, batch_size: int) -> StateT:
        """The state of ``batch_size`` rows, none of which has seen a step."""

    def rollout_state(self, batch_size: int) -> StateT:
        """As ``initial_state``, for rows that collect experience to train on: cores may begin with a draw."""
        return self.initial_state(batch_size)

    @abstractmethod
    def forward(self, inputs: Tensor, state: StateT, episode_starts: Tensor) -> tuple[Tensor, StateT]:
        """Consume T steps.

        :param inputs: (B, T, input_dim)
        :param state: what an earlier call or ``initial_state`` returned, every leaf (B, ...)
        :param episode_starts: (B, T) bool, true where a step is the first of an episode
        :return: outputs (B, T, output_dim) and the state after the last step
        :raises ValueError: if the shapes or types do not fit each other
        """

    def replay(self, inputs: Tensor, state: StateT, episode_starts: Tensor) -> Tensor:
        """The outputs of ``forward`` without the state after them, which training has no use for.

        A core may say how to leave that out; the values are the same.
        """
        return self(inputs, state, episode_starts)[0]  # type: ignore[no-any-return]

    def step(self, inputs: Tensor, state: StateT, episode_starts: Tensor) -> tuple[Tensor, StateT]:
        """``forward`` for T = 1, without gradient and without a branch that hangs on values: one graph.

        That is what exporters and compilers can take (``rmt_rl/export.py``). Cores that spare work where only
        some rows need it say here how to do it for all of them and select.
        """
        return self(inputs, state, episode_starts)  # type: ignore[no-any-return]

    def describe(self) -> str:
        """One line that tells cores apart: those with equal descriptions can exchange weights and states."""
        return f"{type(self).__name__}(input_dim={self.input_dim}, {self.extra_repr()})"

    def get_extra_state(self) -> Tensor:
        """The description travels with the weights, as bytes: a state dict holds nothing but tensors."""
        return torch.tensor(list(self.describe().encode()), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        self.check_description(state)

    def check_description(self, saved: Tensor | None) -> None:
        """Raise ValueError if weights with the saved description are not this core's."""
        if saved is None:
            return  # weights without a description; torch names what is missing
        description = bytes(saved.tolist()).decode()
        if description != self.describe():
            raise ValueError(
                f"the checkpoint's memory core is {description}, this one is {self.describe()}; "
                "build the model with the checkpoint's core and core_kwargs, or use load, which does"
            )

    def check_call(self, inputs: Tensor, state: StateT, episode_starts: Tensor) -> None:
        """Raise ValueError where a call breaks the contract; shapes only, so it costs nothing on a device."""
        if inputs.dim() != 3 or inputs.shape[-1] != self.input_dim or inputs.shape[1] == 0:
            raise ValueError(
                f"inputs must be (rows, steps >= 1, {self.input_dim}) for this core, "
                f"got shape {tuple(inputs.shape)}"
            )
        if not inputs.is_floating_point():
            raise ValueError(f"inputs must be floating-point features, got {inputs.dtype}")
        if episode_starts.dtype != torch.bool or episode_starts.shape != inputs.shape[:2]:
            raise ValueError(
                f"episode_starts must be bool of shape {tuple(inputs.shape[:2])}, "
                f"got {episode_starts.dtype} of shape {tuple(episode_starts.shape)}"
            )
        count = inputs.shape[0]
        given: Any = state
        if isinstance(given, tuple) and all(
            isinstance(leaf, Tensor) and leaf.dim() and leaf.shape[0] == count for leaf in given
        ):
            return  # the usual case, without the names
        for name, leaf in named_leaves(state):
            if leaf.dim() == 0 or leaf.shape[0] != count:
                rows = leaf.shape[0] if leaf.dim() else "no"
                raise ValueError(f"the state's {name} has {rows} rows, the inputs have {count}")


def named_leaves(state: tuple[Any, ...], prefix: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of a state under their names, those of nested states under ``outer.inner``.

    :raises TypeError: naming what is neither a tensor nor a tuple
    """
    if not isinstance(state, tuple):
        raise TypeError(f"the state must be {STATE}, got {type(state).__name__}")
    names = getattr(state, "_fields", range(len(state)))
    for name, part in zip(names, state, strict=True):
        if isinstance(part, Tensor):
            yield f"{prefix}{name}", part
        elif isinstance(part, tuple):
            yield from named_leaves(part, f"{prefix}{name}.")
        else:
            raise TypeError(
                f"the state's {prefix}{name} is {type(part).__name__}, but a state must be {STATE}"
            )


def map_state(function: Callable[..., Tensor], *states: StateT) -> StateT:
    """Apply ``function`` leaf by leaf to states of one type, nested ones included; rebuilds that type."""
    first = states[0]
    leaves = [
        map_state(function, *leaf) if isinstance(leaf[0], tuple) else function(*leaf)
        for leaf in zip(*states, strict=True)
    ]
    # A NamedTuple takes its fields one by one, a plain tuple takes them all at once.
    return type(first)(*leaves) if hasattr(first, "_fields") else type(first)(leaves)


def expand_rows(mask: Tensor, like: Tensor) -> Tensor:
    """View a (B,) mask so that it broadcasts against ``like`` (B, ...)."""
    return mask.view(-1, *(1 for _ in range(like.dim() - 1)))


def require_positive(name: str, value: int) -> int:
    """Return ``value`` as an int; TypeError unless it is an integer, ValueError unless it is at least 1.

    Integers of numpy count: SB3 hands them over for some spaces, and tuners for lengths. torch's recurrent
    layers reject them.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer of at least 1, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return int(value)
