"""Damaged files, and a watch on what is executed while they are loaded."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from rmt_rl.saving.weights import CHECKSUM, ZEROS

EXECUTION = (
    "exec",
    "compile",
    "import",
    "pickle.find_class",
    "marshal.loads",
    "ctypes.",
    "os.",
    "subprocess.",
    "socket.",
)
HARMLESS = ("os.listdir", "os.scandir", "os.putenv")
FOREIGN: list[Any] = [
    None, True, -1, 0, 1, 3, 0.5, 1e300, 2**31, 2**40, 2**70, "", "x", "rmt", "os.system", "__import__('os')",
    [], [[]], {}, {"a": 1}, {"schedule": "x"}, {"space": "Dict", "parts": []}, [2**24] * 3, [1e9],
]  # fmt: skip
"""What may stand in JSON where something else is expected."""

_heard: list[str] | None = None


def _listen(event: str, arguments: tuple[Any, ...]) -> None:
    if _heard is not None and event.startswith(EXECUTION) and event not in HARMLESS:
        _heard.append(f"{event} {arguments!r:.200}")


sys.addaudithook(_listen)


@contextmanager
def listening() -> Iterator[list[str]]:
    """Collect what is executed, imported, unpickled or started."""
    global _heard
    _heard = []
    try:
        yield _heard
    finally:
        _heard = None


def damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Other bytes: some flipped, cut off, put in, taken out or written over."""
    while True:
        changed = bytearray(data)
        # Half of the places among the first thousands, where headers are.
        place = int(rng.integers(min(len(data), 4096) if rng.random() < 0.5 else len(data)))
        size = int(2 ** rng.integers(0, 10))
        match int(rng.integers(6)):
            case 0:
                for _ in range(int(rng.integers(1, 9))):
                    changed[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
            case 1:
                changed[place] ^= 1 << int(rng.integers(8))
            case 2:
                del changed[place:]
            case 3:
                changed[place:place] = rng.bytes(size)
            case 4:
                del changed[place : place + size]
            case _:
                changed[place : place + 8] = int(rng.choice([0, 2**31, 2**62, 2**63 - 1])).to_bytes(
                    8, "little"
                )
        if changed != data:
            return bytes(changed)


def header_of(data: bytes) -> dict[str, Any]:
    """The JSON that a safetensors file begins with."""
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])  # type: ignore[no-any-return]


def with_header(data: bytes, header: dict[str, Any]) -> bytes:
    """The same with another header, and with its checksum made right: the work of one who knows how."""
    header["__metadata__"]["sha256"] = ZEROS
    text = json.dumps(header, separators=(",", ":")).encode()
    old = 8 + int.from_bytes(data[:8], "little")
    changed = len(text).to_bytes(8, "little") + text + data[old:]
    checksum = hashlib.sha256(changed).hexdigest()
    return changed.replace(CHECKSUM.format(ZEROS).encode(), CHECKSUM.format(checksum).encode(), 1)


def edited(data: bytes, rng: np.random.Generator) -> bytes:
    """One value of the description or of the tensors' entries is another, missing, or there is one more."""
    header = header_of(data)
    description = json.loads(header["__metadata__"]["rmt_rl"])
    tensors = {name: entry for name, entry in header.items() if name != "__metadata__"}
    where = description if rng.random() < 0.8 else tensors
    holder, key = _some_place(where, rng)
    match int(rng.integers(8)):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[f"{key}x"] = holder[key]
        case _:
            holder[key] = FOREIGN[int(rng.integers(len(FOREIGN)))]
    header = {"__metadata__": header["__metadata__"] | {"rmt_rl": json.dumps(description)}, **tensors}
    return with_header(data, header)


def _some_place(value: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """A container within ``value``, and a key or index in it."""
    places = [(value, key) for key in value]
    for holder, key in places:
        part = holder[key]
        if isinstance(part, dict):
            places += [(part, name) for name in part]
        elif isinstance(part, list):
            places += [(part, index) for index in range(len(part))]
    return places[int(rng.integers(len(places)))]
