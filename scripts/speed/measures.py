"""What is measured of an algorithm: where its time goes, what it holds, how much it multiplies."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import (
    flop_registry,
    sdpa_backward_flop_count,
    sdpa_flop_count,
    shape_wrapper,
)

PARTS = ("environment", "acting", "bookkeeping", "learning")
"""The environments' steps; the policy's; what is left of ``learn``; the updates."""

STATUS = Path("/proc/self/status")


@contextmanager
def time_split(model: Any, clock: Callable[[], float] = time.perf_counter) -> Iterator[dict[str, float]]:
    """Seconds of what is called inside the block, by ``PARTS``, filled in at its end.

    Methods of this one on-policy algorithm, its policy and its environments are timed; it may be of SB3,
    sb3-contrib or this project. A call inside another that is timed belongs to that one. Bookkeeping is what
    remains: buffers, advantages, callbacks, logs.
    """
    seconds = dict.fromkeys(PARTS, 0.0)
    timed = (
        (model.env, "step", "environment"),
        (model.policy, "forward", "acting"),
        (model.policy, "predict_values", "acting"),
        (model, "train", "learning"),
    )
    running = False

    def watch(function: Callable[..., Any], part: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal running
            if running:
                return function(*args, **kwargs)
            running, begin = True, clock()
            try:
                return function(*args, **kwargs)
            finally:
                seconds[part] += clock() - begin
                running = False

        return call

    # On the instances, so that no class changes; what was there before comes back.
    before = [vars(owner).get(name) for owner, name, _ in timed]
    for owner, name, part in timed:
        setattr(owner, name, watch(getattr(owner, name), part))
    begin = clock()
    try:
        yield seconds
    finally:
        seconds["bookkeeping"] = clock() - begin - sum(seconds.values())
        for (owner, name, _), own in zip(timed, before, strict=True):
            delattr(owner, name) if own is None else setattr(owner, name, own)


def memory_bytes(buffer: RolloutBuffer) -> int:
    """Bytes that a rollout buffer holds besides what SB3's own does: the memories, once a rollout is full."""
    plain = vars(RolloutBuffer(1, spaces.Box(0.0, 1.0, (1,)), spaces.Discrete(2), device="cpu"))
    return sum(_bytes(value) for name, value in vars(buffer).items() if name not in plain)


def _bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor | np.ndarray):
        return int(value.nbytes)
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    return sum(map(_bytes, value)) if isinstance(value, list | tuple) else 0


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes."""
    if STATUS.exists():
        # Not the resource usage: that of a process just started goes on from what its parent held.
        for line in STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _lstm(times: int) -> Callable[..., int]:
    """Of a fused LSTM layer: each token times both matrices, in ``times`` products."""

    def count(x: Any, input_weight: Any, hidden_weight: Any, *_: Any, **__: Any) -> int:
        return times * 2 * x[0] * x[1] * (input_weight.numel() + hidden_weight.numel())

    return count


aten: Any = torch.ops.aten
CPU_FLOPS: dict[Any, Callable[..., int]] = {
    aten._scaled_dot_product_flash_attention_for_cpu: lambda q, k, v, *_, **__: sdpa_flop_count(q, k, v),
    aten._scaled_dot_product_flash_attention_for_cpu_backward: (
        lambda g, q, k, v, *_, **__: sdpa_backward_flop_count(g, q, k, v)
    ),
    aten.mkldnn_rnn_layer: _lstm(1),
    aten.mkldnn_rnn_layer_backward: _lstm(2),
}
"""Products that torch's counter knows on accelerators alone, from the arguments' shapes."""


class FlopCounter(TorchDispatchMode):
    """Counts the floating-point operations of matrix products inside a ``with``, backward passes included.

    By torch's own formulas, but without its ``FlopCounterMode``, which wants to know the module of each
    product and cannot take an input that is a view of a parameter and was made without gradient.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.formulas = {**flop_registry, **{op: shape_wrapper(of) for op, of in CPU_FLOPS.items()}}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if (formula := self.formulas.get(func._overloadpacket)) is not None:
            self.total += formula(*args, **(kwargs or {}), out_val=result)
        return result


def update_flops(model: Any) -> int:
    """Floating-point operations of the matrix products of one update (``train``) of an on-policy algorithm.

    Collects a rollout and makes one epoch of an update on it: the epochs are alike, and counting is slow.
    """
    counter, once = FlopCounter(), 0
    train, epochs = model.train, model.n_epochs
    replay: Any = getattr(model, "replay_error", None)

    def counted_train() -> None:
        with counter:
            train()

    def counted_replay() -> Any:
        """Ours check that sequences replay what acting did: once an update, not once an epoch."""
        nonlocal once
        before = counter.total
        error = replay()
        once += counter.total - before
        return error

    model.train, model.n_epochs = counted_train, 1
    if replay is not None:
        model.replay_error = counted_replay
    try:
        model.learn(model.n_steps * model.n_envs, reset_num_timesteps=False)
    finally:
        del model.train
        if replay is not None:
            del model.replay_error
        model.n_epochs = epochs
    return (counter.total - once) * epochs + once


def product_rate(tokens: int, width: int, hidden: int, seconds: float = 0.1) -> float:
    """Floating-point operations per second of a plain product (tokens, width) @ (width, hidden)."""
    x, weight = torch.randn(tokens, width), torch.randn(hidden, width)
    product = torch.nn.functional.linear
    product(x, weight)  # the first call is slow
    count, begin = 0, time.perf_counter()
    while (spent := time.perf_counter() - begin) < seconds:
        product(x, weight)
        count += 1
    return count * 2.0 * tokens * width * hidden / spent
