"""``rmt_encoder``: the encoder Recurrent Memory Transformer (Bulatov, Kuratov and Burtsev 2022, 2023).

Segment tau is [memory; steps] under full attention: every token sees every token. The outputs at the memory,
after the final norm, are m_{tau+1}. To stay causal, the output at a step is that of the encoder run on the
segment's prefix that ends with it. That costs a run of M + t tokens for the t-th step of a segment where the
decoder needs one token: about (M + S / 2) times its work, in acting as in training. Short segments are the
price of full attention.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmt_rl.cores.base import MemoryCore, expand_rows, require_positive
from rmt_rl.cores.blocks import hide, make_blocks
from rmt_rl.cores.rmt import Handover
from rmt_rl.cores.segments import find_segments, invert, pick, step_slots, to_device


class EncoderState(NamedTuple):
    """What an encoder RMT remembers."""

    memory: Tensor
    """(B, M, D) the memory that the current segment reads"""
    steps: Tensor
    """(B, S, D) the encoded steps of the current segment; 0 where it has none yet"""
    position: Tensor
    """(B,) int64: how many there are; at S the write is due"""


class RMTEncoder(MemoryCore[EncoderState]):
    """Encoder RMT.

    :param width: D, the width of the transformer and the output's dimension
    :param segment_length: S, in steps
    :param memory_tokens: M
    :raises ValueError: where an option is out of range

    The other options are those of ``rmt``.
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
    ) -> None:
        super().__init__(input_dim, require_positive("width", width))
        self.segment_length = require_positive("segment_length", segment_length)
        self.memory_tokens = require_positive("memory_tokens", memory_tokens)
        self.bptt_segments = (
            None if bptt_segments is None else require_positive("bptt_segments", bptt_segments)
        )
        self.blocks = make_blocks(
            width, layers, heads, feedforward, dropout, gated, persistent_tokens, relative=False
        )
        self.options = dict(
            width=width, layers=layers, heads=heads, segment_length=segment_length,
            memory_tokens=memory_tokens, feedforward=feedforward, gated=gated,
            persistent_tokens=persistent_tokens, retention=retention,
        )  # fmt: skip
        self.encode = nn.Linear(self.input_dim, width)
        self.slot = nn.Parameter(torch.empty(segment_length, width).normal_(std=0.1))
        self.initial_memory = nn.Parameter(torch.empty(memory_tokens, width).normal_(std=0.1))
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.handover = Handover(width, memory_noise, retention)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())

    def initial_state(self, batch_size: int) -> EncoderState:
        require_positive("batch_size", batch_size)
        memory = self.initial_memory.expand(batch_size, -1, -1)
        steps = memory.new_zeros(batch_size, self.segment_length, self.output_dim)
        zeros = torch.zeros(batch_size, dtype=torch.int64, device=memory.device)
        return EncoderState(memory, steps, zeros)

    def forward(
        self, inputs: Tensor, state: EncoderState, episode_starts: Tensor
    ) -> tuple[Tensor, EncoderState]:
        self.check_call(inputs, state, episode_starts)
        rows, length = episode_starts.shape
        state = self._open(state, episode_starts[:, 0])
        plan = find_segments(episode_starts, state.position, self.segment_length)
        # One row more: the slots that hold no step of this batch read it.
        encoded = F.pad(self.encode(inputs).flatten(0, 1), (0, 0, 0, 1))
        outputs, sources, ends, end_rows = [], [], [], []
        memory, place = state.memory, torch.arange(self.segment_length, device=inputs.device)
        for depth in range(int(plan.depth.max()) + 1):
            group = pick(plan, np.flatnonzero(plan.depth == depth))
            index = step_slots(group, self.segment_length, nothing=rows * length)
            steps = encoded[to_device(index, inputs)] + self.slot
            if depth == 0:
                row, fresh = to_device(group.row, memory), to_device(group.fresh, memory)
                memory = torch.where(expand_rows(fresh, memory[row]), self.initial_memory, memory[row])
                begun = place < to_device(group.slot, inputs)[:, None]
                steps = torch.where(begun.unsqueeze(-1), state.steps[row], steps)
            end = to_device(group.slot + group.length, inputs)
            steps = torch.where((place < end[:, None]).unsqueeze(-1), steps, 0.0)
            segment, slot = (to_device(i, inputs) for i in np.nonzero(index < rows * length))
            output, after = self._prefixes(memory[segment], steps[segment], slot, int(slot.max()) + 1)
            outputs.append(output)
            sources.append(index[index < rows * length])
            last = to_device(np.flatnonzero(group.last), inputs)
            ends.append(EncoderState(memory[last], steps[last], end[last]))
            end_rows.append(group.row[group.last])
            if group.followed.any():
                followed = to_device(np.flatnonzero(group.followed), inputs)
                # The prefix that is the whole segment is that of its last step.
                whole = to_device(np.cumsum(group.length)[group.followed] - 1, inputs)
                memory = self.handover(memory[followed], after[whole])
                if self.bptt_segments is not None and (depth + 1) % self.bptt_segments == 0:
                    memory = memory.detach()
        inverse = to_device(invert(np.concatenate(sources), rows * length), inputs)
        order = to_device(invert(np.concatenate(end_rows), rows), inputs)
        end_state = EncoderState(*(torch.cat(leaves)[order] for leaves in zip(*ends, strict=True)))
        return torch.cat(outputs)[inverse].view(rows, length, -1), end_state

    @torch.no_grad()
    def step(
        self, inputs: Tensor, state: EncoderState, episode_starts: Tensor
    ) -> tuple[Tensor, EncoderState]:
        every = torch.arange(inputs.shape[0], device=inputs.device)
        memory, steps, position = self._open(state, episode_starts[:, 0], every)
        here = torch.arange(self.segment_length, device=inputs.device) == position[:, None]
        encoded = self.encode(inputs) + self.slot
        steps = torch.where(here.unsqueeze(-1), encoded, steps)
        output, _ = self._prefixes(memory, steps, position, self.segment_length)
        return output.unsqueeze(1), EncoderState(memory, steps, position + 1)

    def _open(self, state: EncoderState, starts: Tensor, rows: Tensor | None = None) -> EncoderState:
        """The state that consumes the next step: reset where an episode starts, the due writes made.

        :param rows: (G,) those to compute writes for, whether due or not; by default where they are due
        """
        due = ~starts & (state.position == self.segment_length)
        memory = torch.where(expand_rows(starts, state.memory), self.initial_memory, state.memory)
        rows = due.nonzero().squeeze(1) if rows is None else rows
        if rows.shape[0] > 0:
            before, slot = memory[rows], torch.full_like(rows, self.segment_length - 1)
            _, whole = self._prefixes(before, state.steps[rows], slot, self.segment_length)
            after = self.handover(before, whole)
            after = after if self.bptt_segments is None else after.detach()
            memory = memory.index_copy(0, rows, torch.where(expand_rows(due[rows], after), after, before))
        opening = starts | due
        steps = state.steps.masked_fill(expand_rows(opening, state.steps), 0.0)
        return EncoderState(memory, steps, state.position.masked_fill(opening, 0))

    def _prefixes(self, memory: Tensor, steps: Tensor, slot: Tensor, longest: int) -> tuple[Tensor, Tensor]:
        """Run the encoder on prefixes.

        :param memory: (n, M, D)
        :param steps: (n, S, D)
        :param slot: (n,) the last step that each prefix has
        :param longest: how many steps the longest prefix has, or more
        :return: the outputs at those steps (n, D) and at the memory (n, M, D)
        """
        place = torch.arange(longest, device=slot.device)
        has = place <= slot[:, None]
        # Later steps are taken out, not only hidden: a NaN among them must not reach earlier outputs.
        prefix = torch.where(has.unsqueeze(-1), steps[:, :longest], 0.0)
        z = torch.cat([memory, prefix], dim=1)
        mask = hide(F.pad(has, (self.memory_tokens, 0), value=True), z)[:, None, None]
        for block in self.blocks:
            query, key, value = block.project(z)
            z = block.attend(z, query, key, value, mask)
        every = torch.arange(slot.shape[0], device=slot.device)
        return self.norm(z[every, self.memory_tokens + slot]), self.norm(z[:, : self.memory_tokens])
