"""Facts scattered among distractors, and FactRecall's chains of them."""

import numpy as np
import pytest

from envs.recall.families.facts import find, scatter
from envs.recall.hashing import episode_keys
from tests.envs.recall_cases import assert_rate, make
from tests.envs.test_recall_memorize import unroll

KEYS = episode_keys(np.arange(3000, dtype=np.uint64), np.ones(3000, dtype=np.uint64))


def test_facts_fall_into_equally_likely_gaps():
    counts, delays = np.arange(3000) % 4 + 1, np.arange(3000) % 3 + 1
    places = scatter(KEYS, counts, delays, capacity=6)
    assert places.shape == (3000, 6)
    for row in range(3000):
        facts = places[row, : counts[row]]
        assert (np.diff(facts) > 0).all()
        assert facts[0] >= 0
        assert facts[-1] < counts[row] + delays[row]
        assert (places[row, counts[row] :] > 2**30).all()
    one = counts == 1
    for delay in (1, 2, 3):
        for gap in range(delay + 1):
            assert_rate(places[one & (delays == delay), 0] == gap, 1 / (delay + 1))
    # Two facts, one distractor: both before it, both after it, or one on each side, with 1/4, 1/4 and 1/2.
    two = scatter(KEYS, np.full(3000, 2), np.ones(3000, dtype=int), capacity=2)
    for steps, rate in (([0, 1], 1 / 4), ([1, 2], 1 / 4), ([0, 2], 1 / 2)):
        assert_rate((two == steps).all(axis=1), rate)


def test_find_is_the_inverse_of_scatter():
    counts = np.arange(3000) % 5 + 1
    places = scatter(KEYS, counts, np.full(3000, 4), capacity=5)
    steps = np.tile(np.arange(12), (3000, 1))
    slots = find(places, steps)
    expected = (places[:, None] == steps[:, :, None]) @ (np.arange(5) + 1) - 1
    np.testing.assert_array_equal(slots, expected)
    np.testing.assert_array_equal((slots >= 0).sum(axis=1), counts)
    assert find(places[:1], np.array([[2**39]])).tolist() == [[-1]]


def read(seen, keys, values):
    """The facts of one row as a dict, and the keys asked for, from its observations (T, D)."""
    facts, asked = {}, []
    for step in seen:
        about = int(step[:keys].argmax())
        named = step[keys : 2 * keys + values]
        if step[-1] == 1:
            asked.append(about)
        elif named.any():
            assert about not in facts
            assert step.sum() == 2
            facts[about] = int(named.argmax())
        else:
            assert step.sum() == 1
            assert not step[:keys].any()
    return facts, asked


