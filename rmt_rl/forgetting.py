"""A warning for the commonest mistake: ``predict`` in a loop that never hands the memory back.

A call without ``state`` and ``episode_start`` begins an episode, and one such call an episode is right. Two
in a row are not, if neither was named. Where ``state=None`` was said, several agents may be beginning side by
side; there, the mistake shows in a memory that is gone without having been handed back. What is known of
the calls is kept beside the policies, not in them, so that they are copied, pickled and saved as ever.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from weakref import ReferenceType, WeakKeyDictionary, ref

import stable_baselines3

from rmt_rl.states import MemoryState

PACKAGES = tuple(f"{Path(file).parent}{os.sep}" for file in (__file__, stable_baselines3.__file__))
OMITTED: Final[Any] = type("Omitted", (), {"__repr__": lambda _: "None", "__slots__": ()})()
"""stands for None where no state was given at all"""


@dataclass
class _Calls:
    """Those of a policy since it was last given a state or an episode start."""

    omitted: bool = False
    """whether one had no ``state``, not even None"""
    returned: list[ReferenceType[MemoryState]] = field(default_factory=list)
    """what the last two returned"""
    is_warned: bool = False


_calls: WeakKeyDictionary[Any, _Calls] = WeakKeyDictionary()


def note_call(policy: Any, begins: bool, omits: bool, returned: MemoryState) -> None:
    """Take note of a call of a policy whose core has a memory, and warn if memories are forgotten.

    :param begins: whether it had neither a state nor an episode start
    :param omits: whether it did not say so
    :param returned: what it returns
    """
    calls = _calls.setdefault(policy, _Calls())
    if calls.is_warned:
        return
    if not begins:
        calls.omitted, calls.returned = False, []
        return
    if (omits and calls.omitted) or any(memory() is None for memory in calls.returned):
        calls.is_warned = True
        warn_user(
            "predict was called repeatedly without state and episode_start: each call began with an empty "
            "memory. Pass the state that the last call returned: actions, state = model.predict(obs, state, "
            "episode_start=starts). If every observation was the first of an episode, say so with "
            "episode_start=np.ones(n_envs, bool)"
        )
    calls.omitted = calls.omitted or omits
    calls.returned = [*calls.returned[-1:], ref(returned)]


def warn_user(message: str) -> None:
    """Warn of the user's line, which called this package or SB3, through however many of their functions."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGES):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
