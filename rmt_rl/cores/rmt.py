"""``rmt``: the decoder Recurrent Memory Transformer (Bulatov, Kuratov and Burtsev 2022, arXiv 2207.06881).

Segment tau is processed as [read memory; steps; write memory], where both memory blocks are the same M
vectors m_tau, told apart by a learned role. The read block sees itself; a step sees the read block and the
steps up to itself; the write block sees everything. The outputs at the write block, after the final norm, are
m_{tau+1}, fed back as they are, with the gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rmt_rl.cores.segmented import SegmentedCore


class Handover(nn.Module):
    """How a memory m becomes the next one, from what was written.

    :param noise: standard deviation of noise on it, while training only
    :param retention: a learned gate, entry by entry: g m + (1 - g) written, g = sigmoid(W [m; written])
    """

    def __init__(self, width: int, noise: float, retention: bool) -> None:
        super().__init__()
        if noise < 0.0:
            raise ValueError(f"memory_noise must be 0 or more, got {noise}")
        self.noise = noise
        self.gate = nn.Linear(2 * width, width) if retention else None
        if self.gate is not None:
            nn.init.constant_(self.gate.bias, -2.0)

    def forward(self, memory: Tensor, written: Tensor) -> Tensor:
        """(G, M, D), (G, M, D) -> (G, M, D)"""
        if self.gate is not None:
            kept = torch.sigmoid(self.gate(torch.cat([memory, written], dim=-1)))
            written = torch.lerp(written, memory, kept)
        if self.training and self.noise:
            written = written + self.noise * torch.randn_like(written)
        return written


class RMT(SegmentedCore):
    """Decoder RMT.

    :param width: D, the width of the transformer and the output's dimension
    :param layers: L
    :param heads: H, a divisor of ``width``
    :param segment_length: S, in steps
    :param memory_tokens: M
    :param feedforward: hidden width of the feed-forward sub-layers, by default 4 * width
    :param dropout: of the sub-layers' outputs and of the attention weights
    :param gated: GRU gates instead of residual sums (GTrXL)
    :param persistent_tokens: learned tokens in every layer that all steps see
    :param memory_noise: standard deviation of noise on what is written (its entries have unit variance),
        while training only, as dropout is. What has to withstand it is drawn back to where it was, segment by
        segment, and so lasts far beyond the lengths trained on.
    :param bptt_segments: how many successive segments of a training sequence a gradient passes through; by
        default all of them. A segment handed its memory by the state counts as the first.
    :param retention: a learned gate on what is written, entry by entry: m_{tau+1} = g m_tau + (1 - g) w with
        g = sigmoid(W [m_tau; w]), at first about .12
    :param segment_jitter: share of S by which the lengths of segments vary in training, up and down, drawn
        anew for each; 0 for segments of S steps. An agent that is not in training has those (Memo, 2025).
    :raises ValueError: where an option is out of range
    """

    def __init__(
        self,
        input_dim: int,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        segment_length: int = 16,
        memory_tokens: int = 4,
        feedforward: int | None = None,
        dropout: float = 0.0,
        gated: bool = False,
        persistent_tokens: int = 0,
        memory_noise: float = 0.0,
        bptt_segments: int | None = None,
        retention: bool = False,
        segment_jitter: float = 0.0,
    ) -> None:
        super().__init__(
            input_dim, width, layers, heads, segment_length, memory_tokens, feedforward, dropout, gated,
            persistent_tokens, bptt_segments, segment_jitter,
        )  # fmt: skip
        # The rows start distinct: identical ones would receive identical gradients and stay so.
        self.initial_memory = nn.Parameter(torch.empty(memory_tokens, width).normal_(std=0.1))
        self.read_role = nn.Parameter(torch.empty(width).normal_(std=0.1))
        self.write_role = nn.Parameter(torch.empty(width).normal_(std=0.1))
        self.handover = Handover(width, memory_noise, retention)
        if retention:
            self.options["retention"] = True

    def first_memory(self) -> Tensor:
        return self.initial_memory

    def reading(self, memory: Tensor) -> Tensor:
        return memory + self.read_role

    def writing(self, memory: Tensor) -> Tensor:
        return memory + self.write_role

    def written(self, memory: Tensor, streams: list[Tensor]) -> Tensor:
        # The role it entered with is taken off again: added anew in every segment, it would in time outweigh
        # what is remembered.
        return self.handover(memory, self.norm(streams[-1] - self.write_role))  # type: ignore[no-any-return]
