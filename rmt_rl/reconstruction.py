"""An auxiliary loss: from what the memory puts out, predict the present observation or an earlier one.

Where rewards are rare they say too little about what to keep. Reconstruction gives the memory a gradient at
every step; Pleines et al. (2023, "Memory Gym") needed it for a Transformer-XL to learn Mortar Mayhem.
"""

from __future__ import annotations

import inspect
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn

from rmt_rl.cores.base import require_positive

TARGETS = ("observation", "features")
MOST_NUMBERS = 2**14
"""that an observation may have to be reconstructed itself: a picture of 64 x 64 in three colours fits"""
MOST_IDS = 64
"""values of an integer Box that are taken for ids"""


class _AddLoss(torch.autograd.Function):
    """Return ``values`` as they are, and let the gradient of ``loss`` be 1 whatever happens to them.

    So a loss is added to that which an algorithm makes of the values, without its knowing.
    """

    @staticmethod
    def forward(ctx: Any, values: Tensor, loss: Tensor) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, Tensor]:
        (gradient,) = gradients
        return gradient, gradient.new_ones(())


def add_loss(values: Tensor, loss: Tensor) -> Tensor:
    """Return ``values``; a backward pass through them also adds the gradient of ``loss``, a scalar.

    It adds it once for each backward pass that reaches them, also where their own gradient is 0.
    """
    return cast(Tensor, _AddLoss.apply(values, loss))  # type: ignore[no-untyped-call]


class Reconstruction(nn.Module):
    """Predicts observations from the memory's outputs, and says how well: one hidden layer.

    The loss of one observation is a mean over its numbers: cross-entropy for what has values to choose from
    (Discrete, MultiDiscrete, MultiBinary, and integer Boxes of at most 64 values, such as grids of ids),
    binary cross-entropy for images, as Pleines et al. do, and Huber's for other Boxes, which should be of
    order 1 (``VecNormalize`` makes them so). Of a Dict it is the sum over its entries.

    :param space: of observations
    :param input_dim: of the memory's outputs
    :param features_dim: of what the features extractor makes of an observation
    :param coef: factor of the loss beside the algorithm's own; the algorithm's are ``ent_coef``, ``vf_coef``
    :param steps: how many steps back the observation lies; 0 for the present one. Steps whose episode or
        training sequence does not reach back that far have no loss
    :param target: "observation", or "features" for what the extractor makes of it, without a gradient
    :raises ValueError: if an option is out of range, or the observation is too large to be reconstructed
    """

    def __init__(
        self,
        space: spaces.Space[Any],
        input_dim: int,
        features_dim: int,
        coef: float = 0.1,
        steps: int = 0,
        target: str = "observation",
    ) -> None:
        super().__init__()
        if not 0.0 < coef < float("inf"):
            raise ValueError(f"coef must be a finite number above 0, got {coef}")
        self.coef, self.target = coef, target
        self.steps = steps if steps == 0 else require_positive("steps", steps)
        if target not in TARGETS:
            raise ValueError(f"target must be one of {', '.join(map(repr, TARGETS))}, got {target!r}")
        parts: dict[str, Any] = space.spaces if isinstance(space, spaces.Dict) else {"": space}
        losses: dict[str, _Part] = {"": _Numbers(features_dim)}
        if target == "observation":
            losses = {key: _part_of(key, part) for key, part in parts.items()}
        # Keys are kept apart from the modules, as they may be no names of modules.
        self.keys, self.parts = list(losses), nn.ModuleList(losses.values())
        self.hidden = nn.Sequential(nn.Linear(input_dim, input_dim), nn.ReLU())
        self.losses: list[Tensor] = []
        """since ``pop_mean``, without a graph"""
        self.heads = nn.ModuleList(nn.Linear(input_dim, part.n_outputs) for part in losses.values())

    def added_to(
        self,
        values: Tensor,
        outputs: Tensor,
        observations: PyTorchObs,
        features: Tensor,
        episode_starts: Tensor,
    ) -> Tensor:
        """Return ``values``; what is minimised through them has this loss beside it, times ``coef``.

        :param values: of the critic, any shape
        :param outputs: (B, T, D) of the memory
        :param observations: (B * T, ...)
        :param features: (B, T, F), what the extractor made of them
        :param episode_starts: (B, T) bool
        """
        target = features.flatten(0, 1) if self.target == "features" else observations
        loss = self(outputs, target, episode_starts)
        self.losses.append(loss.detach())
        return add_loss(values, self.coef * loss)

    def pop_mean(self) -> float | None:
        """Mean of the losses since the last call, for the log; None if there were none."""
        losses, self.losses = self.losses, []
        return float(torch.stack(losses).mean()) if losses else None

    def forward(self, outputs: Tensor, target: PyTorchObs, episode_starts: Tensor) -> Tensor:
        """Mean loss, without ``coef``.

        :param outputs: (B, T, D) of the memory
        :param target: (B * T, ...) observations or features, a sequence's next to each other
        :param episode_starts: (B, T) bool
        :raises ValueError: if no step of a sequence can reach back that far
        """
        B, T = episode_starts.shape
        if self.steps >= T:
            raise ValueError(
                f"reconstruction of the observation {self.steps} steps back needs training sequences that "
                f"are longer: sequence_length is {T}"
            )
        back = self.steps
        hidden = self.hidden(outputs[:, back:]).flatten(0, 1)
        of_parts = target if isinstance(target, dict) else {"": target}
        losses = hidden.new_zeros(len(hidden))
        for key, head, part in zip(self.keys, self.heads, self.parts, strict=True):
            wanted = of_parts[key].reshape(B, T, -1)[:, : T - back].flatten(0, 1)
            losses = losses + part(head(hidden), wanted)
        if not back:
            return cast(Tensor, losses.mean())
        # An episode that starts at t or in the steps before it back to t - steps + 1 hides that observation.
        starts = episode_starts.cumsum(1)
        same_episode = (starts[:, back:] == starts[:, : T - back]).flatten()
        return torch.where(same_episode, losses, 0.0).sum() / same_episode.sum().clamp(min=1)


