"""Callbacks that a training by a recipe needs beside its curriculum."""

from __future__ import annotations

from collections.abc import Callable

from stable_baselines3.common.callbacks import BaseCallback

from agents.levels import format_level
from rmt_rl import MemoryPPO
from rmt_rl.callbacks import CurriculumCallback


class EntropySchedule(BaseCallback):
    """Changes the weight of the entropy bonus over the training.

    :param schedule: the weight as a function of the remaining progress, as SB3's learning rates are
    """

    model: MemoryPPO

    def __init__(self, schedule: Callable[[float], float]) -> None:
        super().__init__()
        self.schedule = schedule

    def _on_rollout_start(self) -> None:
        self.model.ent_coef = self.schedule(max(0.0, self.model._current_progress_remaining))

    def _on_step(self) -> bool:
        return True


class Reports(BaseCallback):
    """Tells the step and a few words after every rollout: for a training in another process.

    :param tell: called with the number of steps and the words
    """

    curriculum: CurriculumCallback | None = None
    """set by ``train``"""

    def __init__(self, tell: Callable[[int, str], object]) -> None:
        super().__init__()
        self.tell = tell

    def _on_rollout_end(self) -> None:
        words = ""
        if self.curriculum is not None:
            level = format_level(self.curriculum.levels[self.curriculum.stage])
            words = f"level {level}, success {self.curriculum.success_rate:.2f}"
        self.tell(self.num_timesteps, words)

    def _on_step(self) -> bool:
        return True
