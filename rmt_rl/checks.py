"""Bad numbers are named where they enter, not as a NaN loss an hour later."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import Tensor
from torch.distributions import Distribution


def check_no_nan(what: str, value: Any) -> None:
    """Raise ValueError if ``value``, an array or a dict of arrays, holds a NaN.

    :param what: how the message names it, e.g. "observations"
    """
    if isinstance(value, dict):
        for key, part in value.items():
            check_no_nan(f"{what}[{key!r}]", part)
        return
    array = np.asarray(value)
    if array.dtype.kind != "f" or not np.isnan(array).any():
        return
    where = tuple(int(i) for i in np.argwhere(np.isnan(array))[0])
    raise ValueError(
        f"{what} of shape {array.shape} holds {int(np.isnan(array).sum())} NaN, the first at index {where}; "
        "mend the environment (or a wrapper such as VecNormalize) so that it gives numbers"
    )


def check_finite(latent: Tensor) -> None:
    """Raise ValueError unless what a policy has worked out of its observations and memory is finite."""
    if math.isfinite(latent.sum().item()):  # one operation and no copy, unlike torch's isfinite
        return
    raise ValueError(
        "the policy works out numbers that are not finite: its weights or its memory hold NaN, as after "
        "training has diverged, or an observation is infinite; load an earlier checkpoint, or begin with "
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
