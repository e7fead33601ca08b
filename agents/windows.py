"""Frames in a window, where there is a display."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable

import numpy as np

from agents.episodes import Frame


def check_display() -> None:
    """Raise ValueError where no window can open."""
    names = ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in names):
        raise ValueError(
            "there is no display here (DISPLAY is not set): leave --window out to write a GIF instead"
        )


def show(frames: Iterable[Frame], title: str) -> None:
    """Show frames as they are played; closing the window or Escape ends it early.

    :raises ValueError: where there is no display, or pygame is not installed
    """
    check_display()
    try:
        import pygame
    except ImportError as error:
        raise ValueError(
            "a window needs pygame, which comes with the extra 'envs': pip install '.[envs]'"
        ) from error
    try:
        pygame.display.init()
        screen = None
        for frame in frames:
            pixels = np.asarray(frame.image).swapaxes(0, 1)
            if screen is None or screen.get_size() != pixels.shape[:2]:
                screen = pygame.display.set_mode(pixels.shape[:2])
                pygame.display.set_caption(title)
            pygame.surfarray.blit_array(screen, pixels)
            pygame.display.flip()
            pygame.time.wait(round(frame.seconds * 1000))
            for event in pygame.event.get():
                if event.type == pygame.QUIT or (
                    event.type == pygame.KEYDOWN and event.key == pygame.K_ESCAPE
                ):
                    return
    except pygame.error as error:
        raise ValueError(
            f"no window can open here ({error}): leave --window out to write a GIF instead"
        ) from error
    finally:
        pygame.display.quit()
