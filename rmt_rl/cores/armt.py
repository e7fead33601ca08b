"""``armt``: the Associative Recurrent Memory Transformer (Rodkin et al. 2024, arXiv 2407.04841).

Every layer has an associative memory: a matrix A and a normaliser z. With phi the DPFP-3 features of a key
(Schlag et al. 2021), 6 d_mem numbers of at least 0, scaled to length 1 if longer, a layer's input x becomes

    x + A phi(W_Q x) / max(z . phi(W_Q x), delta),

to which the first segment adds nothing, as A = 0 and z = 0. A segment is [steps; M memory tokens]: the
memory tokens are the same learned vectors in every segment and see everything. From a layer's outputs m at
them, with k = W_K m, v = W_V m, beta = sigmoid(W_beta m), all of the segment at once,

    v_bar = A phi(k) / max(z . phi(k), delta)        what the key k recalls so far
    gamma = clip(1 - z . phi(k) / |phi(k)|^2, 0, 1)  how new the key is; without gradient
    A <- A + sum beta (v - v_bar) phi(k)^T
    z <- z + sum gamma phi(k)

A key that is written again gives its new value, not the sum of both. W_V is 0 at the start: an untrained
memory changes nothing. (The paper has + eps for max(., delta), and features of any length: then a key unlike
all that were written recalls the quotient of two roundings. Here it recalls little.)
"""

from __future__ import annotations

from typing import ClassVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmt_rl.cores.base import require_positive
from rmt_rl.cores.segmented import SegmentedCore

NU = 3
"""nu of DPFP: how many products of neighbouring features there are of each."""
TINY = 1e-12
DELTA = 0.25
"""delta: a key that has less than this in common with what was written recalls the less, the less that is."""


def dpfp(x: Tensor) -> Tensor:
    """Deterministic parameter-free projection: (..., d) -> (..., 2 NU d), all at least 0.

    The rectified x and -x, times themselves rolled by 1, ..., NU places.
    """
    r = torch.cat([F.relu(x), F.relu(-x)], dim=-1)
    return torch.cat([r * r.roll(places, -1) for places in range(1, NU + 1)], dim=-1)


def features(x: Tensor) -> Tensor:
    """phi: DPFP-3, at length 1 if it is longer. (..., d) -> (..., 2 NU d)"""
    return F.normalize(dpfp(x), dim=-1, eps=1.0)


class Associations(nn.Module):
    """The associative memory of one layer. It is kept as one tensor (D + 1, F): A, and z as its last row."""

    def __init__(self, width: int, memory_width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, memory_width, bias=False)
        self.key = nn.Linear(width, memory_width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.beta = nn.Linear(width, 1)
        for linear in (self.query, self.key):  # of what the norm has scaled: entries of unit variance
            nn.init.normal_(linear.weight, std=width**-0.5)
        nn.init.zeros_(self.value.weight)

    def recall(self, x: Tensor, memory: Tensor) -> Tensor:
        """What the queries of x (G, N, D) find in memories (G, D + 1, F): (G, N, D)."""
        return look_up(memory, features(self.query(self.norm(x))))

    def pairs(self, m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the memory tokens (G, M, D) write: phi (G, M, F), value (G, M, D) and beta (G, M, 1)."""
        m = self.norm(m)
        return features(self.key(m)), self.value(m), torch.sigmoid(self.beta(m))


def look_up(memory: Tensor, phi: Tensor) -> Tensor:
    """What keys recall: of memories (G, D + 1, F) and features (G, N, F), (G, N, D)."""
    return quotient(phi @ memory.transpose(1, 2))


def quotient(found: Tensor) -> Tensor:
    """[A phi; z . phi], (G, N, D + 1), to what is recalled, (G, N, D)."""
    return found[..., :-1] / found[..., -1:].clamp(min=DELTA)


def associate(memory: Tensor, phi: Tensor, value: Tensor, beta: Tensor) -> Tensor:
    """The delta rule, for M pairs at once.

    :param memory: (G, D + 1, F)
    :param phi: features of the keys, (G, M, F)
    :param value: (G, M, D)
    :param beta: (G, M, 1), from 0 (keep) to 1 (replace)
    """
    found = phi @ memory.transpose(1, 2)
    change = beta * (value - quotient(found))
    length = phi.square().sum(-1, keepdim=True).clamp(min=TINY)
    gamma = (1.0 - found[..., -1:] / length).clamp(0.0, 1.0).detach()
    return torch.baddbmm(memory, torch.cat([change, gamma], dim=-1).transpose(1, 2), phi)


class ARMT(SegmentedCore):
    """Decoder ARMT. Its memory is (L, D + 1, 6 d_mem) numbers a row, whatever ``memory_tokens`` is.

    :param memory_width: d_mem, the dimension of the keys, by default half of ``width``
    :param memory_tokens: M, how many pairs a segment can write
    :raises ValueError: where an option is out of range

    The other options are those of ``rmt``.
    """

    recalls: ClassVar[bool] = True

    def __init__(
        self,
        input_dim: int,
        width: int = 64,
        layers: int = 2,
        heads: int = 4,
        segment_length: int = 16,
        memory_tokens: int = 4,
        memory_width: int | None = None,
        feedforward: int | None = None,
        dropout: float = 0.0,
        gated: bool = False,
        persistent_tokens: int = 0,
        bptt_segments: int | None = None,
        segment_jitter: float = 0.0,
    ) -> None:
        super().__init__(
            input_dim, width, layers, heads, segment_length, memory_tokens, feedforward, dropout, gated,
            persistent_tokens, bptt_segments, segment_jitter,
        )  # fmt: skip
        if memory_width is None:
            memory_width = max(1, width // 2)
        self.options["memory_width"] = require_positive("memory_width", memory_width)
        self.memory_token = nn.Parameter(torch.empty(memory_tokens, width).normal_(std=0.1))
        self.associations = nn.ModuleList(Associations(width, memory_width) for _ in range(layers))
        empty = torch.zeros(layers, width + 1, 2 * NU * memory_width)
        self.register_buffer("nothing", empty, persistent=False)

    nothing: Tensor

    @property
    def read_tokens(self) -> int:
        return 0

    def first_memory(self) -> Tensor:
        return self.nothing

    def writing(self, memory: Tensor) -> Tensor:
        return self.memory_token.expand(memory.shape[0], -1, -1)

    def recall(self, layer: int, x: Tensor, memory: Tensor) -> Tensor:
        return x + self._of_layer(layer).recall(x, memory)

    def written(self, memory: Tensor, streams: list[Tensor]) -> Tensor:
        # The layers side by side, as rows: the matrices are large, and to copy them costs more than the rest.
        parts = zip(*(self._of_layer(n).pairs(m) for n, m in enumerate(streams)), strict=True)
        phi, value, beta = (torch.stack(part, dim=1).flatten(0, 1) for part in parts)
        return associate(memory.flatten(0, 1), phi, value, beta).view_as(memory)

    def _of_layer(self, layer: int) -> Associations:
        return cast(Associations, self.associations[layer])
