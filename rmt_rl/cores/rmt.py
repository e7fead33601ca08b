"""``rmt``: the decoder Recurrent Memory Transformer (Bulatov, Kuratov and Burtsev 2022, arXiv 2207.06881).

An episode is cut into segments of S steps. Segment tau is processed as [read memory; steps; write memory],
where both memory blocks are the same M vectors m_tau, told apart by a learned role. The read block sees
itself; a step sees the read block and the steps up to itself; the write block sees everything. The outputs at
the write block, after the final norm, are m_{tau+1}, fed back as they are, with the gradient.

Acting keeps the keys and values of the segment so far: one token a step, and one write every S steps, made
when the next step needs it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmt_rl.cores.base import MemoryCore, expand_rows, require_positive
from rmt_rl.cores.blocks import Block, make_blocks
from rmt_rl.cores.segments import Ints, Segments, alike, find_segments, invert, pick, step_slots, to_device


class RMTState(NamedTuple):
    """What an RMT remembers; of constant size. W is 0 for ``rmt``."""

    memory: Tensor
    """(B, M, D) the memory that the current segment reads"""
    keys: Tensor
    """(B, L, H, M + W + S, D / H) of read block, W steps before the segment and its steps; 0 where empty"""
    values: Tensor
    """as ``keys``"""
    position: Tensor
    """(B,) int64: steps that the current segment has, 0 before the first; at S its write is due"""
    window: Tensor
    """(B,) int64: how many of the W steps before the segment exist"""


class Context(NamedTuple):
    """What a group of G segments finds when it begins: ``RMTState`` without the memory."""

    keys: Tensor
    values: Tensor
    position: Tensor
    window: Tensor


class Pass(NamedTuple):
    """What a group of G segments leaves."""

    outputs: Tensor
    """(G, slots, D)"""
    written: Tensor
    """(G, M, D), or (G, 0, D) if nothing was to be written"""
    keys: list[Tensor]
    """by layer, (G, H, M + W + slots, D / H)"""
    values: list[Tensor]


class RMT(MemoryCore[RMTState]):
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
    :raises ValueError: where an option is out of range
    """

    memory_length = 0
    """W: how many steps before the segment its steps can see. The hybrid has some."""
    relative = False

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
    ) -> None:
        super().__init__(input_dim, require_positive("width", width))
        if memory_noise < 0.0:
            raise ValueError(f"memory_noise must be 0 or more, got {memory_noise}")
        self.memory_noise = memory_noise
        self.segment_length = require_positive("segment_length", segment_length)
        self.memory_tokens = require_positive("memory_tokens", memory_tokens)
        self.heads = heads
        self.blocks = make_blocks(
            width, layers, heads, feedforward, dropout, gated, persistent_tokens, relative=self.relative
        )
        self.options = dict(
            width=width, layers=layers, heads=heads, segment_length=segment_length,
            memory_tokens=memory_tokens, feedforward=feedforward, gated=gated,
            persistent_tokens=persistent_tokens,
        )  # fmt: skip
        self.encode = nn.Linear(self.input_dim, width)
        self.slot = nn.Parameter(torch.empty(segment_length, width).normal_(std=0.1))
        # The rows start distinct: identical ones would receive identical gradients and stay so.
        self.initial_memory = nn.Parameter(torch.empty(memory_tokens, width).normal_(std=0.1))
        self.read_role = nn.Parameter(torch.empty(width).normal_(std=0.1))
        self.write_role = nn.Parameter(torch.empty(width).normal_(std=0.1))
        # Fed back every segment, a gain would be raised to the power of the number of segments and wipe out
        # all but the largest directions of the memory. Without one, a block that adds nothing keeps it.
        self.norm = nn.LayerNorm(width, elementwise_affine=False)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())

    def initial_state(self, batch_size: int) -> RMTState:
        require_positive("batch_size", batch_size)
        memory = self.initial_memory.expand(batch_size, -1, -1)
        slots = self.memory_tokens + self.memory_length + self.segment_length
        shape = (batch_size, len(self.blocks), self.heads, slots, self.output_dim // self.heads)
        cache = memory.new_zeros(shape)
        zeros = torch.zeros(batch_size, dtype=torch.int64, device=memory.device)
        return RMTState(memory, cache, cache, zeros, zeros)

    def forward(self, inputs: Tensor, state: RMTState, episode_starts: Tensor) -> tuple[Tensor, RMTState]:
        self.check_call(inputs, state, episode_starts)
        state = self._open(state, episode_starts[:, 0])
        if inputs.shape[1] == 1 and not torch.is_grad_enabled():
            return self._act(inputs, state)
        return self._train(inputs, state, episode_starts)

    # -- opening a segment -----------------------------------------------------------------------------------

    def _open(self, state: RMTState, starts: Tensor) -> RMTState:
        """The state that consumes the next step: reset where an episode starts, the due writes made."""
        due = ~starts & (state.position == self.segment_length)
        opening = starts | due
        memory = torch.where(expand_rows(starts, state.memory), self.initial_memory, state.memory)
        keys, values, window = state.keys, state.values, state.window.masked_fill(starts, 0)
        rows = due.nonzero().squeeze(1)
        if len(rows):
            context = Context(*(leaf[rows] for leaf in state[1:]))
            memory = memory.index_copy(
                0, rows, self._next_memory(memory[rows], self._write(memory[rows], context))
            )
            window = window.index_copy(0, rows, self._window_after(window[rows]))
        # Emptying also copies: what follows may write into these.
        opened = opening.nonzero().squeeze(1)
        keys, values = keys.index_fill(0, opened, 0.0), values.index_fill(0, opened, 0.0)
        if len(rows) and self.memory_length:
            recent = slice(self.memory_tokens, self.memory_tokens + self.memory_length)
            keys[rows, :, :, recent] = context.keys[..., -self.memory_length :, :].detach()
            values[rows, :, :, recent] = context.values[..., -self.memory_length :, :].detach()
        return RMTState(memory, keys, values, state.position.masked_fill(opening, 0), window)

    def _window_after(self, window: Tensor) -> Tensor:
        """How many of the W steps before the next segment exist, after a full one."""
        return (window + self.segment_length).clamp(max=self.memory_length)

    def _next_memory(self, memory: Tensor, written: Tensor) -> Tensor:
        """m_{tau+1} from m_tau and the write block's output, both (G, M, D)."""
        if self.training and self.memory_noise:
            return written + self.memory_noise * torch.randn_like(written)
        return written

    def _write(self, memory: Tensor, context: Context) -> Tensor:
        """The write block of full segments whose steps are all cached: (G, M, D)."""
        z = memory + self.write_role
        for layer, block in enumerate(self.blocks):
            query, key, value = block.project(z)
            key = torch.cat([context.keys[:, layer], key], dim=2)
            value = torch.cat([context.values[:, layer], value], dim=2)
            z = block.attend(z, self._content(query), key, value, self._write_mask(context))
        return self._written(z)

    def _written(self, z: Tensor) -> Tensor:
        """The next memory from the stream of the write block (G, M, D).

        The role it entered with is taken off again: added anew in every segment, it would in time outweigh
        what is remembered.
        """
        return self.norm(z - self.write_role)  # type: ignore[no-any-return]

    # -- one step --------------------------------------------------------------------------------------------

    def _act(self, inputs: Tensor, state: RMTState) -> tuple[Tensor, RMTState]:
        """One step for every row, from the cache. ``state`` is a fresh copy and is filled in place."""
        position = state.position
        rows = (position == 0).nonzero().squeeze(1)
        if len(rows):
            self._cache_read_block(state, rows)
        z = self.encode(inputs) + self.slot[position].unsqueeze(1)
        every = torch.arange(len(position), device=position.device)
        place = self.memory_tokens + self.memory_length + position
        for layer, block in enumerate(self.blocks):
            query, key, value = block.project(z)
            state.keys[every, layer, :, place] = key.squeeze(2)
            state.values[every, layer, :, place] = value.squeeze(2)
            mask = self._act_mask(block, query, state)
            z = block.attend(z, self._content(query), state.keys[:, layer], state.values[:, layer], mask)
        return self.norm(z), state._replace(position=position + 1)

    def _cache_read_block(self, state: RMTState, rows: Tensor) -> None:
        z = state.memory[rows] + self.read_role
        for layer, block in enumerate(self.blocks):
            query, key, value = block.project(z)
            state.keys[rows, layer, :, : self.memory_tokens] = key
            state.values[rows, layer, :, : self.memory_tokens] = value
            z = block.attend(z, self._content(query), key, value)

    # -- whole sequences -------------------------------------------------------------------------------------

    def _train(self, inputs: Tensor, state: RMTState, episode_starts: Tensor) -> tuple[Tensor, RMTState]:
        """Whole sequences, depth by depth."""
        rows, steps = episode_starts.shape
        plan = find_segments(episode_starts, state.position, self.segment_length)
        tokens = plan.slot + plan.length + self.memory_tokens * plan.followed
        # One row more: the slots that hold no step of this batch read it.
        encoded = F.pad(self.encode(inputs).flatten(0, 1), (0, 0, 0, 1))
        outputs: list[Tensor] = []
        sources: list[Ints] = []
        final = _Final(self)
        place = np.zeros(len(plan.row), dtype=np.int64)  # where each segment lies in the group of its depth
        written, context = state.memory[:0], Context(*(leaf[:0] for leaf in state[1:]))
        for depth in range(int(plan.depth.max()) + 1):
            here = np.flatnonzero(plan.depth == depth)
            continues = plan.slot[here] > 0
            parts = [(here[continues], False), (here[~continues], True)]
            groups = [(which, opens) for part, opens in parts for which in alike(part, tokens[part])]
            place[np.concatenate([which for which, _ in groups])] = np.arange(len(here))
            done: list[tuple[Tensor, Context]] = []
            for which, opens in groups:
                group = pick(plan, which)
                if depth == 0:
                    memory, begin = self._from_state(group, state, opens)
                else:
                    before = to_device(place[which - 1], inputs)
                    memory, begin = written[before], Context(*(leaf[before] for leaf in context))
                slots = int((group.slot + group.length).max())
                index = step_slots(group, slots, nothing=rows * steps)
                z = encoded[to_device(index, inputs)] + self.slot[:slots]
                result = self._run(memory, z, begin, opens, writes=bool(group.followed.any()))
                outputs.append(result.outputs.flatten(0, 1))
                sources.append(index.reshape(-1))
                final.add(group, memory, begin, result)
                after = self._next_memory(memory, result.written) if group.followed.any() else memory
                done.append((after, self._hand_on(begin, result)))
            written = torch.cat([memory for memory, _ in done])
            context = Context(*(torch.cat(leaves) for leaves in zip(*(c for _, c in done), strict=True)))
        inverse = to_device(invert(np.concatenate(sources), rows * steps), inputs)
        return torch.cat(outputs)[inverse].view(rows, steps, -1), final.state()

    def _from_state(self, group: Segments, state: RMTState, opens: bool) -> tuple[Tensor, Context]:
        """Memory and context of segments of depth 0: the row's, or initial ones where an episode begins."""
        # A segment that opens has nothing of its own in the cache; most do, so that is not copied.
        kept = (self.memory_tokens + self.memory_length) * bool(self.memory_length) if opens else None
        row, fresh = to_device(group.row, state.memory), to_device(group.fresh, state.memory)
        memory = torch.where(expand_rows(fresh, state.memory), self.initial_memory, state.memory[row])
        keys, values = (
            leaf[:, :, :, :kept][row].masked_fill(expand_rows(fresh, leaf), 0.0)
            for leaf in (state.keys, state.values)
        )
        position, window = (leaf[row].masked_fill(fresh, 0) for leaf in (state.position, state.window))
        return memory, Context(keys, values, position, window)

    def _run(self, memory: Tensor, steps: Tensor, begin: Context, opens: bool, writes: bool) -> Pass:
        """Segments side by side.

        :param memory: (G, M, D)
        :param steps: (G, slots, D); a group that does not open has the first ``begin.position`` of them in
            the cache
        """
        count, slots = self.memory_tokens, steps.shape[1]
        kept = count + self.memory_length + slots
        parts = [memory + self.read_role] if opens else []
        parts += [steps] + ([memory + self.write_role] if writes else [])
        z = torch.cat(parts, dim=1)
        cached = torch.arange(slots, device=z.device) < begin.position[:, None]
        keys: list[Tensor] = []
        values: list[Tensor] = []
        visible = self._visible(slots, opens, writes, begin)
        for layer, block in enumerate(self.blocks):
            query, key, value = block.project(z)
            key = self._with_cache(key, begin.keys[:, layer], cached, opens)
            value = self._with_cache(value, begin.values[:, layer], cached, opens)
            keys.append(key[:, :, :kept])
            values.append(value[:, :, :kept])
            mask = self._mask(block, query, visible, slots, opens)
            z = block.attend(z, self._content(query), key, value, mask)
        first = count if opens else 0
        outputs, written = self.norm(z[:, first : first + slots]), self._written(z[:, first + slots :])
        return Pass(outputs, written, keys, values)

    def _with_cache(self, fresh: Tensor, cache: Tensor, cached: Tensor, opens: bool) -> Tensor:
        """Keys or values in the order [read; window; steps; write], from the new and the cached ones.

        :param fresh: (G, H, [M +] slots [+ M], D / H), with the read block if the group opens its segments
        :param cache: (G, H, M + W + S, D / H)
        :param cached: (G, slots) bool, the slots whose steps were consumed in an earlier call
        """
        count, window, slots = self.memory_tokens, self.memory_length, cached.shape[1]
        if opens:
            if not window:
                return fresh
            return torch.cat(
                [fresh[:, :, :count], cache[:, :, count : count + window], fresh[:, :, count:]], dim=2
            )
        before = count + window
        steps = torch.where(
            cached[:, None, :, None], cache[:, :, before : before + slots], fresh[:, :, :slots]
        )
        return torch.cat([cache[:, :, :before], steps, fresh[:, :, slots:]], dim=2)

    # -- what the hybrid changes -----------------------------------------------------------------------------

    def _content(self, query: Tensor) -> Tensor:
        """The queries of the content term of the score."""
        return query

    def _visible(self, slots: int, opens: bool, writes: bool, begin: Context) -> Tensor:
        """Who sees whom in ``_run``: bool, broadcastable to (G, 1, queries, keys)."""
        count = self.memory_tokens
        visible = begin.keys.new_ones(count + slots + count, count + slots + count, dtype=torch.bool).tril()
        visible[:count, :count] = True
        visible[count + slots :] = True
        end = None if writes else count + slots
        return visible[0 if opens else count : end, :end]

    def _mask(self, block: Block, query: Tensor, visible: Tensor, slots: int, opens: bool) -> Tensor:
        """``visible`` with what else the scores need, broadcastable to (G, H, queries, keys)."""
        return visible

    def _act_mask(self, block: Block, query: Tensor, state: RMTState) -> Tensor:
        """What the one step of every row sees of the cache: (B, 1, 1, M + S)."""
        slot = torch.arange(-self.memory_tokens, self.segment_length, device=query.device)
        return (slot <= state.position[:, None])[:, None, None]

    def _write_mask(self, context: Context) -> Tensor | None:
        """What the write block sees of [cache; write] in ``_write``, broadcastable to (B, 1, M, keys)."""
        return None

    def _hand_on(self, begin: Context, result: Pass) -> Context:
        """The context in which the next segments begin: nothing is cached of them yet."""
        zeros = torch.zeros_like(begin.position)
        return Context(begin.keys[..., :0, :], begin.values[..., :0, :], zeros, zeros)


class _Final:
    """Collects, group by group, the state after each row's last step."""

    def __init__(self, core: RMT) -> None:
        self.core = core
        self.rows: list[Ints] = []
        self.states: list[RMTState] = []

    def add(self, group: Segments, memory: Tensor, begin: Context, result: Pass) -> None:
        last = np.flatnonzero(group.last)
        if not len(last):
            return
        index = to_device(last, memory)
        position = to_device((group.slot + group.length)[last], memory)
        before = self.core.memory_tokens + self.core.memory_length
        slots = before + self.core.segment_length
        place = torch.arange(slots, device=memory.device)
        empty = (place >= before + position[:, None])[:, None, None, :, None]
        keys, values = (
            F.pad(
                torch.stack([layer[index] for layer in layers], dim=1), (0, 0, 0, slots - layers[0].shape[2])
            ).masked_fill(empty, 0.0)
            for layers in (result.keys, result.values)
        )
        self.rows.append(group.row[last])
        self.states.append(RMTState(memory[index], keys, values, position, begin.window[index]))

    def state(self) -> RMTState:
        rows = np.concatenate(self.rows)
        order = to_device(invert(rows, len(rows)), self.states[0].memory)
        return RMTState(*(torch.cat(leaves)[order] for leaves in zip(*self.states, strict=True)))
