"""Learning curves and memories as pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from agents.levels import Level, format_level
from rmt_rl.cores import TransformerXL
from rmt_rl.recording import PARTS, Recording

COLOURS = ("#1f6f8b", "#c8553d", "#6a994e", "#7b5ea7", "#8d6b48", "#4a4e69")
PART_LABELS = {
    "memory": "to the memory",
    "cache": "to steps before\nthe segment",
    "segment": "to the segment's\nown steps",
}
XL_LABELS = {"cache": "to earlier steps", "segment": "to the step itself"}
STEPS, STAGE, SUCCESS = "time/total_timesteps", "curriculum/stage", "curriculum/success_rate"

Logs = Sequence[Mapping[str, float]]


def plot_curves(
    curves: Mapping[str, Logs], levels: Sequence[Level], chance: float | None, path: Path
) -> None:
    """Draw success at the level being trained, and that level, over the steps of training.

    :param curves: for each name what ``read_logs`` gives
    :param levels: those of the curriculum
    :param chance: success rate without memory, if known
    :param path: file to write, PNG or whatever its ending says
    """
    figure = Figure(figsize=(8.0, 5.6), dpi=120, layout="constrained")
    success, stage = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for (name, logs), colour in zip(curves.items(), COLOURS * len(curves), strict=False):
        rows = [row for row in logs if SUCCESS in row]
        # Right after a change of level there are no episodes of the new one yet, and the rate is not one.
        known = [
            after
            for before, after in pairwise([{STAGE: -1.0}, *rows])
            if after[SUCCESS] or after[STAGE] == before[STAGE]
        ]
        steps = [row[STEPS] for row in rows]
        success.plot(
            [row[STEPS] for row in known],
            [row[SUCCESS] for row in known],
            color=colour,
            label=name,
            linewidth=1.8,
        )
        stage.step(steps, [row[STAGE] for row in rows], where="post", color=colour, linewidth=1.8)
        for before, after in pairwise(rows):
            if after[STAGE] > before[STAGE]:
                for axes in (success, stage):
                    axes.axvline(after[STEPS], color=colour, alpha=0.25, linewidth=1.0)
    if chance is not None:
        success.axhline(chance, color="#888888", linestyle=":", linewidth=1.2, label=f"chance ({chance:g})")
    success.set(ylim=(-0.02, 1.02), ylabel="success at the level trained")
    success.legend(loc="center right", frameon=False)
    stage.set(xlabel="steps of training", ylabel="level", ylim=(-0.3, len(levels) - 0.7))
    stage.set_yticks(range(len(levels)), [format_level(level) for level in levels])
    stage.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:,.0f}k")
    for axes in (success, stage):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def plot_memory(recording: Recording, title: str, path: Path) -> None:
    """Draw where the steps of the first row look, and how its memory moves.

    Attention is the mean of a layer's heads, the band behind it their range. Cores without attention have
    norms and changes alone, ``xl`` attention alone.

    :param path: file to write, PNG or whatever its ending says
    :raises ValueError: if nothing was recorded
    """
    layers = list(recording.attention()[:, :, 0]) if recording.has_attention else []
    moves = []  # (steps, memories), and what to call it
    if recording.has_memory:
        moves = [(recording.memory_norm()[:, 0], "norm"), (recording.memory_change()[:, 0], "change")]
    count = len(layers) + len(moves)
    if not count:
        raise ValueError("nothing was recorded of this core, so there is nothing to draw")
    figure = Figure(figsize=(9.0, 0.8 + 2.0 * count), dpi=120, layout="constrained")
    axes = np.atleast_1d(figure.subplots(count, 1, sharex=True))
    labels = XL_LABELS if isinstance(recording.core, TransformerXL) else PART_LABELS
    for number, (plot, shares) in enumerate(zip(axes, layers, strict=False), 1):  # (steps, heads, parts)
        for name in recording.parts:
            part = PARTS.index(name)
            of_heads, steps, colour = shares[:, :, part], np.arange(len(shares)), COLOURS[part]
            plot.fill_between(steps, of_heads.min(1), of_heads.max(1), color=colour, alpha=0.2, linewidth=0)
            plot.plot(steps, of_heads.mean(1), color=colour, label=labels[name], linewidth=1.5)
        plot.set(ylim=(-0.02, 1.02), ylabel=f"attention, layer {number}")
    explained = []
    if layers:
        # Beside the curves: on them it would hide what they show.
        axes[0].legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), borderaxespad=0.0, frameon=False)
        explained.append("attention: mean of the heads, the band is their range")
    for plot, (values, label) in zip(axes[len(layers) :], moves, strict=True):
        plot.plot(values, color=COLOURS[3], alpha=0.6, linewidth=1.2, clip_on=False)
        plot.set(ylabel=f"memory: {label}", ylim=(0.0, None))
    if moves and moves[0][0].shape[-1] > 1:
        explained.append("memory: a line for each of its parts")
    for plot in axes:
        plot.spines[["top", "right"]].set_visible(False)
        plot.grid(axis="y", alpha=0.2)
    axes[-1].set(xlabel="step of the episode")
    figure.suptitle("\n".join((title, *explained)), x=0.01, ha="left", fontsize="medium")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
