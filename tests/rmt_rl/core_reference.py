"""The attention cores once more, from the papers, slowly: one episode, pair by pair, no cache, no batch.

Only the parameters are taken from the cores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Token(NamedTuple):
    """A place in a layer's sequence."""

    kind: str
    """read, step or write"""
    time: int = 0
    """of a step: its index in the episode"""


def relative_encoding(distance: int, width: int) -> Tensor:
    """R of Transformer-XL: the sines, then the cosines."""
    angles = [distance / 10_000 ** (2 * i / width) for i in range(width // 2)]
    return torch.tensor([*map(math.sin, angles), *map(math.cos, angles)], dtype=torch.float64)


def score(block: Any, positions: Any, head: int, query: Tensor, key: Tensor, distance: int | None) -> Tensor:
    """The four terms of Transformer-XL's score; without a distance those of position are missing.

    (a) content q.k  (b) q.W_R R  (c) u.k  (d) v.W_R R, over sqrt(D / H).
    """
    terms = query @ key
    if positions is not None:
        terms = terms + positions.u[head, 0] @ key
        if distance is not None:
            size = len(query)
            encoding = relative_encoding(distance, block.relative.in_features)
            relative = (block.relative.weight @ encoding)[head * size : (head + 1) * size]
            terms = terms + query @ relative + positions.v[head, 0] @ relative
    return terms / math.sqrt(len(query))


def layer(
    block: Any,
    positions: Any,
    queries: list[Token],
    z: Tensor,
    keys: list[Token],
    seen: Tensor,
    sees: Callable[[Token, Token], bool],
    cached: int = 0,
) -> Tensor:
    """One block.

    :param z: (N, D) the layer's inputs at the N queries
    :param seen: (K, D) the layer's inputs at the K keys
    :param sees: whether a query sees a key
    :param cached: how many of the keys, from the first, come from a cache and so give no gradient, not even
        to the weights that made them: what a core caches is the keys and values, not the layer's inputs
    """
    width = z.shape[1]
    size = width // block.heads
    persistent = torch.empty(0, width, dtype=z.dtype) if block.persistent is None else block.persistent
    (w_q, w_k, w_v), (b_q, b_k, b_v) = block.qkv.weight.chunk(3), block.qkv.bias.chunk(3)

    def normed(x: Tensor) -> Tensor:
        return F.layer_norm(x, (width,), block.attention_norm.weight, block.attention_norm.bias)

    everything = normed(torch.cat([persistent, seen]))
    q, k, v = normed(z) @ w_q.T + b_q, everything @ w_k.T + b_k, everything @ w_v.T + b_v
    first = len(persistent)
    k, v = (torch.cat([x[:first], x[first : first + cached].detach(), x[first + cached :]]) for x in (k, v))
    rows = []
    for i, query in enumerate(queries):
        visible: list[tuple[int, int | None]] = [(j, None) for j in range(len(persistent))]
        for j, key in enumerate(keys):
            if sees(query, key):
                both_steps = query.kind == key.kind == "step"
                visible.append((len(persistent) + j, query.time - key.time if both_steps else None))
        heads = []
        for head in range(block.heads):
            part = slice(head * size, (head + 1) * size)
            scores = [score(block, positions, head, q[i, part], k[j, part], d) for j, d in visible]
            weights = torch.stack(scores).softmax(0)
            heads.append(sum(w * v[j, part] for w, (j, _) in zip(weights, visible, strict=True)))
        rows.append(torch.cat(heads))
    z = join(block, 0, z, block.attention_out(torch.stack(rows)))
    hidden = F.layer_norm(z, (width,), block.feedforward_norm.weight, block.feedforward_norm.bias)
    return join(block, 1, z, block.feedforward_out(F.gelu(block.feedforward_in(hidden))))


def join(block: Any, sublayer: int, x: Tensor, y: Tensor) -> Tensor:
    """The residual sum, or GTrXL's gate g(x, relu(y))."""
    return x + y if block.gates is None else gate(block.gates[sublayer], x, y.relu())


def gate(gates: Any, x: Tensor, y: Tensor) -> Tensor:
    """Equations of Parisotto et al. (2020), section 3.2, "Gated-Recurrent-Unit-type gating"."""
    w_r, w_z, w_g = gates.from_output.weight.chunk(3)
    u_r, u_z = gates.from_stream.weight.chunk(2)
    r = torch.sigmoid(y @ w_r.T + x @ u_r.T)
    z = torch.sigmoid(y @ w_z.T + x @ u_z.T - gates.bias)
    h = torch.tanh(y @ w_g.T + (r * x) @ gates.candidate.weight.T)
    return (1 - z) * x + z * h


def final_norm(core: Any, z: Tensor) -> Tensor:
    return F.layer_norm(z, (z.shape[1],), core.norm.weight, core.norm.bias)


def xl_episode(core: Any, inputs: Tensor) -> Tensor:
    """The outputs of ``xl`` for the episode (T, input_dim), all at once, nothing cached."""
    steps = [Token("step", t) for t in range(len(inputs))]
    z = core.encode(inputs)
    for block in core.blocks:
        z = layer(
            block, core.positions, steps, z, steps, z, lambda q, k: 0 <= q.time - k.time <= core.memory_length
        )
    return final_norm(core, z)


def rmt_episode(core: Any, inputs: Tensor, lengths: list[int] | None = None) -> tuple[Tensor, list[Tensor]]:
    """``rmt`` and ``rmt_xl``: the outputs for the episode (T, input_dim), the memory each segment begins with
    and the one that the last would hand on.

    :param lengths: of the segments, as many as there are; by default all alike
    """
    window, size = core.memory_length, core.segment_length
    if lengths is None:
        lengths = [size] * -(-len(inputs) // size)
    begins = [sum(lengths[:n]) for n in range(len(lengths))]
    memories, outputs = [core.initial_memory], []
    # Per layer the inputs at all steps of earlier segments.
    past: list[Tensor] = [core.encode(inputs[:0]) for _ in core.blocks]

    def sees(query: Token, key: Token) -> bool:
        if query.kind == "write":
            return True
        if query.kind == "read" or key.kind != "step":
            return key.kind == "read"
        distance = query.time - key.time
        return distance >= 0 and (not window or distance <= window)

    for begin, size in zip(begins, lengths, strict=True):
        memory, x = memories[-1], inputs[begin : begin + size]
        read, write = ([Token(kind)] * len(memory) for kind in ("read", "write"))
        tokens = [*read, *(Token("step", begin + i) for i in range(len(x))), *write]
        cached = [Token("step", t) for t in range(max(0, begin - window), begin)]
        z = core.encode(x) + core.slot[: len(x)]
        z = torch.cat([memory + core.read_role, z, memory + core.write_role])
        steps = slice(len(memory), len(memory) + len(x))
        for number, block in enumerate(core.blocks):
            seen = torch.cat([past[number][begin - len(cached) :], z])
            past[number] = torch.cat([past[number], z[steps]])
            positions = getattr(core, "positions", None)
            z = layer(block, positions, tokens, z, cached + tokens, seen, sees, len(cached))
        outputs.append(final_norm(core, z[steps]))
        # Where the paper has no role to take off, and a gain in its norm: see ``RMT``.
        written = final_norm(core, z[steps.stop :] - core.write_role)
        memories.append(handed_over(core, memory, written))
    return torch.cat(outputs), memories


def handed_over(core: Any, memory: Tensor, written: Tensor) -> Tensor:
    """The next memory: what was written, or with retention a gated sum of it and the old one."""
    if core.handover.gate is None:
        return written
    gate = torch.sigmoid(core.handover.gate(torch.cat([memory, written], dim=-1)))
    return gate * memory + (1 - gate) * written


def encoder_episode(core: Any, inputs: Tensor) -> tuple[Tensor, list[Tensor]]:
    """``rmt_encoder``: the outputs for the episode (T, input_dim), and what memories its segments read."""
    size, memories, outputs = core.segment_length, [core.initial_memory], []
    for begin in range(0, len(inputs), size):
        memory, x = memories[-1], inputs[begin : begin + size]
        for t in range(1, len(x) + 1):
            z = torch.cat([memory, core.encode(x[:t]) + core.slot[:t]])
            tokens = [Token("any")] * len(z)
            for block in core.blocks:
                z = layer(block, None, tokens, z, tokens, z, lambda query, key: True)
            z = final_norm(core, z)
            outputs.append(z[-1])
        memories.append(handed_over(core, memory, z[: len(memory)]))
    return torch.stack(outputs), memories


def dpfp_3(x: Tensor) -> Tensor:
    """DPFP with nu = 3 of one vector, product by product."""
    r = [*x.relu(), *(-x).relu()]
    return torch.stack([r[i] * r[i - shift] for shift in (1, 2, 3) for i in range(len(r))])


def unit(x: Tensor) -> Tensor:
    """A vector, at length 1 if it is longer."""
    length = (x * x).sum().sqrt()
    return x / length if length > 1 else x


def armt_episode(core: Any, inputs: Tensor) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """``armt``: the outputs for the episode (T, input_dim); by layer, A and z after its full segments."""
    size, width, delta = core.segment_length, core.output_dim, 0.25
    features = 6 * core.associations[0].key.out_features
    a = [inputs.new_zeros(width, features) for _ in core.blocks]
    z = [inputs.new_zeros(features) for _ in core.blocks]
    outputs = [inputs.new_zeros(0, width)]

    def sees(query: Token, key: Token) -> bool:
        return query.kind == "write" or (key.kind == "step" and key.time <= query.time)

    for begin in range(0, len(inputs), size):
        x = inputs[begin : begin + size]
        tokens = [*(Token("step", i) for i in range(len(x))), *[Token("write")] * len(core.memory_token)]
        stream = torch.cat([core.encode(x) + core.slot[: len(x)], core.memory_token])
        after_layer = []
        for n, block in enumerate(core.blocks):
            memory = core.associations[n]
            rows = []
            for token in stream:
                phi = unit(dpfp_3(memory.query(memory.norm(token))))
                rows.append(token + a[n] @ phi / max(z[n] @ phi, delta))
            stream = torch.stack(rows)
            stream = layer(block, None, tokens, stream, tokens, stream, sees)
            after_layer.append(stream[len(x) :])
        outputs.append(final_norm(core, stream[: len(x)]))
        if len(x) == size:
            for n, written in enumerate(after_layer):
                memory, more_a, more_z = core.associations[n], 0.0, 0.0
                for m in map(memory.norm, written):
                    phi = unit(dpfp_3(memory.key(m)))
                    beta = torch.sigmoid(memory.beta(m))
                    old = a[n] @ phi / max(z[n] @ phi, delta)
                    gamma = (1 - z[n] @ phi / (phi @ phi).clamp(min=1e-12)).clamp(0, 1).detach()
                    more_a = more_a + torch.outer(beta * (memory.value(m) - old), phi)
                    more_z = more_z + gamma * phi
                a[n], z[n] = a[n] + more_a, z[n] + more_z
    return torch.cat(outputs), a, z
