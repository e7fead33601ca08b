"""``none``: the feed-forward control, the same contract without a memory."""

from __future__ import annotations

from typing import NamedTuple

import torch.nn.functional as F
from torch import Tensor, nn

from rmt_rl.cores.base import MemoryCore, require_positive


class NoState(NamedTuple):
    """Nothing is remembered."""


class FeedForward(MemoryCore[NoState]):
    """Pre-norm residual blocks, each step on its own: what an agent does with the present observation alone.

    :param width: D, the output's dimension
    :param layers: number of residual blocks
    :param feedforward: hidden width of a block, by default 4 * width
    """

    def __init__(
        self, input_dim: int, width: int = 64, layers: int = 2, feedforward: int | None = None
    ) -> None:
        super().__init__(input_dim, require_positive("width", width))
        hidden = 4 * width if feedforward is None else require_positive("feedforward", feedforward)
        self.encode = nn.Linear(self.input_dim, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))
            for _ in range(require_positive("layers", layers))
        )
        self.hidden = hidden

    def extra_repr(self) -> str:
        return f"width={self.output_dim}, layers={len(self.blocks)}, feedforward={self.hidden}"

    def initial_state(self, batch_size: int) -> NoState:
        require_positive("batch_size", batch_size)
        return NoState()

    def forward(self, inputs: Tensor, state: NoState, episode_starts: Tensor) -> tuple[Tensor, NoState]:
        self.check_call(inputs, state, episode_starts)
        x = self.encode(inputs)
        for block in self.blocks:
            x = x + block(x)
        return F.layer_norm(x, x.shape[-1:]), state
