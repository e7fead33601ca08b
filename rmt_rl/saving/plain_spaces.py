"""Gymnasium's spaces as plain JSON and back, within bounds."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rmt_rl.saving.plain import MOST, SIZE, Kind, whole

SIZES = (8, 16, 32, 64)
DTYPES = ("bool", "float16", "float32", "float64", *(f"{kind}{n}" for kind in ("int", "uint") for n in SIZES))
_INTEGER = whole(-(2**63), 2**63 - 1)


def write_space(space: Any) -> dict[str, Any]:
    """A space as JSON.

    :raises ValueError: for a kind of space that SB3 cannot encode
    """
    data: dict[str, Any] = {"space": type(space).__name__}
    if type(space) is spaces.Box:
        bounds = dict(low=_write_bound(space.low), high=_write_bound(space.high))
        return data | bounds | dict(shape=list(space.shape), dtype=str(space.dtype))
    if type(space) is spaces.Discrete:
        # Only where it is another than usual: before, there was none to be read.
        dtype = {} if space.dtype == np.int64 else {"dtype": str(space.dtype)}
        return data | dict(n=int(space.n), start=int(space.start)) | dtype
    if type(space) is spaces.MultiDiscrete:
        return data | dict(nvec=space.nvec.tolist(), start=space.start.tolist(), dtype=str(space.dtype))
    if type(space) is spaces.MultiBinary:
        return data | dict(n=int(space.n) if isinstance(space.n, int | np.integer) else list(space.n))
    if type(space) is spaces.Dict:
        # Pairs: the order of the parts decides which feature is which.
        return data | dict(parts=[[key, write_space(part)] for key, part in space.spaces.items()])
    raise ValueError(f"there are {', '.join(_READERS)}")


def read_space(data: Any) -> spaces.Space[Any]:
    """The space that ``write_space`` gave the JSON of.

    :raises ValueError: or TypeError, ArithmeticError, for anything else
    """
    fields = dict(data)
    kind = fields.pop("space", None)
    if kind not in _READERS:
        raise ValueError(f"there are {', '.join(_READERS)}")
    return _READERS[kind](**fields)


def _write_bound(bound: npt.NDArray[Any]) -> Any:
    """An array as one number if all are alike, else flat; infinities, which JSON has not, as texts."""
    flat = [str(x) if isinstance(x, float) and math.isinf(x) else x for x in bound.reshape(-1).tolist()]
    return flat[0] if flat and flat.count(flat[0]) == len(flat) else flat


def _read_bound(bound: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    numbers = [
        float(x) if x in ("inf", "-inf") else x for x in (bound if isinstance(bound, list) else [bound])
    ]
    if not all(isinstance(x, bool | int | float) for x in numbers):
        raise TypeError("bounds must be numbers")
    with np.errstate(over="ignore"):
        array = np.array(numbers, dtype=dtype)
    if array.tolist() != numbers:
        raise ValueError(f"bounds must be exact in {dtype}")
    return array.reshape(shape) if isinstance(bound, list) else np.full(shape, array[0])


def _read_box(low: Any, high: Any, shape: Any, dtype: Any) -> spaces.Box:
    shape, kind = _read_shape(shape), _read_dtype(dtype)
    return spaces.Box(_read_bound(low, shape, kind), _read_bound(high, shape, kind), shape, kind.type)


def _read_discrete(n: Any, start: Any, dtype: Any = None) -> spaces.Discrete:
    options: dict[str, Any] = {} if dtype is None else {"dtype": _read_dtype(dtype).type}
    space: spaces.Discrete = spaces.Discrete(SIZE.read(n), start=_INTEGER.read(start), **options)
    return space


def _read_multi_discrete(nvec: Any, start: Any, dtype: Any) -> spaces.MultiDiscrete:
    counts, starts = np.array(nvec), np.array(start)
    if counts.dtype.kind != "i" or counts.size == 0 or counts.min() < 1 or counts.sum() > MOST:
        raise ValueError(f"nvec must be integers from 1 that sum up to at most {MOST}")
    if starts.dtype.kind != "i" or starts.shape != counts.shape:
        raise ValueError("start must be integers in the shape of nvec")
    return spaces.MultiDiscrete(counts, dtype=_read_dtype(dtype).type, start=starts)


def _read_dict(parts: Any) -> spaces.Dict:
    read = OrderedDict((key, _read_part(part)) for key, part in parts)
    if not read or len(read) != len(parts) or not all(isinstance(key, str) for key in read):
        raise ValueError("parts must be named, each with a name of its own")
    return spaces.Dict(read)


def _read_part(data: Any) -> spaces.Space[Any]:
    if dict(data).get("space") == "Dict":
        raise ValueError("a Dict may not hold a Dict")
    return read_space(data)


def _read_shape(data: Any) -> tuple[int, ...]:
    shape = tuple(SIZE.read(size) for size in data)
    if math.prod(shape) > MOST:
        raise ValueError(f"shape must have at most {MOST} entries")
    return shape


def _read_dtype(name: Any) -> np.dtype[Any]:
    if name not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}")
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


_READERS: dict[str, Callable[..., spaces.Space[Any]]] = {
    "Box": _read_box,
    "Discrete": _read_discrete,
    "MultiDiscrete": _read_multi_discrete,
    "MultiBinary": lambda n: spaces.MultiBinary(_read_shape(n) if isinstance(n, list) else SIZE.read(n)),
    "Dict": _read_dict,
}

SPACE = Kind("a Box, Discrete, MultiDiscrete, MultiBinary or a Dict of these", read_space, write_space)