@pytest.mark.parametrize(
    ("facts", "hops", "queries"), [(1, 1, 1), (5, 1, 5), (4, 2, 2), (7, 2, 3), (8, 3, 2), (320, 3, 106)]
)
def test_the_answer_is_at_the_end_of_a_chain_of_so_many_facts(facts, hops, queries):
    keys = max(10, facts)
    task = make("FactRecall", 20, keys=keys, values=3, facts=facts, hops=hops, queries=queries, delay=4)
    task.reset(0)
    length = facts + 4 + queries
    assert (task.non_reactive_steps() == length - queries).all()
    seen, answers, rewards = [], [], []
    for _ in range(length):
        seen.append(task.observe())
        answers.append(task.optimal_action())
        rewards.append(task.step(answers[-1]).rewards)
    assert task.ended.all()
    assert task.success.all()
    rewards = np.stack(rewards)
    assert not rewards[:-queries].any()
    np.testing.assert_allclose(rewards[-queries:], 1 / queries)
    orders = set()
    for row in range(20):
        known, asked = read(np.stack(seen)[:, row], keys, 3)
        assert len(known) == facts
        assert len(asked) == len(set(asked)) == queries
        for i, key in enumerate(asked):
            steps = 0
            while key < keys:
                key = known[key]
                steps += 1
            assert steps == hops
            assert key - keys == answers[len(answers) - queries + i][row]
        # Chains have `hops` facts each and one the rest; every key is named once, but for the first ones.
        ends = sum(named >= keys for named in known.values())
        assert ends == -(-facts // hops)
        named = [key for key in known.values() if key < keys]
        assert len(named) == len(set(named)) == facts - ends
        assert not set(asked) & set(named)
        orders.add(tuple(known))
    assert len(orders) > 10 or facts == 1


def test_keys_values_and_order_are_uniform():
    task = make("FactRecall", 4000, keys=4, values=3, facts=2, hops=2, delay=2)
    task.reset(0)
    seen = unroll(task, 5)
    asked = seen[4, :, :4].argmax(axis=-1)
    for key in range(4):
        assert_rate(asked == key, 1 / 4)
    for value in range(3):
        assert_rate(task.optimal_action() == value, 1 / 3)
    # The fact about the key asked for comes first or second, and names any of the three other keys.
    links = seen[:4, :, 4:8].sum(axis=-1).argmax(axis=0)
    ends = seen[:4, :, 8:11].sum(axis=-1).argmax(axis=0)
    assert_rate(links < ends, 1 / 2)
    named = seen[links, np.arange(4000), 4:8].argmax(axis=-1)
    for step in range(1, 4):
        assert_rate((named - asked) % 4 == step, 1 / 3)


def test_one_wrong_answer_is_a_failure_and_costs_its_share():
    task = make("FactRecall", 8, facts=4, queries=4, delay=1, reward_wrong=-1.0)
    task.reset(0)
    task.advance(5)
    for number in range(4):
        answer = task.optimal_action()
        wrong = np.arange(8) == number
        outcome = task.step(np.where(wrong, (answer + 1) % 4, answer))
        np.testing.assert_array_equal(outcome.rewards, np.where(wrong, -0.25, 0.25))
    assert task.success.tolist() == [False] * 4 + [True] * 4
    assert task.render_text(0).endswith(f"sees nothing; answered {answer[0]}, right; 3 of 4 right")
    assert (task.render_rgb(0) != task.render_rgb(4)).any()


def test_chance_counts_the_questions_of_each_row():
    task = make("FactRecall", 4, facts=6)
    assert task.chance == 1 / 4
    task.set_parameters(np.array([0]), queries=3)
    assert task.chance == pytest.approx((1 / 64 + 3 / 4) / 4)
    task.reset(0)
    assert task.random_success.tolist() == [1 / 64, 1 / 4, 1 / 4, 1 / 4]


BAD = [
    ({"facts": 17}, r"facts=17: must be from hops \* queries=1 to keys=16"),
    ({"facts": (4, 40)}, r"facts=40: must be from hops \* queries=1 to keys=16"),
    ({"facts": 5, "hops": 3, "queries": 2}, r"facts=5: must be from hops \* queries=6 to keys=16"),
    ({"facts": (3, 2)}, r"facts=\(3, 2\): a range is \(low, high\) with low at most high"),
    ({"facts": 0}, r"facts=0: must be an integer from 1"),
    ({"hops": 4}, r"hops=4: must be an integer from 1 to 3"),
    ({"hops": 0}, r"hops=0: must be an integer from 1 to 3"),
    ({"queries": 0}, r"queries=0: must be an integer from 1"),
    ({"delay": 0}, r"delay=0: must be an integer from 1"),
    ({"reward_correct": -1.0}, r"reward_correct=-1: must be above reward_wrong=0"),
]


@pytest.mark.parametrize(("kwargs", "message"), BAD)
def test_bad_arguments_are_refused_and_change_nothing(kwargs, message):
    with pytest.raises(ValueError, match=message):
        make("FactRecall", 2, **kwargs)
    task = make("FactRecall", 2)
    before = {name: task.settings.get(name) for name in (*task.settings.names, "levels")}
    with pytest.raises(ValueError, match=message):
        task.set_parameters(np.array([1]), **kwargs)
    if len(kwargs) == 1 and "facts" in kwargs:
        with pytest.raises(ValueError, match=message):
            task.set_levels([2, kwargs["facts"]])
    assert {name: task.settings.get(name) for name in before} == before


def test_parameters_are_checked_against_the_levels_of_their_own_rows():
    task = make("FactRecall", 3)
    task.set_levels([1, (2, 3)], rows=np.array([0]))
    with pytest.raises(ValueError, match=r"facts=1: must be from hops \* queries=2"):
        task.set_parameters(hops=2)
    task.set_parameters(np.array([1, 2]), hops=2)
    task.set_levels([1], rows=np.array([0]))  # too few for the other rows, which it is not for
    task.set_parameters(hops=3, facts=6)  # together they fit
    assert task.settings.get("hops") == [3, 3, 3]
    assert task.settings.get("facts") == [6, 6, 6]
    with pytest.raises(ValueError, match=r"facts=2: must be from hops \* queries=3"):
        task.set_levels([9, 2], rows=np.array([2]))
    with pytest.raises(ValueError, match=r"keys=20: must stay 16"):
        task.set_parameters(keys=20)
    assert task.settings.get("levels") == [(6,)] * 3
