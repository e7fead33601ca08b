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
from rmt_rl.cores.blocks import Block, hide, make_blocks
from rmt_rl.cores.packing import Indices, Packing, Sizes, indices, pack
from rmt_rl.cores.segments import find_segments, invert, to_device


class RMTState(NamedTuple):
    """What an RMT remembers; of constant size. W is 0 for ``rmt``."""

    memory: Tensor
    """(B, M, D) the memory that the current segment reads"""
    cache: Tensor
    """(B, L, M + W + S, 2 D) keys and values of the read block, of W steps before the segment and of its
    steps; 0 where empty"""
    position: Tensor
    """(B,) int64: steps that the current segment has, 0 before the first; at S its write is due"""
    window: Tensor
    """(B,) int64: how many of the W steps before the segment exist"""


class Group(NamedTuple):
    """The G segments of one depth as they are computed."""

    packing: Packing
    on_device: Indices
    memory: Tensor
    """(G, M, D) what they read"""
    window: Tensor
    """(G,) how many of the W steps before each exist"""


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
        shape = (batch_size, len(self.blocks), self.sizes.cache, 2 * self.output_dim)
        zeros = torch.zeros(batch_size, dtype=torch.int64, device=memory.device)
        return RMTState(memory, memory.new_zeros(shape), zeros, zeros)

    @property
    def sizes(self) -> Sizes:
        """M, W and S."""
        return Sizes(self.memory_tokens, self.memory_length, self.segment_length)

    def forward(self, inputs: Tensor, state: RMTState, episode_starts: Tensor) -> tuple[Tensor, RMTState]:
        self.check_call(inputs, state, episode_starts)
        state = self._open(state, episode_starts[:, 0])
        if inputs.shape[1] == 1 and not torch.is_grad_enabled():
            return self._act(inputs, state)
        after = _After(self)
        return self._train(inputs, state, episode_starts, after), after.state()

    def replay(self, inputs: Tensor, state: RMTState, episode_starts: Tensor) -> Tensor:
        self.check_call(inputs, state, episode_starts)
        return self._train(inputs, self._open(state, episode_starts[:, 0]), episode_starts, None)

    # -- opening a segment -----------------------------------------------------------------------------------

    def _open(self, state: RMTState, starts: Tensor) -> RMTState:
        """The state that consumes the next step: reset where an episode starts, the due writes made.

        At position 0 the cache's read block and steps are still those of the segment before.
        """
        due = ~starts & (state.position == self.segment_length)
        memory = torch.where(expand_rows(starts, state.memory), self.initial_memory, state.memory)
        cache, window = state.cache, state.window.masked_fill(starts, 0)
        rows = due.nonzero().squeeze(1)
        if len(rows):
            old, begin, existing = cache[rows], memory[rows], window[rows]
            memory = memory.index_copy(0, rows, self._next_memory(begin, self._write(begin, old, existing)))
            if self.memory_length:
                recent = old[:, :, -self.memory_length :].detach()
                around = (0, 0, self.memory_tokens, self.segment_length)
                cache = cache.index_copy(0, rows, F.pad(recent, around))
                window = window.index_copy(0, rows, self._window_after(existing))
        return RMTState(memory, cache, state.position.masked_fill(starts | due, 0), window)

    def _window_after(self, window: Tensor) -> Tensor:
        """How many of the W steps before the next segment exist, after a full one."""
        return (window + self.segment_length).clamp(max=self.memory_length)

    def _next_memory(self, memory: Tensor, written: Tensor) -> Tensor:
        """m_{tau+1} from m_tau and the write block's output, both (G, M, D)."""
        if self.training and self.memory_noise:
            return written + self.memory_noise * torch.randn_like(written)
        return written

    def _write(self, memory: Tensor, cache: Tensor, window: Tensor) -> Tensor:
        """The write block of full segments whose steps are all cached: (G, M, D).

        :param memory: (G, M, D); cache and window as in ``RMTState``
        """
        z = memory + self.write_role
        mask = self._write_mask(cache, window)
        for layer, block in enumerate(self.blocks):
            own = block.tokens(z)
            (query,) = block.split(own[..., : self.output_dim])
            key, value = block.split(torch.cat([cache[:, layer], own[..., self.output_dim :]], dim=1))
            z = block.attend(z, self._content(query), key, value, mask)
        return self._written(z)

    def _written(self, z: Tensor) -> Tensor:
        """The next memory from the stream of the write block (G, M, D).

        The role it entered with is taken off again: added anew in every segment, it would in time outweigh
        what is remembered.
        """
        return self.norm(z - self.write_role)  # type: ignore[no-any-return]

    # -- one step --------------------------------------------------------------------------------------------

    def _act(self, inputs: Tensor, state: RMTState) -> tuple[Tensor, RMTState]:
        """One step for every row, from the cache; where a segment opens, the read block with it."""
        memory, cache, position, window = state
        rows, tokens, width = len(position), self.memory_tokens, self.output_dim
        cache = cache.clone()
        z = self.encode(inputs.squeeze(1)) + self.slot.index_select(0, position)
        opened = (position == 0).nonzero().squeeze(1)
        if len(opened):
            empty = self._empty(position, window)[opened]
            cache[opened] = cache[opened].masked_fill(empty[:, None, :, None], 0.0)
            z = torch.cat([z, (memory[opened] + self.read_role).flatten(0, 1)])
        every = torch.arange(rows, device=z.device)
        place = tokens + self.memory_length + position
        visible = self._visible_to_step(cache, position, window)
        for layer, block in enumerate(self.blocks):
            own = block.tokens(z)
            cache[every, layer, place] = own[:rows, width:]
            if len(opened):
                read = own[rows:].view(len(opened), tokens, 3 * width)
                cache[opened, layer, :tokens] = read[..., width:]
            (query,), (key, value) = block.split(own[:rows, None, :width]), block.split(cache[:, layer])
            mask = self._step_mask(block, query, visible, position)
            found = block.look(self._content(query), key, value, mask).flatten(0, 1)
            # Of the last layer nobody reads more of the read block than keys and values.
            if len(opened) and layer + 1 < len(self.blocks):
                query, key, value = block.split(read)
                found = torch.cat([found, block.look(self._content(query), key, value).flatten(0, 1)])
            z = block.update(z[: len(found)], found)
        return self.norm(z).unsqueeze(1), RMTState(memory, cache, position + 1, window)

    # -- whole sequences -------------------------------------------------------------------------------------

    def _train(self, inputs: Tensor, state: RMTState, episode_starts: Tensor, after: _After | None) -> Tensor:
        """Whole sequences, depth by depth; ``after`` collects the state after the last step."""
        rows, steps = episode_starts.shape
        plan = find_segments(episode_starts, state.position, self.segment_length)
        packings: list[Packing] = []
        for depth in range(int(plan.depth.max()) + 1):
            packings.append(pack(plan, depth, self.sizes, packings[-1] if depth else None))
        order = np.concatenate([packing.steps for packing in packings])
        slots = np.concatenate([packing.step_slots for packing in packings])
        x = self.encode(inputs).flatten(0, 1).index_select(0, to_device(order, inputs))
        x = x + self.slot.index_select(0, to_device(slots, inputs))
        memory, window = self._first_memory(packings[0], state)
        # By layer, what the segments of this depth find in the cache: of places of 2 D each, flattened.
        cache = [state.cache[:, layer].flatten(0, 1) for layer in range(len(self.blocks))]
        outputs: list[Tensor] = []
        for packing, part in zip(packings, x.split([len(p.steps) for p in packings]), strict=True):
            group = Group(packing, indices(packing, x), memory, window)
            output, written, rows_of_keys = self._run(group, part, cache)
            outputs.append(output)
            if after is not None:
                after.add(group, rows_of_keys)
            if packing.written:
                memory = self._next_memory(memory.index_select(0, group.on_device.writes), written)
                if self.memory_length:
                    cache = [layer.detach().flatten(0, 1) for layer in rows_of_keys]
                    window = self._window_after(window.index_select(0, group.on_device.writes))
        inverse = to_device(invert(order, rows * steps), inputs)
        return self.norm(torch.cat(outputs).index_select(0, inverse)).view(rows, steps, -1)  # type: ignore[no-any-return]

    def _first_memory(self, packing: Packing, state: RMTState) -> tuple[Tensor, Tensor]:
        """Memory and window of the segments of depth 0: the row's, or initial where an episode begins."""
        row, fresh = (
            to_device(index, state.memory) for index in (packing.segments.row, packing.segments.fresh)
        )
        memory = state.memory.index_select(0, row)
        memory = torch.where(expand_rows(fresh, memory), self.initial_memory, memory)
        return memory, state.window.index_select(0, row).masked_fill(fresh, 0)

    def _run(self, group: Group, steps: Tensor, cache: list[Tensor]) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Segments side by side.

        :param steps: (n, D) their steps, packed
        :param cache: by layer, the places (R, 2 D) that ``group.index.cached`` refers to
        :return: the stream at the steps (n, D), what was written (as many as write, M, D), and by layer the
            rows of keys and values (G, K, 2 D)
        """
        packing, index, memory, _ = group
        width, reading = self.output_dim, len(packing.opens) * self.memory_tokens
        parts = [(memory.index_select(0, index.opens) + self.read_role).flatten(0, 1), steps]
        if packing.written:
            parts.append((memory.index_select(0, index.writes) + self.write_role).flatten(0, 1))
        z, place = torch.cat(parts), index.place
        shape = (len(memory), -1)
        rows_of_keys: list[Tensor] = []
        visible = self._visible(group, z)
        for layer, block in enumerate(self.blocks):
            own = block.tokens(z)
            if len(packing.cached) or self.memory_length:
                of_queries, of_keys = torch.split(own, [width, 2 * width], dim=-1)
                of_keys = torch.cat([of_keys, cache[layer].index_select(0, index.cached)])
                queries = of_queries.index_select(0, index.queries).view(*shape, width)
                keys = of_keys.index_select(0, index.keys).view(*shape, 2 * width)
                query, key, value = *block.split(queries), *block.split(keys)
            else:
                rows = own.index_select(0, index.queries).view(*shape, 3 * width)
                query, key, value = block.split(rows)
                keys = rows[..., width:]
            rows_of_keys.append(keys)
            mask = self._mask(block, query, visible, packing)
            found = block.look(self._content(query), key, value, mask).flatten(0, 1)
            if layer + 1 == len(self.blocks):  # of the last layer nobody reads more than keys and values
                z, place = z[reading:], place[reading:]
            z = block.update(z, found.index_select(0, place))
        outputs, writes = torch.split(z, [len(steps), len(z) - len(steps)])
        written = writes.view(len(packing.writes), self.memory_tokens, width)
        return outputs, self._written(written), rows_of_keys

    # -- what the hybrid changes -----------------------------------------------------------------------------

    def _content(self, query: Tensor) -> Tensor:
        """The queries of the content term of the score."""
        return query

    def _visible(self, group: Group, like: Tensor) -> Tensor:
        """Who sees whom in ``_run``, as a mask to be added: broadcastable to (G, 1, Q, K)."""
        tokens, slots = self.memory_tokens, group.packing.slots
        writing = tokens * group.packing.written
        size = tokens + slots + writing
        visible = torch.ones(size, size, dtype=torch.bool, device=like.device).tril_()
        visible[:tokens, :tokens] = True
        visible[tokens + slots :] = True
        return hide(visible, like)

    def _mask(self, block: Block, query: Tensor, visible: Tensor, packing: Packing) -> Tensor:
        """``visible`` with what else is added to the scores, broadcastable to (G, H, Q, K)."""
        return visible

    def _visible_to_step(self, cache: Tensor, position: Tensor, window: Tensor) -> Tensor:
        """What the one step of every row sees of the cache, as a mask to be added: (B, 1, 1, M + W + S)."""
        return hide(~self._empty(position + 1, window), cache)[:, None, None]

    def _step_mask(self, block: Block, query: Tensor, visible: Tensor, position: Tensor) -> Tensor:
        """``visible`` with what else is added to the scores of one step."""
        return visible

    def _write_mask(self, cache: Tensor, window: Tensor) -> Tensor | None:
        """What the write block sees of [cache; write] in ``_write``, broadcastable to (B, 1, M, keys)."""
        return None

    # -- the cache -------------------------------------------------------------------------------------------

    def _empty(self, position: Tensor, window: Tensor) -> Tensor:
        """(B, M + W + S) bool, the places of the cache that hold nothing at ``position`` (B,)."""
        place = torch.arange(-self.memory_length, self.segment_length, device=position.device)
        empty = (place >= position[:, None]) | (place < -window[:, None])
        return F.pad(empty, (self.memory_tokens, 0), value=False)


class _After:
    """Collects, depth by depth, the state after each row's last step."""

    def __init__(self, core: RMT) -> None:
        self.core = core
        self.rows: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        self.states: list[RMTState] = []

    def add(self, group: Group, rows_of_keys: list[Tensor]) -> None:
        """Take what the segments that end their rows leave."""
        segments, places = group.packing.segments, self.core.sizes.cache
        last = np.flatnonzero(segments.last)
        if not len(last):
            return
        index = to_device(last, group.memory)
        position = to_device((segments.slot + segments.length)[last], group.memory)
        window = group.window.index_select(0, index)
        # Rows end with the write block, or before the last slots of a full segment.
        cache = torch.stack([keys.index_select(0, index)[:, :places] for keys in rows_of_keys], dim=1)
        cache = F.pad(cache, (0, 0, 0, places - cache.shape[2]))
        cache = cache.masked_fill(self.core._empty(position, window)[:, None, :, None], 0.0)
        self.rows.append(segments.row[last])
        self.states.append(RMTState(group.memory.index_select(0, index), cache, position, window))

    def state(self) -> RMTState:
        """Of all rows in their order."""
        rows = np.concatenate(self.rows)
        order = to_device(invert(rows, len(rows)), self.states[0].memory)
        return RMTState(*(torch.cat(leaves)[order] for leaves in zip(*self.states, strict=True)))
