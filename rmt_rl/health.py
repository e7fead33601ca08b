"""A training that has broken is stopped, and says why, before it spoils what it had learnt."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from torch import Tensor

from rmt_rl.cores.base import require_positive
from rmt_rl.on_policy import MemoryOnPolicyAlgorithm
from rmt_rl.resuming.resumable import BetweenRollouts
from rmt_rl.states import CoreStates, leaves

GRADIENT, MEMORY, REPLAY = "train/grad_norm", "train/memory_norm", "train/replay_error"
LOSSES = ("train/loss", "train/value_loss", "train/policy_gradient_loss")
HINTS = {
    "max_loss": "scale the rewards (VecNormalize does), or lower learning_rate",
    "max_grad_norm": "scale the rewards (VecNormalize does), or lower learning_rate",
    "max_kl": "lower learning_rate or n_epochs, or set target_kl",
    "min_entropy": "raise ent_coef, or lower learning_rate",
    "max_entropy": "lower ent_coef or learning_rate",
    "max_memory_norm": "lower learning_rate",
    "max_replay_error": "does an observation, the extractor or the core depend on more than its input?",
}


class UnhealthyTrainingError(RuntimeError):
    """A training has diverged, or its numbers are none any more."""


class Health(BetweenRollouts):
    """Stops a training with ``UnhealthyTrainingError`` when its figures are no numbers or leave their bounds.

    With an ``ExactCheckpoint`` among the callbacks, the last state that was in order is kept as a checkpoint;
    none is taken while a bound is left. NaN and infinity stop at once, those of a gradient before it reaches
    the weights; a bound stops when it has been left after ``patience`` updates on end. The bounds are wide:
    within them a training may still be a bad one. ``math.inf`` takes a bound away.

    Logs ``train/grad_norm``, the mean over an update before clipping, and ``train/memory_norm``.

    :param patience: updates; with more than 1 a jump of the policy passes unseen if it ends up where its
        gradient is 0
    :param max_loss: of the whole loss, the critic's and the actor's, each without its sign
    :param max_grad_norm: largest gradient of an update, before clipping
    :param max_kl: ``train/approx_kl``: healthy are some hundredths; beyond 1 the update has replaced the
        policy by another one
    :param min_entropy: in nats for each dimension of the actions. A discrete one's is at least 0; a
        continuous one of -10 has a deviation of 1e-5, and its log-probabilities are about to overflow
    :param max_entropy: 10 is a deviation of 5,000
    :param max_memory_norm: root mean square of the numbers that an environment's memory consists of, of the
        largest; healthy is about 1
    :param max_replay_error: ``train/replay_error``: healthy is about 1e-6
    :raises ValueError: if patience is below 1, or a bound is NaN
    """

    model: MemoryOnPolicyAlgorithm
    order: ClassVar[int] = 0  # before a checkpoint is taken

    def __init__(
        self,
        patience: int = 1,
        max_loss: float = 1e8,
        max_grad_norm: float = 1e6,
        max_kl: float = 1.0,
        min_entropy: float = -10.0,
        max_entropy: float = 10.0,
        max_memory_norm: float = 1e3,
        max_replay_error: float = 0.1,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        self.patience = require_positive("patience", patience)
        self.bounds = {
            "max_loss": max_loss,
            "max_grad_norm": max_grad_norm,
            "max_kl": max_kl,
            "min_entropy": min_entropy,
            "max_entropy": max_entropy,
            "max_memory_norm": max_memory_norm,
            "max_replay_error": max_replay_error,
        }
        for name, bound in self.bounds.items():
            if math.isnan(bound):
                raise ValueError(f"{name} must be a number, or infinite for no bound, got {bound}")
        self.beyond: dict[str, int] = {}
        """updates on end that a bound has been left for"""
        self._norms: list[Tensor] = []
        self._gradients: list[float] = []
        self._hooks: list[Any] = []

    def _on_training_start(self) -> None:
        self._has_trained = False
        self._remove_hooks()
        # SB3 does not tell the norm, and clips what could be measured later.
        for parameter in self.model.policy.parameters():
            if parameter.requires_grad:
                hook = parameter.register_post_accumulate_grad_hook(self._measure)  # type: ignore[no-untyped-call]
                self._hooks.append(hook)
        self._hooks.append(self.model.policy.optimizer.register_step_pre_hook(self._before_step))

    def _measure(self, parameter: Tensor) -> None:
        assert parameter.grad is not None
        self._norms.append(th.linalg.vector_norm(parameter.grad))

    def _before_step(self, *_: Any) -> None:
        norm = float(th.stack(self._norms).norm()) if self._norms else 0.0
        self._norms.clear()
        self._gradients.append(norm)
        if not math.isfinite(norm):
            raise UnhealthyTrainingError(
                f"the gradient's norm is {norm} in minibatch {len(self._gradients)} of the update at step "
                f"{self.model.num_timesteps}; it has not reached the weights. Is a reward infinite, or is a "
                "loss of your own no number?"
            )

    def between_rollouts(self) -> bool:
        check_weights(self.model.policy)
        if not self._has_trained:  # what a resumed training finds in its log has been judged before
            self._has_trained = True
            return True
        figures = self._figures()
        for name, value in figures.items():
            if not math.isfinite(value):
                raise UnhealthyTrainingError(f"{name} is {value} at step {self.model.num_timesteps}")
        self._check(figures)
        if self._gradients:
            self.logger.record(GRADIENT, float(np.mean(self._gradients)))
            self._gradients.clear()
        if MEMORY in figures:
            self.logger.record(MEMORY, figures[MEMORY])
        return not any(self.beyond.values())

    def _figures(self) -> dict[str, float]:
        """Those of the last update, by their names in the log; none before the first."""
        logged = self.logger.name_to_value
        names = (*LOSSES, "train/approx_kl", REPLAY)
        figures = {name: float(logged[name]) for name in names if name in logged}
        if "train/entropy_loss" in logged:
            dimensions = _action_dimensions(self.model.action_space)
            figures["entropy"] = -float(logged["train/entropy_loss"]) / dimensions
        if self._gradients:
            figures[GRADIENT] = max(self._gradients)
        if self.model._memory is not None and (norm := memory_norm(self.model._memory)) is not None:
            figures[MEMORY] = norm
        return figures

    def _check(self, figures: dict[str, float]) -> None:
        measured = {
            "max_loss": max((abs(figures[name]) for name in LOSSES if name in figures), default=None),
            "max_grad_norm": figures.get(GRADIENT),
            "max_kl": figures.get("train/approx_kl"),
            "min_entropy": figures.get("entropy"),
            "max_entropy": figures.get("entropy"),
            "max_memory_norm": figures.get(MEMORY),
            "max_replay_error": figures.get(REPLAY),
        }
        for name, value in measured.items():
            if value is None:
                continue
            bound = self.bounds[name]
            left = value < bound if name.startswith("min_") else value > bound
            self.beyond[name] = self.beyond.get(name, 0) + 1 if left else 0
            if self.beyond[name] >= self.patience:
                updates = f" after {self.patience} updates on end" if self.patience > 1 else ""
                what = name.removeprefix("max_").removeprefix("min_").replace("_", " ")
                raise UnhealthyTrainingError(
                    f"the training has diverged: {what} is {value:.3g} at step {self.model.num_timesteps}, "
                    f"beyond {name}={bound:g}{updates}. {HINTS[name]}"
                )

    def _on_training_end(self) -> None:
        self._remove_hooks()

    def on_failure(self, error: BaseException) -> None:
        if not self._hooks:  # training had not started
            return
        self._remove_hooks()
        try:
            check_weights(self.model.policy)
        except UnhealthyTrainingError as reason:
            if not isinstance(error, UnhealthyTrainingError):
                error.add_note(str(reason))  # what else fails then, fails for that

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._norms.clear()
        self._gradients.clear()


def check_weights(policy: BasePolicy) -> None:
    """Raise UnhealthyTrainingError if a weight is NaN or infinite."""
    for name, parameter in policy.named_parameters():
        if not th.isfinite(parameter).all():
            raise UnhealthyTrainingError(f"the policy's weights are no numbers any more: {name}")


def memory_norm(states: CoreStates) -> float | None:
    """Root mean square of what an environment remembers, of the one where it is largest; None for nothing.

    Where a core tells its memory from what it caches, that is the memory.
    """
    norms = []
    for state in states:
        memory: Tensor | None = getattr(state, "memory", None)
        parts = tuple(leaves(state)) if memory is None else (memory,)
        floats = [part.flatten(1) for part in parts if part.is_floating_point() and part[:1].numel()]
        if floats:
            norms.append(th.cat(floats, dim=1).square().mean(dim=1).sqrt())
    return float(th.cat(norms).max()) if norms else None


def _action_dimensions(space: spaces.Space[Any]) -> int:
    return 1 if isinstance(space, spaces.Discrete) else int(np.prod(space.shape or (1,)))
