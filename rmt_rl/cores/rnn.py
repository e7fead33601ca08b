"""``gru`` and ``lstm``: torch's recurrent layers, the baselines that every user compares with.

A step is torch's own; whole sequences are run by ``cores/scan.py`` on a CPU and by torch's fused layers where
those are faster.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from rmt_rl.cores.base import MemoryCore, expand_rows, require_positive
from rmt_rl.cores.scan import GRUScan, LSTMScan
from rmt_rl.cores.segments import Ints, Segments, find_spans, invert, to_device

RNNState = TypeVar("RNNState", bound=tuple[Tensor, ...])
WEIGHTS = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
"""torch's names of a layer's parameters"""


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
    """Recurrent layers under the contract."""

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
        scans = inputs.device.type == "cpu" and not self._fuses(episode_starts)
        return (self._scan if scans else self._fused)(inputs, state, episode_starts)

    def _fuses(self, episode_starts: Tensor) -> bool:
        """Whether torch's layers are fast on a CPU too."""
        return False

    def _scan(self, inputs: Tensor, state: RNNState, episode_starts: Tensor) -> tuple[Tensor, RNNState]:
        """Layer by layer, step by step: see ``cores/scan.py``."""
        x, starts = inputs.transpose(0, 1), episode_starts.t().contiguous()
        last: list[tuple[Tensor, ...]] = []
        for layer in range(self.rnn.num_layers):
            if layer:
                x = F.dropout(x, self.rnn.dropout, self.training)
            weights = (getattr(self.rnn, f"{name}_l{layer}") for name in WEIGHTS)
            x, *others = self._scan_layer(x, [leaf[:, layer] for leaf in state], starts, *weights)
            last.append(tuple(leaf[-1] for leaf in (x, *others)))
        final = tuple(torch.stack(leaves, dim=1) for leaves in zip(*last, strict=True))
        return x.transpose(0, 1), self._state(final)

    @abstractmethod
    def _scan_layer(
        self,
        x: Tensor,
        begin: list[Tensor],
        starts: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor,
        bias_hh: Tensor,
    ) -> tuple[Tensor, ...]:
        """The leaves of one layer's state after every step (T, B, D), the outputs first.

        :param x: (T, B, .)
        :param begin: (B, D) the leaves before the first step
        :param starts: (T, B) bool
        """

    def _fused(self, inputs: Tensor, state: RNNState, episode_starts: Tensor) -> tuple[Tensor, RNNState]:
        """All the spans between episode starts as one packed sequence through torch's layers."""
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

    def _scan_layer(
        self,
        x: Tensor,
        begin: list[Tensor],
        starts: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor,
        bias_hh: Tensor,
    ) -> tuple[Tensor, ...]:
        of_inputs = F.linear(x, weight_ih, bias_ih)
        return (GRUScan.apply(of_inputs, begin[0], weight_hh, bias_hh, starts),)  # type: ignore[no-untyped-call]

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

    def _scan_layer(
        self,
        x: Tensor,
        begin: list[Tensor],
        starts: Tensor,
        weight_ih: Tensor,
        weight_hh: Tensor,
        bias_ih: Tensor,
        bias_hh: Tensor,
    ) -> tuple[Tensor, ...]:
        of_inputs = F.linear(x, weight_ih, bias_ih + bias_hh)
        return LSTMScan.apply(of_inputs, *begin, weight_hh, starts)  # type: ignore[no-untyped-call, no-any-return]

    def _fuses(self, episode_starts: Tensor) -> bool:
        return not episode_starts[:, 1:].any()  # sequences of one length, for which there is oneDNN

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
