"""Schedules that unpickle wherever ``rmt_rl`` is installed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HoldThenLinear:
    """Hold a value, then let it fall in a line to the end of the training.

    As a learning rate it is SB3's kind of schedule: ``learning_rate=HoldThenLinear(3e-4, 0.0, hold=0.6)``.
    What has to be found first (a cue, a memory) is not found any more once steps and entropy are small.

    :param start: the value at first
    :param end: the value at the end
    :param hold: share of the training, in [0, 1), over which it stays at ``start``
    :raises ValueError: if ``hold`` is out of range
    """

    start: float
    end: float
    hold: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.hold < 1.0:
            raise ValueError(f"hold must be in [0, 1), got {self.hold}")

    def __call__(self, progress_remaining: float) -> float:
        """The value when ``progress_remaining`` (from 1 to 0) of the training is left."""
        fallen = max(0.0, (1.0 - progress_remaining - self.hold) / (1.0 - self.hold))
        return self.start + (self.end - self.start) * min(fallen, 1.0)
