"""Figures as rows of a JSON file, each measured once: what a benchmark has done it does not do again."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def read(file: Path) -> list[Row]:
    """The rows so far.

    :raises ValueError: if the file is damaged
    """
    if not file.exists():
        return []
    try:
        return json.loads(file.read_text())  # type: ignore[no-any-return]
    except ValueError as error:
        raise ValueError(f"{file} is damaged, or no file of rows: {error}") from error


def write(file: Path, rows: list[Row], order: Sequence[str]) -> None:
    """Replace the file by one that is whole, sorted by the fields ``order``."""
    file.parent.mkdir(parents=True, exist_ok=True)
    rows.sort(key=lambda row: [row[name] for name in order])
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(rows, indent=1) + "\n")
    os.replace(draft, file)


def put(file: Path, rows: list[Row], order: Sequence[str]) -> None:
    """Add rows; they replace those whose fields ``order`` are the same, and leave all others."""
    new = {tuple(row[name] for name in order) for row in rows}
    kept = [row for row in read(file) if tuple(row.get(name) for name in order) not in new]
    write(file, [*kept, *rows], order)


def measure_missing(
    file: Path,
    work: Callable[..., Row],
    wanted: Sequence[tuple[Any, ...]],
    order: Sequence[str],
    jobs: int,
    on_row: Callable[[Row], None],
) -> None:
    """Measure, in processes of their own, and keep each row as soon as it is there.

    :param work: from one entry of ``wanted`` to its row; a function of a module
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        try:
            futures = [pool.submit(work, *key) for key in wanted]
            for future in as_completed(futures):
                row = future.result()
                write(file, [*read(file), row], order)
                on_row(row)
        except BaseException:
            # Ctrl-C, or a run that fails: those that have not begun would all be waited for.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
