"""A core of one's own: nested states work, and what breaks the contract is named when the core is built."""

from __future__ import annotations

import dataclasses
import random
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from rmt_rl import CORES, MemoryA2C, MemoryCore, MemoryPPO, make_core
from tests.rmt_rl.test_memory_ppo import replay_errors, worlds
from tests.rmt_rl.test_own_parts import Hidden, VanillaRNN


class Inner(NamedTuple):
    hidden: Tensor
    count: Tensor


class Outer(NamedTuple):
    first: Inner
    rest: tuple[Inner, ...]
    last: Tensor


class Nested(MemoryCore[Outer]):
    """Three Elman networks, the state of each in a place of its own."""

    def __init__(self, input_dim: int, width: int = 4) -> None:
        super().__init__(input_dim, width)
        self.cells = nn.ModuleList(nn.RNNCell(i, width) for i in (self.input_dim, width, width))

    def initial_state(self, batch_size: int) -> Outer:
        zeros = self.cells[0].weight_hh.new_zeros(batch_size, self.output_dim)  # type: ignore[union-attr]
        none = torch.zeros(batch_size, dtype=torch.long, device=zeros.device)
        return Outer(Inner(zeros, none), (Inner(zeros, none),), zeros)

    def forward(self, inputs: Tensor, state: Outer, episode_starts: Tensor) -> tuple[Tensor, Outer]:
        self.check_call(inputs, state, episode_starts)
        hidden = [state.first.hidden, state.rest[0].hidden, state.last]
        count, outputs = state.first.count, []
        for x, starts in zip(inputs.unbind(1), episode_starts.unbind(1), strict=True):
            for i, cell in enumerate(self.cells):
                x = hidden[i] = cell(x, torch.where(starts[:, None], 0.0, hidden[i]))
            count = torch.where(starts, 0, count) + 1
            outputs.append(x)
        return torch.stack(outputs, 1), Outer(Inner(hidden[0], count), (Inner(hidden[1], count),), hidden[2])


@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
@pytest.mark.parametrize("share_memory", [True, False])
def test_nested_states(algorithm: Any, share_memory: bool) -> None:
    env = worlds(2)
    model = algorithm(
        "MlpPolicy", env, n_steps=16, sequence_length=8, seed=0, device="cpu",
        policy_kwargs=dict(core=Nested, share_memory=share_memory),
        **(dict(batch_size=16) if algorithm is MemoryPPO else {}),
    )  # fmt: skip
    assert max(replay_errors(model, updates=2)) < 1e-5
    obs = env.reset()
    _, state = model.predict(obs)
    _, state = model.predict(obs, state)
    assert state.states[0].first.count.tolist() == [2, 2]


def test_a_call_names_what_does_not_fit_in_a_nested_state() -> None:
    core = Nested(3)
    x, starts, state = torch.zeros(2, 1, 3), torch.zeros(2, 1, dtype=torch.bool), core.initial_state(2)
    core(x, state, starts)
    with pytest.raises(ValueError, match=r"the state's first\.hidden has 3 rows, the inputs have 2"):
        core(x, core.initial_state(3), starts)
    short = state.rest[0]._replace(count=torch.zeros(1))
    with pytest.raises(ValueError, match=r"the state's rest\.0\.count has 1 rows"):
        core(x, state._replace(rest=(short,)), starts)
    with pytest.raises(ValueError, match=r"the state's last has no rows"):
        core(x, state._replace(last=torch.tensor(0.0)), starts)
    with pytest.raises(TypeError, match=r"the state's first\.count is int, but a state must be a NamedTuple"):
        core(x, state._replace(first=state.first._replace(count=3)), starts)
    for wrong in ({"a": x}, x, [x]):
        with pytest.raises(TypeError, match=f"the state must be a NamedTuple .*got {type(wrong).__name__}"):
            core(x, wrong, starts)


@dataclasses.dataclass
class Data:
    hidden: Tensor


class Wide(VanillaRNN):
    def forward(self, *call: Any) -> Any:
        outputs, state = super().forward(*call)
        return torch.cat([outputs, outputs], dim=-1), state


class LastStepOnly(VanillaRNN):
    def forward(self, *call: Any) -> Any:
        outputs, state = super().forward(*call)
        return outputs[:, -1], state


class OutputsAlone(VanillaRNN):
    def forward(self, *call: Any) -> Any:
        return super().forward(*call)[0]


class BatchSecond(VanillaRNN):
    """As torch's recurrent layers have it: (layers, batch, width), with as many layers as rows are tried."""

    def initial_state(self, batch_size: int) -> Hidden:
        return Hidden(torch.zeros(2, batch_size, self.output_dim))


class RolloutBatchSecond(VanillaRNN):
    def rollout_state(self, batch_size: int) -> Hidden:
        return Hidden(torch.zeros(2, batch_size, self.output_dim))


class Growing(VanillaRNN):
    def forward(self, *call: Any) -> Any:
        outputs, state = super().forward(*call)
        return outputs, Hidden(torch.cat([state.hidden, state.hidden], dim=1))


class OtherState(VanillaRNN):
    def forward(self, *call: Any) -> Any:
        outputs, state = super().forward(*call)
        return outputs, (state.hidden,)


class DictState(VanillaRNN):
    def initial_state(self, batch_size: int) -> Any:
        return {"hidden": super().initial_state(batch_size).hidden}


class TensorState(VanillaRNN):
    def initial_state(self, batch_size: int) -> Any:
        return super().initial_state(batch_size).hidden


class DataState(VanillaRNN):
    def initial_state(self, batch_size: int) -> Any:
        return Data(super().initial_state(batch_size).hidden)


