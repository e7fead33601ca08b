"""``rmt_xl``: memory tokens and a cache of recent steps together.

Segments and memory tokens as in ``rmt``; besides, every step sees itself and the ``memory_length`` steps
before it with Transformer-XL's relative positions (Dai et al. 2019), those of earlier segments from a cache
without gradient. Memory tokens are never cached and have no relative term. The write block sees the memory,
the whole segment and the cache before it.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from rmt_rl.cores.base import require_positive
from rmt_rl.cores.blocks import Block, RelativePositions
from rmt_rl.cores.rmt import RMT, Context, Pass, RMTState


class RMTXL(RMT):
    """The hybrid of RMT and Transformer-XL.

    :param memory_length: W, how many steps before it a step sees, in this segment or in earlier ones
    """

    __doc__ = f"{__doc__}\n    The other options are those of ``RMT``:\n{RMT.__doc__}"
    relative = True

    def __init__(
        self,
        input_dim: int,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        segment_length: int = 16,
        memory_tokens: int = 4,
        memory_length: int = 16,
        feedforward: int | None = None,
        dropout: float = 0.0,
        gated: bool = False,
        persistent_tokens: int = 0,
        memory_noise: float = 0.0,
    ) -> None:
        require_positive("memory_length", memory_length)
        super().__init__(
            input_dim, width, layers, heads, segment_length, memory_tokens,
            feedforward, dropout, gated, persistent_tokens, memory_noise,
        )  # fmt: skip
        self.memory_length = memory_length
        self.options["memory_length"] = memory_length
        self.positions = RelativePositions(width, heads, memory_length)

    def _content(self, query: Tensor) -> Tensor:
        return query + self.positions.u

    def _visible(self, slots: int, opens: bool, writes: bool, begin: Context) -> Tensor:
        count, window = self.memory_tokens, self.memory_length
        before = count + window
        visible = begin.keys.new_zeros(count + slots + count, before + slots + count, dtype=torch.bool)
        visible[: count + slots, :count] = True
        distance = self._distance(torch.arange(slots, device=visible.device), slots)
        visible[count : count + slots, count : before + slots] = (distance >= 0) & (distance <= window)
        visible[count + slots :] = True
        end = None if writes else -count
        exists = self._exists(begin.window, slots + count)
        return (visible & exists)[:, :, 0 if opens else count : end, :end]

    def _mask(self, block: Block, query: Tensor, visible: Tensor, slots: int, opens: bool) -> Tensor:
        count = self.memory_tokens
        first = count if opens else 0
        relative = self.positions.timeline(block, query[:, :, first : first + slots], self.memory_length)
        writing = query.shape[2] - first - slots
        return F.pad(relative, (count, writing, first, writing)).masked_fill(~visible, -torch.inf)

    def _act_mask(self, block: Block, query: Tensor, state: RMTState) -> Tensor:
        window = self.memory_length
        distance = self._distance(state.position, self.segment_length)  # (B, W + S)
        by_distance = self.positions.scores(block, query)  # (B, H, 1, W + 1)
        index = distance.clamp(0, window)[:, None, None].expand(-1, query.shape[1], -1, -1)
        visible = F.pad((distance >= 0) & (distance <= window), (self.memory_tokens, 0), value=True)
        visible = visible[:, None, None] & self._exists(state.window, self.segment_length)
        relative = F.pad(by_distance.gather(-1, index), (self.memory_tokens, 0))
        return relative.masked_fill(~visible, -torch.inf)

    def _write_mask(self, context: Context) -> Tensor:
        return self._exists(context.window, self.segment_length + self.memory_tokens)

    def _hand_on(self, begin: Context, result: Pass) -> Context:
        # The M slots of the read block are kept so that a context has one layout; nobody reads them.
        kept = self.memory_tokens + self.memory_length
        keys, values = (
            torch.stack([layer[:, :, -kept:].detach() for layer in layers], dim=1)
            for layers in (result.keys, result.values)
        )
        return Context(keys, values, torch.zeros_like(begin.position), self._window_after(begin.window))

    def _distance(self, slot: Tensor, slots: int) -> Tensor:
        """(..., W + slots): how far the W steps before the segment and its first ones lie behind ``slot``."""
        place = torch.arange(-self.memory_length, slots, device=slot.device)
        return slot[..., None] - place

    def _exists(self, window: Tensor, behind: int) -> Tensor:
        """(B, 1, 1, M + W + behind): all but the empty places of the window."""
        place = torch.arange(-self.memory_tokens - self.memory_length, behind, device=window.device)
        empty = (place >= -self.memory_length) & (place < -window[:, None])
        return ~empty[:, None, None]
