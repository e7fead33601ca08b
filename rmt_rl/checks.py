"""Checks that name bad numbers where they enter, not as a NaN loss an hour later."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor
from torch.distributions import Distribution

FLOAT32_MAX = float(np.finfo(np.float32).max)


def check_numbers(
    what: str, value: Any, step: int | None = None, environments: Sequence[int] | None = None
) -> None:
    """Raise ValueError if an array, or a dict of arrays, holds what a policy cannot compute with.

    That is NaN, infinity, and a number which is infinite as float32.

    :param what: how the message names it, e.g. "observations"
    :param step: of the training; the array's first dimension is then the environments
    :param environments: whose they are, by default 0, 1, 2, ...
    """
    if isinstance(value, dict):
        for key, part in value.items():
            check_numbers(f"{what}[{key!r}]", part, step, environments)
        return
    array = np.asarray(value)
    if array.dtype.kind != "f":
        return
    is_small = array.dtype.itemsize <= 4
    good = np.isfinite(array) if is_small else np.abs(array) <= FLOAT32_MAX  # which is false for NaN
    if good.all():
        return
    where = tuple(int(i) for i in np.argwhere(~good)[0])
    first = array[where]
    if np.isnan(first):
        numbers = f"{int(np.isnan(array).sum())} NaN"
    else:
        count = int(np.isinf(array).sum()) if np.isinf(first) else int((~good).sum())
        kind = "infinite numbers" if np.isinf(first) else "numbers too large for float32"
        numbers = f"{count} {kind if count > 1 else kind.replace('numbers', 'number')}"
    place = ""
    if step is not None:
        row = where[0] if environments is None else environments[where[0]]
        place = f" (environment {row}, at step {step:,} of training)"
    raise ValueError(
        f"{what} of shape {array.shape} holds {numbers}, the first at index {where}{place}: {first:.3g}; "
        "mend the environment (or a wrapper such as VecNormalize) so that it gives finite numbers"
    )


def check_finite(latent: Tensor) -> None:
    """Raise ValueError unless what a policy has worked out of its observations and memory is finite."""
    if math.isfinite(latent.sum().item()):  # one operation and no copy, unlike torch's isfinite
        return
    raise ValueError(
        "the policy works out numbers that are not finite: its weights or its memory hold NaN, as after "
        "training has diverged, or an observation is huge; load an earlier checkpoint, or begin with "
        "state=None"
    )


@contextmanager
def unchecked_distributions() -> Iterator[None]:
    """Within, torch's distributions do not look at the values of their parameters, which may have none."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)
