"""rl_zoo3's training, tuning and watching, with our algorithms.

    python scripts/zoo.py train --algo memory_ppo --env Zoo/memorize-v0
    python scripts/zoo.py train --algo memory_ppo --env CartPoleNoVel-v1 -optimize --n-trials 20
    python scripts/zoo.py enjoy --algo memory_ppo --env CartPoleNoVel-v1 --folder logs --no-render

Everything behind the first word is rl_zoo3's own: `train --help`. Environments are those of rl_zoo3, ours
(`RMT/...`), and each recipe's (`Zoo/<recipe>-v0`).
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

import envs.minigrid  # noqa: F401  registers the ids
from agents.zoo import ALGORITHMS, hyperparameters_file, register
from scripts.console import run

COMMANDS = ("train", "enjoy")


def with_hyperparameters(command: str, argv: Sequence[str]) -> list[str]:
    """The arguments, with our file of hyperparameters where one of ours is trained and none is given."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--algo")
    parser.add_argument("-conf", "--conf-file")
    known, _ = parser.parse_known_args(argv)
    if command != "train" or known.algo not in ALGORITHMS or known.conf_file is not None:
        return list(argv)
    return [*argv, "--conf-file", str(hyperparameters_file(known.algo))]


def main(argv: Sequence[str]) -> None:
    """Register, and hand over to rl_zoo3, which reads the arguments from ``sys.argv``.

    rl_zoo3 takes Ctrl-C for an end like any other; ``run`` does not.
    """
    command, rest = (argv[0], argv[1:]) if argv else ("", [])
    if command in ("-h", "--help"):
        print(f"usage: zoo.py {{{','.join(COMMANDS)}}} OPTIONS\n\n{__doc__}", end="")
        return
    if command not in COMMANDS:
        raise ValueError(
            f"the first argument must be one of {', '.join(COMMANDS)}, got {command!r}; see --help"
        )
    register()
    before = sys.argv
    sys.argv = [f"zoo.py {command}", *with_hyperparameters(command, rest)]
    try:
        getattr(importlib.import_module(f"rl_zoo3.{command}"), command)()
    finally:
        sys.argv = before


if __name__ == "__main__":
    run(main)
