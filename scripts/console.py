"""What the command lines share: reading arguments, and errors as a person wants to read them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import tyro
from rich.console import Console
from rich.table import Table

from agents.evaluation import Result
from agents.levels import Level, format_level, parse_level

CONSOLE = Console(highlight=False)
WIDE = Console(highlight=False, width=110)
"""for tables that would not fit into the 80 columns of a pipe"""
ERRORS = Console(stderr=True, highlight=False)

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
    """Arguments of a dataclass; its docstring is the description, those of the fields are the help."""
    options: dict[str, Any] = {} if default is None else {"default": default}
    read: Any = tyro.cli
    arguments: Arguments = read(kind, args=list(argv), prog=prog, registry=REGISTRY, **options)
    return arguments


def fail(error: object) -> NoReturn:
    """Print what is wrong and end with status 2."""
    ERRORS.print(f"[bold red]error:[/] {str(error).replace('[', chr(92) + '[')}")
    raise SystemExit(2)


def run(main: Callable[[Sequence[str]], None]) -> None:
    """Run a script's ``main``; bad input ends it with a line that says what would do."""
    try:
        main(sys.argv[1:])
    except ValueError as error:
        fail(error)
    except KeyboardInterrupt:
        ERRORS.print("stopped")
        raise SystemExit(130) from None


def percent(result: Result) -> str:
    """Success and its interval: "99.6% (97.8 to 99.9)"."""
    low, high = result.interval
    return f"{100 * result.success:.1f}% ({100 * low:.1f} to {100 * high:.1f})"


def results_table(title: str) -> Table:
    """A table for ``add_result``."""
    table = Table(title=title, title_justify="left")
    table.add_column("level", justify="right")
    for name in ("success (95% interval)", "episodes", "mean return", "mean length"):
        table.add_column(name, justify="right")
    return table


def add_result(table: Table, result: Result) -> None:
    """One row for one level."""
    table.add_row(
        format_level(result.level),
        percent(result),
        f"{result.episodes:,}",
        f"{result.mean_return:.2f}",
        f"{result.mean_length:,.1f}",
    )
