"""The speed benchmark's parts: what they measure is what they say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from rmt_rl import CORES
from rmt_rl.states import leaves
from scripts.speed import measures, training
from scripts.speed.measures import PARTS, FlopCounter, peak_memory, time_split, update_flops
from scripts.speed.subjects import Subject
from scripts.speed.workloads import WORKLOADS, Workload, make_algorithm

SMALL: dict[str, Any] = dict(
    n_envs=3, n_steps=16, batch_size=24, sequence_length=8, segment_length=4, width=8, n_epochs=2, threads=1
)


def small(name: str = "memorize", **sizes: Any) -> Workload:
    return replace(WORKLOADS[name], **{**SMALL, **sizes})


@pytest.mark.parametrize("name", WORKLOADS)
def test_an_algorithm_has_the_workloads_sizes(name: str) -> None:
    for algorithm in ("PPO", "RecurrentPPO", "rmt"):
        model: Any = make_algorithm(algorithm, small(name))
        assert (model.n_envs, model.n_steps, model.batch_size, model.n_epochs) == (3, 16, 24, 2)
    assert (model.sequence_length, model.policy.core.output_dim) == (8, 8)


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
    with FlopCounter() as counter:
        function()
    return counter.total


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


def test_flops_with_a_view_of_a_parameter_made_without_gradient() -> None:
    linear, parameter = torch.nn.Linear(3, 5), torch.nn.Parameter(torch.zeros(1, 3))

    def call() -> None:
        with torch.no_grad():
            view = parameter.expand(4, 3)
        linear(view).sum().backward()

    assert flops_of(call) == 2 * (2 * 4 * 3 * 5)  # there is no gradient of the view


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
