"""One process for each run's folder."""

from __future__ import annotations

import os
import socket
import weakref
from pathlib import Path
from typing import IO, Self

try:
    import fcntl
except ImportError:  # Windows has no such locks: its folders are not guarded
    fcntl = None  # type: ignore[assignment]

FILE = ".lock"

_held: weakref.WeakValueDictionary[str, FolderLock] = weakref.WeakValueDictionary()
"""This process's own locks: the system would grant it a second one for the same file."""


class FolderLock:
    """Keeps other processes, and other locks of this one, out of a folder.

    ``.lock`` in the folder names the process that holds it. The lock proper is the system's and falls with
    the process, however that ends, so that one left behind by a killed process is never in the way; nor do
    worker processes inherit it, which may outlive the one that started them.

    :param folder: made if it does not exist
    :raises ValueError: if the folder is in use
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._key = str(folder.resolve())
        if self._key in _held:
            raise ValueError(_in_use(folder, f"this process, {os.getpid()}"))
        self._file: IO[str] | None = (folder / FILE).open("a+")
        try:
            if fcntl is not None:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.seek(0)
            holder = self._file.read().strip() or "another process"
            self._file.close()
            raise ValueError(_in_use(folder, holder)) from error
        _held[self._key] = self
        self._file.truncate(0)
        self._file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        self._file.flush()

    def release(self) -> None:
        """Let others in; more than once does no harm."""
        if self._file is not None:
            # The file stays: were it removed, one who has just opened it would lock what nobody else sees.
            self._file.truncate(0)
            self._file.close()
            self._file = None
            _held.pop(self._key, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()


def _in_use(folder: Path, holder: str) -> str:
    return f"the folder {folder} is in use by {holder}: wait for its end, or give another folder"
