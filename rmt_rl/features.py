"""A features extractor for observations made of ids, such as the grids of symbols of MiniGrid."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces
from stable_baselines3.common.preprocessing import get_flattened_obs_dim
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

SOLE = "observation"
"""The name under which a space that is not a Dict is treated as the only entry of one."""


class _SumOfRows(torch.autograd.Function):
    """Sum the rows of ``weight`` (N, D) that each line of ``rows`` (B, K) names, none twice, to (B, D).

    Forward is an embedding bag, a third of the time of the same map as one-hots times weights; backward is
    the one-hots transposed times the gradient, less than half of the time of the bag's own.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.n_rows = len(weight)
        return nn.functional.embedding_bag(rows, weight, mode="sum")

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        (rows,) = ctx.saved_tensors
        one_hot = gradient.new_zeros(rows.shape[0], ctx.n_rows).scatter_(1, rows, 1.0)
        return None, one_hot.T @ gradient


class IdEmbedding(nn.Module):
    """One learned vector per (entry of an array, id), summed over the entries.

    The same function as a one-hot of every entry followed by a linear map without bias.
    """

    offsets: Tensor

    def __init__(self, id_counts: npt.NDArray[np.integer[Any]], features_dim: int) -> None:
        """Take how many ids each entry has, as an array of the observation's shape."""
        super().__init__()
        counts = torch.as_tensor(id_counts.astype(np.int64)).flatten()
        self.n_active = len(counts)
        self.register_buffer("offsets", counts.cumsum(0) - counts, persistent=False)
        self.weight = nn.Parameter(torch.empty(int(id_counts.sum()), features_dim))

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, ...), of any dtype and each within its entry's range, to (B, features_dim)."""
        rows = ids.flatten(1).round().long() + self.offsets
        return cast(Tensor, _SumOfRows.apply(rows, self.weight))  # type: ignore[no-untyped-call]


class IdPresence(nn.Module):
    """One learned vector per (channel of a grid, id), summed over the ids that are anywhere in the grid.

    A thing is the same thing wherever it is seen. From vectors per place alone that has to be learnt for each
    place anew, and what is seen at one distance is not recognised at another.
    """

    offsets: Tensor

    def __init__(self, id_counts: npt.NDArray[np.integer[Any]], features_dim: int) -> None:
        """Take how many ids each entry has, as an array of the grid's shape (height, width, channels)."""
        super().__init__()
        most = id_counts.astype(np.int64).reshape(-1, id_counts.shape[-1]).max(axis=0)
        counts = torch.as_tensor(most)
        # Of a picture's channels, a few ids each are present at a time.
        self.n_active = 2 * len(counts)
        self.register_buffer("offsets", counts.cumsum(0) - counts, persistent=False)
        self.weight = nn.Parameter(torch.empty(int(most.sum()), features_dim))

    def forward(self, ids: Tensor) -> Tensor:
        """Map ids (B, height, width, channels) to (B, features_dim)."""
        rows = (ids.flatten(1, -2).round().long() + self.offsets).flatten(1)
        present = self.weight.new_zeros(ids.shape[0], len(self.weight)).scatter_(1, rows, 1.0)
        return present @ self.weight


