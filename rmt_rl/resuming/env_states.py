"""The state of a vector of environments, wrappers included: taken and put back."""

from __future__ import annotations

import re
from collections import OrderedDict, deque
from typing import Any, NamedTuple

import numpy as np
import torch as th
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import VecEnv, VecEnvWrapper, VecNormalize
from stable_baselines3.common.vec_env.stacked_observations import StackedObservations

WRAPPER_STATE = ("rewards", "needs_reset", "total_steps", "current_reset_info", "_elapsed_steps")
"""What SB3's ``Monitor`` and Gymnasium's ``TimeLimit`` know of an episode. The monitor's lists of all those
before are left out: they only grow."""
KNOWN_WRAPPERS = {
    "Monitor", "TimeLimit", "OrderEnforcing", "PassiveEnvChecker",
    "PatchedTimeLimit",  # what rl_zoo3, once imported, puts in TimeLimit's place
    "ClipAction", "ClipReward", "DtypeObservation", "FilterObservation", "FlattenObservation",
    "GrayscaleObservation", "RescaleAction", "RescaleObservation", "ReshapeObservation", "ResizeObservation",
}  # fmt: skip
"""Wrappers of single environments whose state is in ``WRAPPER_STATE``, or that have none."""

_VALUES = (
    type(None), bool, int, float, complex, str, bytes, np.generic, th.Tensor,
    np.random.Generator, np.random.RandomState, RunningMeanStd, StackedObservations,
)  # fmt: skip
_CONTAINERS = (list, tuple, set, frozenset, deque)


class EnvStates(NamedTuple):
    """What ``take`` returns. N environments."""

    layers: list[tuple[str, dict[str, Any]]]
    """class and data of every ``VecEnvWrapper``, the outermost first"""
    rows: list[Any] | None
    """what each environment's ``get_state`` returned (N,)"""
    wrappers: dict[str, list[Any]]
    """``WRAPPER_STATE`` of the wrappers around each (N,)"""
    next_reset: dict[str, list[Any]]
    """seeds and options that the next ``reset`` will use (N,)"""
    reason: str = ""
    """why there are no rows"""


def take(env: VecEnv) -> EnvStates:
    """The state of environments that offer ``get_state`` and ``set_state``, and of what is wrapped around."""
    layers = [(type(layer).__name__, data_of(layer)) for layer in layers_of(env)]
    base = env.unwrapped
    if reason := why_not(base):
        return no_rows(reason, layers)
    wrappers = {name: base.get_attr(name) for name in WRAPPER_STATE if base.has_attr(name)}
    next_reset = {name: list(getattr(base, name)) for name in ("_seeds", "_options")}
    return EnvStates(layers, base.env_method("get_state"), wrappers, next_reset)


def no_rows(reason: str, layers: list[tuple[str, dict[str, Any]]]) -> EnvStates:
    """What there is of environments whose episodes cannot be gone on with."""
    return EnvStates(layers, None, {}, {}, reason)


def put(env: VecEnv, states: EnvStates) -> None:
    """Go back to what ``take`` saw; without rows, to the statistics of ``VecNormalize`` alone.

    :raises ValueError: if the environments are wrapped otherwise, or are others
    """
    layers = layers_of(env)
    names, saved = [type(layer).__name__ for layer in layers], [name for name, _ in states.layers]
    if names != saved:
        raise ValueError(
            f"the environments' wrappers are {', '.join(names) or 'none'}, those of the checkpoint were "
            f"{', '.join(saved) or 'none'}: wrap them alike"
        )
    for layer, (_, data) in zip(layers, states.layers, strict=True):
        if states.rows is not None:
            vars(layer).update(data)
        elif isinstance(layer, VecNormalize):
            vars(layer).update({name: data[name] for name in ("obs_rms", "ret_rms") if name in data})
    if states.rows is None:
        return
    base = env.unwrapped
    if reason := why_not(base):
        raise ValueError(f"the checkpoint holds states of environments, but these cannot take them: {reason}")
    for index, row in enumerate(states.rows):
        base.env_method("set_state", row, indices=index)
        for name, values in states.wrappers.items():
            base.env_method("set_wrapper_attr", name, values[index], indices=index)
    vars(base).update(states.next_reset)


def why_not(base: VecEnv) -> str:
    """Why the state of these environments cannot be had; empty if it can."""
    if not (base.has_attr("get_state") and base.has_attr("set_state")):
        return "they have no get_state() and set_state(state)"
    if base.has_attr("__str__"):  # of Gymnasium's environments: "<Monitor<TimeLimit<Env<Id-v0>>>>"
        chains = [re.findall(r"<(\w+)(?=[< ])", text) for text in base.env_method("__str__")]
        if unknown := sorted({name for chain in chains for name in chain[:-1]} - KNOWN_WRAPPERS):
            return f"the wrapper {', '.join(unknown)} may have a state of its own"
    return ""


def layers_of(env: VecEnv) -> list[VecEnvWrapper]:
    """The wrappers around a vector, the outermost first."""
    layers = []
    while isinstance(env, VecEnvWrapper):
        layers.append(env)
        env = env.venv
    return layers


def data_of(thing: object) -> dict[str, Any]:
    """The attributes that are plain data: numbers, texts, arrays, tensors, generators, and lists of such."""
    skip = ("locals", "globals")  # a callback's view of the training
    return only_data({name: value for name, value in vars(thing).items() if name not in skip})


def only_data(values: dict[str, Any]) -> dict[str, Any]:
    """Those of the values that are plain data."""
    return {name: value for name, value in values.items() if _is_data(value)}


def _is_data(value: Any) -> bool:
    if type(value) in (dict, OrderedDict):
        return all(_is_data(part) for part in (*value, *value.values()))
    if type(value) in _CONTAINERS or hasattr(value, "_fields"):
        return all(_is_data(part) for part in value)
    return isinstance(value, _VALUES) or (isinstance(value, np.ndarray) and not value.dtype.hasobject)
