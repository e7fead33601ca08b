"""What optuna draws for our algorithms: lengths that fit each other whatever is drawn, and the usual rest.

``policy_kwargs`` are left alone: rl_zoo3 puts what is drawn in the place of what was given, and with that the
core and a features extractor would be lost. So a study compares settings of one core.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Trial(Protocol):
    """What is used of ``optuna.Trial``."""

    def suggest_int(self, name: str, low: int, high: int, /) -> int: ...

    def suggest_float(self, name: str, low: float, high: float, /, *, log: bool = ...) -> float: ...

    def suggest_categorical(self, name: str, choices: Any, /) -> Any: ...

    def set_user_attr(self, key: str, value: Any, /) -> None: ...


Sampler = Callable[[Trial, int, int, dict[str, Any]], dict[str, Any]]
Converter = Callable[[dict[str, Any]], dict[str, Any]]


def convert(drawn: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the algorithm from the numbers of a trial.

    Lengths are powers of 2; rollout and minibatch are at least as long as a training sequence.
    """
    arguments = dict(drawn)
    power = arguments.pop("sequence_length_pow")
    arguments["sequence_length"] = 2**power
    for name in ("n_steps", "batch_size"):
        if f"{name}_pow" in arguments:
            arguments[name] = 2 ** max(power, arguments.pop(f"{name}_pow"))
    for name in ("gamma", "gae_lambda"):
        arguments[name] = 1.0 - arguments.pop(f"one_minus_{name}")
    return arguments


def _draw_shared(trial: Trial) -> dict[str, Any]:
    return dict(
        sequence_length_pow=trial.suggest_int("sequence_length_pow", 4, 8),
        n_steps_pow=trial.suggest_int("n_steps_pow", 5, 10),
        one_minus_gamma=trial.suggest_float("one_minus_gamma", 0.0001, 0.03, log=True),
        one_minus_gae_lambda=trial.suggest_float("one_minus_gae_lambda", 0.001, 0.2, log=True),
        learning_rate=trial.suggest_float("learning_rate", 3e-5, 3e-3, log=True),
        ent_coef=trial.suggest_float("ent_coef", 1e-5, 0.1, log=True),
        max_grad_norm=trial.suggest_float("max_grad_norm", 0.3, 2.0),
    )


def _finish(trial: Trial, drawn: dict[str, Any]) -> dict[str, Any]:
    """Convert, and show the true values with the trial."""
    arguments = convert(drawn)
    for name in arguments.keys() - drawn.keys():
        trial.set_user_attr(name, arguments[name])
    return arguments


def sample_memory_ppo(
    trial: Trial, n_actions: int, n_envs: int, additional_args: dict[str, Any]
) -> dict[str, Any]:
    """Arguments of ``MemoryPPO``."""
    drawn = _draw_shared(trial) | dict(
        batch_size_pow=trial.suggest_int("batch_size_pow", 6, 12),
        n_epochs=trial.suggest_categorical("n_epochs", [1, 4, 10]),
        clip_range=trial.suggest_categorical("clip_range", [0.1, 0.2, 0.3]),
    )
    return _finish(trial, drawn)


def sample_memory_a2c(
    trial: Trial, n_actions: int, n_envs: int, additional_args: dict[str, Any]
) -> dict[str, Any]:
    """Arguments of ``MemoryA2C``."""
    return _finish(trial, _draw_shared(trial))


SAMPLERS: dict[str, Sampler] = {"memory_ppo": sample_memory_ppo, "memory_a2c": sample_memory_a2c}
CONVERTERS: dict[str, Converter] = dict.fromkeys(SAMPLERS, convert)
