"""``xl``: Transformer-XL (Dai et al. 2019, arXiv 1901.02860) with pre-norm blocks (Parisotto et al. 2020).

Every step sees itself and the W steps before it in its episode, with relative positions. Steps of earlier
calls come from a cache of keys and values, without gradient. The window slides step by step, so that a step
sees the same keys wherever a rollout was cut; L layers reach L * W steps back. ``cores/windows.py`` says how
the steps of a batch lie.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmt_rl.cores.base import MemoryCore, expand_rows, require_positive
from rmt_rl.cores.blocks import RelativePositions, conceal, hide, make_blocks
from rmt_rl.cores.segments import Ints, Segments, find_spans, to_device
from rmt_rl.cores.windows import latest, places, windows


class XLState(NamedTuple):
    """The last W steps of every layer."""

    cache: Tensor
    """(B, L, W, 2 D) keys and values, the latest step last; 0 where empty"""
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

    distance: Tensor
    """(W + 1,) how far behind the step the cached ones and itself lie"""

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
        self.register_buffer("distance", torch.arange(memory_length, -1, -1), persistent=False)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())

    def initial_state(self, batch_size: int) -> XLState:
        require_positive("batch_size", batch_size)
        shape = (batch_size, len(self.blocks), self.memory_length, 2 * self.output_dim)
        cache = self.positions.u.new_zeros(shape)
        return XLState(cache, torch.zeros(batch_size, dtype=torch.int64, device=cache.device))

    def forward(self, inputs: Tensor, state: XLState, episode_starts: Tensor) -> tuple[Tensor, XLState]:
        self.check_call(inputs, state, episode_starts)
        state = self._open(state, episode_starts[:, 0])
        if inputs.shape[1] == 1 and not torch.is_grad_enabled():
            return self._act(inputs, state)
        outputs, after = self._unroll(inputs, state, episode_starts, wants_state=True)
        assert after is not None
        return outputs, after

    def replay(self, inputs: Tensor, state: XLState, episode_starts: Tensor) -> Tensor:
        self.check_call(inputs, state, episode_starts)
        state = self._open(state, episode_starts[:, 0])
        return self._unroll(inputs, state, episode_starts, wants_state=False)[0]

    @torch.no_grad()
    def step(self, inputs: Tensor, state: XLState, episode_starts: Tensor) -> tuple[Tensor, XLState]:
        return self._act(inputs, self._emptied(state, episode_starts[:, 0]))

    def _open(self, state: XLState, starts: Tensor) -> XLState:
        """The state without gradient, emptied where an episode starts."""
        state = state._replace(cache=state.cache.detach())
        return self._emptied(state, starts) if starts.any() else state

    def _emptied(self, state: XLState, starts: Tensor) -> XLState:
        cache = state.cache.masked_fill(expand_rows(starts, state.cache), 0.0)
        return XLState(cache, state.filled.masked_fill(starts, 0))

    def _act(self, inputs: Tensor, state: XLState) -> tuple[Tensor, XLState]:
        """One step for every row, from the cache."""
        window, width = self.memory_length, self.output_dim
        z = self.encode(inputs)
        visible = conceal(self.distance > state.filled[:, None], z)[:, None, None]
        cache = F.pad(state.cache, (0, 0, 0, 1))  # a copy, whose last place is the step's
        # Written as rows of one matrix: in an exported graph that is cheap, and a slice of a slice is not.
        places = cache.view(-1, 2 * width)
        place = torch.arange(window, places.shape[0], window + 1, device=z.device).view(z.shape[0], -1)
        for layer, block in enumerate(self.blocks):
            own = block.tokens(z)
            places[place[:, layer]] = own[:, 0, width:]
            query = own[..., :width].view(own.shape[0], self.heads, 1, -1)
            key, value = block.split(cache[:, layer])
            mask = self.positions.timeline(block, query, window) + visible
            z = block.attend(z, query + self.positions.u, key, value, mask)
        return self.norm(z), XLState(cache[:, :, 1:], (state.filled + 1).clamp(max=window))

    def _unroll(
        self, inputs: Tensor, state: XLState, episode_starts: Tensor, wants_state: bool
    ) -> tuple[Tensor, XLState | None]:
        """Whole sequences: outputs (B, T, D), and the state after the last step if it is wanted."""
        (rows, steps), width, window = episode_starts.shape, self.output_dim, self.memory_length
        spans, filled = find_spans(episode_starts), state.filled.cpu().numpy()
        pieces = windows(spans, filled, window, steps)
        indices = [
            (to_device(piece.queries.reshape(-1), inputs), to_device(piece.keys.reshape(-1), inputs))
            for piece in pieces
        ]
        visible = [hide(to_device(piece.visible, inputs), inputs).unsqueeze(1) for piece in pieces]
        place = to_device(places(pieces, rows * steps), inputs)
        cached = (filled > 0).any()
        z = self.encode(inputs).flatten(0, 1)
        packed: list[Tensor] = []
        for layer, block in enumerate(self.blocks):
            of_queries, of_keys = torch.split(block.tokens(z), [width, 2 * width], dim=-1)
            if cached or wants_state:
                of_keys = torch.cat([of_keys, state.cache[:, layer].flatten(0, 1)])
            packed.append(of_keys)
            found = []
            for piece, (queries, keys), mask in zip(pieces, indices, visible, strict=True):
                count = len(piece.queries)
                (query,) = block.split(of_queries.index_select(0, queries).view(count, -1, width))
                key, value = block.split(of_keys.index_select(0, keys).view(count, -1, 2 * width))
                mask = self.positions.timeline(block, query, piece.before) + mask
                found.append(block.look(query + self.positions.u, key, value, mask).flatten(0, 1))
            z = block.update(z, torch.cat(found).index_select(0, place))
        outputs = self.norm(z).view(rows, steps, width)
        return outputs, self._after(spans, filled, steps, packed) if wants_state else None

    def _after(self, spans: Segments, filled: Ints, steps: int, packed: list[Tensor]) -> XLState:
        """The state after a batch, from what each layer has in the steps and in the cache, (., 2 D)."""
        source, count = latest(spans, filled, self.memory_length, steps)
        empty = to_device(source < 0, packed[0]).unsqueeze(-1)
        index = to_device(np.maximum(source, 0).reshape(-1), packed[0])
        layers = [
            layer.detach().index_select(0, index).view(*source.shape, -1).masked_fill(empty, 0.0)
            for layer in packed
        ]
        return XLState(torch.stack(layers, dim=1), to_device(count, packed[0]))
