"""Reasoning and its control without a slope, step by step."""

import numpy as np
import pytest

from envs.recall.scripted import ScriptedPolicy
from tests.envs.recall_cases import assert_rate, make, play
from tests.envs.test_recall_laws import remembering
from tests.envs.test_recall_memorize import unroll


def test_every_fact_comes_once_then_the_query_which_tells_nothing():
    task = make("Reasoning", 2000, holders=3, places=5, delay=6, distractors=4)
    task.reset(0)
    state = task.get_state()
    seen = unroll(task, 11)
    assert seen.shape == (12, 2000, 3 + 5 + 1 + 4 + 1)
    stream, holders, places, thing = seen[:10], seen[:10, :, :3], seen[:10, :, 3:8], seen[:10, :, 8]
    np.testing.assert_array_equal(seen[10], np.tile(np.eye(14)[13], (2000, 1)))
    assert not seen[11].any()
    assert task.ended.all()
    # A fact about a place is two symbols, that about the thing two, a distractor one.
    np.testing.assert_array_equal(holders.sum(axis=-1), places.sum(axis=-1) + thing)
    np.testing.assert_array_equal(stream[..., 9:13].sum(axis=-1) + holders.sum(axis=-1), 1)
    assert not stream[..., 13].any()
    assert (thing.sum(axis=0) == 1).all()
    assert (stream[..., 9:13].sum(axis=(0, 2)) == 6).all()
    # Each holder's place is told once and is that of the state, and so is the holder.
    told = np.einsum("trh,trp->rhp", holders, places)
    np.testing.assert_array_equal(told, np.eye(5)[state["where"]])
    np.testing.assert_array_equal(np.einsum("trh,tr->rh", holders, thing), np.eye(3)[state["holder"]])
    np.testing.assert_array_equal(task.optimal_action(), state["where"][np.arange(2000), state["holder"]])
    for holder in range(3):
        assert_rate(state["holder"] == holder, 1 / 3)
    for place in range(5):
        assert_rate((state["where"] == place).ravel(), 1 / 5)
    # The fact about the thing is the first, second, ... of the four as often as any.
    order = (np.cumsum(holders.sum(axis=-1), axis=0) * thing).max(axis=0)
    for number in range(1, 5):
        assert_rate(order == number, 1 / 4)


class OnePlacePolicy(ScriptedPolicy):
    """Remembers where one holder is, and nothing else."""

    def write(self, memory, observations):
        first, last = self.task.holders, self.task.holders + self.task.places
        where = observations[:, first:last]
        rows = np.flatnonzero(where.any(axis=1) & (observations[:, 0] == 1))
        memory[rows, 0] = where[rows].argmax(axis=1)

    def act(self, memory, observations):
        return np.maximum(memory[:, 0], 0)


@pytest.mark.parametrize(("holders", "places", "rate"), [(2, 4, 5 / 8), (3, 5, 7 / 15)])
def test_one_fact_alone_lifts_a_guess_above_chance(holders, places, rate):
    task = make("Reasoning", 250, holders=holders, places=places, delay=2)
    task.reset(0)
    success, _, _ = play(task, remembering(OnePlacePolicy(task)), 10_000)
    assert task.chance == 1 / places < rate
    assert_rate(success, rate)


class OneNumberPolicy(ScriptedPolicy):
    """Answers by a table from the number seen last."""

    def __init__(self, task, table):
        super().__init__(task)
        self.table = np.array(table)

    def write(self, memory, observations):
        numbers = observations[:, : self.task.modulus]
        rows = np.flatnonzero(numbers.any(axis=1))
        memory[rows, 0] = numbers[rows].argmax(axis=1)

    def act(self, memory, observations):
        return self.table[memory[:, 0]]


@pytest.mark.parametrize("table", [[0, 1, 2, 3], [2, 2, 3, 0], [0, 0, 0, 0]])
def test_one_number_of_the_parity_is_worth_nothing(table):
    task = make("ReasoningParity", 250, delay=2)
    task.reset(0)
    success, _, _ = play(task, remembering(OneNumberPolicy(task, table)), 10_000)
    assert_rate(success, task.chance)


def test_parity_shows_two_numbers_whose_sum_is_asked_for():
    task = make("ReasoningParity", 2000, modulus=3, delay=5, distractors=2)
    task.reset(0)
    seen = unroll(task, 8)
    assert seen.shape == (9, 2000, 6)
    stream = seen[:7]
    np.testing.assert_array_equal(stream[..., :5].sum(axis=-1), 1)
    assert (stream[..., :3].sum(axis=(0, 2)) == 2).all()
    total = (stream[..., :3] * np.arange(3)).sum(axis=(0, 2)) % 3
    np.testing.assert_array_equal(task.optimal_action(), total)
    np.testing.assert_array_equal(seen[7], np.tile(np.eye(6)[5], (2000, 1)))
    assert not seen[8].any()
    for answer in range(3):
        assert_rate(total == answer, 1 / 3)


def test_text_and_pictures_tell_the_facts():
    task = make("Reasoning", 1, delay=2)
    task.reset(3)
    place, holder = task.optimal_action()[0], task.get_state()["holder"][0]
    lines, pictures = [], []
    while not task.ended[0]:
        lines.append(task.render_text())
        pictures.append(task.render_rgb())
        task.step(np.array([place]))
    assert sum(line.endswith(f"sees holder {holder} is at place {place}") for line in lines) == 1
    assert sum(line.endswith(f"sees holder {holder} has the thing") for line in lines) == 1
    assert sum("sees distractor" in line for line in lines) == 2
    assert lines[-1] == "step 6 of 6: sees the query: which of 4 places has the thing?"
    assert task.render_text() == f"step 6 of 6: sees nothing; answered {place}, right"
    other = make("Reasoning", 50, delay=2)
    other.reset(0)
    other.advance(5)
    assert len({other.render_rgb(row).tobytes() for row in range(50)}) == 1
    np.testing.assert_array_equal(other.render_rgb(0), pictures[-1])
