"""What the policies' public methods take, brought into the form that they compute with.

Rollouts and updates hand over tensors and the cores' states. A user has what ``predict`` returned and what
the environment gave: a ``MemoryState``, arrays, one environment or several, one step or whole episodes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_action_dim, is_image_space
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor

from rmt_rl.checks import check_numbers
from rmt_rl.masking import check_action_masks
from rmt_rl.states import CoreStates, MemoryState, SequenceBatch

if TYPE_CHECKING:
    from rmt_rl.policies import MemoryActorCriticPolicy


class Step(NamedTuple):
    """One step of B environments, as tensors on the policy's device."""

    observations: PyTorchObs
    """(B, ...)"""
    states: CoreStates
    episode_starts: Tensor
    """(B,) bool"""
    action_masks: Tensor | None
    """(B, A) bool, or None"""
    is_opaque: bool
    """whether the state was given as ``predict`` returns it, and the next one is to be"""


class Evaluation(NamedTuple):
    """What ``evaluate_episode`` returns: (B, T) each, or (T,) of a single episode."""

    values: Tensor
    log_probs: Tensor
    """of the actions taken"""
    entropies: Tensor | None
    """None where a distribution has no formula for it"""
    state: MemoryState
    """the memory after the last step"""


def as_step(
    policy: MemoryActorCriticPolicy, observations: Any, states: Any, episode_starts: Any, action_masks: Any
) -> Step:
    """Take one step's arguments in any of their forms.

    :raises ValueError: if they do not fit each other, the spaces, or the policy
    :raises TypeError: if they are something else
    """
    if isinstance(states, tuple) and isinstance(episode_starts, Tensor) and _are_tensors(observations):
        # The library's own calls.
        return Step(observations, states, episode_starts.bool(), action_masks, False)
    if isinstance(observations, SequenceBatch):
        raise TypeError(
            "this method takes one step's observations (B, ...), got a SequenceBatch: whole sequences are "
            "for evaluate_actions and evaluate_episode"
        )
    check_numbers("observations", _arrays(observations))
    obs, _ = policy.obs_to_tensor(_arrays(observations))
    count = len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
    is_opaque = not isinstance(states, tuple)
    core_states = policy.states_for(states, count)
    starts = as_starts(episode_starts, (count,), policy.device)
    return Step(obs, core_states, starts, as_masks(policy, action_masks, (count,)), is_opaque)


def as_sequences(policy: MemoryActorCriticPolicy, observations: Any) -> tuple[PyTorchObs, int, int, bool]:
    """Take whole sequences, (B, T, ...) or of one environment (T, ...).

    :return: the observations (B * T, ...), B, T, and whether there was a batch
    :raises ValueError: naming the shape, if it is another
    """
    arrays, space = _arrays(observations), policy.observation_space
    if isinstance(arrays, dict) != isinstance(space, spaces.Dict):
        raise ValueError(f"observations must be of {space}, got {type(observations).__name__}")
    check_numbers("observations", arrays)
    parts = arrays if isinstance(arrays, dict) else {"": arrays}
    own: Any = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    if parts.keys() != own.keys():
        raise ValueError(f"observations must have the keys {', '.join(own)}, got {', '.join(parts)}")
    shapes = {key: part.shape[: part.ndim - len(own[key].shape)] for key, part in parts.items()}
    leading = next(iter(shapes.values()))
    for key, part in parts.items():
        _check_shape(f"observations{f'[{key!r}]' if key else ''}", part, own[key])
        if shapes[key] != leading:
            raise ValueError(f"observations must be of as many steps under every key, got {shapes}")
    flat = {key: part.reshape(-1, *part.shape[len(leading) :]) for key, part in parts.items()}
    obs, _ = policy.obs_to_tensor(flat if isinstance(space, spaces.Dict) else flat[""])
    return obs, (leading[0] if len(leading) == 2 else 1), leading[-1], len(leading) == 2


def _check_shape(name: str, array: npt.NDArray[Any], space: spaces.Space[Any]) -> None:
    shape = tuple(space.shape or ())
    fitting = {shape}
    if is_image_space(space):
        fitting.add((*shape[1:], shape[0]))  # SB3 turns pictures round
    before = array.ndim - len(shape)
    if before not in (1, 2) or array.shape[before:] not in fitting:
        each = "".join(f", {size}" for size in shape)
        raise ValueError(
            f"{name} must have the shape (B, T{each}), T steps of each of B environments, got {array.shape}"
        )


