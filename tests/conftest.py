"""Settings for every test: one torch thread a process, no windows, no time limits on hypothesis."""

import os

# Read when torch, matplotlib and pygame are first imported; subprocesses inherit them.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")

import torch
from hypothesis import settings

torch.set_num_threads(1)

# The first call of a torch function is slow, so a deadline would fail at random. A run in CI draws the
# same examples each time: what it says depends on the change alone.
settings.register_profile("default", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")
