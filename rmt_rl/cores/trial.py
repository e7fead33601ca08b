"""A core of one's own is called once before it is used: what breaks the contract's shapes is named there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rmt_rl.cores.base import MemoryCore, named_leaves

STEPS = 3


def try_out(core: MemoryCore[Any]) -> None:
    """Call a core with two rows of three steps and look at the shapes of what comes out.

    Random generators, buffers and the training mode are afterwards as they were. Nothing is done for a core
    on torch's meta device, where there are no values to call it with.

    :raises TypeError: if its constructor does not call MemoryCore's, or its state is no tuple of tensors
    :raises ValueError: if outputs, or a leaf of a state, have another shape than the contract says
    """
    name = type(core).__name__
    if "_parameters" not in vars(core) or not (hasattr(core, "input_dim") and hasattr(core, "output_dim")):
        raise TypeError(missing_init(name))
    if any(tensor.is_meta for tensor in (*core.parameters(), *core.buffers(), torch.empty(0))):
        return
    with _untouched(core), torch.no_grad():
        inputs = next(core.parameters(), torch.empty(0)).new_zeros(2, STEPS, core.input_dim)
        starts = torch.zeros(2, STEPS, dtype=torch.bool, device=inputs.device)
        starts[1, 1] = True
        try:
            _check_rows(core)
            state = core.initial_state(2)
            result = core(inputs, state, starts)
        except Exception as error:
            error.add_note(
                f"{name} was tried out with inputs {tuple(inputs.shape)} and episode_starts {(2, STEPS)}"
            )
            raise
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"{name}.forward must return outputs and the state, got {type(result).__name__}")
        _check_outputs(core, result[0])
        _check_state(name, state, result[1])


def missing_init(name: str) -> str:
    """What to say of a class whose constructor does not call the base class's."""
    return f"{name}.__init__ must call super().__init__(input_dim, output_dim) before anything else"


def _check_outputs(core: MemoryCore[Any], outputs: Any) -> None:
    name, expected = type(core).__name__, (2, STEPS, core.output_dim)
    if not isinstance(outputs, Tensor):
        raise TypeError(f"{name}.forward must return a tensor as outputs, got {type(outputs).__name__}")
    if tuple(outputs.shape) != expected:
        raise ValueError(
            f"{name}.forward returned outputs of shape {tuple(outputs.shape)} for 2 rows of {STEPS} steps, "
            f"but (rows, steps, output_dim) is {expected}: make them so, or pass the width that they have "
            "to super().__init__(input_dim, output_dim)"
        )


def _check_rows(core: MemoryCore[Any]) -> None:
    """Every leaf has the batch first; two sizes, as a dimension may be of one of them by chance."""
    name = type(core).__name__
    for begin in ("initial_state", "rollout_state"):
        for rows in (2, 3):
            for field, leaf in named_leaves(getattr(core, begin)(rows)):
                if leaf.dim() == 0 or leaf.shape[0] != rows:
                    raise ValueError(
                        f"the state's {field} in {name}.{begin}({rows}) has shape {tuple(leaf.shape)}: the "
                        "batch must come first in every leaf (transpose where torch has it second)"
                    )


def _check_state(name: str, before: Any, after: Any) -> None:
    """The state keeps its fields and their shapes: rollouts hold states of many steps side by side."""
    if type(before) is not type(after):
        raise TypeError(
            f"{name}.forward must return a state as initial_state does, {type(before).__name__}, "
            f"got {type(after).__name__}"
        )
    old = [(field, tuple(leaf.shape)) for field, leaf in named_leaves(before)]
    new = [(field, tuple(leaf.shape)) for field, leaf in named_leaves(after)]
    if old != new:
        raise ValueError(
            f"the state after {name}.forward has the shapes {dict(new)}, before it {dict(old)}: a state "
            "is of constant size (pad a cache)"
        )


@contextmanager
def _untouched(core: MemoryCore[Any]) -> Iterator[None]:
    """Within, evaluation mode; afterwards generators, buffers and modes are as before."""
    modes = [(module, module.training) for module in core.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in core.buffers()]
    drawn = random.getstate(), np.random.get_state()  # noqa: NPY002
    devices = {parameter.device.index for parameter in core.parameters() if parameter.device.type == "cuda"}
    core.eval()
    try:
        with torch.random.fork_rng(devices=[index or 0 for index in devices]):
            yield
    finally:
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])  # noqa: NPY002
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
        for module, mode in modes:
            module.training = mode
