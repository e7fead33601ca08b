"""Callbacks that a training by a recipe needs beside its curriculum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
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


def describe_episodes(model: BaseAlgorithm, curriculum: CurriculumCallback | None) -> str:
    """What came of the last episodes of a training, in a few words.

    With a curriculum the level, and success at it; else the mean return of the last 100 episodes, and their
    success if they tell of it.
    """
    words = []
    tells = curriculum is None or curriculum.reports_success or not curriculum.recent
    if curriculum is not None:
        words.append(f"level {format_level(curriculum.levels[curriculum.stage])}")
        if curriculum.draws_alike:
            words = [f"{len(curriculum.levels)} levels alike"]
        elif tells:
            words.append(f"success {curriculum.success_rate:.2f}")
    elif model.ep_success_buffer:
        words.append(f"success {np.mean(model.ep_success_buffer):.2f}")
    if curriculum is None or not tells:
        returns = [episode["r"] for episode in model.ep_info_buffer or ()]
        words.append(f"return {np.mean(returns):.2f}" if returns else "no episode has ended yet")
    return ", ".join(words)


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
        self.tell(self.num_timesteps, describe_episodes(self.model, self.curriculum))

    def _on_step(self) -> bool:
        return True
