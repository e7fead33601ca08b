"""What tasks there are, by the kind of memory they need, and what scores mean in each.

Kinds after Cherepanov et al. (2025, MIKASA-Base): object, spatial, sequential and capacity memory; besides,
association (which belongs to which), counting, and velocity (what two observations tell and one does not).
Controls that need none are listed as "none".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Literal, get_args

Kind = Literal["object", "spatial", "sequential", "capacity", "association", "counting", "velocity", "none"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class TaskInfo:
    """One environment id."""

    env_id: str
    """with its module in front, as ``gymnasium.make`` takes it anywhere"""
    kind: Kind
    """the memory that it asks for"""
    about: str
    """in a few words"""
    score: Literal["success", "return"]
    """what the figures are: a share of the episodes, or a mean return"""
    chance: float | None
    """what is reached without memory: the best policy that sees the present observation alone, or, for the
    gyms of others, random actions; None if nobody has measured it"""
    ceiling: float | None
    """the best that a perfect memory can reach; None where nobody knows"""
    oracle: float | None = None
    """what a scripted policy that knows the hidden state reaches; None if there is none"""
    published: float | None = None
    """a published score"""
    source: str = ""
    """and whose it is"""
    needs: str = ""
    """what to install beside this project's own extras"""


NEEDS = {"/popgym-": "the extra popgym", "/MemoryGym-": "requirements-memory-gym.txt"}
"""What others' gyms need, by a part of their ids."""


def tasks(kind: str | None = None) -> list[TaskInfo]:
    """Every task, or those of a kind.

    :raises ValueError: for a kind there is not, with the nearest
    """
    if kind is not None and kind not in KINDS:
        near = get_close_matches(kind, KINDS, n=1, cutoff=0.0)[0]
        raise ValueError(f"kind={kind!r}: there are {', '.join(KINDS)}; did you mean {near}?")
    return [task for task in _all() if kind in (None, task.kind)]


def _all() -> Iterable[TaskInfo]:
    # Imported when asked for: the recall tasks do not need MiniGrid.
    from envs.gyms.catalogue import CATALOGUE
    from envs.minigrid.catalogue import minigrid_tasks
    from envs.recall.catalogue import recall_tasks

    yield from recall_tasks()
    yield from minigrid_tasks()
    for name, row in CATALOGUE.items():
        needs = next((needs for gym, needs in NEEDS.items() if gym in name), None)
        if needs is not None:  # MiniGrid's are above
            about = f"{row.about}; {row.note}" if row.note else row.about
            yield TaskInfo(
                f"envs.gyms:{name}", row.kind, about, row.metric, row.chance, row.ceiling, row.oracle,
                row.reference, row.source, needs,
            )  # fmt: skip
