"""Spaces of observations and actions: which can be learnt with, and values that are not counted from 0.

SB3 encodes Discrete and MultiDiscrete values as if they began at 0, whatever the space's ``start``. Here a
policy speaks in the environment's values. Observations are moved to 0 where they are encoded (``Encoding``),
actions are moved back where they leave the distribution (``ShiftedDistribution``); everything in between,
buffers, masks and files included, needs to know nothing of it.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
    NatureCNN,
)
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import Tensor, nn

ENCODABLE = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
TRANSFORM = "gymnasium.wrappers.TransformAction"


def check_observation_space(space: spaces.Space[Any]) -> None:
    """Raise ValueError unless ``space`` can be encoded.

    Box, Discrete, one-dimensional MultiDiscrete and MultiBinary will do, and a Dict of these.
    """
    parts = space.spaces if isinstance(space, spaces.Dict) else {"": space}
    if not parts:
        raise ValueError(f"observation space {space} is empty: there is nothing to learn from; add a part")
    for key, part in parts.items():
        where = f"observation space {part}" + (f" under the key {key!r}" if key else "")
        if not isinstance(part, ENCODABLE):
            raise ValueError(
                f"{where} cannot be encoded; it may be a Box, Discrete, MultiDiscrete, "
                "MultiBinary or a flat Dict of these (drop the part with a wrapper, or flatten it with "
                "gymnasium.wrappers.FlattenObservation)"
            )
        if isinstance(part, spaces.MultiDiscrete) and part.nvec.ndim != 1:
            raise ValueError(
                f"{where} has {part.nvec.ndim} dimensions, but a MultiDiscrete must have one; flatten it "
                "with gymnasium.wrappers.FlattenObservation, or return it as a one-dimensional MultiDiscrete"
            )
        if not np.prod(part.shape or ()):
            raise ValueError(f"{where} holds no numbers (its shape is {part.shape}); drop it with a wrapper")


def check_action_space(space: spaces.Space[Any]) -> None:
    """Raise ValueError unless actions of ``space`` can be learnt.

    Discrete, one-dimensional MultiDiscrete and MultiBinary will do, and a bounded Box of floats.
    """
    given = f"action space {space}"
    if not isinstance(space, ENCODABLE):
        raise ValueError(
            f"{given} cannot be learnt; it may be a Box, Discrete, MultiDiscrete or MultiBinary. Put the "
            f"parts into one of these, and take it apart in the environment or with {TRANSFORM}"
        )
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim != 1:
        raise ValueError(
            f"{given} has {space.nvec.ndim} dimensions, but a MultiDiscrete must have one; use "
            f"MultiDiscrete(nvec.flatten()), and reshape the actions with {TRANSFORM}"
        )
    if isinstance(space, spaces.MultiBinary) and not isinstance(space.n, int):
        raise ValueError(
            f"{given} has the shape {space.shape}, but a MultiBinary must be given as a number; use "
            f"MultiBinary({int(np.prod(space.shape))}), and reshape the actions with {TRANSFORM}"
        )
    if not np.prod(space.shape or ()):
        raise ValueError(f"{given} holds no numbers (its shape is {space.shape}): there is nothing to choose")
    if not isinstance(space, spaces.Box):
        return
    if not np.issubdtype(space.dtype, np.floating):
        raise ValueError(
            f"{given} is of {space.dtype}, but a Box of actions must be of floats: use Discrete or "
            f"MultiDiscrete for choices, or a Box of float32 whose actions are rounded with {TRANSFORM}"
        )
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        raise ValueError(
            f"{given} has no finite bounds, to which actions are clipped; give it a finite low and high, "
            f"such as -1 and 1, and scale the actions in the environment or with {TRANSFORM}"
        )


def make_extractor(
    kind: type[BaseFeaturesExtractor], space: spaces.Space[Any], options: dict[str, Any]
) -> BaseFeaturesExtractor:
    """Build a features extractor.

    :raises ValueError: naming the space, if it is not for one of SB3's extractors
    """
    if kind not in (FlattenExtractor, NatureCNN, CombinedExtractor):
        return kind(space, **options)
    is_dict = isinstance(space, spaces.Dict)
    if is_dict != (kind is CombinedExtractor):
        raise ValueError(
            f"observation space {space} is not for a {kind.__name__}: use "
            + ('"MultiInputPolicy"' if is_dict else '"MlpPolicy", or "CnnPolicy" for pictures')
        )
    try:
        return kind(space, **options)  # type: ignore[arg-type]
    # What SB3 and torch raise for pictures that are none or too small, and for keys no module can be named.
    except (AssertionError, KeyError, RuntimeError) as error:
        text = str(error).strip().split("\n")[0]
        if isinstance(error, KeyError):
            would = "rename the key with a wrapper"
        else:
            would = (
                "pictures are uint8 from 0 to 255, and a NatureCNN needs 36 x 36 pixels or more: use "
                '"MlpPolicy", or a features_extractor_class of your own'
            )
        raise ValueError(
            f"observation space {space} is not for a {kind.__name__} ({text}); {would}"
        ) from error


class Encoding(nn.Module):
    """Brings observations into the form that SB3 encodes: values from 0, and a single number as a vector."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        super().__init__()
        parts = space.spaces if isinstance(space, spaces.Dict) else {None: space}
        self.starts: dict[str | None, str] = {}
        """by key, the buffer that holds the first value"""
        self.scalars = [key for key, part in parts.items() if isinstance(part, spaces.Box) and not part.shape]
        for index, (key, part) in enumerate(parts.items()):
            if (start := start_of(part)) is not None:
                self.starts[key] = f"start_{index}"  # a key may be no name of a buffer
                self.register_buffer(self.starts[key], start, persistent=False)

    @property
    def is_needed(self) -> bool:
        """Whether it changes anything."""
        return bool(self.starts or self.scalars)

    def forward(self, observations: PyTorchObs) -> PyTorchObs:
        """Observations (B, ...) as the environment gives them, to (B, ...)."""
        parts: Any = {None: observations} if isinstance(observations, Tensor) else dict(observations)
        for key, name in self.starts.items():
            parts[key] = parts[key].long() - getattr(self, name)
        for key in self.scalars:
            parts[key] = parts[key].reshape(-1, 1)
        return parts[None] if isinstance(observations, Tensor) else parts  # type: ignore[no-any-return]


