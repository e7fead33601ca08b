"""What a model is built from, as JSON: which values an algorithm and its policy have, and of what kinds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from gymnasium import spaces

from rmt_rl.buffers import MemoryDictRolloutBuffer, MemoryRolloutBuffer
from rmt_rl.saving.plain import (
    ACTIVATIONS,
    CORE,
    EXTRACTORS,
    FLAG,
    NUMBER,
    OPTIMIZERS,
    OPTIONS,
    SCHEDULE,
    SIZE,
    WIDTHS,
    Kind,
    one_of,
    optional,
    read_all,
    whole,
    write_all,
)
from rmt_rl.saving.plain_spaces import SPACE

if TYPE_CHECKING:
    from rmt_rl.saving.archive import SavingAlgorithm

FORMAT = 1
BUFFERS = {kind.__name__: kind for kind in (MemoryRolloutBuffer, MemoryDictRolloutBuffer)}
SETTINGS: dict[str, Kind] = {
    "n_envs": SIZE, "n_steps": SIZE, "batch_size": SIZE, "sequence_length": SIZE, "n_epochs": SIZE,
    "num_timesteps": whole(0, 2**53), "learning_rate": SCHEDULE, "gamma": NUMBER, "gae_lambda": NUMBER,
    "ent_coef": NUMBER, "vf_coef": NUMBER, "max_grad_norm": NUMBER, "normalize_advantage": FLAG,
    "clip_range": SCHEDULE, "clip_range_vf": optional(SCHEDULE), "target_kl": optional(NUMBER),
    "use_sde": FLAG, "sde_sample_freq": whole(-1),
    "rollout_buffer_class": one_of(BUFFERS, "a buffer of rmt_rl.buffers"),
}  # fmt: skip
"""of the algorithms; each has some of them"""
POLICY: dict[str, Kind] = {
    "core": CORE, "core_kwargs": OPTIONS, "share_memory": FLAG, "critic_shapes_memory": FLAG,
    "net_arch": WIDTHS, "activation_fn": one_of(ACTIVATIONS, "an activation of torch"),
    "features_extractor_class": one_of(EXTRACTORS, "an extractor of SB3 or of rmt_rl.features"),
    "features_extractor_kwargs": OPTIONS, "share_features_extractor": FLAG, "normalize_images": FLAG,
    "ortho_init": FLAG, "log_std_init": NUMBER, "full_std": optional(FLAG), "use_expln": optional(FLAG),
    "squash_output": optional(FLAG), "optimizer_class": one_of(OPTIMIZERS, "an optimiser of torch or SB3"),
    "optimizer_kwargs": OPTIONS,
}  # fmt: skip
"""arguments of the policies"""
SPACES = {"observation_space": SPACE, "action_space": SPACE}
ANY = Kind("anything", lambda data: data)
FREE = {
    "core_kwargs", "critic_shapes_memory", "ortho_init", "log_std_init", "optimizer_class",
    "optimizer_kwargs",
}  # fmt: skip
"""arguments in which policies may differ that act alike with the same weights; a core describes itself"""


class Plan(NamedTuple):
    """What to build, every value of its kind and within bounds."""

    policy: str
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    policy_kwargs: dict[str, Any]
    settings: Mapping[str, Any]

    @property
    def rollout_bytes(self) -> int:
        """Of the observations and actions of one rollout."""
        steps: int = self.settings["n_steps"] * self.settings["n_envs"]
        return steps * (_bytes(self.observation_space) + _bytes(self.action_space))


def describe(model: SavingAlgorithm) -> dict[str, Any]:
    """A model as JSON.

    :raises ValueError: naming what is not plain
    """
    settings = {name: vars(model)[name] for name in SETTINGS if name in vars(model)}
    return describe_policy(model) | dict(
        format=FORMAT, algorithm=type(model).__name__, settings=write_all(SETTINGS, settings)
    )


def describe_policy(model: SavingAlgorithm) -> dict[str, Any]:
    """What decides what its policy makes of weights."""
    aliases = {kind: alias for alias, kind in model.policy_aliases.items()}
    if type(model.policy) not in aliases:
        raise ValueError(
            f"policy={type(model.policy).__name__} cannot go into a file of weights: "
            f"it must be one of {', '.join(aliases.values())}"
        )
    arguments = model.policy._get_constructor_parameters()
    found = {name: arguments.pop(name) for name in SPACES}
    for name in ("lr_schedule", "use_sde", "reconstruction"):  # the algorithm's, and of no use for acting
        del arguments[name]
    return dict(
        policy=aliases[type(model.policy)],
        **write_all(SPACES, found),
        policy_kwargs=write_all(POLICY, arguments),
    )


def read_plan(data: Any, algorithm: type[SavingAlgorithm]) -> Plan:
    """Read what ``describe`` gave.

    :raises ValueError: naming what is missing, unknown, not of its kind or out of bounds
    """
    aliases = {alias: alias for alias in algorithm.policy_aliases}
    kinds = dict.fromkeys(("format", "algorithm", "policy_kwargs", "settings"), ANY)
    parts = read_all({**kinds, **SPACES, "policy": one_of(aliases, "a policy's name")}, data)
    if parts["algorithm"] != algorithm.__name__:
        raise ValueError(f"it is of {parts['algorithm']!s:.80}, not of {algorithm.__name__}")
    arguments = read_all(POLICY, parts["policy_kwargs"])
    bare = algorithm(parts["policy"], None, device="cpu", _init_setup_model=False)  # type: ignore[call-arg, arg-type]
    settings = {name: kind for name, kind in SETTINGS.items() if name in {*vars(bare), "n_envs"}}
    return Plan(
        parts["policy"], parts["observation_space"], parts["action_space"],
        {name: value for name, value in arguments.items() if value is not None},
        read_all(settings, parts["settings"]),
    )  # fmt: skip


def differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """In which arguments that matter two descriptions of policies differ, in words."""
    flat = [{name: of[name] for name in ("policy", *SPACES)} | of["policy_kwargs"] for of in (one, other)]
    return [
        f"{name} is {flat[0][name]} here, {flat[1][name]} there"
        for name in flat[0]
        if name not in FREE and flat[0][name] != flat[1][name]
    ]


def _bytes(space: spaces.Space[Any]) -> int:
    """Of one observation or action."""
    if isinstance(space, spaces.Dict):
        return sum(_bytes(part) for part in space.values())
    return math.prod(space.shape or ()) * np.dtype(space.dtype).itemsize
