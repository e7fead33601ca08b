"""``gru`` and ``lstm``: torch's fused recurrent layers, the baselines that every user compares with."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rmt_rl.cores.base import MemoryCore, expand_rows, require_positive
from rmt_rl.cores.segments import Ints, Segments, find_spans, invert, to_device

RNNState = TypeVar("RNNState", bound=tuple[Tensor, ...])


class GRUState(NamedTuple):
    """What a GRU remembers."""

    hidden: Tensor
    """(B, L, D)"""


class LSTMState(NamedTuple):
    """What an LSTM remembers."""

    hidden: Tensor
    """(B, L, D)"""
    cell: Tensor
    """(B, L, D)"""


class _RNNCore(MemoryCore[RNNState]):
    """A fused recurrent layer under the contract: one call for all the spans between episode starts."""

    rnn: nn.RNNBase

    def __init__(self, input_dim: int, width: int = 64, layers: int = 1, dropout: float = 0.0) -> None:
        super().__init__(input_dim, require_positive("width", width))
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be in [0, 1), got {dropout}")
        if dropout and layers == 1:
            raise ValueError(
                f"dropout={dropout} acts between layers and layers=1: use layers=2 or more, or dropout=0"
            )
        require_positive("layers", layers)
        self.rnn = self._make_rnn(width, layers, dropout)

    @abstractmethod
    def _make_rnn(self, width: int, layers: int, dropout: float) -> nn.RNNBase:
        """The fused layers, batch first."""

    @abstractmethod
    def _state(self, leaves: tuple[Tensor, ...]) -> RNNState:
        """The leaves (B, L, D) under their names."""

    def extra_repr(self) -> str:
        return f"width={self.output_dim}, layers={self.rnn.num_layers}"

    def initial_state(self, batch_size: int) -> RNNState:
        require_positive("batch_size", batch_size)
        weight = next(self.rnn.parameters())
        zeros = weight.new_zeros(batch_size, self.rnn.num_layers, self.output_dim)
        return self._state(tuple(zeros for _ in range(2 if isinstance(self.rnn, nn.LSTM) else 1)))

    def forward(self, inputs: Tensor, state: RNNState, episode_starts: Tensor) -> tuple[Tensor, RNNState]:
        self.check_call(inputs, state, episode_starts)
        if inputs.shape[1] == 1:
            starts = episode_starts[:, 0]
            kept = [leaf.masked_fill(expand_rows(starts, leaf), 0.0) for leaf in state]
            outputs, hidden = self.rnn(inputs, self._pack(kept))
            return outputs, self._state(self._unpack(hidden))
        spans = find_spans(episode_starts)
        data, sizes, order = _packed_order(spans)
        rows = to_device(spans.row[order], inputs)
        fresh = to_device(spans.fresh[order], inputs)
        begin = [leaf[rows].masked_fill(expand_rows(fresh, leaf), 0.0) for leaf in state]
        packed = PackedSequence(inputs.flatten(0, 1)[to_device(data, inputs)], torch.from_numpy(sizes))
        outputs, hidden = self.rnn(packed, self._pack(begin))
        inverse = to_device(invert(data, inputs.shape[0] * inputs.shape[1]), inputs)
        # The rows' last spans, in order of row.
        last = to_device(invert(np.where(spans.last, spans.row, len(inputs))[order], len(inputs)), inputs)
        final = tuple(leaf[last] for leaf in self._unpack(hidden))
        return outputs.data[inverse].unflatten(0, inputs.shape[:2]), self._state(final)

    @staticmethod
    def _pack(leaves: list[Tensor]) -> Any:
        """Batch-first leaves to what torch's layers take: (L, B, D), one for a GRU and a pair for an LSTM."""
        layered = tuple(leaf.transpose(0, 1).contiguous() for leaf in leaves)
        return layered if len(layered) > 1 else layered[0]

    @staticmethod
    def _unpack(hidden: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        leaves = hidden if isinstance(hidden, tuple) else (hidden,)
        return tuple(leaf.transpose(0, 1) for leaf in leaves)


class GRU(_RNNCore[GRUState]):
    """A gated recurrent unit (Cho et al. 2014).

    :param width: D, the number of hidden units
    :param layers: L, stacked layers
    :param dropout: between the layers, as in torch
    """

    def _make_rnn(self, width: int, layers: int, dropout: float) -> nn.RNNBase:
        return nn.GRU(self.input_dim, width, layers, batch_first=True, dropout=dropout)

    def _state(self, leaves: tuple[Tensor, ...]) -> GRUState:
        return GRUState(*leaves)


class LSTM(_RNNCore[LSTMState]):
    """A long short-term memory (Hochreiter and Schmidhuber 1997).

    :param width: D, the number of hidden units
    :param layers: L, stacked layers
    :param dropout: between the layers, as in torch
    """

    def _make_rnn(self, width: int, layers: int, dropout: float) -> nn.RNNBase:
        return nn.LSTM(self.input_dim, width, layers, batch_first=True, dropout=dropout)

    def _state(self, leaves: tuple[Tensor, ...]) -> LSTMState:
        return LSTMState(*leaves)


def _packed_order(spans: Segments) -> tuple[Ints, Ints, Ints]:
    """How torch packs sequences: longest first, all first steps, then all second steps, ...

    :return: the flat index of every packed step, the number of sequences that have a step at each time, and
        the order of the spans
    """
    order = np.argsort(-spans.length, kind="stable")
    length, first = spans.length[order], spans.first[order]
    time = np.arange(length[0])[:, None]
    present = time < length
    return (first + time)[present], present.sum(axis=1), order
