"""What the cores share that process an episode segment by segment and hand a memory on.

An episode is cut into segments of S steps. In a segment, [read block; steps; write block], a step sees the
read block and the steps up to itself, the write block sees everything; what a core does with either block,
and what its memory is, is its own: see the hooks. Acting keeps the keys and values of the segment so far: one
token a step, and one write every S steps, made when the next step needs it. Whole sequences are run by
``cores/unroll.py``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmt_rl.cores.base import MemoryCore, expand_rows, require_positive
from rmt_rl.cores.blocks import Block, conceal, hide, make_blocks
from rmt_rl.cores.jitter import make_jitter
from rmt_rl.cores.packing import Sizes
from rmt_rl.cores.segments import to_device
from rmt_rl.cores.unroll import Group, unroll


class SegmentedState(NamedTuple):
    """What a segmented core remembers; of constant size. R and W may be 0."""

    memory: Tensor
    """(B, ...) the memory that the current segment reads"""
    cache: Tensor
    """(B, L, R + W + S, 2 D) keys and values of the read block, of W steps before the segment and of its
    steps; 0 where empty"""
    position: Tensor
    """(B,) int64: steps that the current segment has, 0 before the first; at S its write is due"""
    window: Tensor
    """(B,) int64: how many of the W steps before the segment exist"""
    draw: Tensor
    """(B,) int64: the number that the segment's length was drawn with; 0 for S steps"""


