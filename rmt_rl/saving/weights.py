"""Files of weights: an agent as plain data. Whatever such a file holds, loading it executes none of it.

A safetensors file (the package safetensors is needed) with the policy's tensors. The metadata of its header
are ``rmt_rl``, JSON with what the model is built from (``description.py``), and ``sha256``, the checksum of
the file with zeros in its place. The checksum finds damage; it does not say who wrote the file. The
optimiser's moments and the environments' statistics (VecNormalize) are not in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch as th
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import check_for_correct_spaces
from torch import Tensor

from rmt_rl.checks import unchecked_distributions
from rmt_rl.policies import MemoryActorCriticPolicy
from rmt_rl.saving.description import FORMAT, Plan, describe, describe_policy, differences, read_plan
from rmt_rl.states import leaves

if TYPE_CHECKING:
    from rmt_rl.saving.archive import SavingAlgorithm

Algorithm = TypeVar("Algorithm", bound="SavingAlgorithm")

SUFFIX = ".safetensors"
MOST_HEADER = 2**24
MOST_BYTES = 2**32
CHECKSUM = '"sha256":"{}"'
ZEROS = "0" * 64


def save(model: SavingAlgorithm, path: str | os.PathLike[str]) -> None:
    """Write a model; see ``SavingAlgorithm.save_weights``."""
    package, path = _safetensors(), _with_suffix(path)
    tensors = {
        name: tensor.detach().to("cpu", copy=True).contiguous()
        for name, tensor in _tensors(model.policy).items()
    }
    _check_finite(tensors)
    metadata = {"rmt_rl": json.dumps(describe(model), allow_nan=False), "sha256": ZEROS}
    data: bytes = package.torch.save(tensors, metadata)
    data = data.replace(*_checksums(ZEROS, hashlib.sha256(data).hexdigest()), 1)
    path.parent.mkdir(parents=True, exist_ok=True)
    # What is there under the name is whole at any time.
    handle, draft = tempfile.mkstemp(prefix=".draft-", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(draft, 0o644)
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def load(
    algorithm: type[Algorithm],
    path: str | os.PathLike[str],
    env: GymEnv | str | None,
    device: th.device | str,
    max_bytes: int,
) -> Algorithm:
    """A new model; see ``SavingAlgorithm.load_weights``."""
    path = _with_suffix(path)
    with _naming(path):
        description, tensors = read(path)
        plan = read_plan(description, algorithm)
        _check_plan(plan, algorithm, tensors, max_bytes)
    if env is not None:
        env = algorithm._wrap_env(env, verbose=0)  # type: ignore[arg-type]
        check_for_correct_spaces(env, plan.observation_space, plan.action_space)
    with _naming(path):
        model = algorithm(plan.policy, env, device=device, _init_setup_model=False)  # type: ignore[call-arg, arg-type]
        n_envs = plan.settings["n_envs"] if env is None else env.num_envs
        vars(model).update({**plan.settings, "n_envs": n_envs})
        model.policy_kwargs = plan.policy_kwargs
        model.observation_space, model.action_space = plan.observation_space, plan.action_space
        model._setup_model()
        _copy(tensors, model.policy)
        if model.use_sde:
            model.policy.reset_noise()
    return model


def load_into(model: SavingAlgorithm, path: str | os.PathLike[str]) -> None:
    """Give a model a file's weights, or leave it as it is; see ``SavingAlgorithm.set_weights``."""
    path = _with_suffix(path)
    with _naming(path):
        description, tensors = read(path)
        policy = describe_policy(model)
        if differing := differences(policy, {**policy, **description}):
            raise ValueError(f"it is of another policy: {'; '.join(differing):.300}")
        _check_tensors(tensors, model.policy)
        _copy(tensors, model.policy)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The description and the tensors of a file, which is whole; no more is known of either.

    :raises ValueError: if it is damaged, or something else
    """
    package = _safetensors()
    with path.open("rb") as file:
        start = file.read(8)
        size = int.from_bytes(start, "little")
        if len(start) < 8 or not 2 <= size <= min(MOST_HEADER, path.stat().st_size - 8):
            raise ValueError("it is cut off, or no safetensors file")
        header = file.read(size)
        data = start + header + file.read()
    try:
        metadata = json.loads(header)["__metadata__"]
        text, checksum = metadata["rmt_rl"], metadata["sha256"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ValueError(f"it is damaged, or holds no agent of rmt_rl ({error!r:.100})") from error
    zeroed = data.replace(*_checksums(checksum, ZEROS), 1)
    if hashlib.sha256(zeroed).hexdigest() != checksum:
        raise ValueError("it is damaged: it differs from what was saved (sha256)")
    description = json.loads(text)
    if not isinstance(description, dict) or description.get("format") != FORMAT:
        raise ValueError(f"its format is none that this version reads, which is {FORMAT}")
    try:
        return description, package.torch.load(data)
    except package.SafetensorError as error:
        raise ValueError(f"its tensors cannot be read ({error})") from error


def _check_plan(plan: Plan, algorithm: type[Any], tensors: Mapping[str, Tensor], max_bytes: int) -> None:
    """Raise ValueError unless the lengths fit and the policy to be built has these tensors.

    That is found out without memory for any of it: a file may ask for more than there is.
    """
    from rmt_rl.lengths import check_lengths

    settings = plan.settings
    # Without minibatches, an update takes the whole rollout.
    check_lengths(
        settings["n_steps"], settings["sequence_length"], settings.get("batch_size", settings["n_steps"])
    )
    heads = plan.policy_kwargs["net_arch"]
    heads = [width for part in heads.values() for width in part] if isinstance(heads, dict) else heads
    if max(len(heads), plan.policy_kwargs["core_kwargs"].get("layers", 0)) > len(tensors):
        raise ValueError("it asks for more layers than it has tensors")
    kwargs = {**plan.policy_kwargs, "optimizer_class": th.optim.SGD, "optimizer_kwargs": {}}
    with th.device("meta"), unchecked_distributions():
        policy = algorithm.policy_aliases[plan.policy](
            plan.observation_space, plan.action_space, lambda _: 0.0, use_sde=settings["use_sde"], **kwargs
        )
        beside = [*policy.buffers(), *leaves(policy.initial_states(1))]
    _check_tensors(tensors, policy)
    # What is in no tensor of the file: tables, such as those of positions, and what is remembered.
    needed = plan.rollout_bytes + sum(tensor.nbytes for tensor in beside)
    if needed > max_bytes:
        raise ValueError(
            f"it asks for {needed / 2**30:.1f} GiB for rollouts, tables and memory, which is over max_bytes; "
            "pass a higher one if you trust it"
        )


def _check_tensors(tensors: Mapping[str, Tensor], policy: MemoryActorCriticPolicy) -> None:
    """Raise ValueError unless these are all that the policy has, alike in shape and dtype, and finite."""
    own = _tensors(policy)
    for name in ("core", "critic_core"):
        if (core := getattr(policy, name)) is not None:
            core.check_description(tensors.get(f"{name}._extra_state"))
    if odd := sorted(tensors.keys() ^ own.keys()):
        raise ValueError(f"its tensors are not those of the policy: {', '.join(odd):.300}")
    for name, tensor in tensors.items():
        if (tensor.shape, tensor.dtype) != (own[name].shape, own[name].dtype):
            raise ValueError(
                f"its {name} is {tensor.dtype} of shape {tuple(tensor.shape)}, the policy's is "
                f"{own[name].dtype} of shape {tuple(own[name].shape)}"
            )
    _check_finite(tensors)


def _check_finite(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"the weights {name} are not all finite numbers")


def _tensors(policy: MemoryActorCriticPolicy) -> dict[str, Tensor]:
    """The state dict's tensors that acting takes, each once under its first name: an extractor has three."""
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in policy.state_dict(keep_vars=True).items():
        if not name.startswith("reconstruction."):
            first.setdefault(id(tensor), (name, tensor))
    return dict(first.values())


@th.no_grad()
def _copy(tensors: Mapping[str, Tensor], policy: MemoryActorCriticPolicy) -> None:
    """Copy tensors that have been checked: none of this can fail halfway."""
    for name, tensor in _tensors(policy).items():
        tensor.copy_(tensors[name])


def _checksums(old: object, new: object) -> tuple[bytes, bytes]:
    """How the header writes them."""
    return CHECKSUM.format(old).encode(), CHECKSUM.format(new).encode()


def _with_suffix(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    return path if path.suffix else path.with_name(path.name + SUFFIX)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Turn what goes wrong into a ValueError that names the file."""
    try:
        yield
    except (
        ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError,
        ValueError,
    ) as error:  # fmt: skip
        raise ValueError(f"{path} cannot be loaded: {error}") from error


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise ImportError("files of weights need safetensors: pip install 'rmt-rl[weights]'") from error
    return safetensors
