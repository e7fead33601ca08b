"""What cores can be built with, what they refuse, and what the options that all attention cores share do."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rmt_rl.cores import CORES, MemoryCore, make_core, map_state
from rmt_rl.cores.base import expand_rows
from rmt_rl.cores.blocks import Block, GRUGate, gelu
from tests.rmt_rl.core_cases import CASES, INPUT_DIM, Case, assert_close, every_core, gradients, leaves, play
from tests.rmt_rl.core_reference import gate


def having(option: str) -> list[str]:
    """The registered cores whose constructor takes ``option``."""
    return [name for name in CORES if option in inspect.signature(CORES[name]).parameters]


ATTENTION_CORES = having("heads")
SIZES = {
    "rmt": ["width", "layers", "heads", "segment_length", "memory_tokens", "feedforward"],
    "xl": ["width", "layers", "heads", "memory_length", "feedforward"],
    "rmt_xl": ["width", "layers", "heads", "segment_length", "memory_tokens", "memory_length", "feedforward"],
    "gru": ["width", "layers"],
    "lstm": ["width", "layers"],
    "none": ["width", "layers", "feedforward"],
}
every_size = pytest.mark.parametrize(
    ("core", "option"), [(core, option) for core, options in SIZES.items() for option in options]
)
every_attention_core = pytest.mark.parametrize("core", ATTENTION_CORES)


def test_the_options_that_cores_are_tested_for() -> None:
    assert {"rmt", "rmt_encoder", "xl", "rmt_xl", "armt"} <= set(ATTENTION_CORES)
    assert set(having("persistent_tokens")) == set(ATTENTION_CORES)
    assert {*ATTENTION_CORES, "gru", "lstm"} <= set(having("dropout"))
    assert {*having("dropout"), "none"} <= set(having("layers"))


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "meant"),
    [("rmtt", "rmt"), ("rmt-xl", "rmt_xl"), ("LSTM", "lstm"), ("grU", "gru"), ("transformer", None)],
)
def test_an_unknown_core_is_named_with_its_nearest(name: str, meant: str | None) -> None:
    with pytest.raises(ValueError, match=f"unknown memory core '{name}'; there are rmt, .*none") as error:
        make_core(name, INPUT_DIM)
    hint = f"Did you mean {meant!r}?"
    assert str(error.value).endswith(hint) if meant else "Did you mean" not in str(error.value)


@pytest.mark.parametrize("core", [3, None, nn.GRU, nn.GRU(2, 2)], ids=str)
def test_a_core_is_a_name_or_a_class(core: Any) -> None:
    with pytest.raises(TypeError, match=r"core must be one of rmt, .*or a subclass of MemoryCore, got"):
        make_core(core, INPUT_DIM)


@every_core
def test_an_unknown_option_is_named_with_those_there_are(case: Case) -> None:
    known = [name for name in inspect.signature(CORES[case.core]).parameters if name != "input_dim"]
    assert "width" in known
    with pytest.raises(ValueError, match=rf"has no option 'widht'; it has {', '.join(known)}$"):
        make_core(case.core, INPUT_DIM, widht=8)


@every_size
@pytest.mark.parametrize("value", [0, -1])
def test_sizes_are_at_least_one(core: str, option: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{option} must be at least 1, got {value}"):
        make_core(core, INPUT_DIM, **{option: value})


@every_size
@pytest.mark.parametrize("value", [True, 2.0, "8"])
def test_sizes_are_integers(core: str, option: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{option} must be an integer.*got {value!r}"):
        make_core(core, INPUT_DIM, **{option: value})


@every_core
@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (True, TypeError), (3.5, TypeError), ("3", TypeError)]
)
def test_so_is_the_input_dimension(case: Case, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"input_dim must be.*got {value!r}"):
        make_core(case.core, value)


@every_attention_core
@pytest.mark.parametrize(("value", "error"), [(-1, ValueError), (True, TypeError), (1.5, TypeError)])
def test_persistent_tokens_are_counted(core: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"persistent_tokens must be.*got {value!r}"):
        make_core(core, INPUT_DIM, persistent_tokens=value)


@every_attention_core
def test_heads_divide_the_width(core: str) -> None:
    with pytest.raises(
        ValueError, match=r"width=12 is not divisible by heads=5; heads may be one of \[1, 2, 3, 4, 6, 12\]"
    ):
        make_core(core, INPUT_DIM, width=12, heads=5)


@pytest.mark.parametrize("core", having("dropout"))
@pytest.mark.parametrize("value", [-0.1, 1.0, 7, float("nan")])
def test_dropout_is_a_probability_below_one(core: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"dropout must be in \[0, 1\), got {value}"):
        make_core(core, INPUT_DIM, layers=2, dropout=value)


@pytest.mark.parametrize("core", ["gru", "lstm"])
def test_dropout_between_layers_needs_two(core: str) -> None:
    with pytest.raises(ValueError, match="layers=1: use layers=2 or more"):
        make_core(core, INPUT_DIM, layers=1, dropout=0.1)


@every_core
@pytest.mark.parametrize("rows", [0, -1])
def test_a_state_has_rows(case: Case, rows: int) -> None:
    with pytest.raises(ValueError, match=f"batch_size must be at least 1, got {rows}"):
        case.build().initial_state(rows)


F32, F64, I64, BOOL = torch.float32, torch.float64, torch.int64, torch.bool


@every_core
@pytest.mark.parametrize(
    ("inputs", "starts", "message"),
    [
        (torch.zeros(2, 4, 5), torch.zeros(2, 4, dtype=BOOL), r"inputs must be .*3\).*\(2, 4, 5\)"),
        (torch.zeros(2, 3), torch.zeros(2, 1, dtype=BOOL), r"inputs must be .*3\).*\(2, 3\)"),
        (torch.zeros(2, 0, 3), torch.zeros(2, 0, dtype=BOOL), r"steps >= 1.*\(2, 0, 3\)"),
        (
            torch.zeros(2, 4, 3, dtype=I64),
            torch.zeros(2, 4, dtype=BOOL),
            r"inputs must be floating-point.*int64",
        ),
        (
            torch.zeros(2, 4, 3, dtype=BOOL),
            torch.zeros(2, 4, dtype=BOOL),
            r"inputs must be floating-point.*bool",
        ),
        (torch.zeros(2, 4, 3), torch.zeros(2, 4), r"episode_starts must be bool.*float32"),
        (torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=I64), r"episode_starts must be bool.*int64"),
        (torch.zeros(2, 4, 3), torch.zeros(4, 2, dtype=BOOL), r"episode_starts must be .*\(2, 4\).*\(4, 2\)"),
        (torch.zeros(2, 4, 3), torch.zeros(2, dtype=BOOL), r"episode_starts must be .*\(2, 4\).*\(2,\)"),
    ],
    ids=[
        "features",
        "no steps",
        "zero steps",
        "integers",
        "booleans",
        "float",
        "int",
        "transposed",
        "vector",
    ],
)
def test_calls_that_break_the_contract(case: Case, inputs: Tensor, starts: Tensor, message: str) -> None:
    core = case.build(F32)
    with pytest.raises(ValueError, match=message):
        core(inputs, core.initial_state(2), starts)


@pytest.mark.parametrize("case", [c for c in CASES if c.core != "none"], ids=lambda case: case.name)
def test_a_state_of_other_rows(case: Case) -> None:
    core = case.build(F32)
    with pytest.raises(ValueError, match=r"the state's \w+ has 3 rows, the inputs have 2"):
        core(torch.zeros(2, 1, INPUT_DIM), core.initial_state(3), torch.zeros(2, 1, dtype=BOOL))


# -- what is accepted ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("number", [np.int64, np.int32, np.uint8])
def test_numpy_integers_are_input_dimensions(core: str, number: type[np.integer[Any]]) -> None:
    built = make_core(core, number(5))
    assert built.input_dim == 5 and type(built.input_dim) is int and type(built.output_dim) is int
    outputs, _ = built(torch.zeros(1, 2, 5), built.initial_state(1), torch.zeros(1, 2, dtype=BOOL))
    assert outputs.shape == (1, 2, built.output_dim)


@every_core
def test_defaults_construct_and_a_description_tells_options_apart(case: Case) -> None:
    default, same, wider = (make_core(case.core, INPUT_DIM, **o) for o in ({}, {}, {"width": 32}))
    assert isinstance(default, CORES[case.core])
    assert default.describe() == same.describe() != wider.describe()
    assert default.describe() != make_core(case.core, INPUT_DIM + 1).describe()
    assert wider.output_dim == 32


class SumState(NamedTuple):
    total: Tensor


class Sum(MemoryCore[SumState]):
    """A user's own core: the running sum of an episode's inputs."""

    def __init__(self, input_dim: int, scale: float = 1.0) -> None:
        super().__init__(input_dim, input_dim)
        self.scale = scale

    def initial_state(self, batch_size: int) -> SumState:
        return SumState(torch.zeros(batch_size, self.input_dim))

    def forward(self, inputs: Tensor, state: SumState, episode_starts: Tensor) -> tuple[Tensor, SumState]:
        self.check_call(inputs, state, episode_starts)
        total, sums = state.total, []
        for x, starts in zip(inputs.unbind(1), episode_starts.unbind(1), strict=True):
            total = torch.where(expand_rows(starts, total), 0.0, total) + self.scale * x
            sums.append(total)
        return torch.stack(sums, dim=1), SumState(total)


def test_a_core_of_ones_own_is_passed_as_a_class() -> None:
    core = make_core(Sum, 1, scale=2.0)
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0]]).unsqueeze(-1)
    outputs, state = core(x, core.initial_state(1), torch.tensor([[False, False, True, False]]))
    assert outputs.flatten().tolist() == [2.0, 6.0, 6.0, 14.0] and state.total.item() == 14.0
    with pytest.raises(ValueError, match="core Sum has no option 'width'; it has scale"):
        make_core(Sum, 1, width=8)
    with pytest.raises(ValueError, match="steps >= 1, 1"):
        core(x[:, :0], core.initial_state(1), torch.zeros(1, 0, dtype=BOOL))


class Pair(NamedTuple):
    first: SumState
    second: Tensor


def test_states_are_mapped_leaf_by_leaf() -> None:
    one = Pair(SumState(torch.ones(2)), torch.zeros(2))
    two = map_state(lambda a, b: a + b, one, one)
    assert type(two) is Pair and type(two.first) is SumState
    assert two.first.total.tolist() == [2.0, 2.0] and two.second.tolist() == [0.0, 0.0]
    assert map_state(lambda leaf: leaf + 1, (one, one))[1].second.tolist() == [1.0, 1.0]


# -- dropout -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("core", having("dropout"))
@pytest.mark.parametrize("steps", [1, 9])
def test_dropout_acts_in_training_alone(core: str, steps: int) -> None:
    case = next(c for c in CASES if c.core == core)
    plain, dropping = (case.build(F64, layers=2, dropout=rate) for rate in (0.0, 0.5))
    x, starts = torch.randn(2, steps, INPUT_DIM, dtype=F64), torch.zeros(2, steps, dtype=BOOL)
    expected, _ = plain(x, plain.initial_state(2), starts)
    assert not torch.allclose(dropping(x, dropping.initial_state(2), starts)[0], expected)
    dropping.eval()
    assert torch.equal(dropping(x, dropping.initial_state(2), starts)[0], expected)
    acted, _ = play(dropping, x, dropping.initial_state(2), starts, stepwise=True)
    assert_close(acted, expected.detach())


# -- gates and persistent tokens -----------------------------------------------------------------------------


def test_a_gate_is_gtrxls() -> None:
    torch.manual_seed(0)
    gates = GRUGate(6).double()
    nn.init.normal_(gates.bias)
    x, y = torch.randn(2, 4, 6, dtype=F64)
    assert_close(gates(x, y), gate(gates, x, y))


def test_a_gate_starts_close_to_the_stream() -> None:
    """Without weights a gate lets through sigmoid(2) = .88 of the stream and nothing else."""
    gates = GRUGate(6).double()
    assert (gates.bias == 2).all()
    for weights in (gates.from_output, gates.from_stream, gates.candidate):
        nn.init.zeros_(weights.weight)
    x, y = torch.randn(2, 4, 6, dtype=F64)
    assert_close(gates(x, y), x / (1 + np.exp(-2.0)))


def test_a_gated_block_without_weights_is_the_stream_twice_gated() -> None:
    block = Block(8, 2, 12, gated=True).double()
    for name, parameter in block.named_parameters():
        if not name.endswith("gates.0.bias") and not name.endswith("gates.1.bias"):
            nn.init.zeros_(parameter)
    x = torch.randn(2, 5, 8, dtype=F64)
    assert_close(block.attend(x, *block.project(x)), x / (1 + np.exp(-2.0)) ** 2)


@every_attention_core
@pytest.mark.parametrize("steps", [1, 20])
def test_every_step_sees_every_persistent_token(core: str, steps: int) -> None:
    case = next(c for c in CASES if c.core == core)
    built: Any = case.build(F64, persistent_tokens=2)
    x, starts = torch.randn(1, steps, INPUT_DIM, dtype=F64), torch.zeros(1, steps, dtype=BOOL)
    outputs, _ = built(x, built.initial_state(1), starts)
    tokens = [block.persistent for block in built.blocks]
    for t in range(steps):
        for grad in gradients(outputs[0, t].square().sum(), tokens):
            assert grad.shape == (2, 8) and (grad.abs().amax(-1) > 1e-9).all()
    state_shapes = [leaf.shape for leaf in leaves(built.initial_state(1))]
    assert state_shapes == [
        leaf.shape for leaf in leaves(case.build().initial_state(1))
    ]  # parameters, not state


@pytest.mark.parametrize("shape", [(1, 1), (1, 64), (3, 5), (16, 64), (2, 3, 64), (5, 1, 64), (700, 33)])
def test_gelu_is_the_exact_one(shape: tuple[int, ...]) -> None:
    x = torch.linspace(-9.0, 9.0, int(np.prod(shape)), dtype=torch.float64).view(shape).requires_grad_()
    weights = torch.randn_like(x)
    exact, found = x * torch.distributions.Normal(0.0, 1.0).cdf(x), gelu(x)
    assert found.is_contiguous()
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(gelu(x.float()), exact.float(), rtol=1e-6, atol=1e-6)
    (wanted,), (slope,) = (torch.autograd.grad((y * weights).sum(), x) for y in (exact, found))
    torch.testing.assert_close(slope, wanted, rtol=1e-9, atol=1e-12)


def test_gelu_gives_a_row_the_same_bits_in_whatever_shape() -> None:
    x = 3.0 * torch.randn(40, 64)
    together = gelu(x)
    for first, rows in ((0, 1), (7, 1), (3, 2), (5, 35)):
        part = x[first : first + rows]
        assert torch.equal(gelu(part), together[first : first + rows])
        assert torch.equal(gelu(part.unsqueeze(1)).squeeze(1), together[first : first + rows])
