"""CountRecall, step by step, and its chance level by brute force."""

from itertools import product

import numpy as np
import pytest

from envs.recall.tasks.count_recall import count_shares
from tests.envs.recall_cases import assert_rate, make, play
from tests.envs.test_recall_laws import remembering


@pytest.mark.parametrize(("length", "every"), [(1, 1), (7, 1), (7, 3), (6, 3), (5, 100)])
def test_answers_are_the_counts_of_what_was_seen(length, every):
    task = make("CountRecall", 300, symbols=3, length=length, every=every, max_count=4)
    task.reset(0)
    counts = np.zeros((300, 3), dtype=int)
    questions = 0
    for step in range(length):
        seen = task.observe()
        assert (seen[:, :3].sum(axis=1) == 1).all()
        counts += seen[:, :3].astype(int)
        due = (step + 1) % every == 0 or step == length - 1
        assert (seen[:, 3:].sum(axis=1) == due).all()
        assert ((task.non_reactive_steps() == 0) == due).all()
        answer = task.optimal_action()
        if due:
            questions += 1
            expected = np.minimum((counts * seen[:, 3:]).sum(axis=1), 4)
            np.testing.assert_array_equal(answer, expected)
        outcome = task.step(answer)
        np.testing.assert_allclose(outcome.rewards, due / -(-length // every))
        assert (outcome.terminated == (step == length - 1)).all()
    assert questions == -(-length // every)
    assert task.success.all()
    assert not task.observe().any()


def test_symbols_and_questions_are_uniform_and_unrelated():
    task = make("CountRecall", 3000, symbols=3, length=4, every=2)
    task.reset(0)
    seen = task.advance(1)[:, 0]
    asked = task.observe()
    for symbol, other in product(range(3), range(3)):
        assert_rate(seen[:, symbol] * asked[:, other] == 1, 1 / 9)
        assert_rate(asked[:, symbol] * asked[:, 3 + other] == 1, 1 / 9)


def test_success_is_the_last_answer():
    task = make("CountRecall", 2, length=4, every=2, reward_wrong=-1.0)
    task.reset(0)
    rewards = 0
    for step in range(4):
        wrong = np.array([step == 1, step == 3])
        rewards = rewards + task.step((task.optimal_action() + wrong) % 4).rewards
    assert task.success.tolist() == [True, False]
    assert rewards.tolist() == [0.0, 0.0]


def best_by_brute_force(length, symbols, most):
    """The largest share of last questions that any function of the last observation gets right."""
    hits = np.zeros((symbols, symbols, most + 1))
    for stream in product(range(symbols), repeat=length):
        for asked in range(symbols):
            hits[stream[-1], asked, min(stream.count(asked), most)] += 1
    return hits.max(axis=2).sum() / hits.sum()


@pytest.mark.parametrize("length", [1, 2, 5, 8])
@pytest.mark.parametrize(("symbols", "most"), [(2, 9), (3, 9), (3, 2), (4, 1)])
def test_chance_equals_brute_force(length, symbols, most):
    if symbols**length > 10_000:
        length = 6
    task = make("CountRecall", 2, length=length, symbols=symbols, max_count=most)
    assert task.chance == pytest.approx(best_by_brute_force(length, symbols, most), abs=1e-12)


def test_chance_weighs_the_levels_of_all_rows():
    task = make("CountRecall", 4, symbols=2)
    task.set_levels([3, (2, 5)], [0.25, 0.75])
    task.set_levels([3], rows=np.array([0]))
    lengths = {2: 9 / 64, 3: 1 / 4 + 3 / 16 + 9 / 64, 4: 9 / 64, 5: 9 / 64}
    mixture = sum(share * count_shares(np.array([n]), np.ones(1), 2, 15) for n, share in lengths.items())
    assert task.chance == pytest.approx(mixture.max(axis=1).mean())
    assert task.best_guesses.tolist() == mixture.argmax(axis=1).tolist()


def test_count_shares_of_long_episodes_are_binomial_to_the_last_digits():
    # The mean and variance of the count, where a product of powers would have underflowed.
    shares = count_shares(np.array([10_000]), np.ones(1), 4, 9_999)
    counts = np.arange(10_000)
    for row, extra in zip(shares, (0, 1), strict=True):
        mean = row @ counts
        assert mean == pytest.approx(9_999 / 4 + extra)
        assert row @ (counts - mean) ** 2 == pytest.approx(9_999 * 3 / 16)
        assert row.min() >= -1e-12


@pytest.mark.parametrize("kwargs", [{"length": 24}, {"length": (5, 30), "every": 7}, {"max_count": 5}])
def test_without_memory_it_stays_at_chance(kwargs):
    task = make("CountRecall", 500, **kwargs)
    task.reset(0)
    success, _, _ = play(task, remembering(task.policy_class(task, remember=False)), 10_000)
    assert_rate(success, task.chance)


def test_text_tells_symbol_and_question():
    task = make("CountRecall", 1, length=2, every=2)
    task.reset(0)
    first = task.observe()[0].argmax()
    assert task.render_text() == f"step 1 of 2: sees symbol {first}"
    task.step([0])
    second, asked = task.observe()[0, :4].argmax(), task.observe()[0, 4:].argmax()
    text = f"step 2 of 2: sees symbol {second} and the question: how many of {asked} so far?"
    assert task.render_text() == text