def require_batch(observations: Any, space: spaces.Space[Any]) -> None:
    """Raise ValueError if sequences have no batch; what else may be wrong with them is not looked at."""
    parts = observations if isinstance(observations, dict) else {"": observations}
    own: Any = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    for key, part in parts.items():
        shape = tuple(own[key].shape or ()) if key in own else None
        if shape is not None and np.ndim(part) == len(shape) + 1:
            each = "".join(f", {size}" for size in shape)
            raise ValueError(
                f"observations{f'[{key!r}]' if key else ''} must have the shape (B, T{each}), T steps of "
                f"each of B environments, got {np.shape(part)}: of one environment, pass observations[None]"
            )


def as_starts(episode_starts: Any, shape: tuple[int, ...], device: th.device) -> Tensor:
    """Episode starts of any type as bool; None for none.

    :raises ValueError: if they have another shape
    """
    if episode_starts is None:
        return th.zeros(shape, dtype=th.bool, device=device)
    starts = th.as_tensor(_array(episode_starts), device=device).bool()
    if starts.numel() != math.prod(shape) or (len(shape) > 1 and starts.shape not in (shape, shape[1:])):
        raise ValueError(f"episode_starts must have the shape {shape}, got {tuple(starts.shape)}")
    return starts.reshape(shape)


def as_masks(policy: MemoryActorCriticPolicy, masks: Any, shape: tuple[int, ...]) -> Tensor | None:
    """Masks of any form, for steps of ``shape``, as bool (steps, A).

    :raises ValueError: if they do not fit, or allow nothing
    """
    if masks is None:
        return None
    given, count = _array(masks), math.prod(shape)
    if len(shape) > 1:  # sequences; a single step may have a mask for each component
        given = given.reshape(count, -1) if given.size % count == 0 else given
    return th.from_numpy(check_action_masks(given, policy.action_space, count)).to(policy.device)


def as_actions(policy: MemoryActorCriticPolicy, actions: Any, count: int) -> Tensor:
    """Actions as ``predict`` returned them, to what the distribution takes, (count, ...).

    :raises ValueError: if they are not so many, or not of the space
    """
    space = policy.action_space
    given = th.as_tensor(_array(actions), device=policy.device)
    size = get_action_dim(space)
    if given.numel() != count * size:
        raise ValueError(
            f"actions must be {count} of {space}, {size} numbers each, got the shape {tuple(given.shape)}"
        )
    if isinstance(space, spaces.Box):
        given = given.reshape(count, size).float()
        return _unsquashed(given, space) if policy.squash_output else given
    if isinstance(space, spaces.MultiBinary):
        low, high, given = th.zeros(1), th.ones(1), given.reshape(count, size).float()
    else:
        low = th.as_tensor(np.asarray(space.start, dtype=np.int64))  # type: ignore[attr-defined]
        counts = space.n if isinstance(space, spaces.Discrete) else space.nvec  # type: ignore[attr-defined]
        high = low + th.as_tensor(np.asarray(counts, dtype=np.int64)) - 1
        given = given.reshape((count,) if isinstance(space, spaces.Discrete) else (count, size)).long()
    outside = (given < low.to(given.device)) | (given > high.to(given.device))
    if outside.any():
        row = int(outside.nonzero()[0, 0])
        raise ValueError(f"action {row} is none of {space}: {given[row].tolist()}")
    return given


def _unsquashed(actions: Tensor, space: spaces.Box) -> Tensor:
    """From the bounds to -1 and 1."""
    low, high = (
        th.as_tensor(bound.reshape(-1), dtype=th.float32, device=actions.device)
        for bound in (space.low, space.high)
    )
    width = high - low
    return th.where(width > 0, 2 * (actions - low) / width.clamp_min(th.finfo().tiny) - 1, 0.0)


def _are_tensors(observations: Any) -> bool:
    if isinstance(observations, dict):
        return all(isinstance(part, Tensor) for part in observations.values())
    return isinstance(observations, Tensor)


def _array(value: Any) -> Any:
    return value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)


def _arrays(observations: Any) -> Any:
    """Tensors and lists as arrays: ``obs_to_tensor`` then looks after batches and pictures."""
    if isinstance(observations, dict):
        return {key: _array(part) for key, part in observations.items()}
    if isinstance(observations, tuple):
        raise TypeError(
            f"observations must be an array, a tensor or a dict of them, got a {type(observations).__name__}"
        )
    return _array(observations)
