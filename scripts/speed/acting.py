"""``acting``: what a step of ``predict`` costs, early and late in an episode, beside SB3's PPO."""

from __future__ import annotations

import gc
import multiprocessing
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from rich.table import Table
from stable_baselines3 import PPO

from rmt_rl import MemoryPPO, MemoryState
from rmt_rl.cores import MemoryCore, map_state
from rmt_rl.recording import record
from rmt_rl.states import leaves
from scripts.console import WIDE, check_output
from scripts.rows import Row, put
from scripts.speed.exported import exported_stepping
from scripts.speed.workloads import check_cores, check_positive, core_kwargs

SEGMENT = 16
ORDER = ("setting", "name", "n_envs")


@dataclass(frozen=True)
class Acting:
    """Cost of a step, and size of the state, along one episode."""

    cores: list[str] = field(default_factory=lambda: ["none", "gru", "lstm", "xl", "rmt", "rmt_xl", "armt"])
    """memory cores; SB3's PPO, an MLP of the same width, comes with them"""
    n_envs: list[int] = field(default_factory=lambda: [1, 256])
    """environments that one call of predict acts for"""
    early: int = 1_000
    """steps into an episode"""
    late: int = 1_000_000
    """steps into an episode"""
    steps: int = 256
    """timed at once for one environment, early and late in turn; a multiple of a segment's 16"""
    batch_steps: int = 16
    """timed at once for several; a multiple of a segment's 16"""
    repeats: int = 11
    """measurements of each, in turns"""
    width: int = 64
    """of the memory, and of the layers of SB3's PPO"""
    threads: int = 1
    """threads of torch"""
    jobs: int = 2
    """processes that bring the memories to their late states, which is not timed"""
    results: Path = Path("runs/speed/acting.json")
    """file of the figures; what was measured with the same settings before is replaced"""

    def __str__(self) -> str:
        return (
            f"a step of predict at {self.early:,} and at {self.late:,} steps into an episode, "
            f"width {self.width}, 2 layers, segments of {SEGMENT}, threads: {self.threads}"
        )


def make_agent(core: str, width: int) -> MemoryPPO:
    """The same agent in every process."""
    options = core_kwargs(core, width, 2, SEGMENT)
    kwargs = dict(core=core, core_kwargs=options)
    return MemoryPPO("MlpPolicy", "CartPole-v1", policy_kwargs=kwargs, seed=0, device="cpu")


def remember(core: str, args: Acting) -> tuple[MemoryState, MemoryState]:
    """The memory of one environment early and late in an episode of noise."""
    torch.set_num_threads(1)
    model, rng = make_agent(core, args.width), np.random.default_rng(0)

    def go_on(state: MemoryState | None, steps: int) -> MemoryState | None:
        for begin in range(0, steps, 1 << 14):
            noise = rng.normal(size=(1, min(steps - begin, 1 << 14), 4)).astype(np.float32)
            state = model.warm_up(noise, state)
        return state

    early = go_on(None, args.early)
    late = go_on(early, args.late - args.early)
    assert early is not None and late is not None
    return early, late


def repeat_state(state: MemoryState, count: int) -> MemoryState:
    """The memory of one environment for ``count``: a step's cost does not depend on what is remembered."""
    states = map_state(lambda leaf: leaf.repeat(count, *[1] * (leaf.dim() - 1)), state.states)
    return MemoryState(state.core, count, states)


def stepping(model: Any, state: MemoryState | None, n_envs: int, steps: int) -> Callable[[], None]:
    """A function that acts for so many steps, from the same state each time."""
    noise = np.random.default_rng(0).normal(size=(n_envs, 4)).astype(np.float32)
    observation = noise[0] if n_envs == 1 else noise

    def run() -> None:
        memory = state
        for _ in range(steps):
            _, memory = model.predict(observation, memory)

    return run


def recording(core: MemoryCore[Any], run: Callable[[], None]) -> Callable[[], None]:
    """The function, while what the core looks at is recorded."""

    def recorded() -> None:
        with record(core):
            run()

    return recorded


