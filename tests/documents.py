"""Reading the documents: their snippets of Python, their command lines, and the names they mention."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("results/*.md")])

_FENCE = re.compile(r"^(?P<indent> *)(?P<marks>`{3,}|~{3,})(?P<language>.*)$")
_SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_PROGRAM = re.compile(r"^(\S*/)?(python3?|pip|make)$")


class Block(NamedTuple):
    """A fenced block."""

    line: int
    """number of the line of its first fence"""
    language: str
    text: str


def fenced_blocks(text: str) -> list[Block]:
    """The fenced blocks of a document.

    :raises ValueError: if one has no end
    """
    blocks: list[Block] = []
    begin, fence, held = 0, None, []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _FENCE.match(line)
        if fence is None:
            if match:
                begin, fence, held = number, match, []
        elif match and match["marks"] == fence["marks"] and not match["language"].strip():
            blocks.append(Block(begin, fence["language"].strip(), "".join(held)))
            fence = None
        else:
            held.append(line.removeprefix(fence["indent"]) + "\n")
    if fence is not None:
        raise ValueError(f"the block that begins in line {begin} has no end")
    return blocks


def snippets(text: str) -> list[Block]:
    """The blocks of Python."""
    return [block for block in fenced_blocks(text) if block.language == "python"]


def without_blocks(text: str) -> str:
    """The document with its fenced blocks left out."""
    lines = text.splitlines()
    for block in fenced_blocks(text):
        end = block.line + block.text.count("\n") + 1
        lines[block.line - 1 : end] = [""] * (end - block.line + 1)
    return "\n".join(lines)


def code_spans(text: str) -> list[str]:
    """What stands between single backticks."""
    return _SPAN.findall(without_blocks(text))


def commands(text: str) -> Iterator[list[str]]:
    """The words of every command line: in indented blocks, fenced ones that are not Python, and spans."""
    lines = [line[4:] for line in without_blocks(text).splitlines() if line.startswith("    ")]
    for block in fenced_blocks(text):
        if block.language != "python":
            lines += block.text.splitlines()
    for line in [*lines, *code_spans(text)]:
        if not re.search(r"\b(python3?|pip|make)\s", line):
            continue
        for part in re.split(r"&&|\|\||;", line):
            try:
                words = shlex.split(part, comments=True)
            except ValueError:  # an apostrophe: a sentence, no command
                continue
            if len(words) > 1 and _PROGRAM.match(words[0]):
                yield words
