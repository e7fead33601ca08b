"""Action masks: which actions an environment allows now, by MaskablePPO's conventions.

An environment, or a wrapper of it, has a method ``action_masks()``. It returns a flag for every value of an
action, true where that value may be chosen: n flags for ``Discrete(n)``, ``sum(nvec)`` one component after
the other for ``MultiDiscrete(nvec)``, two per bit (for 0, for 1) for ``MultiBinary(n)``; a component's first
flag is that of the space's ``start``. A below is their number. Algorithms with a memory notice the method and
learn with the masks; see Huang and Ontanon 2022.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common import evaluation
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.distributions import (
    CategoricalDistribution,
    Distribution,
    MultiCategoricalDistribution,
)
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv
from torch import Tensor

METHOD = "action_masks"
Masks = npt.NDArray[np.bool_]


def count_values(space: spaces.Space[Any]) -> list[int]:
    """How many values each component of an action has; A is their sum.

    :raises ValueError: if they are not countable
    """
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec.flatten()]
    if isinstance(space, spaces.MultiBinary):
        return [2] * int(np.prod(space.shape))
    raise ValueError(
        f"actions of {space} cannot be masked, those of Discrete, MultiDiscrete and MultiBinary can; "
        "learn(use_masking=False) leaves the environment's action_masks() alone"
    )


def masked_distribution(space: spaces.Space[Any], logits: Tensor, masks: Tensor) -> Distribution:
    """The distribution of actions given that they are allowed: a softmax over the allowed values.

    :param logits: (B, ...) as SB3's distribution for ``space`` takes them
    :param masks: (B, A) bool, in every component at least one true
    """
    values = count_values(space)
    if isinstance(space, spaces.MultiBinary):
        # A sigmoid is a softmax over 0 and the logit.
        logits = th.stack([th.zeros_like(logits), logits], dim=-1).flatten(1)
    # Far below any logit, so that its probability is 0; not infinite, for 0 times infinity has no gradient.
    logits = logits.masked_fill(~masks, -(th.finfo(logits.dtype).max ** 0.5))
    if isinstance(space, spaces.Discrete):
        return CategoricalDistribution(values[0]).proba_distribution(logits)
    return MultiCategoricalDistribution(values).proba_distribution(logits)


def check_action_masks(masks: Any, space: spaces.Space[Any], n_envs: int) -> Masks:
    """Bring the masks of ``n_envs`` environments into one form, bool (n_envs, A).

    :param masks: A flags (bool, or 0 and 1) for each environment; of one environment also without the batch
    :raises ValueError: if their number does not fit, they are no flags, or they allow an environment nothing
    """
    values = count_values(space)
    rows = [_flatten(masks)] if n_envs == 1 else [_flatten(mask) for mask in masks]
    if len(rows) != n_envs:
        raise ValueError(f"action_masks has {len(rows)} rows for {n_envs} environments")
    for row, flags in enumerate(rows):
        are_flags = flags.dtype == np.bool_ or np.isin(flags, (0, 1)).all()
        if len(flags) != sum(values) or not are_flags:
            raise ValueError(
                f"the action mask of environment {row} must be {sum(values)} flags (true or false), one for "
                f"each value of {space}; got {len(flags)} numbers: {flags.tolist()!s:.60}"
            )
    checked: Masks = np.stack(rows).astype(np.bool_)
    possible = np.logical_or.reduceat(checked, np.cumsum([0, *values[:-1]]), axis=1)
    if not possible.all():
        row, component = np.argwhere(~possible)[0]
        raise ValueError(
            f"environment {row} allows no action (component {component} of {space}): its action mask is "
            f"{checked[row].astype(int).tolist()!s:.60}; at least one value must be allowed at every step"
        )
    return checked


def _flatten(mask: Any) -> npt.NDArray[Any]:
    try:
        return np.ravel(mask)
    except ValueError:  # a list of the components' masks, which differ in length
        return np.concatenate([np.ravel(part) for part in mask])


def is_masking_supported(env: GymEnv) -> bool:
    """Whether the environment, or each one of a VecEnv, has ``action_masks()``.

    :raises ValueError: if it has something else of that name; None is as if there were nothing
    """
    try:
        if isinstance(env, VecEnv) and not env.has_attr(METHOD):
            return False
    except NotImplementedError:  # a VecEnv need not say what it has
        return False
    if isinstance(env, VecEnv) and isinstance(env.unwrapped, SubprocVecEnv):
        return True  # a worker that is asked for a method would have to pickle its environment
    try:
        methods = env.get_attr(METHOD) if isinstance(env, VecEnv) else [env.get_wrapper_attr(METHOD)]
    except (AttributeError, NotImplementedError):
        return isinstance(env, VecEnv)  # which has it, but only calls it
    if all(method is None for method in methods):
        return False
    for row, method in enumerate(methods):
        if not callable(method):
            raise ValueError(
                f"{METHOD} of environment {row} must be a method that returns the masks, it is "
                f"{method!r:.60}; make it one, or say learn(use_masking=False)"
            )
    return True


def get_action_masks(env: GymEnv) -> Masks:
    """The masks of the actions that come next.

    :return: (A,) of an environment, (n_envs, A) of a VecEnv
    :raises ValueError: if the masks do not fit the action space, or allow an environment nothing
    """
    if isinstance(env, VecEnv):
        return check_action_masks(env.env_method(METHOD), env.action_space, env.num_envs)
    return check_action_masks(env.get_wrapper_attr(METHOD)(), env.action_space, 1).reshape(-1)


def decide_masking(env: GymEnv | None, use_masking: bool | None) -> bool:
    """Whether to mask: as told, or, if told None, whenever the environment has masks.

    :raises ValueError: if there are none, or its actions cannot be masked
    """
    if use_masking is False or env is None:
        return False
    supported = is_masking_supported(env)
    if supported:
        count_values(env.action_space)
    elif use_masking:
        raise ValueError(
            "use_masking=True, but the environment has no action_masks(): give it, or a wrapper of it, that "
            "method, or say use_masking=False"
        )
    return supported


class _Player:
    """A model whose ``predict`` asks an environment which actions it allows; all else is the model's."""

    def __init__(self, model: Any, env: VecEnv, use_masking: bool) -> None:
        decide_masking(env, use_masking)
        self._model, self._env, self._use_masking = model, env, use_masking

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def predict(self, *args: Any, **kwargs: Any) -> tuple[npt.NDArray[Any], Any]:
        masks = get_action_masks(self._env) if self._use_masking else None
        # Not the algorithm's own, which warns where masks are forgotten.
        policy = getattr(self._model, "policy", self._model)
        actions: tuple[npt.NDArray[Any], Any] = policy.predict(*args, **kwargs, action_masks=masks)
        return actions


def evaluate_policy(
    model: Any, env: GymEnv, *args: Any, use_masking: bool = True, **kwargs: Any
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """SB3's ``evaluate_policy``, with the masks that the environment gives.

    :param model: an algorithm with a memory, or its policy
    :param args: as SB3's, and so are ``kwargs``
    :param use_masking: False takes away the masks
    :raises ValueError: if the environment has no ``action_masks()``
    """
    vec_env = env if isinstance(env, VecEnv) else DummyVecEnv([lambda: env])
    return evaluation.evaluate_policy(_Player(model, vec_env, use_masking), vec_env, *args, **kwargs)


class MaskableEvalCallback(EvalCallback):
    """SB3's ``EvalCallback``, with the masks that the evaluation environment gives.

    :param args: as SB3's, and so are ``kwargs``
    :param use_masking: False takes away the masks
    """

    def __init__(self, *args: Any, use_masking: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.use_masking = use_masking

    def _on_step(self) -> bool:
        # SB3's method plays the callback's model; for the time of the call that is one which sees masks.
        model: Any = self.model
        self.model = _Player(model, self.eval_env, self.use_masking)  # type: ignore[assignment]
        try:
            return super()._on_step()
        finally:
            self.model = model
