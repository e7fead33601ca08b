"""The recall tasks as rows of the registry."""

from __future__ import annotations

from envs.catalogue import Kind, TaskInfo
from envs.recall.tasks import TASKS, make_task

ABOUT: dict[str, tuple[Kind, str]] = {
    "Memorize": ("object", "a cue at the first step, asked for after a delay"),
    "DetectAndMemorize": ("object", "the flagged symbol among many, asked for at the end"),
    "TMaze": ("object", "a cue before a corridor says where to turn behind it"),
    "Reasoning": (
        "association",
        "who holds the thing, and where each holder is: two facts to be put together",
    ),
    "ReasoningParity": ("association", "the sum of two facts modulo 4: no fact alone helps, a hard control"),
    "FactRecall": ("association", "key-value facts among distractors; questions of 1 to 3 hops"),
    "MemoryLength": ("object", "one bit at the first step, asked for at the last (bsuite)"),
    "MemorySize": ("capacity", "many bits at once, one of which is asked for (bsuite)"),
    "CountRecall": ("counting", "how often a symbol has come; success is the last answer's"),
    "Copy": ("sequential", "a sequence to be said again"),
    "Reverse": ("sequential", "a sequence to be said backwards"),
    "AssociativeRetrieval": ("association", "pairs of a key and a value, then a key"),
    "Rewrite": ("association", "pairs whose keys come again with other values: the last one counts"),
    "RepeatPrevious": ("sequential", "at every step the symbol seen so many steps ago"),
}
"""By name: the memory that a task needs, and what it is."""


def recall_tasks() -> list[TaskInfo]:
    """A row for each task at its defaults; what is right in all of an episode counts as success."""
    return [
        TaskInfo(f"envs:RMT/{name}-v0", *ABOUT[name], "success", make_task(name, 1, {}).chance, 1.0, 1.0)
        for name in TASKS
    ]
