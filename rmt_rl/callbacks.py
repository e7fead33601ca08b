"""Callbacks for training agents with a memory."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Sequence
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback


class CurriculumCallback(BaseCallback):
    """Raises an ordered difficulty (a delay, a size) once the present one is solved; mixes in easier ones.

    Works with every environment that has ``set_levels(levels, probabilities)`` and reports ``info["level"]``
    and ``info["is_success"]`` on the last step of an episode. Training on the hardest level alone tends to
    fail, and so does forgetting the easier ones. Where ``info`` has no level, every episode counts as one of
    the present level. Where ``window`` episodes have ended without ``is_success``, there is nothing to judge
    by: from then on all levels are drawn alike, with a warning.

    :param levels: the difficulties, easiest first
    :param threshold: success rate, over the last ``window`` episodes of the present level, at which it
        counts as solved
    :param window: number of episodes
    :param easier: share of the episodes that are drawn from easier levels, all alike
    :param stop_when_solved: end the training once the last level is solved
    :raises ValueError: if there are no levels, or a number is out of range
    """

    def __init__(
        self,
        levels: Sequence[Any],
        threshold: float = 0.93,
        window: int = 200,
        easier: float = 0.25,
        stop_when_solved: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        if not levels:
            raise ValueError("levels must hold at least one difficulty, got none")
        if not 0.0 < threshold <= 1.0:
            raise ValueError(f"threshold must be in (0, 1], got {threshold}")
        if window < 1:
            raise ValueError(f"window must be at least 1 episode, got {window}")
        if not 0.0 <= easier < 1.0:
            raise ValueError(f"easier must be in [0, 1), got {easier}")
        self.levels, self.threshold, self.window, self.easier = list(levels), threshold, window, easier
        self.stop_when_solved = stop_when_solved
        self.stage = 0
        self.recent: deque[bool] = deque(maxlen=window)
        self.history: list[tuple[int, int]] = []
        """(steps of training, stage) at every change of stage"""
        self.solved_at: int | None = None
        """steps of training when the last level was solved, if it was"""
        self.reports_success = False
        """whether an episode has told if it succeeded"""
        self.draws_alike = False
        """whether all levels are drawn alike, as no episode has"""

    @property
    def success_rate(self) -> float:
        """Over the last ``window`` episodes of the present level; 0 before the first."""
        return sum(self.recent) / len(self.recent) if self.recent else 0.0

    def mixture(self) -> tuple[list[Any], list[float]]:
        """The levels now played and how often each is drawn."""
        if self.draws_alike:
            return list(self.levels), [1.0 / len(self.levels)] * len(self.levels)
        levels = self.levels[: self.stage + 1]
        if self.stage == 0:
            return levels, [1.0]
        return levels, [self.easier / self.stage] * self.stage + [1.0 - self.easier]

    def state_dict(self) -> dict[str, Any]:
        """Plain values from which ``load_state_dict`` goes on."""
        return {
            "levels": self.levels,
            "stage": self.stage,
            "recent": list(self.recent),
            "history": [list(entry) for entry in self.history],
            "solved_at": self.solved_at,
            "reports_success": self.reports_success,
            "draws_alike": self.draws_alike,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where ``state`` was taken.

        :raises ValueError: if it belongs to other levels
        """
        if _plain(state["levels"]) != _plain(self.levels):
            raise ValueError(
                f"this curriculum's levels are {self.levels}, the saved one's are {state['levels']}"
            )
        self.stage = int(state["stage"])
        self.recent = deque(map(bool, state["recent"]), maxlen=self.window)
        self.history = [(int(steps), int(stage)) for steps, stage in state["history"]]
        self.solved_at = state["solved_at"]
        # States written by earlier versions lack these two; all of them are of environments that report.
        self.reports_success = bool(state.get("reports_success", True))
        self.draws_alike = bool(state.get("draws_alike", False))

    def _on_training_start(self) -> None:
        self._apply()

    def _apply(self) -> None:
        levels, probabilities = self.mixture()
        self.training_env.env_method("set_levels", levels, probabilities)

    def _on_step(self) -> bool:
        present = self.levels[self.stage]
        for done, info in zip(self.locals["dones"], self.locals["infos"], strict=True):
            if done and info.get("level", present) == present:
                self.reports_success |= "is_success" in info
                self.recent.append(bool(info.get("is_success", False)))
        if len(self.recent) < self.window:
            return True
        if not self.reports_success:
            self._draw_alike()
            return True
        if self.success_rate < self.threshold:
            return True
        if self.stage + 1 < len(self.levels):
            self.stage += 1
            self.history.append((self.num_timesteps, self.stage))
            self.recent.clear()
            self._apply()
            if self.verbose:
                print(
                    f"{self.num_timesteps} steps: level {present} is solved, on to {self.levels[self.stage]}"
                )
        elif self.solved_at is None:
            self.solved_at = self.num_timesteps
        return not (self.stop_when_solved and self.solved_at is not None)

    def _draw_alike(self) -> None:
        """Draw all levels alike, as no episode has told whether it succeeded."""
        if self.draws_alike or len(self.levels) == 1:
            return
        self.draws_alike = True
        self._apply()
        warnings.warn(
            f"{self.window} episodes have ended without info['is_success'], by which the curriculum goes on: "
            f"from now on its {len(self.levels)} levels are drawn alike",
            stacklevel=2,
        )

    def _on_rollout_end(self) -> None:
        if self.reports_success or not self.recent:
            self.logger.record("curriculum/stage", self.stage)
            self.logger.record("curriculum/success_rate", self.success_rate)


def _plain(levels: Sequence[Any]) -> list[Any]:
    """Levels as JSON gives them back: ranges are lists."""
    return [list(level) if isinstance(level, tuple) else level for level in levels]