class NumberInState(VanillaRNN):
    def initial_state(self, batch_size: int) -> Any:
        return super().initial_state(batch_size).hidden, 0


class ModulesFirst(VanillaRNN):
    def __init__(self, input_dim: int) -> None:
        self.cell = nn.RNNCell(input_dim, 8)


class NoInit(VanillaRNN):
    def __init__(self, input_dim: int) -> None:
        self.width = 8


class InitOfTorch(VanillaRNN):
    def __init__(self, input_dim: int) -> None:
        nn.Module.__init__(self)
        self.cell = nn.RNNCell(input_dim, 8)


@pytest.mark.parametrize(
    ("core", "error", "message"),
    [
        (Wide, ValueError, r"Wide.forward returned outputs of shape \(2, 3, 16\).*\(2, 3, 8\)"),
        (LastStepOnly, ValueError, r"LastStepOnly.forward returned outputs of shape \(2, 8\)"),
        (OutputsAlone, TypeError, "OutputsAlone.forward must return outputs and the state, got Tensor"),
        (BatchSecond, ValueError, r"hidden in BatchSecond.initial_state\(3\) has shape \(2, 3, 8\).*first"),
        (RolloutBatchSecond, ValueError, r"RolloutBatchSecond.rollout_state\(3\).*batch must come first"),
        (Growing, ValueError, r"Growing.forward has the shapes .*\(2, 16\).*\(2, 8\).*constant size"),
        (OtherState, TypeError, "OtherState.forward must return a state .*Hidden, got tuple"),
        (DictState, TypeError, "the state must be a NamedTuple of tensors.*got dict"),
        (TensorState, TypeError, "the state must be a NamedTuple of tensors.*got Tensor"),
        (DataState, TypeError, "the state must be a NamedTuple of tensors.*got Data"),
        (NumberInState, TypeError, "the state's 1 is int"),
        (
            ModulesFirst,
            TypeError,
            r"ModulesFirst.__init__ must call super\(\).__init__\(input_dim, output_dim\)",
        ),
        (NoInit, TypeError, r"NoInit.__init__ must call super\(\).__init__"),
        (InitOfTorch, TypeError, r"InitOfTorch.__init__ must call super\(\).__init__"),
    ],
)
def test_a_core_that_breaks_the_contract_is_named(core: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make_core(core, 3)
    with pytest.raises(error, match=message):
        MemoryPPO("MlpPolicy", worlds(), policy_kwargs=dict(core=core))


@pytest.mark.parametrize(
    ("core", "error", "message"),
    [
        (VanillaRNN(4), TypeError, "an instance of VanillaRNN: pass core=VanillaRNN, core_kwargs="),
        (nn.GRU(3, 4), TypeError, "an instance of GRU: pass a MemoryCore's class"),
        (nn.LSTM, TypeError, "got <class 'torch.nn.*Did you mean 'lstm'"),
        (None, TypeError, "got None.*Did you mean 'none'"),
        (lambda dim: VanillaRNN(dim), TypeError, "subclass of MemoryCore, got <function"),
        ("LSTM", ValueError, "unknown memory core 'LSTM'.*Did you mean 'lstm'"),
        ("RMT-XL", ValueError, "Did you mean 'rmt_xl'"),
        ("TransformerXL", ValueError, "Did you mean 'xl'"),
        ("rtm", ValueError, "Did you mean 'rmt'"),
    ],
)
def test_what_is_no_core_is_named(core: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make_core(core, 3)
    with pytest.raises(error, match=message):
        MemoryPPO("MlpPolicy", worlds(), policy_kwargs=dict(core=core))


class Drawing(VanillaRNN):
    """Draws from every generator, and counts its calls in a buffer."""

    calls: Tensor

    def __init__(self, input_dim: int, width: int = 8) -> None:
        super().__init__(input_dim, width)
        self.register_buffer("calls", torch.zeros(1))
        self.norm = nn.BatchNorm1d(self.input_dim)

    def forward(self, inputs: Tensor, state: Hidden, episode_starts: Tensor) -> tuple[Tensor, Hidden]:
        torch.rand(1), np.random.random(), random.random()  # noqa: NPY002
        self.calls += 1
        inputs = self.norm(inputs.transpose(1, 2)).transpose(1, 2)
        return super().forward(inputs, state, episode_starts)


def test_to_try_a_core_out_leaves_no_trace() -> None:
    torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
    core = make_core(Drawing, 3)
    drawn = torch.rand(1).item(), np.random.random(), random.random()  # noqa: NPY002
    torch.manual_seed(0), np.random.seed(0), random.seed(0)  # noqa: NPY002
    bare = Drawing(3)
    assert drawn == (torch.rand(1).item(), np.random.random(), random.random())  # noqa: NPY002
    assert core.training and all(module.training for module in core.modules())
    assert core.calls.item() == 0  # type: ignore[attr-defined]
    for (name, one), (_, other) in zip(core.state_dict().items(), bare.state_dict().items(), strict=True):
        assert torch.equal(one, other), name
    assert all(parameter.grad is None for parameter in core.parameters())


def test_a_core_on_the_meta_device_is_not_called() -> None:
    with torch.device("meta"):
        assert make_core(Drawing, 3).output_dim == 8


def test_an_error_in_the_users_code_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(VanillaRNN):
        def forward(self, *call: Any) -> Any:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        make_core(Failing, 3)
    assert "Failing was tried out" in caught.value.__notes__[0]


def test_a_registered_core_of_ones_own_is_tried_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CORES, "wide", Wide)
    with pytest.raises(ValueError, match=r"Wide\.forward returned outputs"):
        make_core("wide", 3)
