"""An exported step acts as the model does, memory and all, for a thousand steps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.torch_layers import FlattenExtractor

from rmt_rl import CORES, MemoryPPO
from rmt_rl.cores import FeedForward
from rmt_rl.cores.feedforward import NoState
from rmt_rl.export import ActingStep, check_onnx, export_onnx
from rmt_rl.features import IdEmbeddingExtractor
from tests.rmt_rl.test_memory_ppo import build, worlds
from tests.rmt_rl.worlds import ACTIONS, CORE_KWARGS, OBSERVATIONS, POLICIES

STEPS = 1000
BOLD: dict[str, dict[str, Any]] = {
    "rmt": dict(gated=True, persistent_tokens=1, retention=True, layers=2),
    "rmt_xl": dict(segment_jitter=0.5, layers=2),
    "armt": dict(gated=True),
    "xl": dict(gated=True, persistent_tokens=2, layers=2),
    "gru": dict(layers=2),
    "lstm": dict(layers=2),
}
slow = pytest.mark.slow


def sharp(model: MemoryPPO) -> MemoryPPO:
    """Actions that hang on what is remembered, with weights unlike those at the beginning."""
    th.manual_seed(0)
    with th.no_grad():
        for parameter in model.policy.core.parameters():
            parameter.add_(th.randn_like(parameter), alpha=0.1)
        model.policy.action_net.weight.normal_(std=2.0)
    return model


def test_a_step_with_a_memory(tmp_path: Path) -> None:
    model = sharp(build(worlds()))
    model.learn(36)
    training = model.policy.training
    file = export_onnx(model, tmp_path / "agent")
    assert file == tmp_path / "agent.onnx"
    assert [path.name for path in tmp_path.iterdir()] == ["agent.onnx"]
    assert model.policy.training == training
    assert check_onnx(model, file, 100) < 1e-5
    assert check_onnx(model, file, 20, rows=1) < 1e-5


class Counting(FlattenExtractor):
    def forward(self, observations: th.Tensor) -> th.Tensor:
        return super().forward(observations) * th.ones(len(observations), 1)


def test_a_step_for_one_number_of_rows_is_refused(tmp_path: Path) -> None:
    model = build(worlds(), core="gru", policy_kwargs=dict(features_extractor_class=Counting))
    with pytest.raises(ValueError, match=r"would take 2 rows and no other number: .* x.shape\[0\] does not"):
        export_onnx(model, tmp_path / "agent")
    assert not list(tmp_path.iterdir())


# An export takes some seconds: one core each time, all of them now and then.
@slow
@pytest.mark.parametrize("core", CORES)
def test_every_core(core: str, tmp_path: Path) -> None:
    model = sharp(build(worlds(), core=core))
    file = export_onnx(model, tmp_path / "agent")
    for rows in (4, 1):
        assert check_onnx(model, file, STEPS, rows) < 1e-5


@slow
@pytest.mark.parametrize("core", BOLD)
@pytest.mark.parametrize("share_memory", [True, False])
def test_options_of_cores(core: str, share_memory: bool, tmp_path: Path) -> None:
    kwargs = CORE_KWARGS[core] | BOLD[core]
    model = sharp(
        build(worlds(), policy_kwargs=dict(core=core, core_kwargs=kwargs, share_memory=share_memory))
    )
    assert check_onnx(model, export_onnx(model, tmp_path / "agent"), STEPS) < 1e-5


@slow
@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("action", ACTIONS)
def test_spaces(observation: str, action: str, tmp_path: Path) -> None:
    env = worlds(2, observation=observation, action=action)
    model = sharp(build(env, POLICIES.get(observation, "MlpPolicy"), "gru"))
    file = export_onnx(model, tmp_path / "agent")
    assert check_onnx(model, file, 200) < 1e-5
    names = [entry.name for entry in onnxruntime.InferenceSession(file).get_inputs()]
    space = env.observation_space
    keys = [f"observation.{key}" for key in space] if isinstance(space, spaces.Dict) else ["observation"]
    assert names == [*keys, "episode_start", "state.hidden"]


@slow
def test_squashed_actions(tmp_path: Path) -> None:
    model = build(worlds(action="box"), use_sde=True, policy_kwargs=dict(squash_output=True))
    assert check_onnx(model, export_onnx(model, tmp_path / "agent"), 200) < 1e-5


@slow
def test_ids(tmp_path: Path) -> None:
    env = worlds(1)
    env.observation_space = spaces.Box(0, np.full((3, 3, 2), 5, np.uint8), dtype=np.uint8)
    model = sharp(build(env, policy_kwargs=dict(features_extractor_class=IdEmbeddingExtractor)))
    assert check_onnx(model, export_onnx(model, tmp_path / "agent"), 200) < 1e-5


def test_names_without_an_export() -> None:
    step = ActingStep(build(worlds(observation="dict"), "MultiInputPolicy", "lstm").policy)
    assert step.inputs == [
        "observation.kind",
        "observation.vector",
        "episode_start",
        "state.hidden",
        "state.cell",
    ]
    assert step.outputs == ["action", "value", "next_state.hidden", "next_state.cell"]
    apart = ActingStep(build(worlds(), core="gru", policy_kwargs=dict(share_memory=False)).policy)
    assert apart.outputs[2:] == ["next_state.actor.hidden", "next_state.critic.hidden"]


def test_a_file_of_another_model_is_noticed(tmp_path: Path) -> None:
    file = export_onnx(sharp(build(worlds(), core="none")), tmp_path / "agent")
    with pytest.raises(
        ValueError, match=r"agent\.onnx is not this model's: at step 0, (action|value) differs"
    ):
        check_onnx(build(worlds(), core="none", seed=1), file)


class Branching(FeedForward):
    """A core that looks at a value to decide what to do."""

    def forward(self, inputs: th.Tensor, state: NoState, starts: th.Tensor) -> tuple[th.Tensor, NoState]:
        if starts.any():
            inputs = inputs * 2
        return super().forward(inputs, state, starts)


def test_a_step_with_branches_is_refused(tmp_path: Path) -> None:
    model = build(worlds(), policy_kwargs=dict(core=Branching, core_kwargs={}))
    with pytest.raises(ValueError, match=r"Branching.* cannot be exported"):
        export_onnx(model, tmp_path / "agent")
    assert not list(tmp_path.iterdir())