class ShiftedDistribution(Distribution):
    """One of SB3's distributions over values from 0, of values that begin at ``start``.

    :param start: (A,) int64, of a component each; () for a single one
    """

    def __init__(self, inner: Distribution, start: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.inner, self.start = inner, start
        self.distribution = inner.distribution

    def proba_distribution_net(self, *args: Any, **kwargs: Any) -> Any:
        return self.inner.proba_distribution_net(*args, **kwargs)

    def proba_distribution(self, *args: Any, **kwargs: Any) -> Self:
        self.inner.proba_distribution(*args, **kwargs)
        self.distribution = self.inner.distribution
        return self

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.inner.log_prob(actions.long() - self.start)

    def entropy(self) -> Tensor | None:
        return self.inner.entropy()

    def sample(self) -> Tensor:
        return self.inner.sample() + self.start

    def mode(self) -> Tensor:
        return self.inner.mode() + self.start

    def actions_from_params(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.inner.actions_from_params(*args, **kwargs) + self.start

    def log_prob_from_params(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        actions, log_prob = self.inner.log_prob_from_params(*args, **kwargs)
        return actions + self.start, log_prob


def start_of(space: spaces.Space[Any]) -> Tensor | None:
    """The first value of every component as int64; None if all are counted from 0."""
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return None
    start = np.asarray(space.start, dtype=np.int64)
    return th.as_tensor(start) if start.any() else None


def fits_float32(space: spaces.Space[Any]) -> bool:
    """Whether every choice is a number that float32 holds exactly; True of what is no choice."""
    if not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return True
    start = np.asarray(space.start, dtype=np.int64)
    count = space.n if isinstance(space, spaces.Discrete) else space.nvec
    largest = np.maximum(np.abs(start), np.abs(start + np.asarray(count, dtype=np.int64)))
    return bool((largest <= 2**24).all())
