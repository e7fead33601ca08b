"""Difficulties as an environment takes them, as JSON keeps them and as a person writes them."""

from __future__ import annotations

import re
from typing import Any

Level = int | tuple[int, int] | str
"""A number, a range of numbers (both ends included), or a name, as the environment has it."""


def parse_level(text: str) -> Level:
    """Read a level: "14" is a number, "15-30" a range, anything else a name such as "S9"."""
    if found := re.fullmatch(r"(\d+)-(\d+)", text):
        return int(found[1]), int(found[2])
    return int(text) if text.isdecimal() else text


def format_level(level: Level) -> str:
    """Write a level so that ``parse_level`` reads it."""
    return f"{level[0]}-{level[1]}" if isinstance(level, tuple) else str(level)


def level_from_json(value: Any) -> Level:
    """Take a level from JSON, where a range is a list.

    :raises ValueError: for anything that is no level
    """
    if isinstance(value, list) and len(value) == 2 and all(type(end) is int for end in value):
        return value[0], value[1]
    if isinstance(value, str) or type(value) is int:
        return value
    raise ValueError(f"a level must be an integer, a list of two integers or a text, got {value!r}")
