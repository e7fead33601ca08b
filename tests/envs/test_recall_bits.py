"""MemoryLength and MemorySize, step by step."""

import numpy as np
import pytest

from envs.recall.tasks.memory_size import MemorySizePolicy
from tests.envs.recall_cases import assert_rate, make, play
from tests.envs.test_recall_laws import remembering
from tests.envs.test_recall_memorize import unroll


def test_length_shows_the_bit_once_and_the_time():
    task = make("MemoryLength", 2000, length=4)
    task.reset(0)
    bit = task.optimal_action()
    seen = unroll(task, 5)
    assert seen.shape == (6, 2000, 3)
    expected = np.zeros((6, 2000, 3))
    expected[:5, :, 0] = np.array([1, 0.75, 0.5, 0.25, 0])[:, None]
    expected[0, :, 1] = 2 * bit - 1
    expected[4, :, 2] = 1
    np.testing.assert_array_equal(seen, expected)
    assert task.ended.all()
    assert_rate(bit == 1, 1 / 2)
    np.testing.assert_array_equal(task.success, bit == 0)


def test_size_shows_all_bits_once_and_asks_for_any_of_them():
    task = make("MemorySize", 3000, bits=3, max_bits=5, length=2)
    task.reset(0)
    state = task.get_state()
    seen = unroll(task, 3)
    assert seen.shape == (4, 3000, 11)
    bits, asked = seen[..., 1:6], seen[..., 6:]
    assert set(np.unique(bits[0, :, :3])) == {-1.0, 1.0}
    assert not bits[0, :, 3:].any()
    assert not bits[1:].any()
    assert not asked[[0, 1, 3]].any()
    np.testing.assert_array_equal(asked[2], np.eye(5)[state["asked"]])
    np.testing.assert_array_equal(seen[..., 0], np.tile([[1.0], [0.5], [0.0], [0.0]], (1, 3000)))
    told = (bits[0] * asked[2]).sum(axis=-1)
    np.testing.assert_array_equal(task.optimal_action(), told > 0)
    for bit in range(3):
        assert_rate(state["asked"] == bit, 1 / 3)
        assert_rate(bits[0, :, bit] == 1, 1 / 2)


@pytest.mark.parametrize(("correct", "wrong"), [(1.0, -1.0), (2.0, 0.5)])
def test_the_answer_is_paid_as_it_should(correct, wrong):
    task = make("MemorySize", 50, reward_correct=correct, reward_wrong=wrong)
    task.reset(0)
    task.advance(2)
    answer = task.optimal_action()
    outcome = task.step(np.ones(50, dtype=int))
    np.testing.assert_array_equal(outcome.rewards, np.where(answer == 1, correct, wrong))
    assert make("MemoryLength", 1).settings.get("reward_wrong") == [-1.0]


class ForgetfulPolicy(MemorySizePolicy):
    """Keeps the first two bits only."""

    def write(self, memory, observations):
        super().write(memory, observations)
        memory[:, 2:] = -1


@pytest.mark.parametrize(("bits", "rate"), [(2, None), (4, 3 / 4), (8, 5 / 8)])
def test_success_grows_with_the_bits_that_are_kept(bits, rate):
    task = make("MemorySize", 250, bits=bits)
    task.reset(0)
    success, _, _ = play(task, remembering(ForgetfulPolicy(task)), 10_000)
    if rate is None:
        assert success.all()
    else:
        assert_rate(success, rate)


def test_largest_and_longest():
    task = make("MemorySize", 16, bits=40)
    observations = task.reset(0)
    assert (np.abs(observations[:, 1:41]) == 1).all()
    task = make("MemoryLength", 4, length=10_000)
    bit = task.reset(0)[:, 1] > 0
    assert task.advance(10_000).shape == (4, 10_000, 3)
    assert task.non_reactive_steps().tolist() == [0] * 4
    np.testing.assert_array_equal(task.observe(), np.tile([0.0, 0.0, 1.0], (4, 1)))
    task.step(bit.astype(int))
    assert task.success.all()


def test_text_shows_what_is_seen_and_no_more():
    task = make("MemorySize", 1, bits=3, max_bits=3, length=2)
    task.reset(0)
    bits = " ".join(str(int(bit > 0)) for bit in task.observe()[0, 1:4])
    asked = task.get_state()["asked"][0]
    assert task.render_text() == f"step 1 of 3: sees the bits {bits}"
    task.step([0])
    assert task.render_text() == "step 2 of 3: sees the clock, steps to go: 1"
    task.step([0])
    assert task.render_text() == f"step 3 of 3: sees the question: which is bit {asked}?"


def test_levels_must_fit_into_the_observation():
    task = make("MemorySize", 2, max_bits=6)
    with pytest.raises(ValueError, match=r"bits=7: must be from 1 to max_bits=6"):
        task.set_levels([3, (5, 7)], rows=np.array([1]))
    assert task.settings.get("levels") == [(5,), (5,)]
    task.set_levels([6])
    task.reset(0)
    assert task.get_state()["size"].tolist() == [6, 6]
