"""``xl``: Transformer-XL (Dai et al. 2019, arXiv 1901.02860) with pre-norm blocks (Parisotto et al. 2020).

Every step sees itself and the W steps before it in its episode, with relative positions. Steps of earlier calls come from a cache of
keys and values, without gradient. The window slides step by step, so that a step sees the same keys wherever a rollout
was cut; L layers reach L * W steps back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmt_rl.cores.base import MemoryCore, require_positive
from rmt_rl.cores.blocks import Block, RelativePositions, make_blocks
from rmt_rl.cores.segments import find_spans, invert, step_slots, to_device


class XLState(NamedTuple):
    """The last W steps of every layer."""

    keys: Tensor
    """(B, L, H, W, D / H), the latest step last; 0 where empty"""
    values: Tensor
    """as ``keys``"""
    count: Tensor
    """(B,) int64: how many of the W are filled"""


class TransformerXL(MemoryCore[XLState]):
    """Transformer-XL.

    :param width: D, the width of the transformer and the output's dimension
    :param layers: L
    :param heads: H, a divisor of ``width``
    :param memory_length: W, how many steps before it a step sees in one layer
    :param feedforward: hidden width of the feed-forward sub-layers, by default 4 * width
    :param dropout: of the sub-layers' outputs and of the attention weights
    :param gated: GRU gates instead of residual sums (GTrXL)
    :param persistent_tokens: learned tokens in every layer that all steps see
    :raises ValueError: where an option is out of range
    """

    def __init__(
        self,
        input_dim: int,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        memory_length: int = 64,
        feedforward: int | None = None,
        dropout: float = 0.0,
        gated: bool = False,
        persistent_tokens: int = 0,
    ) -> None:
        super().__init__(input_dim, require_positive("width", width))
        self.memory_length = require_positive("memory_length", memory_length)
        self.heads = heads
        self.blocks = make_blocks(width, layers, heads, feedforward, dropout, gated, persistent_tokens, relative=True)
        self.options = dict(
            width=width, layers=layers, heads=heads, memory_length=memory_length,
            feedforward=feedforward, gated=gated, persistent_tokens=persistent_tokens,
        )  # fmt: skip
        self.encode = nn.Linear(self.input_dim, width)
        self.positions = RelativePositions(width, heads, memory_length)
        self.norm = nn.LayerNorm(width)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())

    def initial_state(self, batch_size: int) -> XLState:
        require_positive("batch_size", batch_size)
        shape = (batch_size, len(self.blocks), self.heads, self.memory_length, self.output_dim // self.heads)
        cache = self.positions.u.new_zeros(shape)
        return XLState(cache, cache, torch.zeros(batch_size, dtype=torch.int64, device=cache.device))

    def forward(self, inputs: Tensor, state: XLState, episode_starts: Tensor) -> tuple[Tensor, XLState]:
        self.check_call(inputs, state, episode_starts)
        rows, steps = episode_starts.shape
        x = self.encode(inputs)
        starts = episode_starts[:, 0]
        if steps == 1:
            return self._run(x, self._select(state, starts), torch.ones_like(state.count))
        spans = find_spans(episode_starts)
        index = step_slots(spans, int(spans.length.max()), nothing=rows * steps)
        padded = F.pad(x.flatten(0, 1), (0, 0, 0, 1))[to_device(index, x)]
        row, fresh = to_device(spans.row, x), to_device(spans.fresh, x)
        begin = self._select(XLState(*(leaf[row] for leaf in state)), fresh)
        last = to_device(np.flatnonzero(spans.last), x)
        z, after = self._run(padded, begin, to_device(spans.length, x), last)
        inverse = to_device(invert(index.reshape(-1), rows * steps), x)
        return z.flatten(0, 1)[inverse].unflatten(0, (rows, steps)), after

    def _select(self, state: XLState, fresh: Tensor) -> XLState:
        """Empty the cache of the rows that begin an episode."""
        rows = fresh.nonzero().squeeze(1)
        keys, values = (leaf.detach().index_fill(0, rows, 0.0) for leaf in state[:2])
        return XLState(keys, values, state.count.masked_fill(fresh, 0))

    def _run(
        self, z: Tensor, begin: XLState, length: Tensor, last: Tensor | None = None
    ) -> tuple[Tensor, XLState]:
        """Sequences that no episode start cuts.

        :param z: (B, T, D), rows padded at their end
        :param length: (B,) how many of the T steps are real
        :param last: the rows whose state afterwards is wanted, by default all
        """
        window, steps = self.memory_length, z.shape[1]
        # Long sequences attend in chunks of a window each, so that the cost grows with T * W and not with T * T.
        chunk = min(steps, max(window, 16))
        chunks = -(-steps // chunk)
        z = F.pad(z, (0, 0, 0, chunks * chunk - steps))
        visible = self._visible(begin.count, chunk, chunks)
        # The cache after each row's last real step.
        wanted = length if last is None else length[last]
        latest = wanted[:, None] + torch.arange(window, device=z.device)
        cached: list[list[Tensor]] = [[], []]
        for layer, block in enumerate(self.blocks):
            query, key, value = block.project(z)
            key, value = (
                torch.cat([leaf[:, layer], fresh], dim=2)
                for leaf, fresh in ((begin.keys, key), (begin.values, value))
            )
            for leaves, leaf in zip(cached, (key, value), strict=True):
                leaf = leaf.detach() if last is None else leaf.detach()[last]
                if steps == 1:
                    leaves.append(leaf[:, :, 1:])
                else:
                    index = latest[:, None, :, None].expand(-1, leaf.shape[1], -1, leaf.shape[3])
                    leaves.append(leaf.gather(2, index))
            z = self._attend(block, z, query, key, value, visible, chunk)
        keys, values = (torch.stack(leaves, dim=1) for leaves in cached)
        count = ((begin.count if last is None else begin.count[last]) + wanted).clamp(max=window)
        return self.norm(z[:, :steps]), XLState(keys, values, count)

    def _attend(
        self, block: Block, z: Tensor, query: Tensor, key: Tensor, value: Tensor, visible: Tensor, chunk: int
    ) -> Tensor:
        """``block.attend`` chunk by chunk, each chunk a row of its own."""
        chunks, span = z.shape[1] // chunk, self.memory_length + chunk
        if chunks > 1:
            z, query = fold(z.unsqueeze(1), chunk, chunk).squeeze(1), fold(query, chunk, chunk)
            key, value = fold(key, span, chunk), fold(value, span, chunk)
        mask = self.positions.timeline(block, query).masked_fill(~visible, -torch.inf)
        z = block.attend(z, query + self.positions.u, key, value, mask)
        return z.unflatten(0, (-1, chunks)).flatten(1, 2) if chunks > 1 else z

    def _visible(self, count: Tensor, chunk: int, chunks: int) -> Tensor:
        """(B * chunks, 1, chunk, W + chunk) bool: distances 0 to W, and no empty slot of the cache."""
        window = self.memory_length
        step = torch.arange(chunk, device=count.device)
        place = torch.arange(-window, chunk, device=count.device)
        distance = step[:, None] - place
        near = (distance >= 0) & (distance <= window)
        absolute = place + chunk * torch.arange(chunks, device=count.device)[:, None]
        exists = absolute >= -count[:, None, None]
        return (near & exists[:, :, None]).flatten(0, 1).unsqueeze(1)


def fold(x: Tensor, size: int, step: int) -> Tensor:
    """(B, H, N, d) -> (B * chunks, H, size, d): pieces of ``size`` along N that begin every ``step``."""
    return x.unfold(2, size, step).permute(0, 2, 1, 4, 3).flatten(0, 1)
