"""What a task has to say for itself: the contract between a task and the machinery that plays it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from envs.recall.hashing import Ints
from envs.recall.parameters import Parameter

if TYPE_CHECKING:
    from envs.recall.scripted import ScriptedPolicy

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Observations = NDArray[np.float32]

FIRST_STREAM = 2
"""The first random stream a task may draw from; those before it draw the levels."""


class Outcome(NamedTuple):
    """What a step did, one entry per row, shapes (N,)."""

    rewards: Floats
    terminated: Bools
    truncated: Bools


class Finished(NamedTuple):
    """The rows whose episode ended with a step, in rising order, and how it ended; R of them."""

    rows: Ints
    observations: Observations
    """(R, D): what was seen after the last action."""
    truncated: Bools
    success: Bools
    levels: NDArray[np.object_]
    returns: Floats
    lengths: Ints


class Task(ABC):
    """A task as its author writes it; `BatchedTask` says what the hooks can use."""

    PARAMETERS: ClassVar[tuple[Parameter, ...]]
    """The constructor arguments but the level."""
    LEVEL: ClassVar[Parameter]
    """The constructor argument that is the difficulty: an integer, or a range to draw one from."""
    PRESETS: ClassVar[Mapping[str, dict[str, Any]]] = {}
    """Constructor arguments by name: the settings of papers and other libraries, where there are any."""
    observation_dim: int
    observation_low: ClassVar[float] = 0.0
    observation_high: ClassVar[float] = 1.0
    n_actions: int
    policy_class: ClassVar[type[ScriptedPolicy[Any]]]

    @staticmethod
    def check_parameters(values: Mapping[str, NDArray[Any]]) -> None:
        """Raise ValueError for parameters (N,) by name that do not fit each other.

        Among them the level, as the lowest and the highest number (N, 2) that episodes can draw.
        """
        return None  # any do, unless the task says otherwise

    @abstractmethod
    def _start(self, rows: Ints) -> None:
        """Draw the hidden state of the episodes that begin in `rows` (R,); key and size are set."""

    @abstractmethod
    def _step(self, actions: Ints) -> tuple[Outcome, Bools]:
        """Move every row by its action (N,); the outcome, and the success (N,), read on last steps only."""

    @abstractmethod
    def _observe(self, rows: Ints | slice, steps: Ints) -> Observations:
        """What the rows (R) see at the steps (R, k) of their episodes: (R, k, D).

        Steps other than the present one are asked for only where no action decides what is seen (`advance`).
        """

    @abstractmethod
    def non_reactive_steps(self) -> Ints:
        """(N,) steps from now, the present one included, whose actions have no effect and earn nothing.

        0 where the present observation asks for an action.
        """

    @abstractmethod
    def optimal_action(self, state: Mapping[str, NDArray[Any]] | None = None) -> Ints:
        """(N,) best actions, read from the hidden state: the present one, or that of a `get_state`."""

    @property
    @abstractmethod
    def best_return(self) -> Floats:
        """(N,) the return of the best policy in the present episodes, exact and without discount."""

    @property
    @abstractmethod
    def chance(self) -> float:
        """Success rate of the best policy without memory."""

    @property
    def answer_chance(self) -> float:
        """How often that policy's last answer is right: `chance`, unless all of several must be right."""
        return self.chance

    @property
    @abstractmethod
    def random_success(self) -> Floats:
        """(N,) success rate of uniformly random actions at the present episodes' parameters, exact."""

    @abstractmethod
    def render_text(self, row: int = 0) -> str:
        """One or a few lines of text: what the row's agent sees."""

    @abstractmethod
    def render_rgb(self, row: int = 0) -> NDArray[np.uint8]:
        """A picture (H, W, 3) of the same."""
