"""The speed benchmark's parts: what they measure is what they say."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rmt_rl import CORES
from rmt_rl.states import leaves
from scripts.speed import acting, measures, scaling, training
from scripts.speed.measures import PARTS, flop_counter, peak_memory, time_split, update_flops
from scripts.speed.subjects import Subject
from scripts.speed.workloads import WORKLOADS, Workload, core_kwargs, make_algorithm, memorize_workload

SMALL: dict[str, Any] = dict(
    n_envs=3, n_steps=16, batch_size=24, sequence_length=8, segment_length=4, width=8, n_epochs=2, threads=1
)


def small(name: str = "memorize", **sizes: Any) -> Workload:
    return replace(WORKLOADS[name], **{**SMALL, **sizes})


@pytest.mark.parametrize("core", CORES)
def test_cores_are_compared_at_one_size(core: str) -> None:
    options = core_kwargs(core, 32, 2, 8)
    assert options["width"] == 32 and options["layers"] == (1 if core in ("gru", "lstm") else 2)
    has_segments = "segment_length" in inspect.signature(CORES[core]).parameters
    assert options.get("segment_length") == (8 if has_segments else None)


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_algorithm_has_the_workloads_sizes(name: str) -> None:
    for algorithm in ("PPO", "RecurrentPPO", "rmt"):
        model: Any = make_algorithm(algorithm, small(name))
        assert (model.n_envs, model.n_steps, model.batch_size, model.n_epochs) == (3, 16, 24, 2)
    assert (model.sequence_length, model.policy.core.output_dim) == (8, 8)


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


# -- where the time goes -------------------------------------------------------------------------------------


class Ticking:
    """A clock that goes on by one whenever it is read: a call that is timed takes one."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.mark.parametrize("name", ["PPO", "RecurrentPPO", "rmt"])
def test_parts_of_the_time_add_up(name: str) -> None:
    model: Any = make_algorithm(name, small())
    clock = Ticking()
    with time_split(model, clock) as seconds:
        model.learn(2 * 48)
    assert list(seconds) == list(PARTS)
    calls = Counter(environment=2 * 16, acting=2 * (16 + 1), learning=2)  # the last values are acting as well
    assert {part: seconds[part] for part in calls} == calls
    assert sum(seconds.values()) == clock.now - 1


def test_nothing_remains_of_the_watch() -> None:
    """Nor after an error; and a call inside another is not counted twice."""
    clock = Ticking()
    policy = SimpleNamespace(forward=lambda: None, predict_values=lambda: None)
    model: Any = SimpleNamespace(env=SimpleNamespace(step=lambda: None), policy=policy)
    model.train = own = lambda: policy.forward()
    with pytest.raises(KeyError), time_split(model, clock) as seconds:
        model.train()
        raise KeyError
    assert seconds == dict(environment=0.0, acting=0.0, bookkeeping=2.0, learning=1.0)
    assert model.train is own
    algorithm: Any = make_algorithm("gru", small())
    with time_split(algorithm):
        assert "forward" in vars(algorithm.policy)
    for owner, method in ((algorithm.policy, "forward"), (algorithm, "train"), (algorithm.env, "step")):
        assert method not in vars(owner)


def test_ratios_are_within_a_repeat() -> None:
    def whole(seconds: float) -> dict[str, float]:
        return dict(environment=seconds / 2, acting=seconds / 4, bookkeeping=0.0, learning=seconds / 4)

    seconds = {
        "PPO": [whole(1.0), whole(10.0), whole(1.0)],
        "RecurrentPPO": [whole(4.0), whole(40.0), whole(4.0)],
        "rmt": [whole(2.0), whole(20.0), whole(2.0)],
    }
    rows = training.speeds(training.Rounds([1000.0, 100.0, 1000.0], [1.0] * 3, seconds, steps=100))
    alone, *_, rmt = rows
    assert [row["name"] for row in rows] == [training.ALONE, *seconds]
    assert (rmt["steps_per_second"], rmt["slowest"], rmt["fastest"]) == (50.0, 5.0, 50.0)
    assert (rmt["over_recurrent_ppo"], rmt["over_ppo"], rmt["over_environments"]) == (2.0, 0.5, 0.05)
    assert alone["over_environments"] == 1.0 and "microseconds" not in alone
    assert rmt["microseconds"] == whole(24e6 / 300)


