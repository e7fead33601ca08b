"""Damaged and forged files: an error that names the file, nothing executed, and no model half changed."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th

from rmt_rl import MemoryPPO
from rmt_rl.saving.description import describe
from rmt_rl.saving.weights import read
from tests.rmt_rl.damage import damaged, edited, header_of, listening, with_header
from tests.rmt_rl.test_memory_ppo import build, worlds

FEW, MANY = 50, 1000
how_many = pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
CORES = ("rmt", "lstm", "xl")


def vector(model: MemoryPPO) -> np.ndarray[Any, Any]:
    return model.policy.parameters_to_vector().copy()


def trained(core: str = "rmt", **options: Any) -> MemoryPPO:
    """With moments in its optimiser, and weights unlike those of a new model."""
    model = build(worlds(), core=core, **options)
    model.learn(36)
    return model


def refuses(model: MemoryPPO, file: Path) -> int:
    """Load a file of weights both ways; how many are refused: by name, with nothing executed or changed.

    What is loaded all the same is what the file says, all of it.
    """
    before = vector(model)
    loaded, first = attempt(MemoryPPO.load_weights, file)
    _, second = attempt(model.set_weights, file)
    if first is None:
        assert json.loads(json.dumps(describe(loaded))) == read(file)[0]
        np.testing.assert_array_equal(vector(loaded), vector_in(file, loaded))
    np.testing.assert_array_equal(vector(model), before if second else vector_in(file, model))
    return (first is not None) + (second is not None)


def attempt(load: Callable[[Path], Any], file: Path) -> tuple[Any, ValueError | None]:
    """What came of loading a file; an error names it, and nothing is executed."""
    loaded, failure = None, None
    with listening() as heard:
        try:
            loaded = load(file)
        except ValueError as error:
            failure = error
    assert heard == []
    assert failure is None or str(file) in str(failure)
    return loaded, failure


def vector_in(file: Path, model: MemoryPPO) -> np.ndarray[Any, Any]:
    _, tensors = read(file)
    return np.concatenate([tensors[name].numpy().ravel() for name, _ in model.policy.named_parameters()])


@how_many
def test_damaged_weights(count: int, tmp_path: Path) -> None:
    for n, core in enumerate(CORES):
        source, model = trained(core), trained(core, seed=1)
        file = tmp_path / "agent.safetensors"
        source.save_weights(file)
        whole = file.read_bytes()
        MemoryPPO.load_weights(file)  # imports what it needs
        rng = np.random.default_rng(n)
        for _ in range(count // len(CORES) + 1):
            file.write_bytes(damaged(whole, rng))
            assert refuses(model, file) == 2


@how_many
def test_forged_weights(count: int, tmp_path: Path) -> None:
    """With a checksum that is right."""
    refused, total = 0, 0
    for n, core in enumerate(CORES):
        source, model = trained(core), trained(core, seed=1)
        file = tmp_path / "agent.safetensors"
        source.save_weights(file)
        whole = file.read_bytes()
        MemoryPPO.load_weights(file)
        rng = np.random.default_rng(n)
        for _ in range(count // len(CORES) + 1):
            file.write_bytes(edited(whole, rng))
            refused += refuses(model, file)
            total += 2
    assert 0.5 * total < refused < total  # some edits only make another agent


HUGE = 2**23


@pytest.mark.parametrize(
    ("core", "where", "value"),
    [
        ("xl", ("policy_kwargs", "core_kwargs", "memory_length"), HUGE),
        ("xl", ("policy_kwargs", "core_kwargs", "width"), HUGE),
        ("rmt", ("policy_kwargs", "core_kwargs", "segment_length"), HUGE),
        ("rmt", ("policy_kwargs", "core_kwargs", "memory_tokens"), HUGE),
        ("rmt_xl", ("policy_kwargs", "core_kwargs", "memory_length"), HUGE),
        ("armt", ("policy_kwargs", "core_kwargs", "memory_width"), HUGE),
        ("rmt", ("policy_kwargs", "net_arch"), [HUGE, HUGE, HUGE]),
        ("rmt", ("observation_space", "shape"), [HUGE]),
        ("rmt", ("observation_space", "shape"), [HUGE, HUGE, HUGE]),
        ("rmt", ("action_space", "n"), HUGE),
        ("rmt", ("settings", "n_envs"), HUGE),
        ("rmt", ("settings", "n_steps"), 12 * 2**19),
        ("rmt", ("settings", "n_steps"), 2**70),
        ("rmt", ("settings", "gamma"), 10**400),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else f"{value!s:.10}",
)
def test_a_file_cannot_ask_for_the_machine(
    core: str, where: tuple[str, ...], value: Any, tmp_path: Path
) -> None:
    file = tmp_path / "agent.safetensors"
    source = build(worlds(), core=core)
    source.save_weights(file)
    whole = file.read_bytes()
    header = header_of(whole)
    description = json.loads(header["__metadata__"]["rmt_rl"])
    inner: Any = description
    for name in where[:-1]:
        inner = inner[name]
    inner[where[-1]] = value
    header["__metadata__"]["rmt_rl"] = json.dumps(description)
    file.write_bytes(with_header(whole, header))
    with pytest.raises(ValueError, match=r"agent\.safetensors cannot be loaded"):
        MemoryPPO.load_weights(file, max_bytes=2**26)


def test_many_layers(tmp_path: Path) -> None:
    """A tower of modules takes time to build, if not memory."""
    file = tmp_path / "agent.safetensors"
    build(worlds()).save_weights(file)
    header = header_of(whole := file.read_bytes())
    text = header["__metadata__"]["rmt_rl"]
    for old, new in (('"layers": 1', '"layers": 1000000'), ('"net_arch": [8]', f'"net_arch": {[8] * 10**6}')):
        assert old in text
        header["__metadata__"]["rmt_rl"] = text.replace(old, new)
        file.write_bytes(with_header(whole, header))
        with pytest.raises(ValueError, match="more layers than it has tensors"):
            MemoryPPO.load_weights(file)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00" * 8, (2**63).to_bytes(8, "little") + b"{}", (2).to_bytes(8, "little") + b"{}",
     b"PK\x03\x04" * 99, (10**5).to_bytes(8, "little") + b"[" * 10**5, pickle.dumps({"a": 1}), b"\xff" * 300],
    ids=range(8),
)  # fmt: skip
def test_foreign_files(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "agent.safetensors"
    file.write_bytes(data)
    assert refuses(build(worlds()), file) == 2


class Bomb:
    """Pickled, a call of the system."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.trace),)