def take_turns(functions: dict[str, Callable[[], None]], repeats: int) -> dict[str, list[float]]:
    """Seconds that each takes, in turns, after a first call that is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in functions}
    for function in functions.values():
        function()
    gc.disable()
    try:
        for _ in range(repeats):
            for name, function in functions.items():
                begin = time.perf_counter()
                function()
                seconds[name].append(time.perf_counter() - begin)
    finally:
        gc.enable()
    return seconds


def state_bytes(state: MemoryState) -> int:
    """Size of what is remembered."""
    return sum(leaf.nbytes for leaf in leaves(state.states))


def measure(core: str, args: Acting, states: tuple[MemoryState, MemoryState], ppo: PPO) -> list[Row]:
    """One core, a row for each number of environments."""
    model, rows = make_agent(core, args.width), []
    for n_envs in args.n_envs:
        # Whole segments: wherever in one the states are, each run writes as often.
        steps = args.steps if n_envs == 1 else args.batch_steps
        early, late = (repeat_state(state, n_envs) for state in states)
        functions = {
            "ppo": stepping(ppo, None, n_envs, steps),
            "early": stepping(model, early, n_envs, steps),
            "late": stepping(model, late, n_envs, steps),
        }
        functions["recorded"] = recording(model.policy.core, functions["late"])
        with suppress(ImportError):
            functions["exported"] = exported_stepping(model, n_envs, steps, args.threads)
        seconds = take_turns(functions, args.repeats)

        def ratio(a: str, b: str, seconds: dict[str, list[float]] = seconds) -> float:
            return median(x / y for x, y in zip(seconds[a], seconds[b], strict=True))

        microseconds = {f"{when}_microseconds": median(of) / steps * 1e6 for when, of in seconds.items()}
        rows.append(
            dict(setting=str(args), name=core, n_envs=n_envs, repeats=args.repeats)
            | microseconds
            | dict(late_over_early=ratio("late", "early"), early_over_ppo=ratio("early", "ppo"))
            | dict(late_over_ppo=ratio("late", "ppo"), recorded_over_late=ratio("recorded", "late"))
            | dict(exported_over_ppo=ratio("exported", "ppo") if "exported" in seconds else None)
            | dict(early_bytes=state_bytes(states[0]), late_bytes=state_bytes(states[1]))
        )
    return rows


def table(rows: Sequence[Row], n_envs: int) -> Table:
    """The cores side by side, for a number of environments."""
    rows = [row for row in rows if row["n_envs"] == n_envs]
    plural = "" if n_envs == 1 else "s"
    title = f"{n_envs} environment{plural}: {rows[0]['setting']}; medians of {rows[0]['repeats']}"
    out = Table(title=title, title_justify="left")
    columns = (
        "core",
        "us/step early",
        "late",
        "late / early",
        "PPO's",
        "early / PPO's",
        "exported / PPO's",
        "recorded / late",
        "state bytes",
        "late",
    )
    for column in columns:
        out.add_column(column, justify="left" if column == "core" else "right")
    for row in rows:
        exported = row["exported_over_ppo"]
        out.add_row(
            row["name"], f"{row['early_microseconds']:,.0f}", f"{row['late_microseconds']:,.0f}",
            f"{row['late_over_early']:.3f}", f"{row['ppo_microseconds']:,.0f}",
            f"{row['early_over_ppo']:.2f}", "" if exported is None else f"{exported:.2f}",
            f"{row['recorded_over_late']:.2f}",
            f"{row['early_bytes']:,}", f"{row['late_bytes']:,}",
        )  # fmt: skip
    out.caption = (
        "PPO: SB3's, an MLP of the same width; exported: as an ONNX graph, by onnxruntime; recorded: by "
        "rmt_rl.recording; state: of one environment"
    )
    return out


def check(args: Acting) -> None:
    """Raise ValueError for an option out of range."""
    check_cores(args.cores)
    check_positive(
        early=args.early, repeats=args.repeats, width=args.width, threads=args.threads, jobs=args.jobs,
        **{f"n_envs[{place}]": count for place, count in enumerate(args.n_envs)},
    )  # fmt: skip
    if args.late <= args.early:
        raise ValueError(f"late must be more than early={args.early}, got {args.late}")
    for name in ("steps", "batch_steps"):
        if getattr(args, name) < 1 or getattr(args, name) % SEGMENT:
            raise ValueError(f"{name} must be a multiple of a segment's {SEGMENT}, got {getattr(args, name)}")


def acting(args: Acting) -> None:
    """Bring the memories to their states, then measure core after core; early, late and PPO in turns."""
    check(args)
    check_output(args.results)
    WIDE.print(f"bringing {len(args.cores)} memories to step {args.late:,}")
    if args.jobs == 1:
        states = [remember(core, args) for core in args.cores]
    else:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(args.jobs, mp_context=context) as pool:
            # The slowest are the last ones by default, and had better begin first.
            states = list(pool.map(remember, args.cores[::-1], [args] * len(args.cores)))[::-1]
    torch.set_num_threads(args.threads)
    policy_kwargs = dict(net_arch=[args.width, args.width])
    ppo = PPO("MlpPolicy", "CartPole-v1", policy_kwargs=policy_kwargs, device="cpu")
    rows = [row for core, of in zip(args.cores, states, strict=True) for row in measure(core, args, of, ppo)]
    put(args.results, rows, ORDER)
    for n_envs in args.n_envs:
        WIDE.print(table(rows, n_envs))
    WIDE.print(f"rows: {args.results}")
