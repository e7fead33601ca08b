"""What the command lines share: reading arguments, and errors as a person wants to read them."""

from __future__ import annotations

import errno
import math
import os
import re
import select
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn, Self, TypeVar

import torch
import tyro
from gymnasium.error import DependencyNotInstalled
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from agents.evaluation import Result
from agents.levels import Level, format_level, parse_level

BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141
"""Statuses that scripts end with; the latter two as a shell gives them for SIGINT and SIGPIPE."""


class QuietConsole(Console):
    """A console that leaves a closed pipe to ``run``."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


CONSOLE = QuietConsole(highlight=False)
WIDE = QuietConsole(highlight=False, width=110)
"""for tables that would not fit into the 80 columns of a pipe"""
ERRORS = QuietConsole(stderr=True, highlight=False)

Arguments = TypeVar("Arguments")

REGISTRY = tyro.constructors.ConstructorRegistry()


@REGISTRY.primitive_rule
def _levels(
    info: tyro.constructors.PrimitiveTypeInfo,
) -> tyro.constructors.PrimitiveConstructorSpec[Level | None] | None:
    """Levels are written 14, 15-30 or S9."""
    if info.type not in (Level, Level | None):
        return None
    return tyro.constructors.PrimitiveConstructorSpec(
        nargs=1,
        metavar="LEVEL",
        instance_from_str=lambda words: parse_level(words[0]),
        is_instance=lambda value: value is None or isinstance(value, int | tuple | str),
        str_from_instance=lambda level: ["None" if level is None else format_level(level)],
    )


def read_arguments(
    kind: type[Arguments], argv: Sequence[str], default: Arguments | None = None, prog: str | None = None
) -> Arguments:
    """Arguments of a dataclass; its docstring is the description, those of the fields are the help.

    :raises SystemExit: with status 2 after a line that says which option is wrong, with 0 after the help
    """
    options: dict[str, Any] = {} if default is None else {"default": default}
    read: Any = tyro.cli
    said = StringIO()
    try:
        with redirect_stderr(said):
            arguments: Arguments = read(kind, args=list(argv), prog=prog, registry=REGISTRY, **options)
    except SystemExit as ending:
        if not ending.code:
            raise
        fail(in_one_line(said.getvalue()))
    return arguments


def in_one_line(box: str) -> str:
    """What tyro says in a box about wrong options: the first section of it, and options that look alike."""
    lines = [line.strip("│ ") for line in box.splitlines() if not line.startswith(("╭", "╰"))]
    text = " ".join(" ".join(lines).split())
    sections = [section.strip() for section in re.split("[─-]{3,}", text)]
    # The title stands in the border, or, where the output takes ASCII alone, in a section of its own.
    first, *others = sections if box.startswith("╭") or len(sections) == 1 else sections[1:]
    alike = re.findall(r"(?:Arguments similar to \S+|Perhaps you meant): (-[\w-]+)", text)
    hints = [f"did you mean {', '.join(alike)}?"] if alike else []
    hints += [section for section in others if section.startswith("Available")]
    return "; ".join((first.rstrip("."), *hints, "--help tells all options"))


def fail(error: BaseException | str) -> NoReturn:
    """Print what is wrong, in one line and one more for each note, and end with status 2."""
    first, *notes = [" ".join(str(text).split()) for text in (error, *getattr(error, "__notes__", ()))]
    # Soft wrap: a line in a pipe or a file stays one, however long.
    ERRORS.print(f"[bold red]error:[/] {escape(first or type(error).__name__)}", soft_wrap=True)
    for note in notes:
        ERRORS.print(escape(note), soft_wrap=True)
    raise SystemExit(BAD_INPUT)


def run(main: Callable[[Sequence[str]], None]) -> None:
    """Run a script's ``main``, and end with a status that says how it went.

    Bad input and what the system refuses (a folder that cannot be written, a full disk) end it with status 2
    and a line that says why; Ctrl-C with 130, also where something on the way has caught it, so that ``&&``
    of a shell stops; a pipe that the reader has closed (``| head``) with 141, in silence.

    Modules are looked for in the present folder too, after everything else, so that ``my_module:MyEnv-v0`` is
    found where the user stands.
    """
    here, interrupted = os.getcwd(), False
    sys.path.append(here)

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        signal.default_int_handler(number, frame)

    # In the background of a shell the signal is ignored, and stays so.
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        try:
            main(sys.argv[1:])
        finally:
            sys.stdout.flush()  # or a closed pipe would be found when nobody can catch it any more
    except (ValueError, OSError, ImportError, DependencyNotInstalled) as error:
        if isinstance(error, BrokenPipeError) and _is_stdout_closed():
            _silence()
            raise SystemExit(BROKEN_PIPE) from None
        fail(error)
    except KeyboardInterrupt:
        ERRORS.print("stopped")
        raise SystemExit(INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGINT, before)
        sys.path.remove(here)
    if interrupted:
        raise SystemExit(INTERRUPTED)


def _is_stdout_closed() -> bool:
    """Whether the reader of the standard output has gone: a broken pipe may be another process's as well."""
    if not hasattr(select, "poll"):
        return True  # Windows, where there is no telling
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


