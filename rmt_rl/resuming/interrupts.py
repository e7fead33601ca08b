"""Ctrl-C in the middle of what must not be cut in two."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class HeldInterrupt:
    """Within, Ctrl-C waits for the end of the block; a second one does not.

    A vector of environments that is interrupted while it steps has stepped some of its environments and not
    the others, and nobody could go on with it. Where Ctrl-C does not raise ``KeyboardInterrupt`` (another
    handler, another thread) nothing is changed.
    """

    def __enter__(self) -> Self:
        self._pressed = False
        in_main = threading.current_thread() is threading.main_thread()
        self._holds = in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._holds:
            signal.signal(signal.SIGINT, self._hold)
        return self

    def _hold(self, number: int, frame: FrameType | None) -> None:
        self._pressed = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._holds:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._pressed:
            # Worker processes get Ctrl-C too, and end: what that leads to here is not the reason.
            raise KeyboardInterrupt from error
