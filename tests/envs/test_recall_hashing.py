"""The counter-based randomness: known values, uniformity, independence."""

import numpy as np
import pytest

from envs.recall.hashing import bits, episode_keys, integers, normals, uniforms

KEYS = episode_keys(np.arange(64, dtype=np.uint64), np.ones(64, dtype=np.uint64))[:, None]
STEPS = np.arange(500)


def test_is_splitmix64():
    # The published outputs of SplitMix64 from the seed 1234567.
    outputs = bits(np.array([1234567], dtype=np.uint64), 0, np.arange(1, 6))
    assert outputs.tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_seeds_episodes_streams_and_steps_all_matter():
    seeds, episodes = (grid.ravel().astype(np.uint64) for grid in np.meshgrid(np.arange(50), np.arange(50)))
    keys = episode_keys(seeds, episodes)
    drawn = np.concatenate([bits(keys[:, None], stream, np.arange(4)).ravel() for stream in range(3)])
    assert len(np.unique(drawn)) == drawn.size == 50 * 50 * 4 * 3


@pytest.mark.parametrize("below", [2, 3, 10])
def test_integers_are_uniform_and_unrelated(below):
    values = integers(KEYS, 2, STEPS, below)
    counts = np.bincount(values.ravel(), minlength=below)
    expected = values.size / below
    assert len(counts) == below
    assert ((counts - expected) ** 2 / expected).sum() < 30  # chi-square of at most 9 degrees: p < 0.001
    # Neighbouring steps, neighbouring rows and two streams are equal as often as chance has it.
    other = integers(KEYS, 3, STEPS, below)
    for first, second in ((values[:, 1:], values[:, :-1]), (values[1:], values[:-1]), (values, other)):
        error = np.sqrt((1 - 1 / below) / below / first.size)
        assert abs((first == second).mean() - 1 / below) < 4 * error


def test_integers_take_a_bound_for_each():
    bounds = np.arange(1, 501)
    values = integers(KEYS, 2, STEPS, bounds)
    assert (values >= 0).all()
    assert (values < bounds).all()
    np.testing.assert_array_equal(values[:, 6], integers(KEYS, 2, STEPS[6:7], 7)[:, 0])


def test_uniforms_and_normals_have_their_moments():
    uniform = uniforms(KEYS, 2, STEPS)
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 4 * np.sqrt(1 / 12 / uniform.size)
    normal = normals(KEYS, 2, np.broadcast_to(STEPS, (64, 500)), 3)
    assert normal.shape == (64, 500, 3)
    assert normal.dtype == np.float32
    assert abs(normal.mean()) < 4 / np.sqrt(normal.size)
    assert abs((normal**2).mean() - 1) < 4 * np.sqrt(2 / normal.size)
    assert abs((normal**4).mean() - 3) < 4 * np.sqrt(96 / normal.size)
    correlations = np.corrcoef(normal.reshape(-1, 3), rowvar=False) - np.eye(3)
    assert abs(correlations).max() < 4 / np.sqrt(64 * 500)
