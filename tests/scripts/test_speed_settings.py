"""What the speed benchmark compares: sizes, options and things that grow are what they say."""

from __future__ import annotations

import inspect
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from rmt_rl import CORES
from rmt_rl.states import leaves
from scripts.speed import acting, scaling, training
from scripts.speed.workloads import WORKLOADS, Workload, core_kwargs, memorize_workload


@pytest.mark.parametrize("core", CORES)
def test_cores_are_compared_at_one_size(core: str) -> None:
    options = core_kwargs(core, 32, 2, 8)
    has = inspect.signature(CORES[core]).parameters
    layers = 1 if core in ("gru", "lstm") else 2
    assert options["width"] == 32 and options.get("layers") == (layers if "layers" in has else None)
    assert options.get("segment_length") == (8 if "segment_length" in has else None)


def test_episodes_of_memorize_begin_at_different_times_and_are_of_one_length() -> None:
    workload = memorize_workload(7, 16, n_envs=32, n_steps=1, batch_size=1, sequence_length=1, width=8)
    env = workload.make(32)
    env.seed(0)
    env.reset()
    assert workload.settle is not None
    workload.settle(env)
    actions = np.zeros(32, np.int64)
    ends = [np.flatnonzero(env.step(actions)[2]) for _ in range(300)]
    lengths = [[step for step, rows in enumerate(ends) if row in rows] for row in range(32)]
    assert len({steps[0] for steps in lengths}) > 16
    assert {b - a for steps in lengths for a, b in pairwise(steps)} == {7 * 16}


# -- acting --------------------------------------------------------------------------------------------------


def test_many_environments_have_the_memory_of_one() -> None:
    args = acting.Acting(early=20, late=41, width=8)
    model = acting.make_agent("rmt", args.width)
    early, late = acting.remember("rmt", args)
    assert acting.state_bytes(early) == acting.state_bytes(late) > 0
    observation = np.random.default_rng(1).normal(size=(1, 4)).astype(np.float32)
    _, one = model.predict(observation, late)
    _, three = model.predict(np.repeat(observation, 3, axis=0), acting.repeat_state(late, 3))
    for alone, together in zip(leaves(one.states), leaves(three.states), strict=True):
        torch.testing.assert_close(alone.expand_as(together), together)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(cores=["elephant"]), "unknown cores"),
        (dict(late=1000), "late must be more than early=1000, got 1000"),
        (dict(steps=40), "steps must be a multiple of a segment's 16, got 40"),
        (dict(n_envs=[4, 0]), r"n_envs\[1\] must be at least 1, got 0"),
    ],
)
def test_acting_refuses(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        acting.check(acting.Acting(**options))


# -- options -------------------------------------------------------------------------------------------------


def test_options_replace_a_workloads_sizes() -> None:
    args = training.Training(workloads=["popgym", "minigrid"], n_envs=8, feedforward=16, repeats=9, wide=32)
    (popgym, often), (minigrid, _), (wide, seldom) = training.wanted(args)
    assert popgym == replace(WORKLOADS["popgym"], n_envs=8, feedforward=16)
    assert minigrid == replace(WORKLOADS["minigrid"], n_envs=8, feedforward=16)
    assert wide == replace(minigrid, width=32)
    assert (often, seldom) == (9, training.WIDE_REPEATS)
    assert "8 environments x 128 steps" in str(popgym) and "feed-forward of 16" in str(popgym)
    for off in (replace(args, wide=0), replace(args, width=32)):
        assert len(training.wanted(off)) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(workloads=["chess"]), "unknown workloads .*; there are minigrid, memorize, popgym"),
        (dict(cores=["elephant"]), "unknown cores .*; there are rmt"),
        (dict(n_envs=0), "n_envs must be at least 1, got 0"),
        (dict(repeats=0), "repeats must be at least 1, got 0"),
        (dict(wide=-1), "wide must be a width, or 0 for none, got -1"),
        (dict(sequence_length=7), "sequence_length=7 does not divide n_steps=128"),
        (dict(batch_size=100), "batch_size=100 .* is not a multiple of sequence_length=64"),
    ],
)
def test_training_refuses(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        training.wanted(training.Training(**options))


# -- scaling -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-1.5, 0.0, 2.0])
def test_exponents_are_recovered(exponent: float) -> None:
    sizes = [1, 4, 16, 512]
    assert scaling.fit_exponent(sizes, [3.0 * size**exponent for size in sizes]) == pytest.approx(exponent)
    # Least squares: the same factor above and below leaves it as it is.
    noise = [1.1, 1 / 1.1, 1 / 1.1, 1.1]
    pair = [1, 2, 4, 8]
    values = [3.0 * size**exponent * factor for size, factor in zip(pair, noise, strict=True)]
    assert scaling.fit_exponent(pair, values) == pytest.approx(exponent)


@pytest.mark.parametrize(("x", "y"), [([2], [1.0]), ([2, 2], [1.0, 2.0]), ([1, 2], [0.0, 1.0])])
def test_no_exponent_without_two_sizes(x: list[int], y: list[float]) -> None:
    with pytest.raises(ValueError, match="two or more different sizes"):
        scaling.fit_exponent(x, y)


def sizes_of(workload: Workload) -> dict[str, int]:
    return {name: value for name, value in vars(workload).items() if isinstance(value, int)}


def test_one_thing_grows_at_a_time() -> None:
    args = scaling.Scaling(delays=[1, 32], environments=[1, 1024], widths=[16, 256])
    usual = sizes_of(scaling.workload(args))
    points = list(scaling.points(args))
    assert [(sweep, size) for sweep, size, _ in points] == [
        *(("delay", 1), ("delay", 32)),
        *(("environments", 1), ("environments", 1024)),
        *(("width", 16), ("width", 256)),
    ]
    grows: dict[str, set[str]] = dict(delay=set(), environments={"n_envs"}, width={"width"})
    for sweep, size, made in points:
        sizes = sizes_of(made)
        differing = {name for name, value in sizes.items() if value != usual[name]}
        assert differing - {"batch_size"} == grows[sweep]
        assert all(sizes[name] == size for name in grows[sweep])
        assert made.batch_size == min(args.batch_size, made.rollout)
        assert episode_length(made) == 16 * (size if sweep == "delay" else scaling.SEGMENTS)


def episode_length(workload: Workload) -> int:
    """Of the episodes after the first one, which may be of any length."""
    env = workload.make(1)
    env.reset()
    assert workload.settle is not None
    workload.settle(env)
    ends = [step for step in range(2 * 16 * 32 + 1) if env.step(np.zeros(1, np.int64))[2][0]]
    return ends[1] - ends[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (dict(delays=[7]), r"delays must be two or more different numbers, or none, got \[7\]"),
        (dict(widths=[8, 0]), r"widths\[1\] must be at least 1, got 0"),
        (dict(delays=[], environments=[], widths=[]), "nothing grows"),
    ],
)
def test_scaling_refuses(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        scaling.check(scaling.Scaling(**options))
