"""What a model is built from, as plain JSON and back: numbers, schedules, and classes by name.

Whatever is read is checked first: a value is of its kind and within bounds, or a ValueError names it. Nothing
in a file says what to import or call; a class is one of those listed here. One of your own is added where it
is saved and where it is loaded, e.g. ``plain.EXTRACTORS["Mine"] = Mine``; a core goes into ``rmt_rl.CORES``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common import torch_layers
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule
from torch import nn

from rmt_rl.cores import CORES
from rmt_rl.features import IdEmbeddingExtractor
from rmt_rl.schedules import HoldThenLinear

MOST = 2**24
"""the largest size that a file may ask for"""

ACTIVATIONS: dict[str, type[nn.Module]] = {
    kind.__name__: kind
    for kind in (nn.Tanh, nn.ReLU, nn.ELU, nn.GELU, nn.LeakyReLU, nn.SiLU, nn.Mish, nn.Sigmoid, nn.Identity)
}
EXTRACTORS: dict[str, type[BaseFeaturesExtractor]] = {
    kind.__name__: kind
    for kind in (
        torch_layers.FlattenExtractor, torch_layers.NatureCNN, torch_layers.CombinedExtractor,
        IdEmbeddingExtractor,
    )
}  # fmt: skip
OPTIMIZERS: dict[str, type[th.optim.Optimizer]] = {
    kind.__name__: kind
    for kind in (th.optim.Adam, th.optim.AdamW, th.optim.RMSprop, th.optim.SGD, RMSpropTFLike)
}
SCHEDULES: dict[str, tuple[type, tuple[str, ...]]] = {
    "HoldThenLinear": (HoldThenLinear, ("start", "end", "hold")),
    "LinearSchedule": (LinearSchedule, ("start", "end", "end_fraction")),
}


@dataclass(frozen=True)
class Kind:
    """A kind of value. ``write`` and ``read`` raise ValueError or TypeError for what is not of it."""

    what: str
    read: Callable[[Any], Any]
    write: Callable[[Any], Any] = lambda value: value


def write_all(kinds: Mapping[str, Kind], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as JSON.

    :raises ValueError: naming the first that is not of its kind
    """
    written = {}
    for name, value in values.items():
        try:
            written[name] = kinds[name].write(value)
            kinds[name].read(written[name])
        except (KeyError, ValueError, TypeError) as error:
            kind = kinds[name].what if name in kinds else "none of the values that a file of weights can hold"
            raise ValueError(
                f"{name}={value!r} cannot go into a file of weights: it must be {kind} ({error}); "
                "save keeps any value, by pickling it"
            ) from error
    return written


def read_all(kinds: Mapping[str, Kind], data: Any) -> dict[str, Any]:
    """The values of ``write_all``.

    :raises ValueError: naming the first that is missing, unknown or not of its kind
    """
    if not isinstance(data, dict):
        raise ValueError(f"there must be {', '.join(kinds)}, got {data!s:.80}")
    for what, names in (("is no", kinds.keys() - data), ("may be no", data.keys() - kinds)):
        if names:
            raise ValueError(f"there {what} {', '.join(sorted(names)):.200}")
    values = {}
    for name, kind in kinds.items():
        try:
            values[name] = kind.read(data[name])
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise ValueError(f"{name} must be {kind.what}, got {data[name]!s:.80} ({error})") from error
    return values


def whole(low: int, high: int = MOST) -> Kind:
    """Integers from ``low`` to ``high``."""

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ValueError("out of range")
        return value

    return Kind(f"an integer from {low} to {high}", read, _scalar)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("no finite number")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("neither true nor false")
    return value


def _scalar(value: Any) -> Any:
    """A numpy scalar as a Python one, anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def optional(kind: Kind) -> Kind:
    """None, or a value of a kind."""
    return Kind(
        f"{kind.what}, or None",
        lambda data: None if data is None else kind.read(data),
        lambda value: None if value is None else kind.write(value),
    )


def one_of(table: Mapping[str, Any], what: str) -> Kind:
    """What a table holds, by its name there."""

    def write(value: Any) -> str:
        if isinstance(value, str) and value in table:
            return value
        name = next((name for name, known in table.items() if known is value), None)
        if name is None:
            raise ValueError(f"there are {', '.join(table)}")
        return name

    def read(name: Any) -> Any:
        if not isinstance(name, str) or name not in table:
            raise ValueError(f"there are {', '.join(table)}")
        return table[name]

    return Kind(what, read, write)


def _options(value: Any, depth: int = 2) -> Any:
    """Keyword arguments: nothing but None, flags, texts, numbers within bounds, and lists of them."""
    if isinstance(value, dict) and depth == 2 and all(isinstance(name, str) for name in value):
        return {name: _options(part, depth - 1) for name, part in value.items()}
    if isinstance(value, list | tuple) and depth == 1:
        return [_options(part, depth - 1) for part in value]
    value = _scalar(value)
    if depth == 2 or not (value is None or isinstance(value, bool | int | float | str)):
        raise ValueError("not plain")
    if isinstance(value, int | float) and not abs(value) <= MOST:
        raise ValueError(f"{value} is out of range")
    return value


def _widths(value: Any) -> Any:
    """SB3's ``net_arch``: a list of widths, or a dict of such lists for pi and vf."""
    if isinstance(value, dict) and value.keys() <= {"pi", "vf"}:
        return {name: _widths(list(part)) for name, part in value.items()}
    if not isinstance(value, list):
        raise ValueError("no list")
    return [SIZE.read(_scalar(width)) for width in value]


def _write_schedule(value: Any) -> Any:
    if isinstance(value, FloatSchedule):
        value = value.value_schedule
    if isinstance(value, ConstantSchedule):
        value = value.val
    for name, (kind, fields) in SCHEDULES.items():
        if type(value) is kind:
            return {"schedule": name, **{field: _scalar(getattr(value, field)) for field in fields}}
    return _number(_scalar(value))


def _read_schedule(data: Any) -> Any:
    if not isinstance(data, dict):
        return _number(data)
    kind, fields = SCHEDULES[data["schedule"]]
    if data.keys() != {"schedule", *fields}:
        raise ValueError(f"it has {', '.join(fields)}")
    return kind(**{field: _number(data[field]) for field in fields})


SIZE = whole(1)
NUMBER = Kind("a finite number", _number, _scalar)
FLAG = Kind("True or False", _flag, _scalar)
OPTIONS = Kind("a dict of plain values (None, flags, texts, numbers, lists of them)", _options, _options)
WIDTHS = Kind("a list of widths, or a dict of such lists for pi and vf", _widths, _widths)
SCHEDULE = Kind(
    f"a number, or a schedule of the kinds {', '.join(SCHEDULES)}", _read_schedule, _write_schedule
)
CORE = Kind(
    "the name of a core in rmt_rl.CORES",
    lambda name: one_of({known: known for known in CORES}, "").read(name),
    one_of(CORES, "").write,
)
