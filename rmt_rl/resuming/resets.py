"""Training environments that were reset or played between two calls of ``learn``.

``learn(reset_num_timesteps=False)`` goes on from the observation that the last call ended with. If the
environments have been used since - ``env.reset()``, an evaluation in them, another model's training - that
observation is of an episode that is gone. SB3's vectors put new lists in the place of seeds and options when
they are reset; ``Monitor`` and ``TimeLimit`` count the steps of each environment. Nothing is wrapped around
the environments, and what is known of them is kept beside the models, not in them.
"""

from __future__ import annotations

from multiprocessing.connection import wait
from typing import Any, NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, ref

from stable_baselines3.common.vec_env import VecEnv


class _Left(NamedTuple):
    """How a training left its environments."""

    model: ReferenceType[Any]
    seeds: object
    options: object
    counts: dict[str, list[int]] | None
    """None where they could not be asked"""


_left: WeakKeyDictionary[VecEnv, _Left] = WeakKeyDictionary()


def note_left(model: Any, asks: bool = True) -> None:
    """Take note of how ``model`` leaves its environments.

    :param asks: whether the environments may be asked; after an error, workers may be gone or out of step
    """
    if model.env is None:
        return
    base = model.env.unwrapped
    seeds, options = _reset_mark(base, "_seeds"), _reset_mark(base, "_options")
    _left[base] = _Left(ref(model), seeds, options, _counts(base) if asks else None)


def were_left_alone(model: Any) -> bool:
    """Whether nobody has reset or played ``model``'s environments since it left them; True if unknown."""
    base = None if model.env is None else model.env.unwrapped
    left = None if base is None else _left.get(base)
    if base is None or left is None:
        return True
    # Both are renewed by a reset, one of them by seed() and by set_options() as well.
    was_reset = all(
        _reset_mark(base, name) is not before
        for name, before in (("_seeds", left.seeds), ("_options", left.options))
    )
    if was_reset or left.model() is not model:
        return False
    return left.counts is None or _counts(base) in (left.counts, None)


def _reset_mark(base: VecEnv, name: str) -> object:
    return getattr(base, name, None)  # a VecEnv of one's own may not have called SB3's constructor


def _counts(base: VecEnv) -> dict[str, list[int]] | None:
    """Steps of each environment, as far as its wrappers count them; None if it cannot be asked now."""
    if getattr(base, "closed", False) or getattr(base, "waiting", False):
        return None  # workers that are gone, or whose next answer is that to a step
    if wait([process.sentinel for process in getattr(base, "processes", ())], 0):
        return None  # one has died: it would never answer
    counts = {}
    try:
        for name in ("_elapsed_steps", "total_steps", "rewards"):
            if base.has_attr(name):
                values = base.get_attr(name)
                counts[name] = [len(value) if isinstance(value, list) else value for value in values]
    except (AttributeError, NotImplementedError, EOFError, OSError):  # a VecEnv need not say what it has
        return None
    return counts