def make_reconstruction(
    space: spaces.Space[Any], input_dim: int, features_dim: int, options: dict[str, Any]
) -> Reconstruction:
    """Build the loss from the options that a user gave.

    :raises TypeError: for an option that there is not
    :raises ValueError: if one is out of range
    """
    known = list(inspect.signature(Reconstruction).parameters)[3:]
    if unknown := [name for name in options if name not in known]:
        raise TypeError(
            f"reconstruction has no option {', '.join(map(repr, unknown))}; it has {', '.join(known)}"
        )
    return Reconstruction(space, input_dim, features_dim, **options)


class _Numbers(nn.Module):
    """Loss (N,) of predictions (N, n_outputs) of numbers of order 1."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.n_outputs = size

    def forward(self, prediction: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(prediction, target.detach().float(), reduction="none").mean(1)


class _Binary(nn.Module):
    """The same for bits, or for brightness from 0 to ``top``."""

    def __init__(self, size: int, top: float = 1.0) -> None:
        super().__init__()
        self.n_outputs, self.top = size, top

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        target = target.float() / self.top
        return F.binary_cross_entropy_with_logits(logits, target, reduction="none").mean(1)


class _Choice(nn.Module):
    """The same for numbers that each have ``counts`` values from ``low`` on: a softmax for each of them."""

    counts: Tensor
    low: Tensor
    absent: Tensor

    def __init__(self, counts: Any, low: Any) -> None:
        super().__init__()
        self.register_buffer("counts", torch.as_tensor(counts).flatten(), persistent=False)
        self.register_buffer("low", torch.as_tensor(low).flatten(), persistent=False)
        self.most = int(self.counts.max())
        # Values that a number does not have are never right: their logits are as good as absent.
        absent = torch.arange(self.most) >= self.counts.unsqueeze(1)
        self.register_buffer("absent", absent, persistent=False)
        self.n_outputs = len(self.counts) * self.most

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        of_numbers = logits.view(-1, len(self.counts), self.most).masked_fill(self.absent, -1e9)
        values = target.round().long() - self.low
        if ((values < 0) | (values >= self.counts)).any():
            raise ValueError(
                "an observation to be reconstructed is outside its space: does a wrapper such as "
                'VecNormalize change integers? Leave these alone (norm_obs_keys), or say target="features"'
            )
        return F.cross_entropy(of_numbers.transpose(1, 2), values, reduction="none").mean(1)


_Part = _Numbers | _Binary | _Choice


def _part_of(key: str, space: spaces.Space[Any]) -> _Part:
    where = f" under the key {key!r}" if key else ""
    size = int(np.prod(space.shape or ()))
    if size > MOST_NUMBERS:
        raise ValueError(
            f"the observation{where} has {size:,} numbers, more than the {MOST_NUMBERS:,} that can be "
            'reconstructed; say target="features"'
        )
    if isinstance(space, spaces.Discrete):
        return _Choice([int(space.n)], [int(space.start)])
    if isinstance(space, spaces.MultiDiscrete):
        return _Choice(space.nvec.astype(np.int64), space.start.astype(np.int64))
    if isinstance(space, spaces.MultiBinary):
        return _Binary(size)
    assert isinstance(space, spaces.Box)
    if is_image_space(space):
        return _Binary(size, 255.0)
    if np.issubdtype(space.dtype, np.integer):
        low, high = (bound.astype(np.int64) for bound in (space.low, space.high))
        if (high - low).max() < MOST_IDS:
            return _Choice(high - low + 1, low)
    return _Numbers(size)
