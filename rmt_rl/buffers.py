"""Rollout buffers that hand out whole training sequences.

Observations and all else are stored by SB3's own buffers. What is added is the memory before each training
sequence - one detached state per sequence, not one per step - and minibatches of whole sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.type_aliases import DictRolloutBufferSamples, RolloutBufferSamples

from rmt_rl.cores import map_state
from rmt_rl.spaces import fits_float32
from rmt_rl.states import CoreStates, SequenceBatch

Samples = RolloutBufferSamples | DictRolloutBufferSamples


class MemoryRolloutBuffer(RolloutBuffer):
    """SB3's rollout buffer, cut into sequences of ``sequence_length`` steps.

    :param sequence_length: steps of a training sequence, a divisor of the buffer's ``n_steps``
    :param args: what SB3's buffer takes
    """

    def __init__(self, *args: Any, sequence_length: int, **kwargs: Any) -> None:
        self.sequence_length = sequence_length
        super().__init__(*args, **kwargs)
        self._has_large_choices = not fits_float32(self.action_space)

    def reset(self) -> None:
        self._states: list[CoreStates] = []
        self.action_masks: np.ndarray[Any, Any] | None = None
        super().reset()
        if self.actions.dtype == np.float16:  # the log-probabilities are those of float32
            self.actions = self.actions.astype(np.float32)

    def begin_sequences(self, states: CoreStates) -> None:
        """Keep what the environments remember before the step that is added next, the first of a sequence."""
        self._states.append(map_state(lambda leaf: leaf.detach(), states))

    def add_action_masks(self, masks: np.ndarray[Any, Any]) -> None:
        """Keep what is allowed, (n_envs, A) bool, in the step that is added next."""
        if self.action_masks is None:
            self.action_masks = np.ones((self.buffer_size, *masks.shape), bool)
        self.action_masks[self.pos] = masks

    def add(self, obs: Any, *args: Any, **kwargs: Any) -> None:
        """As SB3's, but an observation is kept as it was acted on.

        A wrapper may hand over another type than the space's: ``VecNormalize`` makes floats of integers.
        """
        if isinstance(self.observations, dict):
            for key, stored in self.observations.items():
                self.observations[key] = _fit_to_hold(stored, obs[key])
        else:
            self.observations = _fit_to_hold(self.observations, obs)
        super().add(obs, *args, **kwargs)

    def get(self, batch_size: int | None = None) -> Iterator[Samples]:  # type: ignore[override]
        """Minibatches of whole sequences in random order.

        :param batch_size: in steps, a multiple of ``sequence_length``; None for everything at once
        """
        count = self.buffer_size * self.n_envs // self.sequence_length
        # As SB3's buffers do, so that SB3's seeding covers it.
        return self.sequences(np.random.permutation(count), batch_size)  # noqa: NPY002

    def sequences(self, which: np.ndarray[Any, Any], batch_size: int | None = None) -> Iterator[Samples]:
        """The sequences ``which`` in that order; a minibatch's observations are a ``SequenceBatch``."""
        if not self.generator_ready:
            self._flatten()
        rows = len(which) if batch_size is None else batch_size // self.sequence_length
        steps = np.arange(self.sequence_length)
        for begin in range(0, len(which), rows):
            row = which[begin : begin + rows]
            # SB3 flattens its arrays so that an environment's steps, and so a sequence's, lie next to each
            # other.
            step = (row[:, None] * self.sequence_length + steps).reshape(-1)
            samples = self._get_samples(step)
            index = th.from_numpy(row).to(self.device)
            states = map_state(lambda leaf, index=index: leaf[index], self._flat_states)
            masks = None if self._flat_masks is None else self.to_torch(self._flat_masks[step])
            batch: Any = SequenceBatch(samples.observations, states, self._flat_starts[index], masks)
            yield samples._replace(observations=batch, actions=self._exact_actions(step, samples.actions))

    def _exact_actions(self, step: np.ndarray[Any, Any], actions: th.Tensor) -> th.Tensor:
        """Large choices as integers: SB3 hands all over as float32, which does not tell those apart."""
        if not self._has_large_choices:
            return actions
        return self.to_torch(self.actions[step].astype(np.int64))

    def _flatten(self) -> None:
        """Bring everything from (n_steps, n_envs) to sequences, an environment's next to each other."""
        next(
            iter(super().get(self.sequence_length))
        )  # SB3 flattens its own arrays when first asked for samples
        self._flat_states = map_state(lambda *parts: th.stack(parts, dim=1).flatten(0, 1), *self._states)
        self._states = []  # or all of them would be held twice
        starts = self.swap_and_flatten(self.episode_starts).reshape(-1, self.sequence_length)
        self._flat_starts = th.from_numpy(starts > 0.5).to(self.device)
        masks = self.action_masks
        self._flat_masks = None if masks is None else self.swap_and_flatten(masks)


class MemoryDictRolloutBuffer(MemoryRolloutBuffer, DictRolloutBuffer):  # type: ignore[misc]
    """``MemoryRolloutBuffer`` for Dict observations: what is cut is stored by SB3's ``DictRolloutBuffer``."""


def _fit_to_hold(stored: np.ndarray[Any, Any], value: Any) -> np.ndarray[Any, Any]:
    """The array ``stored``, or a copy of another type if its own would change ``value``."""
    kind = np.asarray(value).dtype
    is_float32 = stored.dtype.kind == "f" and stored.dtype.itemsize >= 4  # what the policy computes with
    if is_float32 or np.can_cast(kind, stored.dtype):
        return stored
    if kind.kind == "f":
        return stored.astype(np.float32)
    # Integers of another size lose nothing as long as they are small; images would take eight times as much.
    if np.array_equal(value, np.asarray(value).astype(stored.dtype)):
        return stored
    return stored.astype(np.promote_types(kind, stored.dtype))
