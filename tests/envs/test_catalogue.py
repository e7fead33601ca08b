"""The list of tasks: nothing missing, nothing made up."""

from __future__ import annotations

import gymnasium as gym
import pytest

import envs.minigrid  # noqa: F401  registers ids
from envs.catalogue import KINDS, tasks
from envs.recall.catalogue import ABOUT
from envs.recall.tasks import TASKS


def test_every_id_of_this_project_is_listed_once() -> None:
    listed = [task.env_id.rpartition(":")[2] for task in tasks()]
    assert len(set(listed)) == len(listed)
    assert {name for name in gym.registry if name.startswith("RMT/")} <= set(listed)
    assert list(ABOUT) == list(TASKS)


def test_every_id_can_be_made_with_its_module_in_front() -> None:
    for task in tasks():
        gym.make(task.env_id).close()


def test_kinds() -> None:
    assert [task for kind in KINDS for task in tasks(kind)] == sorted(
        tasks(), key=lambda task: KINDS.index(task.kind)
    )
    with pytest.raises(ValueError, match=r"kind='capcity': there are object, .*did you mean capacity"):
        tasks("capcity")


def test_scores_are_in_order() -> None:
    """Without memory less is reached than with it, and with all knowledge no more than there is."""
    for task in tasks():
        scores = [score for score in (task.chance, task.ceiling) if score is not None]
        assert scores == sorted(set(scores))
        assert task.oracle is None or task.chance is None or task.chance < task.oracle
