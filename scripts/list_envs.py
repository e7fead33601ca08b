"""The tasks that there are, by the kind of memory they need.

    python scripts/list_envs.py
    python scripts/list_envs.py --kind capacity
    python scripts/list_envs.py --plain | grep MiniGrid
    python scripts/list_envs.py --json tasks.json

Chance is what the best policy without memory reaches (for the gyms of others: random actions), best what a
perfect memory can or, where nobody knows that, what a player who knows all that is hidden does.

With ``--plain``, and in a file or a pipe, there is a line for each task, with tabs between id, memory, what
it is, score, chance, best, published score, its source, and what to install beside the extras.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from envs.catalogue import KINDS, TaskInfo, tasks
from scripts.console import CONSOLE, check_output, read_arguments, run

WIDE_ENOUGH = 140
"""columns of a terminal in which a table leaves enough room for what the tasks are"""


@dataclass(frozen=True)
class Arguments:
    """List the tasks, by the kind of memory they need."""

    kind: str | None = None
    """object, spatial, sequential, capacity, association, counting, velocity or none; by default all"""
    plain: bool = False
    """a line for each task, with tabs between the columns, as in a file or a pipe"""
    json: Path | None = None
    """file to write the rows to as well"""


def figure(value: float | None) -> str:
    """A score; nothing for one that is not known."""
    return "" if value is None else f"{value:.3g}"


def best(row: TaskInfo) -> float | None:
    """What a perfect memory can reach, or else what a player who knows all that is hidden does."""
    return row.oracle if row.ceiling is None else row.ceiling


def by_kind(rows: Sequence[TaskInfo]) -> list[TaskInfo]:
    """The rows in the order of ``KINDS``."""
    return sorted(rows, key=lambda row: KINDS.index(row.kind))


def plain_line(row: TaskInfo) -> str:
    """A row as text without ornament."""
    scores = (row.score, *map(figure, (row.chance, best(row), row.published)))
    return "\t".join((row.env_id, row.kind, row.about, *scores, row.source, row.needs)).rstrip("\t")


def in_words(row: TaskInfo) -> str:
    """The scores of a task as a person reads them without a table."""
    scores = [("chance", row.chance), ("best", best(row)), ("published", row.published)]
    told = [f"{name} {figure(value)}" for name, value in scores if value is not None]
    needs = [f"needs {row.needs}"] if row.needs else []
    return f"{row.about} ({', '.join((row.score, *told, *needs))})"


def wide_table(rows: Sequence[TaskInfo]) -> Table:
    """The rows kind by kind; below whose the figures are, and what is needed."""
    sources = list(dict.fromkeys(row.source for row in rows if row.source))
    needs = list(dict.fromkeys(row.needs for row in rows if row.needs))
    marks = dict(zip(needs, "*+", strict=False))
    notes = [f"{number}: {source}" for number, source in enumerate(sources, 1)]
    notes += [f"{mark} needs {need}" for need, mark in marks.items()]
    out = Table(box=None, pad_edge=False, caption="\n".join(notes), caption_justify="left")
    out.add_column("id", no_wrap=True)
    out.add_column("")
    out.add_column("what it is", overflow="fold", ratio=1)
    for column in ("score", "chance", "best", "published"):
        out.add_column(column, justify="left" if column == "score" else "right", no_wrap=True)
    for n, row in enumerate(rows):
        if n == 0 or row.kind != rows[n - 1].kind:
            out.add_row(Text(row.kind, style="bold"))
        published = figure(row.published) + (f" ({sources.index(row.source) + 1})" if row.source else "")
        out.add_row(
            row.env_id, marks.get(row.needs, ""), row.about, row.score, figure(row.chance), figure(best(row)),
            published,
        )  # fmt: skip
    return out


def narrow_lines(rows: Sequence[TaskInfo]) -> Iterator[RenderableType]:
    """The rows kind by kind for a terminal that is too narrow for a table: what a task is below its id."""
    for n, row in enumerate(rows):
        if n == 0 or row.kind != rows[n - 1].kind:
            yield Text(row.kind, style="bold")
        yield Text(row.env_id)
        yield Padding(Text(in_words(row)), (0, 0, 0, 4))


def main(argv: Sequence[str]) -> None:
    """Print the table."""
    arguments = read_arguments(Arguments, argv, prog="list_envs.py")
    rows = by_kind(tasks(arguments.kind))
    check_output(arguments.json)
    if arguments.json is not None:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")
    if arguments.plain or not CONSOLE.is_terminal:
        for row in rows:
            print(plain_line(row))
    elif CONSOLE.width >= WIDE_ENOUGH:
        CONSOLE.print(wide_table(rows))
    else:
        for line in narrow_lines(rows):
            # Ids longer than the terminal is wide are broken by the terminal, not by a line's end.
            CONSOLE.print(line, soft_wrap=isinstance(line, Text))


if __name__ == "__main__":
    run(main)