# -- what it holds and multiplies ----------------------------------------------------------------------------


def test_bytes_of_memories_in_the_buffer() -> None:
    """RecurrentPPO keeps four vectors a step, ours one state a sequence."""
    workload = small()
    steps, sequences, width, single = 3 * 16, 3 * 16 // 8, 8, 4
    cache = 2 * 2 * 64 * width * single + 8  # keys and values of two layers, and how many there are
    expected = {
        "PPO": 0,
        "RecurrentPPO": steps * 4 * width * single,
        "none": 0,
        "gru": sequences * width * single,
        "lstm": sequences * 2 * width * single,
        "xl": sequences * cache,
    }
    assert {name: Subject(name, workload).warm_up() for name in expected} == expected


@pytest.mark.parametrize("core", CORES)
def test_one_state_a_sequence(core: str) -> None:
    subject = Subject(core, small())
    state = subject.model.policy.rollout_states(3)
    assert subject.warm_up() == 16 // 8 * sum(leaf.nbytes for leaf in leaves(state))


def test_peak_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = np.ones(1 << 26, np.uint8)
    assert held.nbytes < peak_memory() < 1 << 40
    status = tmp_path / "status"
    status.write_text("Name:\tpython\nVmHWM:\t    2164 kB\nVmRSS:\t    1000 kB\n")
    monkeypatch.setattr(measures, "STATUS", status)
    assert peak_memory() == 2164 * 1024
    # Where there is no such file, what the system counts for this process, which is about the same.
    status.unlink()
    assert held.nbytes < peak_memory() < 1 << 40


def flops_of(function: Callable[[], Any]) -> int:
    with flop_counter() as counter:
        function()
    return counter.get_total_flops()


def test_flops_of_recurrent_layers_and_attention() -> None:
    """Products alone: 2 operations for each entry of a matrix and token, forward, and twice that backward."""
    batch, steps, inputs, width = 3, 5, 6, 4
    lstm = torch.nn.LSTM(inputs, width, batch_first=True)
    x = torch.randn(batch, steps, inputs, requires_grad=True)
    forward = 2 * batch * steps * 4 * width * (inputs + width)
    with torch.no_grad():
        assert flops_of(lambda: lstm(x)) == forward
    assert flops_of(lambda: lstm(x)[0].sum().backward()) == 3 * forward
    query = torch.randn(2, 3, 7, 8, requires_grad=True)
    key = torch.randn(2, 3, 9, 8, requires_grad=True)
    attend = torch.nn.functional.scaled_dot_product_attention
    product = 2 * (2 * 3) * 7 * 9 * 8
    assert flops_of(lambda: attend(query, key, key)) == 2 * product
    # Backward computes the scores anew, as they are not kept.
    assert flops_of(lambda: attend(query, key, key).sum().backward()) == (2 + 5) * product


def test_flops_of_an_update() -> None:
    """Of the control without memory, whose matrices are few: replayed once, then each epoch."""
    workload = small()
    model: Any = make_algorithm("none", workload)
    layers = [layer for layer in model.policy.modules() if isinstance(layer, torch.nn.Linear)]
    entries = sum(layer.weight.numel() for layer in layers)
    first = model.policy.core.encode.weight.numel()  # whose inputs need no gradient
    update = workload.n_epochs * (3 * entries - first)
    assert update_flops(model) == 2 * workload.rollout * (entries + update)
    assert model.n_epochs == 2 and not {"train", "replay_error"} & set(vars(model))


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
