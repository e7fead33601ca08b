"""Whole sequences through a segmented core: all segments of one depth at once, depth by depth."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from rmt_rl.cores.base import expand_rows
from rmt_rl.cores.packing import Indices, Packing, indices, pack
from rmt_rl.cores.segments import Ints, find_segments, invert, to_device

if TYPE_CHECKING:
    from rmt_rl.cores.segmented import SegmentedCore, SegmentedState

State = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]
"""The fields of a ``SegmentedState``."""


class Group(NamedTuple):
    """The G segments of one depth as they are computed."""

    packing: Packing
    on_device: Indices
    memory: Tensor
    """(G, ...) what they read"""
    window: Tensor
    """(G,) how many of the W steps before each exist"""


def unroll(
    core: SegmentedCore, inputs: Tensor, state: SegmentedState, episode_starts: Tensor, wants_state: bool
) -> tuple[Tensor, State | None]:
    """The outputs (B, T, D), and the state after the last step if it is wanted.

    :param state: opened: no write is due
    """
    rows, steps = episode_starts.shape
    plan = find_segments(episode_starts, state.position, core.segment_length, core.jitter, state.draw)
    packings: list[Packing] = []
    for depth in range(int(plan.depth.max()) + 1):
        packings.append(pack(plan, depth, core.sizes, packings[-1] if depth else None))
    order = np.concatenate([packing.steps for packing in packings])
    slots = np.concatenate([packing.step_slots for packing in packings])
    x = core.encode(inputs).flatten(0, 1).index_select(0, to_device(order, inputs))
    x = x + core.slot.index_select(0, to_device(slots, inputs))
    memory, window = _first(core, packings[0], state)
    # By layer, what the segments of this depth find in the cache: places of 2 D each, flattened.
    cache = [state.cache[:, layer].flatten(0, 1) for layer in range(len(core.blocks))]
    outputs: list[Tensor] = []
    after = _After(core)
    parts = x.split([len(packing.steps) for packing in packings])
    for depth, (packing, part) in enumerate(zip(packings, parts, strict=True)):
        group = Group(packing, indices(packing, x), memory, window)
        output, streams, rows_of_keys = _run(core, group, part, cache)
        outputs.append(output)
        if wants_state:
            after.add(group, rows_of_keys)
        if packing.writing:
            memory = core.written(pick_rows(memory, group.on_device.writes), streams)
            if core.bptt_segments is not None and (depth + 1) % core.bptt_segments == 0:
                memory = memory.detach()
            if core.memory_length:
                cache = [layer.detach().flatten(0, 1) for layer in rows_of_keys]
                ends = to_device(packing.ends[packing.writes], window)
                window = core.window_after(pick_rows(window, group.on_device.writes), ends)
    inverse = to_device(invert(order, rows * steps), inputs)
    whole = core.norm(torch.cat(outputs).index_select(0, inverse)).view(rows, steps, -1)
    return whole, after.state() if wants_state else None


def _first(core: SegmentedCore, packing: Packing, state: SegmentedState) -> tuple[Tensor, Tensor]:
    """Memory and window of the segments of depth 0: the row's, or initial where an episode begins."""
    row, fresh = (to_device(index, state.memory) for index in (packing.segments.row, packing.segments.fresh))
    memory = state.memory.index_select(0, row)
    memory = torch.where(expand_rows(fresh, memory), core.first_memory(), memory)
    return memory, state.window.index_select(0, row).masked_fill(fresh, 0)


def _run(
    core: SegmentedCore, group: Group, steps: Tensor, cache: list[Tensor]
) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Segments side by side.

    :param steps: (n, D) their steps, packed
    :param cache: by layer, places (C, 2 D), to which ``group.on_device.cached`` refers
    :return: the stream at the steps (n, D); by layer, the stream at the write blocks, (., M, D), and the rows
        of keys and values (G, K, 2 D)
    """
    packing, index, memory, _ = group
    width, read, write = core.output_dim, core.read_tokens, core.memory_tokens
    parts = [core.reading(pick_rows(memory, index.opens)).flatten(0, 1)] if read else []
    parts.append(steps)
    if packing.writing:
        parts.append(core.writing(pick_rows(memory, index.writes)).flatten(0, 1))
    z, place = torch.cat(parts), index.place
    in_rows = (len(memory), packing.queries.size // len(memory), -1)
    streams: list[Tensor] = []
    rows_of_keys: list[Tensor] = []
    visible = core.visible(group, z)
    held = memory.unbind(1) if core.recalls else ()
    for layer, block in enumerate(core.blocks):
        if core.recalls:
            recalled = core.recall(layer, z.index_select(0, index.queries).view(in_rows), held[layer])
            z = recalled.flatten(0, 1).index_select(0, place)
        own = block.tokens(z)
        if len(packing.cached) or core.memory_length:
            of_queries, of_keys = torch.split(own, [width, 2 * width], dim=-1)
            of_keys = torch.cat([of_keys, cache[layer].index_select(0, index.cached)])
            queries = of_queries.index_select(0, index.queries).view(in_rows)
            keys = of_keys.index_select(0, index.keys).view(len(memory), -1, 2 * width)
            query, key, value = *block.split(queries), *block.split(keys)
        else:
            rows = own.index_select(0, index.queries).view(in_rows)
            query, key, value = block.split(rows)
            keys = rows[..., width:]
        rows_of_keys.append(keys)
        found = block.look(core.content(query), key, value, core.mask(block, query, visible, group))
        if layer + 1 == len(core.blocks):  # of the last layer nobody reads more than keys and values
            z, place = z[len(packing.opens) * read :], place[len(packing.opens) * read :]
        z = block.update(z, found.flatten(0, 1).index_select(0, place))
        streams.append(z[len(z) - len(packing.writes) * write :].view(len(packing.writes), write, width))
    return z[: len(steps)], streams, rows_of_keys


def pick_rows(x: Tensor, index: Tensor) -> Tensor:
    """The rows of x with these indices, which ascend: all of them are x itself."""
    return x if len(index) == len(x) else x.index_select(0, index)


class _After:
    """Collects, depth by depth, the state after each row's last step."""

    def __init__(self, core: SegmentedCore) -> None:
        self.core = core
        self.rows: list[Ints] = []
        self.states: list[State] = []

    def add(self, group: Group, rows_of_keys: list[Tensor]) -> None:
        """Take what the segments that end their rows leave."""
        segments, places = group.packing.segments, self.core.sizes.cache
        last = np.flatnonzero(segments.last)
        if not len(last):
            return
        index = to_device(last, group.memory)
        position, draw = (to_device(of[last], group.memory) for of in (group.packing.ends, segments.draw))
        window = group.window.index_select(0, index)
        # Rows of keys end with the write block, or before the last slots of a full segment.
        cache = torch.stack([keys.index_select(0, index)[:, :places] for keys in rows_of_keys], dim=1)
        cache = F.pad(cache, (0, 0, 0, places - cache.shape[2]))
        cache = cache.masked_fill(self.core.empty(position, window)[:, None, :, None], 0.0)
        self.rows.append(segments.row[last])
        self.states.append((group.memory.index_select(0, index), cache, position, window, draw))

    def state(self) -> State:
        """Of all rows in their order."""
        rows = np.concatenate(self.rows)
        order = to_device(invert(rows, len(rows)), self.states[0][0])
        memory, cache, position, window, draw = (
            torch.cat(leaves)[order] for leaves in zip(*self.states, strict=True)
        )
        return memory, cache, position, window, draw