def _silence() -> None:
    """Send what is still to be written to nowhere: Python flushes once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def set_threads(threads: int) -> None:
    """How many threads torch takes.

    :raises ValueError: for fewer than 1
    """
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    torch.set_num_threads(threads)


def check_device(device: str) -> None:
    """Raise ValueError for a device that torch does not know."""
    try:
        torch.device("cpu" if device == "auto" else device)
    except RuntimeError as error:
        raise ValueError(f"device must be auto, cpu, cuda or cuda:N, got {device!r}") from error


def check_output(file: Path | None) -> None:
    """Raise OSError unless a file can be written, and leave everything as it was.

    To be called before anything is played or trained for it.
    """
    if file is None:
        return
    with _made_folder(file.parent):
        existed = file.exists()
        with file.open("ab"):
            pass
        if not existed:
            file.unlink()


def check_folder(folder: Path) -> None:
    """Raise OSError unless files can be written into a folder, or one made there; see ``check_output``."""
    with _made_folder(folder), tempfile.TemporaryFile(dir=folder):
        pass


@contextmanager
def _made_folder(folder: Path) -> Iterator[None]:
    """Have a folder for the time of a block; what was not there before goes again."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    nearest = next(path for path in (folder, *folder.parents, Path()) if path.exists())
    if not nearest.is_dir():
        raise NotADirectoryError(
            errno.ENOTDIR, "not a folder, so nothing can be written into it", str(nearest)
        )
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        for path in missing:
            with suppress(OSError):  # someone has put something there meanwhile
                path.rmdir()


def say(text: str) -> None:
    """Print a line: one, however long, and without a look for markup in it."""
    CONSOLE.print(text, markup=False, soft_wrap=True)


def percent(result: Result) -> str:
    """Success and its interval: "99.6% (97.8 to 99.9)"."""
    low, high = result.interval
    return f"{100 * result.success:.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def mean_return(result: Result) -> str:
    """Mean return and its interval: "9.50 (9.10 to 9.90)"."""
    low, high = result.return_interval
    interval = "" if math.isnan(low) else f" ({low:.2f} to {high:.2f})"
    return f"{result.mean_return:.2f}{interval}"


def results_table(title: str, results: Sequence[Result]) -> Table:
    """Results as a person reads them: levels where there are some, success where it is told."""
    table = Table(title=title, title_justify="left")
    has_levels = any(result.level is not None for result in results)
    has_success = any(result.has_success for result in results)
    columns: list[tuple[str, Callable[[Result], str]]] = [
        ("level", lambda result: "" if result.level is None else format_level(result.level)),
        ("success (95% interval)", lambda result: percent(result) if result.has_success else "not told"),
        ("episodes", lambda result: f"{result.episodes:,}"),
        ("mean return (95% interval)", mean_return),
        ("mean length", lambda result: f"{result.mean_length:,.1f}"),
    ]
    shown = [has_levels, has_success, True, True, True]
    chosen = [column for column, is_shown in zip(columns, shown, strict=True) if is_shown]
    for name, _ in chosen:
        table.add_column(name, justify="right")
    for result in results:
        table.add_row(*(write(result) for _, write in chosen))
    return table


class LiveTable:
    """Prints results as they come, in one table; on a terminal it grows, elsewhere it is printed at the end.

    Nothing is printed before the first result. To be used as a context.

    :param title: of the table
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.results: list[Result] = []
        self.live: Live | None = None

    def __enter__(self) -> Self:
        return self

    def add(self, result: Result) -> None:
        """Add a row."""
        self.results.append(result)
        table = results_table(self.title, self.results)
        if not CONSOLE.is_terminal:
            return
        if self.live is None:
            self.live = Live(table, console=CONSOLE)
            self.live.start()
        self.live.update(table)

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()
        elif self.results:
            CONSOLE.print(results_table(self.title, self.results))
