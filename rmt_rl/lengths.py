"""Lengths of rollouts, training sequences and minibatches, and whether they fit each other."""

from __future__ import annotations

from rmt_rl.cores.base import require_positive


def check_lengths(n_steps: int, sequence_length: int, batch_size: int | None = None) -> None:
    """Raise ValueError unless sequences divide the rollout and a minibatch, if any, holds whole sequences.

    :param n_steps: steps of a rollout in each environment
    :param sequence_length: steps of a training sequence
    :param batch_size: steps of a minibatch; None for no minibatches
    :raises TypeError: if one is not an integer
    """
    n_steps = require_positive("n_steps", n_steps)
    sequence_length = require_positive("sequence_length", sequence_length)
    if n_steps % sequence_length:
        divisors = [d for d in range(1, n_steps + 1) if n_steps % d == 0]
        near = sorted(sorted(divisors, key=lambda d: abs(d - sequence_length))[:4])
        raise ValueError(
            f"sequence_length={sequence_length} does not divide n_steps={n_steps}; "
            f"these would: {', '.join(map(str, near))}"
        )
    if batch_size is None:
        return
    batch_size = require_positive("batch_size", batch_size)
    if batch_size % sequence_length:
        below = batch_size // sequence_length * sequence_length
        fitting = [size for size in (below, below + sequence_length) if size]
        raise ValueError(
            f"batch_size={batch_size} (in steps) is not a multiple of sequence_length={sequence_length}; "
            f"these would be: {', '.join(map(str, fitting))}"
        )
