"""The acting step as one ONNX graph, with the memory as inputs and outputs: to act without Python and torch.

Exporting needs the packages onnx and onnxscript, checking onnxruntime. B, the number of environments, varies:

- ``observation`` or, of a Dict, ``observation.<key>`` each: (B, ...) as the policy takes them;
- ``episode_start``: (B,) bool, true where an episode begins, whatever the memory holds there;
- ``state.<field>`` each, with two cores ``state.actor.<field>`` and ``state.critic.<field>``: (B, ...), zeros
  to begin with, then what the last call gave as ``next_state.<field>``;
- out come ``action`` (B, ...), the likeliest one and within bounds as ``predict`` gives it, ``value`` (B,),
  and ``next_state.<field>`` each.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn

from rmt_rl.checks import unchecked_distributions
from rmt_rl.cores import map_state
from rmt_rl.policies import MemoryActorCriticPolicy
from rmt_rl.states import leaves

if TYPE_CHECKING:
    from rmt_rl.on_policy import MemoryOnPolicyAlgorithm

TOLERANCE = 1e-5


class ActingStep(nn.Module):
    """One deterministic step of a policy, from tensors to tensors; see the module for which."""

    def __init__(self, policy: MemoryActorCriticPolicy) -> None:
        super().__init__()
        self.policy = policy
        self.like = policy.initial_states(1)
        space = policy.observation_space
        self.keys = list(space) if isinstance(space, spaces.Dict) else None
        observations = ["observation"] if self.keys is None else [f"observation.{key}" for key in self.keys]
        owners = ("",) if policy.critic_core is None else ("actor.", "critic.")
        self.fields = [
            f"{owner}{field}"
            for owner, state in zip(owners, self.like, strict=True)
            for field in _fields(state)
        ]
        self.inputs = [*observations, "episode_start", *(f"state.{field}" for field in self.fields)]
        self.outputs = ["action", "value", *(f"next_state.{field}" for field in self.fields)]

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Values of ``inputs`` to values of ``outputs``."""
        policy, count = self.policy, len(tensors) - len(self.fields) - 1
        memory = iter(tensors[count + 1 :])
        states = map_state(lambda _: next(memory), self.like)
        observations: Any = tensors[0] if self.keys is None else dict(zip(self.keys, tensors, strict=False))
        starts = tensors[count].unsqueeze(1)
        pi, vf, states = policy._remember(observations, states, starts, lambda core, *call: core.step(*call))
        distribution = policy._get_action_dist_from_latent(policy.mlp_extractor.forward_actor(pi))
        values = policy.value_net(policy.mlp_extractor.forward_critic(vf)).squeeze(1)
        return self._bounded(distribution.mode()), values, *leaves(states)

    def _bounded(self, actions: Tensor) -> Tensor:
        """As ``predict``: squashed actions are scaled to the bounds, others clipped to them."""
        space = self.policy.action_space
        if not isinstance(space, spaces.Box):
            return actions
        actions = actions.view(-1, *space.shape)
        low, high = (th.as_tensor(bound, device=actions.device) for bound in (space.low, space.high))
        if self.policy.squash_output:
            actions = low + 0.5 * (actions + 1.0) * (high - low)
        return th.minimum(th.maximum(actions, low), high).to(low.dtype)

    def sample(self, rows: int) -> tuple[Any, PyTorchObs]:
        """Observations of so many environments, drawn from their space: as arrays and as tensors."""
        drawn: list[Any] = [self.policy.observation_space.sample() for _ in range(rows)]
        keys = self.keys
        batch = np.stack(drawn) if keys is None else {key: np.stack([d[key] for d in drawn]) for key in keys}
        return batch, self.policy.obs_to_tensor(batch)[0]

    def parts(self, observations: PyTorchObs) -> list[Tensor]:
        """The inputs that are observations."""
        return (
            [observations]
            if isinstance(observations, Tensor)
            else [observations[key] for key in self.keys or ()]
        )


