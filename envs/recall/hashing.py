"""Counter-based randomness: every draw is a function of (row seed, episode, stream, step).

A generator per row would be exact but slow (one Python call per row and draw); one generator for all rows
would be fast, but a row's episode would then depend on the other rows. Hashing a counter is both: a row's
draws depend on its own seed alone, all rows are drawn by one array expression, and any step can be looked up
without playing up to it.

The hash is the output function of SplitMix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom
number generators"), whose i-th output is ``mix(key + i * golden)``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

UInts = NDArray[np.uint64]
Ints = NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_EPISODE = np.uint64(0xD1B54A32D192ED03)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = (np.uint64(shift) for shift in (27, 30, 31, 32))
_S11 = np.uint64(11)

STREAM_BITS = 40
"""Steps an episode may have, as a power of two: stream k owns the counters from k * 2**40 on."""


def mix(values: UInts) -> UInts:
    """Scramble 64-bit integers of any shape (a bijection; the argument is left alone)."""
    values = values ^ (values >> _S30)
    values *= _FIRST
    values ^= values >> _S27
    values *= _SECOND
    values ^= values >> _S31
    return values


def episode_keys(seeds: UInts, episodes: UInts) -> UInts:
    """The key under which everything in an episode is drawn, from row seeds (R,) and episode numbers (R,)."""
    return mix(mix(seeds + _GOLDEN) + episodes * _EPISODE)


def bits(keys: UInts, stream: int, steps: Ints) -> UInts:
    """64 random bits for each (key, step) pair, the shapes broadcast together."""
    counters = steps.astype(np.uint64)
    counters += np.uint64(stream << STREAM_BITS)
    counters *= _GOLDEN
    return mix(keys + counters)


def integers(keys: UInts, stream: int, steps: Ints, below: int | Ints) -> Ints:
    """Integers in [0, below); `below` under 2**32 keeps the bias under 2**-32 relative."""
    high = bits(keys, stream, steps) >> _S32
    high *= np.uint64(below) if isinstance(below, int) else below.astype(np.uint64)
    return (high >> _S32).astype(np.int64)


def uniforms(keys: UInts, stream: int, steps: Ints) -> NDArray[np.float64]:
    """Floats in [0, 1) with 53 random bits."""
    return (bits(keys, stream, steps) >> _S11).astype(np.float64) * 2.0**-53


def normals(keys: UInts, stream: int, steps: Ints, size: int) -> NDArray[np.float32]:
    """Standard normal vectors, (*steps.shape, size), by Box and Muller, from `stream` and the next."""
    counters = steps[..., None] * size + np.arange(size)
    radius = np.sqrt(-2.0 * np.log1p(-uniforms(keys[..., None], stream, counters)))
    angle = (2.0 * np.pi) * uniforms(keys[..., None], stream + 1, counters)
    return (radius * np.cos(angle)).astype(np.float32)
