"""Memory cores: one file each, one contract (``base.py``), built by name with ``make_core``."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np
from torch import nn

from rmt_rl.cores.armt import ARMT
from rmt_rl.cores.base import MemoryCore, map_state
from rmt_rl.cores.feedforward import FeedForward
from rmt_rl.cores.rmt import RMT
from rmt_rl.cores.rmt_encoder import RMTEncoder
from rmt_rl.cores.rmt_xl import RMTXL
from rmt_rl.cores.rnn import GRU, LSTM
from rmt_rl.cores.trial import missing_init, try_out
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


def find_core(core: str | type[MemoryCore[Any]]) -> type[MemoryCore[Any]]:
    """The class of a memory core.

    :param core: a name from ``CORES`` or a subclass of ``MemoryCore``
    :raises ValueError: for an unknown name
    :raises TypeError: if ``core`` is neither a name nor a subclass of ``MemoryCore``
    """
    if isinstance(core, str):
        if core not in CORES:
            raise ValueError(f"unknown memory core {core!r}; there are {', '.join(CORES)}.{_hint(core)}")
        return CORES[core]
    if isinstance(core, type) and issubclass(core, MemoryCore):  # type: ignore[redundant-expr]
        return core
    expected = f"core must be one of {', '.join(CORES)} or a subclass of MemoryCore"
    if isinstance(core, nn.Module):
        name = type(core).__name__
        would = (
            f"core={name}, core_kwargs=dict(...)" if isinstance(core, MemoryCore) else "a MemoryCore's class"
        )
        raise TypeError(
            f"{expected}, got an instance of {name}: pass {would}; the policy builds the core itself, as it "
            "knows the features' dimension"
        )
    raise TypeError(f"{expected}, got {core!r:.200}{_hint(getattr(core, '__name__', str(core)))}")


def _hint(name: str) -> str:
    """Which core may have been meant, as a sentence; empty if none comes near."""
    plain = name.lower().replace("-", "_").replace(" ", "_")
    classes = {kind.__name__.lower(): known for known, kind in CORES.items()}
    others = {"transformer_xl": "xl", "txl": "xl", "trxl": "xl", "mlp": "none", "rnn": "gru"}
    near = get_close_matches(plain, CORES, n=1)
    meant = (
        plain if plain in CORES else classes.get(plain) or others.get(plain) or (near[0] if near else None)
    )
    return f" Did you mean {meant!r}?" if meant else ""


def make_core(core: str | type[MemoryCore[Any]], input_dim: int, **options: Any) -> MemoryCore[Any]:
    """Build a memory core.

    :param core: a name from ``CORES`` or a subclass of ``MemoryCore``
    :param input_dim: dimension of a step's features
    :param options: what the core's constructor takes: ``width``, ``layers``, ``segment_length``, ...
    :raises ValueError: for an unknown name or option, an option out of range, or a core of one's own whose
        outputs or state have not the shapes that the contract says
    :raises TypeError: if ``core`` is neither a name nor a subclass of ``MemoryCore``, or does not call its
        constructor, or has a state that is no tuple of tensors
    """
    core_class = find_core(core)
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
    try:
        built = core_class(input_dim, **options)
    except AttributeError as error:
        if "before Module.__init__() call" not in str(error):
            raise
        raise TypeError(missing_init(core_class.__name__)) from error
    if not core_class.__module__.startswith("rmt_rl.cores."):
        try_out(built)
    return built


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
    "find_core",
    "make_core",
    "map_state",
    "plain_options",
]
