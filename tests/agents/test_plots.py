"""The learning curve leaves out what was not measured; a memory's picture shows what its core has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from agents.plots import plot_curves, plot_memory
from rmt_rl import make_core
from rmt_rl.recording import record


def test_no_point_before_the_first_episode_of_a_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[Any, Any]] = []
    plot = Axes.plot

    def note(axes: Axes, x: Any, y: Any, **options: Any) -> Any:
        drawn.append((x, y))
        return plot(axes, x, y, **options)

    monkeypatch.setattr(Axes, "plot", note)
    rates = [(64, 0, 0.0), (128, 0, 0.5), (192, 1, 0.0), (256, 1, 0.0), (320, 2, 0.25)]
    logs: list[dict[str, float]] = [
        {"time/total_timesteps": steps, "curriculum/stage": stage, "curriculum/success_rate": rate}
        for steps, stage, rate in rates
    ]
    file = tmp_path / "folder" / "curve.png"
    plot_curves({"rmt": [*logs, {"time/total_timesteps": 320}]}, [1, (2, 3), "S9"], 0.25, file)
    # Nothing at 64 and 192, where a level had just begun; the failures at 256 are failures.
    assert drawn[0] == ([128, 256, 320], [0.5, 0.0, 0.25])
    with Image.open(file) as image:
        assert image.format == "PNG"


@pytest.mark.parametrize(
    ("core", "legend", "panels"),
    [
        ("rmt", ["to the memory", "to the segment's\nown steps"], 2 + 2),
        ("rmt_xl", ["to the memory", "to steps before\nthe segment", "to the segment's\nown steps"], 2 + 2),
        ("armt", ["to the segment's\nown steps"], 2 + 2),
        ("xl", ["to earlier steps", "to the step itself"], 2),
        ("gru", [], 2),
    ],
)
def test_a_memorys_picture(
    core: str, legend: list[str], panels: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[Figure] = []
    save = Figure.savefig
    monkeypatch.setattr(Figure, "savefig", lambda figure, path: (drawn.append(figure), save(figure, path)))
    made = make_core(core, 3, width=8)
    with torch.no_grad(), record(made) as recording:
        state = made.initial_state(2)
        for _ in range(5):
            _, state = made(torch.randn(2, 1, 3), state, torch.zeros(2, 1, dtype=torch.bool))
    plot_memory(recording, "the title", tmp_path / "memory.png")
    (figure,) = drawn
    assert len(figure.axes) == panels
    title = figure.get_suptitle().splitlines()
    assert title[0] == "the title"
    assert ("attention: mean of the heads, the band is their range" in title) == bool(legend)
    found = figure.axes[0].get_legend()
    assert ([text.get_text() for text in found.get_texts()] if found else []) == legend
    lines = [line.get_label() for line in figure.axes[0].lines if not str(line.get_label()).startswith("_")]
    assert lines == legend
    if found:
        # Beside the curves, and within the picture.
        box, plot = found.get_window_extent(), figure.axes[0].get_window_extent()
        assert plot.x1 < box.x0 and box.x1 <= figure.bbox.x1
