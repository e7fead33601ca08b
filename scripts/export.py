"""Write an agent's acting step as an ONNX file, and run it beside the agent.

    python scripts/export.py results/minigrid-memory-s17random-rmt-seed0 --out agent.onnx

Inputs and outputs are listed in rmt_rl/export.py; the memory is among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from agents.checkpoints import find_checkpoint
from rmt_rl.export import ActingStep, check_onnx, export_onnx
from scripts.console import check_output, read_arguments, run, say, set_threads


@dataclass(frozen=True)
class Arguments:
    """Export an agent to ONNX."""

    checkpoint: Annotated[Path, tyro.conf.Positional]
    """folder of a checkpoint, or of a run for its newest one"""
    out: Path | None = None
    """file to write; by default agent.onnx in the checkpoint's folder"""
    steps: int = 1000
    """steps to check it over, with random observations and episode starts; 0 for none"""
    threads: int = 1
    """threads of torch"""


def main(argv: Sequence[str]) -> None:
    """Export and check."""
    arguments = read_arguments(Arguments, argv, prog="export.py")
    set_threads(arguments.threads)
    checkpoint = find_checkpoint(arguments.checkpoint)
    model = checkpoint.load_model(device="cpu")
    out = arguments.out or checkpoint.path / "agent.onnx"
    check_output(out)
    file = export_onnx(model, out)
    step = ActingStep(model.policy)
    say(f"{file}: {', '.join(step.inputs)} -> {', '.join(step.outputs)}")
    if arguments.steps:
        worst = check_onnx(model, file, arguments.steps)
        say(f"acts as the agent over {arguments.steps:,} steps: they differ by at most {worst:.1e}")


if __name__ == "__main__":
    run(main)