def test_pickles_are_left_alone(tmp_path: Path) -> None:
    model, trace, file = build(worlds()), tmp_path / "trace", tmp_path / "agent.safetensors"
    th.save(Bomb(trace), file)
    assert refuses(model, file) == 2
    file.write_bytes(pickle.dumps(Bomb(trace)))
    assert refuses(model, file) == 2
    assert not trace.exists()


# -- SB3's zip files


@how_many
def test_damaged_zips(count: int, tmp_path: Path) -> None:
    """Damage of what zip files tell beside their contents, such as times, may pass; then all is as saved."""
    source, model = trained(), trained(seed=1)
    file = tmp_path / "agent.zip"
    source.save(file)
    whole = file.read_bytes()
    expected, settings = vector(source), describe(source)
    before, moments = vector(model), moments_of(model)
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(count):
        file.write_bytes(damaged(whole, rng))
        with listening() as heard:
            try:
                loaded = MemoryPPO.load(file, device="cpu")
            except ValueError as error:
                assert str(file) in str(error)
                refused += 1
                assert not [event for event in heard if event.startswith("pickle")]
            else:
                np.testing.assert_array_equal(vector(loaded), expected)
                assert describe(loaded) == settings
        try:
            model.set_parameters(str(file), device="cpu")
        except ValueError as error:
            assert str(file) in str(error)
            np.testing.assert_array_equal(vector(model), before)
            assert all(th.equal(a, b) for a, b in zip(moments_of(model), moments, strict=True))
        else:
            np.testing.assert_array_equal(vector(model), expected)
            model = trained(seed=1)
    assert refused > 0.8 * count


def moments_of(model: MemoryPPO) -> list[th.Tensor]:
    state = model.policy.optimizer.state_dict()["state"]
    return [value.clone() for entry in state.values() for value in entry.values()]


def test_parameters_of_another_shape_leave_all_as_it_was() -> None:
    """Torch copies what fits before it complains of the rest."""
    model = trained()
    before, moments = vector(model), moments_of(model)
    parameters = trained(policy_kwargs=dict(net_arch=[7])).get_parameters()
    with pytest.raises(RuntimeError, match="size mismatch"):
        model.set_parameters(parameters)
    np.testing.assert_array_equal(vector(model), before)
    parameters = trained(seed=2).get_parameters()
    parameters["policy.optimizer"]["param_groups"][0]["params"] = [0]
    with pytest.raises(ValueError, match="group"):
        model.set_parameters(parameters)
    np.testing.assert_array_equal(vector(model), before)
    assert all(th.equal(a, b) for a, b in zip(moments_of(model), moments, strict=True))
    model.learn(36)


def test_an_open_zip_is_loaded(tmp_path: Path) -> None:
    source = trained()
    source.save(tmp_path / "agent")
    with (tmp_path / "agent.zip").open("rb") as file:
        np.testing.assert_array_equal(vector(MemoryPPO.load(file)), vector(source))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        MemoryPPO.load(tmp_path / "nowhere")
