"""Advice on torch's threads: small models are faster with one."""

from __future__ import annotations

import torch as th
from torch import nn

from rmt_rl.forgetting import warn_user

MANY_THREADS = 4
SMALL_MODEL = 1_000_000
"""parameters below which an operation is too short to be worth sharing among threads"""

_advised = False
"""whether this process has been told"""


def advise_threads(policy: nn.Module, device: th.device) -> None:
    """Warn, once per process, if many torch threads compute a small policy on the CPU.

    Threads that wait for each other at the end of every operation cost more than they compute, most of all
    where other processes use the same cores.

    :param policy: what is trained
    :param device: where it is trained
    """
    global _advised
    threads = th.get_num_threads()
    if _advised or th.device(device).type != "cpu" or threads < MANY_THREADS:
        return
    size = sum(parameter.numel() for parameter in policy.parameters())
    if size >= SMALL_MODEL:
        return
    _advised = True
    warn_user(
        f"torch uses {threads} threads for a policy of {size:,} parameters on the CPU: one that small is "
        "usually faster with a single thread, on a busy machine several times. Call "
        "torch.set_num_threads(1) before learn, or set OMP_NUM_THREADS=1. (This is said once.)"
    )
