"""The progress of a training, for a person to read."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from stable_baselines3.common.callbacks import BaseCallback

from agents.callbacks import describe_episodes
from agents.levels import format_level
from rmt_rl import MemoryPPO
from rmt_rl.callbacks import CurriculumCallback

SECONDS_BETWEEN_LINES = 15.0


class ProgressReport(BaseCallback):
    """A bar on a terminal; elsewhere (a file, a pipe) a line four times a minute. Tells of each level solved.

    :param console: where it goes
    :param headline: what to print once the training begins, when all options have been found to be right
    """

    model: MemoryPPO
    curriculum: CurriculumCallback | None = None
    """set by ``train``"""

    def __init__(self, console: Console, headline: str = "") -> None:
        super().__init__()
        self.console, self.headline = console, headline
        self.bar: Progress | None = None
        self.task: Any = None
        self.told = 0
        """changes of level that have been told"""

    def _on_training_start(self) -> None:
        if self.headline:
            self.console.print(self.headline, soft_wrap=True)
        self.began = self.last_line = time.monotonic()
        self.begin_steps = self.num_timesteps
        self.told = len(self.curriculum.history) if self.curriculum else 0
        if self.console.is_terminal:
            columns = (BarColumn(), TaskProgressColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self.bar = Progress(TextColumn("{task.description}"), *columns, console=self.console)
            self.task = self.bar.add_task("", total=self.model._total_timesteps, completed=self.num_timesteps)
            self.bar.start()

    def _on_step(self) -> bool:
        return True

    def state_dict(self) -> dict[str, Any]:
        """Nothing: a training that goes on is timed anew."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to load."""

    def _on_rollout_end(self) -> None:
        self._tell_levels()
        if self.bar is not None:
            self.bar.update(self.task, completed=self.num_timesteps, description=self.describe())
        elif time.monotonic() - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            self.console.print(
                f"{self.num_timesteps:,} of {self.model._total_timesteps:,} steps: {self.describe()}"
            )

    def _on_training_end(self) -> None:
        self._tell_levels()
        self.close()

    def close(self) -> None:
        """Take the bar away; after a training that was cut short as well."""
        if self.bar is not None:
            self.bar.stop()

    def describe(self) -> str:
        """Level and success, or return, and speed in a few words."""
        rate = (self.num_timesteps - self.begin_steps) / max(time.monotonic() - self.began, 1e-9)
        return f"{describe_episodes(self.model, self.curriculum)}, {rate:,.0f} steps/s"

    def _tell_levels(self) -> None:
        if self.curriculum is None:
            return
        for steps, stage in self.curriculum.history[self.told :]:
            solved, following = (format_level(self.curriculum.levels[i]) for i in (stage - 1, stage))
            self.console.print(f"{steps:,} steps: level {solved} is solved, on to {following}")
        self.told = len(self.curriculum.history)