class IdEmbeddingExtractor(BaseFeaturesExtractor):
    """Embeds arrays of ids, adds in all that comes beside them: ReLU of a linear map of one-hots.

    Every integer Box of the observation is an array of ids, entry by entry from 0 to its ``high``; the
    embedding of each (entry, id) is learned, and all are summed. For grids (height, width, channels) the
    embeddings of the ids that are present anywhere are added, whatever their place. Other entries of a Dict
    (Discrete, MultiDiscrete, MultiBinary, which Stable-Baselines3 hands over as one-hots, and float vectors)
    are flattened and added through a linear map.

    Features are (B, features_dim). Their variance before the ReLU is 1 at the start, whatever the number of
    entries, and with a grid about 2.

    Use it as ``policy_kwargs=dict(features_extractor_class=IdEmbeddingExtractor)``; with `VecNormalize`,
    leave the ids out (``norm_obs_keys``): an id is a name, not a quantity.
    """

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        features_dim: int = 128,
        layer_norm: bool = False,
        max_ids: int = 64,
    ) -> None:
        """Build for a Dict with at least one integer Box, or for an integer Box.

        Args:
            observation_space: the space of the observations.
            features_dim: width of the features.
            layer_norm: whether the sum is normalised before the ReLU.
            max_ids: more ids than this in one entry are taken for a mistake, such as a picture's 256 greys.

        Raises:
            ValueError: for a space without an array of ids, with negative or more than ``max_ids`` ids in an
                entry, or with a part that cannot be flattened; for a width below 1.
        """
        if features_dim < 1:
            raise ValueError(f"features_dim must be at least 1, got {features_dim}")
        super().__init__(observation_space, features_dim)
        parts = (
            observation_space.spaces
            if isinstance(observation_space, spaces.Dict)
            else {SOLE: observation_space}
        )
        self.embeddings = nn.ModuleDict()
        self.presences = nn.ModuleDict()
        self.linears = nn.ModuleDict()
        n_active = 0
        for name, space in parts.items():
            if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.integer):
                counts = _id_counts(name, space, max_ids)
                embedding = IdEmbedding(counts, features_dim)
                self.embeddings[name] = embedding
                n_active += embedding.n_active
                if counts.ndim == 3:
                    self.presences[name] = IdPresence(counts, features_dim)
            elif isinstance(space, spaces.Box | spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
                # A numpy integer for MultiDiscrete, which Linear would not take.
                size = int(get_flattened_obs_dim(space))
                self.linears[name] = nn.Linear(size, features_dim, bias=False)
                n_active += _n_active(space, size)
            else:
                raise ValueError(
                    f"observation {name!r} must be a Box, Discrete, MultiDiscrete or MultiBinary, got {space}"
                )
        if not self.embeddings:
            raise ValueError(f"the observation must hold a Box of integer ids, got {observation_space}")
        for module in (*self.embeddings.values(), *self.linears.values()):
            nn.init.normal_(cast(nn.Parameter, module.weight), std=n_active**-0.5)
        # Present ids are few: each has far more weight than an id at one place.
        n_present = sum(cast(IdPresence, presence).n_active for presence in self.presences.values())
        for presence in self.presences.values():
            nn.init.normal_(cast(nn.Parameter, presence.weight), std=n_present**-0.5)
        self.bias = nn.Parameter(torch.zeros(features_dim))
        self.norm: nn.Module = nn.LayerNorm(features_dim) if layer_norm else nn.Identity()

    def forward(self, observations: Tensor | dict[str, Tensor]) -> Tensor:
        """Map preprocessed observations, batch first, to features (B, features_dim)."""
        parts = {SOLE: observations} if isinstance(observations, Tensor) else observations
        total = self.bias
        for name, embedding in self.embeddings.items():
            total = total + embedding(parts[name])
        for name, presence in self.presences.items():
            total = total + presence(parts[name])
        for name, linear in self.linears.items():
            total = total + linear(parts[name].flatten(1))
        return torch.relu(self.norm(total))


def _id_counts(name: str, space: spaces.Box, max_ids: int) -> npt.NDArray[np.int64]:
    """How many ids each entry of an integer Box has."""
    low, high = space.low.astype(np.int64), space.high.astype(np.int64)
    if low.min() < 0 or high.max() >= max_ids:
        raise ValueError(
            f"observation {name!r} must hold ids from 0 to at most {max_ids - 1} (raise max_ids for more), "
            f"but its Box goes from {low.min()} to {high.max()}; "
            "leave pictures to CnnPolicy, make quantities floats"
        )
    return high + 1


def _n_active(space: spaces.Space[Any], size: int) -> int:
    """How many numbers of a flattened observation are not 0: one per one-hot."""
    if isinstance(space, spaces.Discrete):
        return 1
    return len(space.nvec) if isinstance(space, spaces.MultiDiscrete) else size
