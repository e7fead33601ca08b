"""A screen in memory for environments that draw into pygame's display, of which a process has one."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Offscreen:
    """A screen of its own for one environment.

    While it is `used`, what the environment takes for pygame's display is this screen. So environments do not
    draw over each other nor over a window, none is lost when pygame is closed, and neither a video nor a
    sound device is opened. Afterwards pygame is as it was.
    """

    def __init__(self) -> None:
        """Prepare.

        Raises:
            ImportError: if pygame is not installed.
        """
        self._pygame = importlib.import_module("pygame")
        self._surface: Any = None
        display = self._pygame.display
        self._stand_ins: list[tuple[Any, str, Any]] = [
            (self._pygame, "init", _nothing),
            (self._pygame.event, "set_allowed", _nothing),
            (display, "set_mode", self._set_mode),
            (display, "get_surface", self._get_surface),
            (display, "flip", _nothing),
        ]

    @contextmanager
    def used(self) -> Iterator[None]:
        """Put this screen in the display's place."""
        saved = [(module, name, getattr(module, name)) for module, name, _ in self._stand_ins]
        for module, name, stand_in in self._stand_ins:
            setattr(module, name, stand_in)
        try:
            yield
        finally:
            for module, name, own in saved:
                setattr(module, name, own)

    def _set_mode(self, size: tuple[int, int], *_: Any) -> Any:
        self._surface = self._pygame.Surface(size)
        return self._surface

    def _get_surface(self) -> Any:
        return self._surface


def _nothing(*_: Any) -> None:
    pass


@contextmanager
def kept_in_environment(name: str) -> Iterator[None]:
    """Give an environment variable back the value it had."""
    value = os.environ.get(name)
    try:
        yield
    finally:
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
