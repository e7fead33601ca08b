"""The tasks by name, as data: a new task is a file and a row here."""

from __future__ import annotations

import difflib
from typing import Any

from envs.recall.base import BatchedTask
from envs.recall.tasks.associative_retrieval import AssociativeRetrieval
from envs.recall.tasks.copy import Copy
from envs.recall.tasks.count_recall import CountRecall
from envs.recall.tasks.detect_and_memorize import DetectAndMemorize
from envs.recall.tasks.fact_recall import FactRecall
from envs.recall.tasks.memorize import Memorize
from envs.recall.tasks.memory_length import MemoryLength
from envs.recall.tasks.memory_size import MemorySize
from envs.recall.tasks.reasoning import Reasoning
from envs.recall.tasks.reasoning_parity import ReasoningParity
from envs.recall.tasks.repeat_previous import RepeatPrevious
from envs.recall.tasks.reverse import Reverse
from envs.recall.tasks.rewrite import Rewrite
from envs.recall.tasks.tmaze import TMaze

TASKS: dict[str, type[BatchedTask]] = {
    "Memorize": Memorize,
    "DetectAndMemorize": DetectAndMemorize,
    "TMaze": TMaze,
    "Reasoning": Reasoning,
    "ReasoningParity": ReasoningParity,
    "FactRecall": FactRecall,
    "MemoryLength": MemoryLength,
    "MemorySize": MemorySize,
    "CountRecall": CountRecall,
    "Copy": Copy,
    "Reverse": Reverse,
    "AssociativeRetrieval": AssociativeRetrieval,
    "Rewrite": Rewrite,
    "RepeatPrevious": RepeatPrevious,
}
"""Task "Name" is registered as "RMT/Name-v0"."""


def make_task(task: str | type[BatchedTask], n_envs: int, parameters: dict[str, Any]) -> BatchedTask:
    """A task by name or class.

    Raises:
        ValueError: an unknown name, or a parameter outside its range.
        TypeError: a parameter that the task does not have.
    """
    if isinstance(task, str):
        if task not in TASKS:
            near = difflib.get_close_matches(task, TASKS, n=1, cutoff=0.0)[0]
            raise ValueError(f"task={task!r}: there are {', '.join(TASKS)}; did you mean {near}?")
        task = TASKS[task]
    make: Any = task  # the base class takes other arguments than the tasks
    made = make(n_envs, **parameters)
    assert isinstance(made, BatchedTask)
    return made
