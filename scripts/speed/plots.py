"""Pictures of the speed benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from agents.plots import COLOURS
from scripts.rows import Row
from scripts.speed.workloads import BASELINES

PANELS = (
    ("delay", "steps_per_second", "exponent", "segments from cue to query", "steps/s of training"),
    ("environments", "steps_per_second", "exponent", "environments", "steps/s of training"),
    ("width", "steps_per_second", "exponent", "width", "steps/s of training"),
    (
        "delay",
        "learning_microseconds",
        "learning_exponent",
        "segments of an episode",
        "µs of learning per step",
    ),
)
"""What grows, what is drawn and its exponent in a row, and what the axes are called."""


def plot_scaling(rows: Sequence[Row], path: Path) -> None:
    """Draw a panel for each thing that grows, with the exponent of each algorithm.

    :param rows: those of ``scaling.measure``; what was not measured has no panel
    :param path: file to write, PNG or whatever its ending says
    """
    panels = [panel for panel in PANELS if any(row["sweep"] == panel[0] for row in rows)]
    names = list(dict.fromkeys(row["name"] for row in rows))
    cores = [name for name in names if name not in BASELINES]
    styles: dict[str, dict[str, Any]] = {
        **{name: dict(color="#888888", marker="s", linestyle="--") for name in BASELINES},
        **{name: dict(color=COLOURS[i % len(COLOURS)], marker="o") for i, name in enumerate(cores)},
    }
    figure = Figure(figsize=(4.6 * len(panels), 4.8), dpi=120, layout="constrained")
    for axes, (sweep, key, exponent, across, up) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        for row in (row for row in rows if row["sweep"] == sweep):
            label = f"{row['name']} ({row[exponent]:+.2f})"
            axes.plot(row["sizes"], row[key], label=label, linewidth=1.8, markersize=4, **styles[row["name"]])
        axes.set(xscale="log", yscale="log", xlabel=across, ylabel=up)
        sizes = sorted({size for row in rows if row["sweep"] == sweep for size in row["sizes"]})
        axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.minorticks_off()
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3, frameon=False, fontsize=7)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
