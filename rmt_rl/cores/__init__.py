"""Memory cores: one file each, one contract (``base.py``), built by name with ``make_core``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from rmt_rl.cores.armt import ARMT
from rmt_rl.cores.base import MemoryCore, map_state
from rmt_rl.cores.feedforward import FeedForward
from rmt_rl.cores.rmt import RMT
from rmt_rl.cores.rmt_encoder import RMTEncoder
from rmt_rl.cores.rmt_xl import RMTXL
from rmt_rl.cores.rnn import GRU, LSTM
from rmt_rl.cores.xl import TransformerXL

CORES: dict[str, type[MemoryCore[Any]]] = {
    "rmt": RMT,
    "rmt_encoder": RMTEncoder,
    "xl": TransformerXL,
    "rmt_xl": RMTXL,
    "armt": ARMT,
    "gru": GRU,
    "lstm": LSTM,
    "none": FeedForward,
}
"""The registered cores. A class of your own works too, wherever a name does."""


def make_core(core: str | type[MemoryCore[Any]], input_dim: int, **options: Any) -> MemoryCore[Any]:
    """Build a memory core.

    :param core: a name from ``CORES`` or a subclass of ``MemoryCore``
    :param input_dim: dimension of a step's features
    :param options: what the core's constructor takes: ``width``, ``layers``, ``segment_length``, ...
    :raises ValueError: for an unknown name or option, or an option out of range
    :raises TypeError: if ``core`` is neither a name nor a subclass of ``MemoryCore``
    """
    if isinstance(core, str):
        if core not in CORES:
            near = get_close_matches(core, CORES, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"unknown memory core {core!r}; there are {', '.join(CORES)}.{hint}")
        core_class = CORES[core]
    elif isinstance(core, type) and issubclass(core, MemoryCore):  # type: ignore[redundant-expr]
        core_class = core
    else:
        raise TypeError(f"core must be one of {', '.join(CORES)} or a subclass of MemoryCore, got {core!r}")
    options = plain_options(options)
    parameters = inspect.signature(core_class).parameters
    known = [name for name in parameters if name != "input_dim"]
    takes_any = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    unknown = [name for name in options if name not in known]
    if unknown and not takes_any:
        raise ValueError(
            f"core {core_class.__name__} has no option {', '.join(map(repr, unknown))}; "
            f"it has {', '.join(known)}"
        )
    return core_class(input_dim, **options)


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """A core's options with numpy's numbers, which tuners give, as Python's."""
    return {name: value.item() if isinstance(value, np.generic) else value for name, value in options.items()}


__all__ = [
    "ARMT",
    "CORES",
    "GRU",
    "LSTM",
    "RMT",
    "RMTXL",
    "FeedForward",
    "MemoryCore",
    "RMTEncoder",
    "TransformerXL",
    "make_core",
    "map_state",
    "plain_options",
]