class SegmentedCore(MemoryCore[SegmentedState]):
    """Base of ``rmt``, ``rmt_xl`` and ``armt``.

    :param width: D, the width of the transformer and the output's dimension
    :param segment_length: S, in steps
    :param memory_tokens: M, tokens of the write block
    :param bptt_segments: through how many successive segments of a training sequence a gradient passes
    :param segment_jitter: share of S by which lengths of segments vary in training, up and down
    :raises ValueError: where an option is out of range
    """

    memory_length = 0
    """W: how many steps before the segment its steps can see. The hybrid has some."""
    relative: ClassVar[bool] = False
    """whether scores have Transformer-XL's relative terms"""
    recalls: ClassVar[bool] = False
    """whether the core adds something from its memory to the layers' inputs (``recall``)"""
    place: Tensor
    """(R + W + S,) the slots of the cache's places: below -W the read block, below 0 the window"""

    def __init__(
        self,
        input_dim: int,
        width: int,
        layers: int,
        heads: int,
        segment_length: int,
        memory_tokens: int,
        feedforward: int | None,
        dropout: float,
        gated: bool,
        persistent_tokens: int,
        bptt_segments: int | None,
        segment_jitter: float,
    ) -> None:
        super().__init__(input_dim, require_positive("width", width))
        self.segment_length = require_positive("segment_length", segment_length)
        self.memory_tokens = require_positive("memory_tokens", memory_tokens)
        self.bptt_segments = (
            None if bptt_segments is None else require_positive("bptt_segments", bptt_segments)
        )
        self.jitter = make_jitter(segment_length, segment_jitter)
        self.blocks = make_blocks(
            width, layers, heads, feedforward, dropout, gated, persistent_tokens, relative=self.relative
        )
        self.options: dict[str, object] = dict(
            width=width, layers=layers, heads=heads, segment_length=segment_length,
            memory_tokens=memory_tokens, feedforward=feedforward, gated=gated,
            persistent_tokens=persistent_tokens,
        )  # fmt: skip
        if self.jitter is not None:
            self.options["segment_jitter"] = segment_jitter
        self.encode = nn.Linear(self.input_dim, width)
        self.slot = nn.Parameter(torch.empty(self.sizes.steps, width).normal_(std=0.1))
        # Fed back every segment, a gain would be raised to the power of the number of segments and wipe out
        # all but the largest directions of the memory. Without one, a block that adds nothing keeps it.
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        read, window, steps, _ = self.sizes
        self.register_buffer("place", torch.arange(-read - window, steps), persistent=False)

    # -- what a core says for itself -------------------------------------------------------------------------

    @property
    def read_tokens(self) -> int:
        """R, tokens of the read block."""
        return self.memory_tokens

    @abstractmethod
    def first_memory(self) -> Tensor:
        """The memory of one row that an episode begins with."""

    def reading(self, memory: Tensor) -> Tensor:
        """The read block of G segments, (G, R, D), from their memories (G, ...)."""
        return memory.new_empty(len(memory), 0, self.output_dim)  # a core without one

    @abstractmethod
    def writing(self, memory: Tensor) -> Tensor:
        """The write block (G, M, D) as it enters."""

    def recall(self, layer: int, x: Tensor, memory: Tensor) -> Tensor:
        """The inputs (G, N, D) of a layer with what its part of the memory (G, L, ...) adds to them."""
        return x

    @abstractmethod
    def written(self, memory: Tensor, streams: list[Tensor]) -> Tensor:
        """The memory that the next segments read, from this one's and the write block's stream.

        :param streams: (G, M, D) after each layer
        """

    def content(self, query: Tensor) -> Tensor:
        """The queries of the content term of the score."""
        return query

    # -- the contract ----------------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.options.items())

    @property
    def sizes(self) -> Sizes:
        """R, W, S and M."""
        steps = self.segment_length if self.jitter is None else self.jitter.longest
        return Sizes(self.read_tokens, self.memory_length, steps, self.memory_tokens)

    def initial_state(self, batch_size: int) -> SegmentedState:
        require_positive("batch_size", batch_size)
        first = self.first_memory()
        memory = first.expand(batch_size, *first.shape)
        shape = (batch_size, len(self.blocks), self.sizes.cache, 2 * self.output_dim)
        zeros = torch.zeros(batch_size, dtype=torch.int64, device=memory.device)
        return SegmentedState(memory, memory.new_zeros(shape), zeros, zeros, zeros)

    def rollout_state(self, batch_size: int) -> SegmentedState:
        state = self.initial_state(batch_size)
        if self.jitter is None:
            return state
        return state._replace(draw=self.jitter.first_draws(batch_size, state.draw.device))

    def forward(
        self, inputs: Tensor, state: SegmentedState, episode_starts: Tensor
    ) -> tuple[Tensor, SegmentedState]:
        self.check_call(inputs, state, episode_starts)
        if inputs.shape[1] == 1 and not torch.is_grad_enabled():
            opened = self._opening(state, episode_starts[:, 0])
            if opened.shape[0] > 0:
                state = self._open(state, episode_starts[:, 0])
            return self._act(inputs, state, opened)
        state = self._open(state, episode_starts[:, 0])
        outputs, after = unroll(self, inputs, state, episode_starts, wants_state=True)
        assert after is not None
        return outputs, SegmentedState(*after)

    def replay(self, inputs: Tensor, state: SegmentedState, episode_starts: Tensor) -> Tensor:
        self.check_call(inputs, state, episode_starts)
        state = self._open(state, episode_starts[:, 0])
        return unroll(self, inputs, state, episode_starts, wants_state=False)[0]

    @torch.no_grad()
    def step(
        self, inputs: Tensor, state: SegmentedState, episode_starts: Tensor
    ) -> tuple[Tensor, SegmentedState]:
        every = torch.arange(inputs.shape[0], device=inputs.device)
        return self._act(inputs, self._open(state, episode_starts[:, 0], every), every)

    # -- opening a segment -----------------------------------------------------------------------------------

    def _opening(self, state: SegmentedState, starts: Tensor) -> Tensor:
        """(G,) the rows whose next step is the first of a segment; in no other is anything to open."""
        full = self.segment_length if self.jitter is None else self.jitter.lengths(state.draw)
        opens = starts | (state.position % full == 0)
        return opens.nonzero().squeeze(1)

    def _open(self, state: SegmentedState, starts: Tensor, rows: Tensor | None = None) -> SegmentedState:
        """The state that consumes the next step: reset where an episode starts, the due writes made.

        At position 0 the cache's read block and steps are still those of the segment before.

        :param rows: (G,) those to compute writes for, whether due or not; by default where they are due
        """
        full = self.segment_length if self.jitter is None else self.jitter.lengths(state.draw)
        due = ~starts & (state.position == full)
        memory = torch.where(expand_rows(starts, state.memory), self.first_memory(), state.memory)
        cache, window = state.cache, state.window.masked_fill(starts, 0)
        rows = due.nonzero().squeeze(1) if rows is None else rows
        if rows.shape[0] > 0:
            written = due[rows]
            before, old, existing, length = memory[rows], cache[rows], window[rows], state.position[rows]
            after = self._write(before, old, length, existing)
            after = after if self.bptt_segments is None else after.detach()
            memory = memory.index_copy(0, rows, torch.where(expand_rows(written, after), after, before))
            if self.memory_length:
                recent = self._recent(old, length).detach()
                recent = F.pad(recent, (0, 0, self.read_tokens, self.sizes.steps))
                cache = cache.index_copy(0, rows, torch.where(expand_rows(written, old), recent, old))
                wider = self.window_after(existing, length)
                window = window.index_copy(0, rows, torch.where(written, wider, existing))
        opening = starts | due
        position = state.position.masked_fill(opening, 0)
        draw = state.draw
        if self.jitter is not None:
            draw = torch.where(opening, self.jitter.advance(draw), draw)
        return SegmentedState(memory, cache, position, window, draw)

    def _recent(self, cache: Tensor, position: Tensor) -> Tensor:
        """The last W places of [window; steps] up to ``position`` (G,): (G, L, W, 2 D)."""
        place = self.read_tokens + position[:, None] + torch.arange(self.memory_length, device=cache.device)
        index = place[:, None, :, None].expand(-1, cache.shape[1], -1, cache.shape[3])
        return cache.gather(2, index)

    def window_after(self, window: Tensor, length: Tensor) -> Tensor:
        """How many of the W steps before the next segment exist, after one of so many steps."""
        return (window + length).clamp(max=self.memory_length)

    def _write(self, memory: Tensor, cache: Tensor, position: Tensor, window: Tensor) -> Tensor:
        """What full segments write whose steps are all cached; all are rows of a ``SegmentedState``."""
        z, streams = self.writing(memory), []
        mask = self.write_mask(cache, position, window)
        for layer, block in enumerate(self.blocks):
            if self.recalls:
                z = self.recall(layer, z, memory[:, layer])
            own = block.tokens(z)
            (query,) = block.split(own[..., : self.output_dim])
            key, value = block.split(torch.cat([cache[:, layer], own[..., self.output_dim :]], dim=1))
            z = block.attend(z, self.content(query), key, value, mask)
            streams.append(z)
        return self.written(memory, streams)

    # -- one step --------------------------------------------------------------------------------------------

    def _act(self, inputs: Tensor, state: SegmentedState, opened: Tensor) -> tuple[Tensor, SegmentedState]:
        """One step for every row, from the cache; where a segment opens, the read block with it.

        :param opened: (G,) the rows whose segment opens, or more: elsewhere, what is cached is computed again
        """
        memory, cache, position, window, draw = state
        rows, read, width = position.shape[0], self.read_tokens, self.output_dim
        cache = cache.clone(memory_format=torch.contiguous_format)
        z = self.encode(inputs.squeeze(1)) + self.slot.index_select(0, position)
        opens = opened.shape[0] > 0
        reads = opens and read > 0
        if opens:
            empty = self.empty(position, window)[opened]
            cache[opened] = cache[opened].masked_fill(empty[:, None, :, None], 0.0)
        if reads:
            z = torch.cat([z, self.reading(memory[opened]).flatten(0, 1)])
        # Written as rows of one matrix: in an exported graph that is cheap, and a slice of a slice is not.
        places = cache.view(-1, 2 * width)
        layers, size = len(self.blocks), self.sizes.cache
        first = torch.arange(0, rows * layers * size, layers * size, device=z.device)
        of_read = (first[opened][:, None] + torch.arange(read, device=z.device)).view(-1) if reads else None
        own_place = first + position + (read + self.memory_length)
        sight = self.sight(cache, position, window)
        for layer, block in enumerate(self.blocks):
            if self.recalls:
                recalled = self.recall(layer, z[:rows].unsqueeze(1), memory[:, layer]).squeeze(1)
                z = torch.cat([recalled, z[rows:]]) if reads else recalled
            own = block.tokens(z)
            of_steps = own[:rows] if reads else own
            places[own_place + layer * size] = of_steps[:, width:]
            if of_read is not None:
                places[of_read + layer * size] = own[rows:, width:]
            query = of_steps[:, :width].view(rows, block.heads, 1, block.head_width)
            key, value = block.split(cache[:, layer])
            mask = self.step_mask(block, query, sight)
            found = block.look(self.content(query), key, value, mask).view(rows, width)
            if reads:
                # Of the last layer nobody reads more of the read block than keys and values.
                if layer + 1 < layers:
                    query, key, value = block.split(own[rows:].view(-1, read, 3 * width))
                    found = torch.cat([found, block.look(self.content(query), key, value).flatten(0, 1)])
                else:
                    z = z[:rows]
            z = block.update(z, found)
        return self.norm(z).unsqueeze(1), SegmentedState(memory, cache, position + 1, window, draw)

    # -- who sees whom; the hybrid has its own ---------------------------------------------------------------

    def visible(self, group: Group, like: Tensor) -> Tensor:
        """In whole segments, as a mask to be added to the scores: broadcastable to (G, 1, Q, K)."""
        read, slots = self.read_tokens, group.packing.slots
        size = read + slots + self.memory_tokens * group.packing.writing
        visible = torch.ones(size, size, dtype=torch.bool, device=like.device).tril_()
        visible[:read, :read] = True
        visible[read + slots :] = True
        if self.jitter is not None:
            visible = visible & self.filled(group, like)
        return hide(visible, like)

    def filled(self, group: Group, like: Tensor) -> Tensor:
        """(G, 1, 1, K) bool: all places of the rows of keys but the slots behind each segment's last step.

        Steps see none of them anyway; the write block would, where full segments differ in length.
        """
        packing = group.packing
        before, behind = self.read_tokens + self.memory_length, self.memory_tokens * packing.writing
        slot = torch.arange(packing.slots, device=like.device)
        filled = slot < to_device(packing.ends, like)[:, None]
        filled = F.pad(F.pad(filled, (before, 0), value=True), (0, behind), value=True)
        return filled[:, None, None]

    def mask(self, block: Block, query: Tensor, visible: Tensor, group: Group) -> Tensor:
        """``visible`` with what else is added to the scores, broadcastable to (G, H, Q, K)."""
        return visible

    def sight(self, cache: Tensor, position: Tensor, window: Tensor) -> tuple[Tensor, ...]:
        """What the one step of every row sees of the cache, for all layers.

        :return: a mask to be added to the scores, (B, 1, 1, R + W + S), and whatever else ``step_mask`` needs
        """
        return (conceal(self.place > position[:, None], cache)[:, None, None],)

    def step_mask(self, block: Block, query: Tensor, sight: tuple[Tensor, ...]) -> Tensor:
        """The mask of ``sight`` with what else is added to the scores of one step."""
        return sight[0]

    def write_mask(self, cache: Tensor, position: Tensor, window: Tensor) -> Tensor | None:
        """What the write block sees of [cache; write] in ``_write``, broadcastable to (B, 1, M, keys)."""
        if self.jitter is None and not self.memory_length:
            return None
        sees = F.pad(~self.empty(position, window), (0, self.memory_tokens), value=True)
        return hide(sees, cache)[:, None, None]

    def empty(self, position: Tensor, window: Tensor) -> Tensor:
        """(B, R + W + S) bool, the places of the cache that hold nothing at ``position`` (B,)."""
        place = torch.arange(-self.memory_length, self.sizes.steps, device=position.device)
        empty = (place >= position[:, None]) | (place < -window[:, None])
        return F.pad(empty, (self.read_tokens, 0), value=False)
