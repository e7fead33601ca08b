"""How fast training and acting are, side by side with sb3-contrib's RecurrentPPO in one run.

    python scripts/benchmark_speed.py training
    python scripts/benchmark_speed.py acting

``training`` alternates the algorithms on MiniGrid's memory task (S9, 3x3 view) with the same environments,
steps, epochs and minibatches, and prints medians and ratios. ``acting`` measures the cost of a step and the
size of the state early and late in one episode. Only ratios within a run mean anything: machines differ, and
drift.
"""

from __future__ import annotations

import gc
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import torch
import tyro
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from envs.minigrid.memory import MemoryTask
from rmt_rl import CORES, MemoryPPO
from rmt_rl.features import IdEmbeddingExtractor
from rmt_rl.states import leaves

console = Console(width=110)


@dataclass
class Training:
    """Steps per second of training."""

    cores: list[str] = field(default_factory=lambda: ["rmt", "xl", "rmt_xl", "gru", "none"])
    n_envs: int = 16
    n_steps: int = 128
    n_epochs: int = 4
    batch_size: int = 256
    """in steps, for every algorithm"""
    sequence_length: int = 64
    """of ours; RecurrentPPO has none"""
    shared_lstm: bool = False
    """give RecurrentPPO one LSTM for actor and critic, as ours have one memory"""
    width: int = 128
    layers: int = 2
    """of the transformers; recurrent cores have one, as RecurrentPPO does"""
    feedforward: int | None = None
    """hidden width of the transformers' feed-forward sub-layers; by default 4 * width"""
    segment_length: int = 32
    rollouts: int = 3
    """per repeat"""
    repeats: int = 5
    threads: int = 2


@dataclass
class Acting:
    """Cost of a step, and size of the state, along one episode."""

    cores: list[str] = field(default_factory=lambda: ["rmt", "xl", "rmt_xl", "gru", "lstm"])
    early: int = 1_000
    late: int = 1_000_000
    steps: int = 256
    """timed at once, early and late in turn"""
    repeats: int = 15
    width: int = 64
    threads: int = 1


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


def minigrid(n_envs: int) -> VecEnv:
    """MiniGrid's memory task, S9 with the 3x3 view and 96 steps."""
    return DummyVecEnv([lambda: MemoryTask("S9", view_size=3, max_steps=96)] * n_envs)


def make_algorithm(name: str, args: Training) -> BaseAlgorithm:
    """The algorithm of a row, on environments of its own."""
    common: dict[str, Any] = dict(
        n_steps=args.n_steps,
        batch_size=args.batch_size,
        n_epochs=args.n_epochs,
        ent_coef=0.02,
        seed=0,
        device="cpu",
    )
    policy_kwargs: dict[str, Any] = dict(features_extractor_class=IdEmbeddingExtractor, net_arch=[64])
    if name == "RecurrentPPO":
        from sb3_contrib import RecurrentPPO

        # Its defaults but for the width: actor and critic have an LSTM each. Sharing one makes it faster.
        shared = dict(enable_critic_lstm=False, shared_lstm=True) if args.shared_lstm else {}
        policy_kwargs |= dict(lstm_hidden_size=args.width) | shared
        return RecurrentPPO(
            "MultiInputLstmPolicy", minigrid(args.n_envs), policy_kwargs=policy_kwargs, **common
        )
    options = core_kwargs(name, args.width, args.layers, args.segment_length)
    if "feedforward" in inspect.signature(CORES[name]).parameters:
        options["feedforward"] = args.feedforward
    policy_kwargs |= dict(core=name, core_kwargs=options)
    return MemoryPPO(
        "MultiInputPolicy",
        minigrid(args.n_envs),
        sequence_length=args.sequence_length,
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


def training(args: Training) -> None:
    """Alternate the algorithms, each going on with its own training."""
    torch.set_num_threads(args.threads)
    names = ["RecurrentPPO", *args.cores]
    models = {name: make_algorithm(name, args) for name in names}
    budget = args.n_envs * args.n_steps * args.rollouts
    speeds: dict[str, list[float]] = {name: [] for name in ["environments alone", *names]}
    env = minigrid(args.n_envs)
    for model in models.values():
        model.learn(args.n_envs * args.n_steps)  # first calls are slow
    for _ in range(args.repeats):
        speeds["environments alone"].append(environments_alone(env, args.n_steps * args.rollouts))
        for name, model in models.items():
            begin = time.perf_counter()
            model.learn(budget, reset_num_timesteps=False)
            speeds[name].append(budget / (time.perf_counter() - begin))
    table = Table(title=f"MiniGrid-MemoryS9 (3x3 view), {args.n_envs} environments, width {args.width}")
    for column in ("", "steps/s, median", "min", "max", "x RecurrentPPO", "of the environments' rate"):
        table.add_column(column, justify="left" if not column else "right")
    reference, alone = median(speeds["RecurrentPPO"]), median(speeds["environments alone"])
    for name, values in speeds.items():
        middle = median(values)
        table.add_row(
            name, f"{middle:,.0f}", f"{min(values):,.0f}", f"{max(values):,.0f}",
            f"{middle / reference:.2f}", f"{middle / alone:.1%}",
        )  # fmt: skip
    console.print(table)


def acting(args: Acting) -> None:
    """Early and late in an episode in turn, on the same machine in the same minutes."""
    torch.set_num_threads(args.threads)
    table = Table(
        title=f"One environment, a step at {args.early:,} and at {args.late:,} steps into an episode"
    )
    for column in ("core", "us/step early", "us/step late", "late / early", "state bytes early", "late"):
        table.add_column(column, justify="left" if column == "core" else "right")
    rng = np.random.default_rng(0)
    for core in args.cores:
        options = core_kwargs(core, args.width, 2, 16)
        model = MemoryPPO(
            "MlpPolicy", "CartPole-v1", policy_kwargs=dict(core=core, core_kwargs=options), device="cpu"
        )

        def noise(steps: int) -> Any:
            return rng.normal(size=(1, steps, 4)).astype(np.float32)

        # The lengths leave both states at the same place of a segment.
        early = model.warm_up(noise(args.early))
        late = early
        left = args.late - args.early
        while left:
            late = model.warm_up(noise(min(left, 1 << 14)), late)
            left -= min(left, 1 << 14)

        def run(state: Any, model: MemoryPPO = model) -> Callable[[], None]:
            observation = noise(1)[0, 0]

            def steps() -> None:
                memory = state
                for _ in range(args.steps):
                    _, memory = model.predict(observation, memory)

            return steps

        timed = {"early": run(early), "late": run(late)}
        times: dict[str, list[float]] = {"early": [], "late": []}
        gc.disable()
        for _ in range(args.repeats):
            for when, function in timed.items():
                begin = time.perf_counter()
                function()
                times[when].append((time.perf_counter() - begin) / args.steps)
        gc.enable()
        sizes = [sum(leaf.nbytes for leaf in leaves(state.states)) for state in (early, late)]
        ratio = median(b / a for a, b in zip(times["early"], times["late"], strict=True))
        table.add_row(
            core, f"{median(times['early']) * 1e6:.0f}", f"{median(times['late']) * 1e6:.0f}", f"{ratio:.3f}",
            f"{sizes[0]:,}", f"{sizes[1]:,}",
        )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    arguments = tyro.cli(Training | Acting, description=__doc__)  # type: ignore[arg-type]
    training(arguments) if isinstance(arguments, Training) else acting(arguments)
