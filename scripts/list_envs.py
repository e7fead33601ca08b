"""The tasks that there are, by the kind of memory they need.

    python scripts/list_envs.py
    python scripts/list_envs.py --kind capacity
    python scripts/list_envs.py --json tasks.json

Chance is what the best policy without memory reaches (for the gyms of others: random actions), best what a
perfect memory can or, where nobody knows that, what a player who knows all that is hidden does.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from envs.catalogue import KINDS, TaskInfo, tasks
from scripts.console import CONSOLE, read_arguments, run


@dataclass(frozen=True)
class Arguments:
    """List the tasks, by the kind of memory they need."""

    kind: str | None = None
    """object, spatial, sequential, capacity, association, counting, velocity or none; by default all"""
    json: Path | None = None
    """file to write the rows to as well"""


def figure(value: float | None) -> str:
    """A score; nothing for one that is not known."""
    return "" if value is None else f"{value:.3g}"


def table(rows: Sequence[TaskInfo]) -> Table:
    """The rows as a person reads them, kind by kind; whose figures and what is needed below."""
    sources = list(dict.fromkeys(row.source for row in rows if row.source))
    needs = list(dict.fromkeys(row.needs for row in rows if row.needs))
    marks = dict(zip(needs, "*+", strict=False))
    notes = [f"{number}: {source}" for number, source in enumerate(sources, 1)]
    notes += [f"{mark} needs {need}" for need, mark in marks.items()]
    out = Table(title="Tasks", title_justify="left", caption="\n".join(notes), caption_justify="left")
    out.add_column("memory")
    for column in ("id", "what it is"):
        out.add_column(column, overflow="fold", ratio=1)
    for column in ("score", "chance", "best", "published"):
        out.add_column(column, justify="left" if column == "score" else "right", no_wrap=True)
    for kind in KINDS:
        of_kind = [row for row in rows if row.kind == kind]
        for n, row in enumerate(of_kind):
            published = figure(row.published)
            if row.source:
                published += f" ({sources.index(row.source) + 1})"
            out.add_row(
                kind if n == 0 else "", row.env_id + marks.get(row.needs, ""), row.about, row.score,
                figure(row.chance), figure(row.oracle if row.ceiling is None else row.ceiling), published,
                end_section=n == len(of_kind) - 1,
            )  # fmt: skip
    return out


def main(argv: Sequence[str]) -> None:
    """Print the table."""
    arguments = read_arguments(Arguments, argv, prog="list_envs.py")
    rows = tasks(arguments.kind)
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1) + "\n")
    CONSOLE.print(table(rows))


if __name__ == "__main__":
    run(main)
