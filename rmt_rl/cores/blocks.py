"""The transformer block that all attention cores share.

Pre-norm (Xiong et al. 2020), optionally with the GRU gates of GTrXL (Parisotto et al. 2020) in place of the
residual sums, optionally with persistent tokens: learned vectors of each layer that every step can attend to
(Sukhbaatar et al. 2019; Behrouz et al. 2025). Keys and values are projected apart from the attention itself,
so that cores can cache them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rmt_rl.cores.base import require_positive

Observer = Callable[[Tensor, Tensor, Tensor | None], None]


class GRUGate(nn.Module):
    """GTrXL's gate: how much of a sub-layer's output ``y`` replaces the stream ``x``; at first, little."""

    def __init__(self, width: int, bias: float = 2.0) -> None:
        super().__init__()
        self.from_output = nn.Linear(width, 3 * width, bias=False)
        self.from_stream = nn.Linear(width, 2 * width, bias=False)
        self.candidate = nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.full((width,), bias))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """(..., D), (..., D) -> (..., D)"""
        y_r, y_z, y_h = self.from_output(y).chunk(3, dim=-1)
        x_r, x_z = self.from_stream(x).chunk(2, dim=-1)
        reset = torch.sigmoid(y_r + x_r)
        update = torch.sigmoid(y_z + x_z - self.bias)
        return torch.lerp(x, torch.tanh(y_h + self.candidate(reset * x)), update)


def gelu(x: Tensor) -> Tensor:
    """The exact GELU (Hendrycks and Gimpel 2016), x Phi(x), of (..., N, D).

    On a CPU, torch hands contiguous numbers to oneDNN, which compiles a kernel for every new shape and keeps
    it: 0.3 ms and 0.1 MB each, and packed segments come in a new shape with each minibatch. Transposed ones
    go to torch's own kernel, which gives a number the same bits in whatever shape it comes, so that acting
    and training round alike.
    """
    if x.device.type != "cpu" or torch.compiler.is_compiling():
        return F.gelu(x)
    # Any two rows will do; a single one would count as contiguous the other way round as well.
    rows = x.flatten(0, -2) if x.numel() % 2 else x.reshape(2, x.numel() // 2)
    return F.gelu(rows.t()).t().view_as(x)


class Block(nn.Module):
    """One pre-norm attention block.

    :param width: D, a multiple of ``heads``
    :param feedforward: hidden width of the feed-forward sub-layer
    :param relative: give the block a projection W_R of relative positions (Transformer-XL)
    """

    def __init__(
        self,
        width: int,
        heads: int,
        feedforward: int,
        dropout: float = 0.0,
        gated: bool = False,
        persistent_tokens: int = 0,
        relative: bool = False,
    ) -> None:
        super().__init__()
        self.heads, self.head_width, self.dropout = heads, width // heads, dropout
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.attention_out = nn.Linear(width, width)
        self.feedforward_norm = nn.LayerNorm(width)
        self.feedforward_in = nn.Linear(width, feedforward)
        self.feedforward_out = nn.Linear(feedforward, width)
        self.gates = nn.ModuleList([GRUGate(width), GRUGate(width)]) if gated else None
        self.relative = nn.Linear(width, width, bias=False) if relative else None
        self.persistent = nn.Parameter(torch.randn(persistent_tokens, width)) if persistent_tokens else None
        self.observer: Observer | None = None
        """sees what every call of ``look`` gets, persistent tokens included; see ``rmt_rl/recording.py``"""

    def tokens(self, x: Tensor) -> Tensor:
        """(..., D) -> query, key and value of every token side by side, (..., 3 D)."""
        return self.qkv(self.attention_norm(x))  # type: ignore[no-any-return]

    def split(self, tokens: Tensor) -> tuple[Tensor, ...]:
        """What lies side by side, (B, N, k D), apart and by heads: k times (B, H, N, D / H)."""
        rows, count = tokens.shape[:2]
        parts = tokens.view(rows, count, -1, self.heads, self.head_width)
        return tuple(parts.permute(2, 0, 3, 1, 4).unbind(0))

    def project(self, x: Tensor) -> tuple[Tensor, ...]:
        """(B, N, D) -> queries, keys, values, each (B, H, N, D / H)."""
        return self.split(self.tokens(x))

    def relative_keys(self, encoding: Tensor) -> Tensor:
        """Encodings of distances (N, D) -> W_R R, (H, N, D / H)."""
        assert self.relative is not None
        return self.relative(encoding).unflatten(-1, (self.heads, -1)).transpose(0, 1)  # type: ignore[no-any-return]

    def attend(
        self, x: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> Tensor:
        """The stream after attention and feed-forward.

        :param x: (B, N, D), the stream that the queries (B, H, N, D / H) come from; for the rest see ``look``
        """
        return self.update(x, self.look(query, key, value, mask))

    def look(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """What the queries find: (B, N, D).

        :param query: (B, H, N, D / H)
        :param key: (B, H, K, D / H), values alike
        :param mask: broadcastable to (B, H, N, K), added to the scores: -inf where a query does not see a
            key
        """
        if self.persistent is not None:
            _, persistent_key, persistent_value = self.project(self.persistent.unsqueeze(0))
            key = torch.cat([persistent_key.expand(key.shape[0], -1, -1, -1), key], dim=2)
            value = torch.cat([persistent_value.expand(value.shape[0], -1, -1, -1), value], dim=2)
            mask = None if mask is None else F.pad(mask, (len(self.persistent), 0))
        if self.observer is not None:
            self.observer(query, key, mask)
        rate = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=rate)
        return heads.transpose(1, 2).flatten(2)

    def update(self, x: Tensor, found: Tensor) -> Tensor:
        """The stream (..., D) after taking in what its tokens found, and after the feed-forward sub-layer."""
        x = self._join(0, x, self.attention_out(found))
        hidden = gelu(self.feedforward_in(self.feedforward_norm(x)))
        return self._join(1, x, self.feedforward_out(hidden))

    def _join(self, sublayer: int, x: Tensor, y: Tensor) -> Tensor:
        if self.dropout:
            y = F.dropout(y, self.dropout, self.training)
        # GTrXL rectifies what enters its gates; a plain residual stream keeps the sign.
        return x + y if self.gates is None else self.gates[sublayer](x, F.relu(y))


class Blocks(nn.ModuleList):
    """The layers of a core; iterating gives them as the blocks they are."""

    def __iter__(self) -> Iterator[Block]:
        return cast("Iterator[Block]", super().__iter__())


def make_blocks(
    width: int,
    layers: int,
    heads: int,
    feedforward: int | None,
    dropout: float,
    gated: bool,
    persistent_tokens: int,
    relative: bool,
) -> Blocks:
    """The blocks of a core, after checking the options that all attention cores share.

    :raises ValueError: naming the option, its value and what would do
    """
    for name, number in (("width", width), ("layers", layers), ("heads", heads)):
        require_positive(name, number)
    if width % heads:
        fitting = [h for h in range(1, width + 1) if width % h == 0]
        raise ValueError(f"width={width} is not divisible by heads={heads}; heads may be one of {fitting}")
    if feedforward is not None:
        require_positive("feedforward", feedforward)
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout must be in [0, 1), got {dropout}")
    if isinstance(persistent_tokens, bool) or not isinstance(persistent_tokens, int):
        raise TypeError(f"persistent_tokens must be an integer of at least 0, got {persistent_tokens!r}")
    if persistent_tokens < 0:
        raise ValueError(f"persistent_tokens must be 0 or more, got {persistent_tokens}")
    hidden = 4 * width if feedforward is None else feedforward
    return Blocks(
        Block(width, heads, hidden, dropout, gated, persistent_tokens, relative) for _ in range(layers)
    )


class RelativePositions(nn.Module):
    """What Transformer-XL's four-term score (Dai et al. 2019) needs beside the blocks' W_R, for all layers.

    score(i, j) = ((q_i + u) . k_j + (q_i + v) . W_R R_{i-j}) / sqrt(D / H), for i - j from 0 to ``window``.
    """

    distances: Tensor

    def __init__(self, width: int, heads: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.u = nn.Parameter(torch.empty(heads, 1, width // heads).normal_(std=0.02))
        self.v = nn.Parameter(torch.empty(heads, 1, width // heads).normal_(std=0.02))
        self.register_buffer("distances", sinusoids(window + 1, width), persistent=False)

    def scores(self, block: Block, query: Tensor, reach: int | None = None) -> Tensor:
        """(q_i + v) . W_R R_d, scaled, for d from 0 to ``reach`` (the window): (B, H, N, reach + 1)."""
        distances = self.distances if reach is None else self.distances[: reach + 1]
        keys = block.relative_keys(distances)  # (H, reach + 1, D / H)
        return ((query + self.v) * (1 / math.sqrt(query.shape[-1]))) @ keys.transpose(-1, -2)

    def timeline(self, block: Block, query: Tensor, before: int) -> Tensor:
        """The relative term of N successive queries and the ``before`` + N keys that end with theirs.

        Key m lies at distance before + i - m from query i. The scores by distance, farthest first, need only
        be shifted by one place per query, which padding and re-viewing does. What lies at no distance from 0
        to the window is for the caller to mask.

        :return: (B, H, N, before + N)
        """
        rows, heads, steps, _ = query.shape
        reach = min(self.window, before + steps - 1)
        by_distance = self.scores(block, query, reach).flip(-1)
        if steps == 1 and reach == before:  # acting: nothing to shift
            return by_distance
        # Shifted, the first of these keys lies at distance ``reach`` from the first query.
        keys = reach + steps
        shifted = (
            F.pad(by_distance, (0, steps)).flatten(2)[..., : steps * keys].view(rows, heads, steps, keys)
        )
        return shifted[..., reach - before :] if reach >= before else F.pad(shifted, (before - reach, 0))


def hide(visible: Tensor, like: Tensor) -> Tensor:
    """A mask to be added to scores of the type of ``like``: 0 where visible, -inf elsewhere."""
    return conceal(~visible, like)


def conceal(hidden: Tensor, like: Tensor) -> Tensor:
    """As ``hide``, from where nothing is visible."""
    return torch.zeros_like(hidden, dtype=like.dtype).masked_fill_(hidden, -torch.inf)


def sinusoids(count: int, width: int) -> Tensor:
    """The sine and cosine encodings of 0, ..., count - 1 (Vaswani et al. 2017): (count, width)."""
    frequency = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angle = torch.arange(count).unsqueeze(1) * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=1)[:, :width]
