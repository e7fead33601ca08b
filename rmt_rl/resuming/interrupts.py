"""Ctrl-C in the middle of what must not be cut in two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType


class HeldInterrupts:
    """A block in which Ctrl-C waits for the end; a second one does not.

    A vector of environments that is interrupted while it steps has stepped some of its environments and not
    the others, and nobody could go on with it. Where Ctrl-C does not raise ``KeyboardInterrupt`` (another
    handler, another thread) nothing is changed.
    """

    def __init__(self) -> None:
        self._holds = self._pressed = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take Ctrl-C over; to change the handler at each block would cost more than many a step."""
        in_main = threading.current_thread() is threading.main_thread()
        if not (in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler):
            yield
            return
        signal.signal(signal.SIGINT, self._handle)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._holds = self._pressed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._holds or self._pressed:
            raise KeyboardInterrupt
        self._pressed = True

    def __enter__(self) -> None:
        self._holds = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._holds = False
        if self._pressed:
            self._pressed = False
            # Worker processes get Ctrl-C too, and end: what that leads to here is not the reason.
            raise KeyboardInterrupt from error
