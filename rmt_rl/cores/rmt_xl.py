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
from rmt_rl.cores.blocks import Block, RelativePositions, conceal, hide
from rmt_rl.cores.rmt import RMT
from rmt_rl.cores.unroll import Group


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
        bptt_segments: int | None = None,
        retention: bool = False,
        segment_jitter: float = 0.0,
    ) -> None:
        # First, as the base makes its places by it.
        self.memory_length = require_positive("memory_length", memory_length)
        super().__init__(
            input_dim, width, layers, heads, segment_length, memory_tokens,
            feedforward, dropout, gated, persistent_tokens, memory_noise, bptt_segments, retention,
            segment_jitter,
        )  # fmt: skip
        self.options["memory_length"] = memory_length
        self.positions = RelativePositions(width, heads, memory_length)

    def content(self, query: Tensor) -> Tensor:
        return query + self.positions.u

    def visible(self, group: Group, like: Tensor) -> Tensor:
        tokens, window, slots = self.memory_tokens, self.memory_length, group.packing.slots
        writing = tokens * group.packing.writing
        before = tokens + window
        size = (tokens + slots + writing, before + slots + writing)
        visible = torch.zeros(size, dtype=torch.bool, device=like.device)
        visible[: tokens + slots, :tokens] = True
        distance = self._distance(torch.arange(slots, device=like.device), slots)
        visible[tokens : tokens + slots, tokens : before + slots] = (distance >= 0) & (distance <= window)
        visible[tokens + slots :] = True
        visible = visible & self._exists(group.window, slots + writing)
        if self.jitter is not None:
            visible = visible & self.filled(group, like)
        return hide(visible, like)

    def mask(self, block: Block, query: Tensor, visible: Tensor, group: Group) -> Tensor:
        tokens = self.memory_tokens
        writing = tokens * group.packing.writing
        of_steps = query[:, :, tokens : tokens + group.packing.slots]
        relative = self.positions.timeline(block, of_steps, self.memory_length)
        return F.pad(relative, (tokens, writing, tokens, writing)) + visible

    def sight(self, cache: Tensor, position: Tensor, window: Tensor) -> tuple[Tensor, ...]:
        distance = position[:, None] - self.place  # (B, M + W + S)
        reach = torch.minimum(position + window, position.new_tensor(self.memory_length))
        far = (distance > reach[:, None]) & (self.place >= -self.memory_length)
        mask = conceal((far | (distance < 0))[:, None, None], cache)
        return mask, distance[:, None, None, self.memory_tokens :].clamp(0, self.memory_length)

    def step_mask(self, block: Block, query: Tensor, sight: tuple[Tensor, ...]) -> Tensor:
        mask, index = sight
        by_distance = self.positions.scores(block, query)  # (B, H, 1, W + 1)
        relative = by_distance.gather(-1, index.expand(-1, query.shape[1], -1, -1))
        return F.pad(relative, (self.memory_tokens, 0)) + mask

    def _distance(self, slot: Tensor, slots: int) -> Tensor:
        """(..., W + slots): how far the W steps before the segment and its first ones lie behind ``slot``."""
        place = torch.arange(-self.memory_length, slots, device=slot.device)
        return slot[..., None] - place

    def _exists(self, window: Tensor, behind: int) -> Tensor:
        """(B, 1, 1, M + W + behind): all but the empty places of the window."""
        place = torch.arange(-self.memory_tokens - self.memory_length, behind, device=window.device)
        empty = (place >= -self.memory_length) & (place < -window[:, None])
        return ~empty[:, None, None]
