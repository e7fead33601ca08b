"""What a memory does while an agent acts: where its steps look, and how its memory moves.

    with record(model.policy.core) as recording:
        ...                                   # model.predict, step by step
    recording.attention()                     # (layers, steps, rows, heads, 3): memory, cache, own segment

Recording changes no output: attention weights are computed once more beside the attention itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rmt_rl.cores import ARMT, MemoryCore, RMTEncoder, TransformerXL
from rmt_rl.cores.blocks import Block
from rmt_rl.cores.segmented import SegmentedCore
from rmt_rl.states import leaves

Floats = npt.NDArray[np.float32]
PARTS = ("memory", "cache", "segment")
"""What a step can look at: the memory handed to its segment, steps before the segment, steps of its own."""


class Recording:
    """What was seen of a core; N calls of one step with B rows each, in their order."""

    def __init__(self, core: MemoryCore[Any]) -> None:
        self.core = core
        self._looks: list[list[Tensor]] = [[] for _ in _layers(core)]
        self._norms: list[Tensor] = []
        self._changes: list[Tensor] = []
        self._ranks: list[Tensor] = []
        self._last: Tensor | None = None

    @property
    def has_attention(self) -> bool:
        """Whether attention was recorded."""
        return bool(self._looks and self._looks[0])

    @property
    def parts(self) -> tuple[str, ...]:
        """Those of ``PARTS`` that this core has; attention to the others is 0."""
        core = self.core
        if isinstance(core, TransformerXL):
            return PARTS[1:]
        if isinstance(core, SegmentedCore):
            sizes = (core.sizes.read, core.sizes.window, core.sizes.steps)
            return tuple(part for part, size in zip(PARTS, sizes, strict=True) if size)
        return ()

    @property
    def has_memory(self) -> bool:
        """Whether norms and changes were."""
        return bool(self._norms)

    def attention(self) -> Floats:
        """(L, N, B, H, 3): the share of a step's attention that goes to each of ``PARTS``.

        The rest, if the sum is below 1, goes to persistent tokens.

        :raises ValueError: if the core has no attention of steps, or nothing was recorded
        """
        if not self.has_attention:
            raise ValueError(
                f"there is no attention of a {type(self.core).__name__} to show: it is recorded of rmt, "
                "rmt_xl, armt and xl, while they act one step at a time"
            )
        return np.stack([torch.stack(of_layer).numpy() for of_layer in self._looks])

    def memory_norm(self) -> Floats:
        """(N, B, M) norms of the memory tokens that each step's segment reads; of ``armt`` (N, B, L), of the
        matrices; of ``gru`` and ``lstm`` (N, B, 1), of the whole state.

        :raises ValueError: of ``xl``, whose memory is a cache, or if nothing was recorded
        """
        return self._stacked(self._norms)

    def memory_change(self) -> Floats:
        """Alike: the norm of what has changed since the call before; 0 but where a segment opens."""
        return self._stacked(self._changes)

    def _stacked(self, figures: list[Tensor]) -> Floats:
        if not figures:
            raise ValueError(
                f"nothing was recorded of the memory of this {type(self.core).__name__}: xl has but a cache, "
                "and others are recorded while they act one step at a time"
            )
        return torch.stack(figures).numpy()

    def matrix_rank(self) -> npt.NDArray[np.int64]:
        """(N, B, L) rank of the matrices of ``armt``, singular values below 1e-3 of the largest left out.

        :raises ValueError: for another core
        """
        if not self._ranks:
            raise ValueError(f"a {type(self.core).__name__} has no matrix of associations; armt has")
        return torch.stack(self._ranks).numpy()

    # -- what the hooks call ---------------------------------------------------------------------------------

    @torch.no_grad()
    def _look(self, layer: int, query: Tensor, key: Tensor, mask: Tensor | None) -> None:
        parts = self._parts(query.shape[2], key.shape[2])
        if parts is None:
            return
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        weights = (scores if mask is None else scores + mask).softmax(-1).squeeze(2)  # (B, H, K)
        self._looks[layer].append(torch.stack([weights[..., part].sum(-1) for part in parts], dim=-1).cpu())

    def _parts(self, queries: int, keys: int) -> tuple[slice, slice, slice] | None:
        """Where memory, cache and own segment are among the keys of one step; None for another block."""
        core = self.core
        persistent = int(getattr(core, "options", {}).get("persistent_tokens", 0))
        if isinstance(core, TransformerXL) and queries == 1:
            last = keys - 1
            return slice(0, 0), slice(persistent, last), slice(last, keys)
        if isinstance(core, SegmentedCore) and queries == 1 and keys == persistent + core.sizes.cache:
            before = persistent + core.sizes.read
            own = before + core.sizes.window
            return slice(persistent, before), slice(before, own), slice(own, keys)
        return None

    @torch.no_grad()
    def _after(self, module: nn.Module, arguments: tuple[Any, ...], result: tuple[Tensor, Any]) -> None:
        if result[0].shape[1] != 1 or isinstance(self.core, TransformerXL):
            return
        state = result[1]
        if isinstance(self.core, SegmentedCore | RMTEncoder):
            if self._norms and not (state.position == 1).any():
                # No row has opened a segment: all is as it was.
                self._norms.append(self._norms[-1])
                self._changes.append(torch.zeros_like(self._changes[-1]))
                self._ranks += self._ranks[-1:]
                return
            memory = state.memory
        else:
            floats = [leaf.flatten(1) for leaf in leaves(state) if leaf.is_floating_point()]
            nothing = result[0].new_zeros(len(result[0]), 0)
            memory = torch.cat([nothing, *floats], dim=1).unsqueeze(1)
        if isinstance(self.core, ARMT):
            matrix = memory[..., :-1, :]  # (B, L, D, F), without the normaliser
            self._ranks.append(rank(matrix).cpu())
            memory = matrix.flatten(2)
        last = memory if self._last is None or self._last.shape != memory.shape else self._last
        self._norms.append(memory.norm(dim=-1).cpu())
        self._changes.append((memory - last).norm(dim=-1).cpu())
        self._last = memory.clone()


def rank(matrix: Tensor, relative: float = 1e-3) -> Tensor:
    """(..., D, F) -> (...): how many singular values are above a share of the largest.

    By the eigenvalues of A A^T, their squares: several times as fast as they are, and in float64 as good.
    """
    wide = matrix.double() if matrix.shape[-2] <= matrix.shape[-1] else matrix.double().mT
    found: Tensor = torch.linalg.matrix_rank(wide @ wide.mT, rtol=relative**2, hermitian=True)
    return found


def _layers(core: MemoryCore[Any]) -> list[nn.Module]:
    """The blocks of a core; a core of the user's own may mean something else by that name."""
    blocks = getattr(core, "blocks", None)
    return list(blocks) if isinstance(blocks, nn.ModuleList) else []


@contextmanager
def record(core: MemoryCore[Any]) -> Iterator[Recording]:
    """Record a core while it is called with one step at a time; calls with more pass unrecorded.

    :raises ValueError: if it is being recorded already
    """
    recording = Recording(core)
    layers = _layers(core)
    blocks = [layer for layer in layers if isinstance(layer, Block)]
    if any(block.observer is not None for block in blocks):
        raise ValueError(f"this {type(core).__name__} is being recorded already")
    hook = core.register_forward_hook(recording._after)
    try:
        for layer, block in enumerate(blocks):
            block.observer = partial(recording._look, layer)
        yield recording
    finally:
        hook.remove()
        for block in blocks:
            block.observer = None
