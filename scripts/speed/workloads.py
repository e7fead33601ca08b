"""What is trained: environments and sizes, the same for every algorithm, and the algorithms themselves."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from agents.recipes import longest
from envs import make_sb3_vec
from envs.minigrid.memory import MemoryTask
from rmt_rl import CORES, MemoryPPO
from rmt_rl.features import IdEmbeddingExtractor

BASELINES = ("PPO", "RecurrentPPO")
"""SB3's, without a memory, and sb3-contrib's, with an LSTM."""


@dataclass(frozen=True)
class Workload:
    """An environment, and the sizes that all algorithms are trained on it with."""

    task: str
    """what the title calls it"""
    make: Callable[[int], VecEnv]
    """from a number of environments to them; a function of a module, for other processes"""
    n_envs: int
    n_steps: int
    batch_size: int
    """in steps, for every algorithm"""
    sequence_length: int
    """of ours; RecurrentPPO has none"""
    segment_length: int
    width: int
    layers: int = 2
    """of the transformers; recurrent cores have one, as RecurrentPPO does"""
    feedforward: int | None = None
    n_epochs: int = 4
    shared_lstm: bool = False
    threads: int = 2
    settle: Callable[[VecEnv], None] | None = None
    """what the environments need after the first rollout, if anything"""

    @property
    def rollout(self) -> int:
        """Steps between two updates, all environments together."""
        return self.n_envs * self.n_steps

    def __str__(self) -> str:
        words = [
            f"{self.task}: {self.n_envs} environments x {self.n_steps} steps",
            f"epochs: {self.n_epochs}, minibatches of {self.batch_size} steps",
            f"width {self.width}",
            f"{self.layers} layers",
            f"sequences of {self.sequence_length}",
            f"segments of {self.segment_length}",
            f"threads: {self.threads}",
        ]
        if self.feedforward is not None:
            words.insert(4, f"feed-forward of {self.feedforward}")
        if self.shared_lstm:
            words.append("RecurrentPPO with one LSTM for actor and critic")
        return ", ".join(words)


def minigrid(n_envs: int) -> VecEnv:
    """MiniGrid's memory task, S9 with the 3x3 view and 96 steps."""
    return DummyVecEnv([lambda: MemoryTask("S9", view_size=3, max_steps=96)] * n_envs)


def memorize(n_envs: int, delay: int) -> VecEnv:
    """Memorize, batched; episodes of all lengths up to ``delay``, until ``settle_memorize``."""
    return make_sb3_vec("RMT/Memorize-v0", n_envs, delay=(1, delay))


def settle_memorize(env: VecEnv, delay: int) -> None:
    """Episodes of one length from now on. All would begin together, had the first ones not been of others."""
    env.env_method("set_levels", [delay])


def memorize_workload(segments: int, segment_length: int, **sizes: Any) -> Workload:
    """Memorize, cue and query so many segments apart, both counted."""
    delay = max(1, longest(segments, segment_length))
    return Workload(
        f"Memorize, {segments} segments of {segment_length}", partial(memorize, delay=delay),
        settle=partial(settle_memorize, delay=delay), segment_length=segment_length, **sizes,
    )  # fmt: skip


def popgym(n_envs: int) -> VecEnv:
    """POPGym's RepeatPreviousMedium: what was seen 31 steps ago.

    :raises ImportError: if POPGym is not installed
    """
    env_id = "envs.gyms:RMT/popgym-RepeatPreviousMedium-v0"
    return DummyVecEnv([lambda: gym.make(env_id, disable_env_checker=True)] * n_envs)


WORKLOADS = {
    "minigrid": Workload(
        "MiniGrid-MemoryS9 (3x3 view)", minigrid,
        n_envs=16, n_steps=128, batch_size=256, sequence_length=64, segment_length=32, width=128,
    ),
    # Batched environments are for large minibatches, and an episode of 112 steps is one sequence.
    "memorize": memorize_workload(
        7, 16, n_envs=256, n_steps=128, batch_size=8192, sequence_length=128, width=64
    ),
    "popgym": Workload(
        "popgym-RepeatPreviousMedium", popgym,
        n_envs=64, n_steps=128, batch_size=1024, sequence_length=64, segment_length=32, width=128,
    ),
}  # fmt: skip


def core_kwargs(core: str, width: int, layers: int, segment_length: int) -> dict[str, Any]:
    """A core's options at a common width; recurrent cores have one layer, as RecurrentPPO has."""
    wanted = dict(
        width=width,
        layers=1 if core in ("gru", "lstm") else layers,
        segment_length=segment_length,
        memory_length=64 if core == "xl" else segment_length,
    )
    known = inspect.signature(CORES[core]).parameters
    return {name: value for name, value in wanted.items() if name in known}


def check_cores(cores: Sequence[str]) -> None:
    """Raise ValueError for a core that there is not."""
    if unknown := [core for core in cores if core not in CORES]:
        raise ValueError(f"unknown cores {unknown}; there are {', '.join(CORES)}")


def check_positive(**options: int) -> None:
    """Raise ValueError for an option below 1."""
    for name, value in options.items():
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")


def make_algorithm(name: str, workload: Workload) -> BaseAlgorithm:
    """The algorithm of a row, on environments of its own.

    :param name: of ``BASELINES``, or of a core for ``MemoryPPO``
    """
    env = workload.make(workload.n_envs)
    is_dict = isinstance(env.observation_space, spaces.Dict)
    prefix = "MultiInput" if is_dict else "Mlp"
    common: dict[str, Any] = dict(
        n_steps=workload.n_steps, batch_size=workload.batch_size, n_epochs=workload.n_epochs,
        ent_coef=0.02, seed=0, device="cpu",
    )  # fmt: skip
    heads = [64]
    policy_kwargs: dict[str, Any] = dict(net_arch=heads)
    if is_dict:
        policy_kwargs["features_extractor_class"] = IdEmbeddingExtractor
    if name == "PPO":
        # Layers of the same width where the others have their memory.
        policy_kwargs["net_arch"] = [workload.width] * workload.layers + heads
        return PPO(f"{prefix}Policy", env, policy_kwargs=policy_kwargs, **common)
    if name == "RecurrentPPO":
        from sb3_contrib import RecurrentPPO

        # Its defaults but for the width: actor and critic have an LSTM each. Sharing one makes it faster.
        shared = dict(enable_critic_lstm=False, shared_lstm=True) if workload.shared_lstm else {}
        policy_kwargs |= dict(lstm_hidden_size=workload.width) | shared
        return RecurrentPPO(f"{prefix}LstmPolicy", env, policy_kwargs=policy_kwargs, **common)
    options = core_kwargs(name, workload.width, workload.layers, workload.segment_length)
    if "feedforward" in inspect.signature(CORES[name]).parameters:
        options["feedforward"] = workload.feedforward
    policy_kwargs |= dict(core=name, core_kwargs=options)
    return MemoryPPO(
        f"{prefix}Policy",
        env,
        sequence_length=workload.sequence_length,
        policy_kwargs=policy_kwargs,
        **common,
    )


def environments_alone(env: VecEnv, steps: int) -> float:
    """Steps per second with random actions."""
    actions = [np.array([env.action_space.sample() for _ in range(env.num_envs)]) for _ in range(steps)]
    env.reset()
    begin = time.perf_counter()
    for action in actions:
        env.step(action)
    return steps * env.num_envs / (time.perf_counter() - begin)
