"""The learning curve leaves out what was not measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from PIL import Image

from agents.plots import plot_curves


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