def export_onnx(model: MemoryOnPolicyAlgorithm, path: str | os.PathLike[str]) -> Path:
    """Write a model's acting step as an ONNX file, weights included.

    Every core that is registered can be exported; one of your own if its ``step`` is one graph.

    :param path: ``.onnx`` is added where it has no suffix
    :return: where it is
    :raises ValueError: if the step cannot be expressed in ONNX, or not for any number of rows
    :raises ImportError: without the packages onnx and onnxscript
    """
    _require("onnx", "onnxscript")
    path = Path(path)
    path = path if path.suffix else path.with_name(path.name + ".onnx")
    policy = _copied(model.policy)
    step = ActingStep(policy)
    batch = th.export.Dim("batch")
    # Apart: one tensor in several places would become one input.
    memory = [leaf.detach().clone() for leaf in leaves(policy.initial_states(2))]
    with _quietly(), th.no_grad(), unchecked_distributions():
        try:
            program = th.onnx.export(
                step,
                (*step.parts(step.sample(2)[1]), th.ones(2, dtype=th.bool), *memory),
                dynamo=True,
                input_names=step.inputs,
                output_names=step.outputs,
                dynamic_shapes=(tuple({0: batch} for _ in step.inputs),),
                verbose=False,
            )
        except th.onnx.OnnxExporterError as error:
            raise ValueError(f"{policy.describe_memory()} cannot be exported: {error}") from error
    assert program is not None
    shapes = [entry.shape for entry in program.model.graph.inputs]
    fixed = [shape[0] for shape in shapes if shape is not None and isinstance(shape[0], int)]
    if fixed:
        raise ValueError(
            f"the exported step would take {fixed[0]} rows and no other number: the features extractor or "
            "the core makes a Python number of the number of rows, as len(x) does; x.shape[0] does not"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".draft-", dir=path.parent) as draft:
        program.save(Path(draft, path.name), external_data=False)
        os.replace(Path(draft, path.name), path)
    return path


def check_onnx(
    model: MemoryOnPolicyAlgorithm,
    path: str | os.PathLike[str],
    steps: int = 1000,
    rows: int = 4,
    seed: int = 0,
) -> float:
    """Run an exported step beside the model, each from its own memory, and compare all that comes out.

    Observations are drawn from their space; one step in twenty begins an episode.

    :param rows: environments side by side
    :return: the largest difference of an action, a value or a number in the memory
    :raises ValueError: if that is above 1e-5
    :raises ImportError: without the package onnxruntime
    """
    _require("onnxruntime")
    import onnxruntime  # type: ignore[import-untyped]

    session = onnxruntime.InferenceSession(os.fspath(path), providers=["CPUExecutionProvider"])
    policy = _copied(model.policy)
    step, rng, state, worst = ActingStep(policy), np.random.default_rng(seed), None, 0.0
    policy.observation_space.seed(seed)
    memory = [np.zeros_like(leaf.detach().numpy()) for leaf in leaves(policy.initial_states(rows))]
    for t in range(steps):
        observations, tensors = step.sample(rows)
        starts = (rng.random(rows) < 0.05) | (t == 0)
        states = policy.initial_states(rows) if state is None else state.states
        with th.no_grad():
            values = policy.predict_values(tensors, states, th.from_numpy(starts)).squeeze(1)
        actions, state = policy.predict(observations, state, starts, deterministic=True)
        expected = [actions, values.numpy(), *(leaf.detach().numpy() for leaf in leaves(state.states))]
        given = [*(tensor.numpy() for tensor in step.parts(tensors)), starts, *memory]
        got = session.run(step.outputs, dict(zip(step.inputs, given, strict=True)))
        memory = got[2:]
        for name, one, other in zip(step.outputs, got, expected, strict=True):
            difference = float(np.abs(one.astype(np.float64) - other).max(initial=0.0))
            if one.shape != other.shape or not difference <= TOLERANCE:
                raise ValueError(
                    f"{os.fspath(path)} is not this model's: at step {t}, {name} differs by {difference}"
                )
            worst = max(worst, difference)
    return worst


def _copied(policy: MemoryActorCriticPolicy) -> MemoryActorCriticPolicy:
    """The same on the CPU and at work: the live one may lie elsewhere, or be in training."""
    with th.random.fork_rng(devices=[]):  # its first weights are of no use
        copy = type(policy)(**policy._get_constructor_parameters())
    copy.load_state_dict(policy.state_dict())
    copy.set_training_mode(False)
    return copy


def _fields(state: tuple[Any, ...], prefix: str = "") -> Iterator[str]:
    """Names of a state's leaves, in order."""
    names = getattr(state, "_fields", range(len(state)))
    for name, part in zip(names, state, strict=True):
        if isinstance(part, tuple):
            yield from _fields(part, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _require(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ImportError(f"this needs {package}: pip install 'rmt-rl[export]'")


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what torch's exporter logs and warns of in its own matters."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
