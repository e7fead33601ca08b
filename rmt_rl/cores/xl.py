"""``xl``: Transformer-XL (Dai et al. 2019, arXiv 1901.02860) with pre-norm blocks (Parisotto et al. 2020).

Every step sees itself and the W steps before it in its episode, with relative positions. Steps of earlier
calls come from a cache of keys and values, without gradient. The window slides step by step, so that a step
sees the same keys wherever a rollout was cut; L layers reach L * W steps back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmt_rl.cores.base import MemoryCore, expand_rows, require_positive
from rmt_rl.cores.blocks import Block, RelativePositions, hide, make_blocks
from rmt_rl.cores.segments import alike, find_spans, invert, pick, step_slots, to_device


class XLState(NamedTuple):
    """The last W steps of every layer."""

    keys: Tensor
    """(B, L, H, W, D / H), the latest step last; 0 where empty"""
    values: Tensor
    """as ``keys``"""
    filled: Tensor
    """(B,) int64: how many of the W hold a step"""


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
        self.blocks = make_blocks(
            width, layers, heads, feedforward, dropout, gated, persistent_tokens, relative=True
        )
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
        state = self._select(state, episode_starts[:, 0])
        if steps == 1:
            return self._run(x, state, torch.ones_like(state.filled))
        # One row more: the slots that hold no step of this batch read it.
        padded = F.pad(x.flatten(0, 1), (0, 0, 0, 1))
        spans = find_spans(episode_starts)
        continues = (spans.first % steps == 0) & (state.filled.cpu().numpy() > 0)[spans.row]
        outputs, sources, final, final_rows = [], [], [], []
        for part, cached in ((continues, True), (~continues, False)):
            for which in alike(np.flatnonzero(part), spans.length[part]):
                group = pick(spans, which)
                index = step_slots(group, int(group.length.max()), nothing=rows * steps)
                begin = XLState(*(leaf[to_device(group.row, x)] for leaf in state)) if cached else None
                last = to_device(np.flatnonzero(group.last), x)
                z, after = self._run(padded[to_device(index, x)], begin, to_device(group.length, x), last)
                outputs.append(z.flatten(0, 1))
                sources.append(index.reshape(-1))
                final.append(after)
                final_rows.append(group.row[group.last])
        inverse = to_device(invert(np.concatenate(sources), rows * steps), x)
        order = to_device(invert(np.concatenate(final_rows), rows), x)
        after = XLState(*(torch.cat(leaves)[order] for leaves in zip(*final, strict=True)))
        return torch.cat(outputs)[inverse].view(rows, steps, -1), after

    @torch.no_grad()
    def step(self, inputs: Tensor, state: XLState, episode_starts: Tensor) -> tuple[Tensor, XLState]:
        fresh = episode_starts[:, 0]
        kept = XLState(*(leaf.masked_fill(expand_rows(fresh, leaf), 0) for leaf in state))
        return self._run(self.encode(inputs), kept, torch.ones_like(kept.filled))

    def _select(self, state: XLState, fresh: Tensor) -> XLState:
        """Empty the cache of the rows that begin an episode."""
        rows = fresh.nonzero().squeeze(1)
        keys, values = (leaf.detach().index_fill(0, rows, 0.0) for leaf in state[:2])
        return XLState(keys, values, state.filled.masked_fill(fresh, 0))

    def _run(
        self, z: Tensor, begin: XLState | None, length: Tensor, last: Tensor | None = None
    ) -> tuple[Tensor, XLState]:
        """Sequences that no episode start cuts.

        :param z: (B, T, D), rows padded at their end
        :param begin: the cache before the first step, None if all begin an episode
        :param length: (B,) how many of the T steps are real
        :param last: the rows whose state afterwards is wanted; None for all of them, if T is 1
        """
        window, steps = self.memory_length, z.shape[1]
        # Long sequences attend in chunks of a window each, so that the cost grows with T * W, not T * T.
        chunk = min(steps, max(window, 16))
        chunks = -(-steps // chunk)
        z = F.pad(z, (0, 0, 0, chunks * chunk - steps))
        # Steps that begin an episode have nothing before them; chunks after the first have a window.
        before = window if begin is not None or chunks > 1 else 0
        count = torch.zeros_like(length) if begin is None else begin.filled
        visible = self._visible(count, before, chunk, chunks)
        wanted = slice(None) if last is None else last
        cached: list[list[Tensor]] = [[], []]
        for layer, block in enumerate(self.blocks):
            query, key, value = block.project(z)
            if begin is None:
                key, value = F.pad(key, (0, 0, before, 0)), F.pad(value, (0, 0, before, 0))
            else:
                key = torch.cat([begin.keys[:, layer], key], dim=2)
                value = torch.cat([begin.values[:, layer], value], dim=2)
            for leaves, leaf in zip(cached, (key, value), strict=True):
                leaf = leaf.detach()[wanted]
                # After one step the window has moved by one place; else by as many as each row has steps.
                leaves.append(
                    leaf[:, :, -window:] if last is None else self._latest(leaf, before + length[wanted])
                )
            z = self._attend(block, z, query, key, value, visible, before, chunk)
        keys, values = (torch.stack(leaves, dim=1) for leaves in cached)
        after = XLState(keys, values, (count + length)[wanted].clamp(max=window))
        return self.norm(z[:, :steps]), after

    def _latest(self, leaf: Tensor, end: Tensor) -> Tensor:
        """The W keys or values (B, H, W, D / H) up to place ``end`` (B,) of (B, H, N, D / H); else 0."""
        window = self.memory_length
        leaf = F.pad(leaf, (0, 0, window, 0))
        place = end[:, None] + torch.arange(window, device=leaf.device)
        return leaf.gather(2, place[:, None, :, None].expand(-1, leaf.shape[1], -1, leaf.shape[3]))

    def _attend(
        self,
        block: Block,
        z: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        visible: Tensor,
        before: int,
        chunk: int,
    ) -> Tensor:
        """``block.attend`` chunk by chunk, each chunk a row of its own."""
        chunks = z.shape[1] // chunk
        if chunks > 1:
            z, query = fold(z.unsqueeze(1), chunk, chunk).squeeze(1), fold(query, chunk, chunk)
            key, value = fold(key, before + chunk, chunk), fold(value, before + chunk, chunk)
        mask = self.positions.timeline(block, query, before) + visible
        z = block.attend(z, query + self.positions.u, key, value, mask)
        return z.reshape(-1, chunks * chunk, z.shape[-1]) if chunks > 1 else z

    def _visible(self, count: Tensor, before: int, chunk: int, chunks: int) -> Tensor:
        """(B * chunks, 1, chunk, before + chunk): 0 at distances 0 to W, -inf elsewhere and where empty."""
        step = torch.arange(chunk, device=count.device)
        place = torch.arange(-before, chunk, device=count.device)
        distance = step[:, None] - place
        near = (distance >= 0) & (distance <= self.memory_length)
        absolute = place + chunk * torch.arange(chunks, device=count.device)[:, None]
        exists = absolute >= -count[:, None, None]
        return hide((near & exists[:, :, None]).flatten(0, 1).unsqueeze(1), self.positions.u)


def fold(x: Tensor, size: int, step: int) -> Tensor:
    """(B, H, N, d) -> (B * chunks, H, size, d): pieces of ``size`` along N that begin every ``step``."""
    return x.unfold(2, size, step).permute(0, 2, 1, 4, 3).flatten(0, 1)
