"""How fast training and acting are, side by side with SB3's PPO and sb3-contrib's RecurrentPPO in one run.

    python scripts/benchmark_speed.py training
    python scripts/benchmark_speed.py training --workloads memorize --cores rmt gru --threads 1
    python scripts/benchmark_speed.py acting
    python scripts/benchmark_speed.py scaling

``training`` alternates the algorithms on three workloads with the same environments, steps, epochs,
minibatches and width, each in a process of its own: steps per second, where the time goes, what training
holds in memory, and how near its matrix products come to the machine's rate. ``acting`` measures the cost of
a step and the size of the state early and late in one episode. ``scaling`` lets distances, environments and
widths grow, and draws what training costs. Figures go into runs/speed/. Only ratios within a run mean
anything: machines differ, and drift.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scripts.console import read_arguments, run
from scripts.speed.acting import Acting, acting
from scripts.speed.scaling import Scaling, scaling
from scripts.speed.training import Training, training

COMMANDS: dict[type, Callable[[Any], None]] = {Training: training, Acting: acting, Scaling: scaling}


def main(argv: Sequence[str]) -> None:
    """Run a subcommand."""
    kinds: Any = Training | Acting | Scaling
    arguments = read_arguments(kinds, argv, prog="benchmark_speed.py")
    COMMANDS[type(arguments)](arguments)


if __name__ == "__main__":
    run(main)
