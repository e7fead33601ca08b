"""AssociativeRetrieval and Rewrite, step by step."""

import itertools

import numpy as np
import pytest

from envs.recall.tasks.rewrite import guess_rates
from tests.envs.recall_cases import assert_rate, make

PAIRS_TASKS = pytest.mark.parametrize("name", ["AssociativeRetrieval", "Rewrite"])


def watch(task):
    """The observations (T, N, D) of whole episodes of one length, and the right answers by the oracle."""
    seen, answers = [], []
    while not task.ended.any():
        seen.append(task.observe())
        answers.append(task.optimal_action())
        task.step(answers[-1])
    assert task.ended.all()
    assert not task.observe().any()
    return np.stack(seen), np.stack(answers)


@PAIRS_TASKS
def test_pairs_distractors_and_questions(name):
    task = make(name, 400, keys=5, values=3, pairs=4, delay=2, distractors=2)
    task.reset(0)
    seen, _ = watch(task)
    assert seen.shape == (7, 400, 11)
    keys, values, distractors, asks = np.split(seen, [5, 8, 10], axis=-1)
    one_hot = [part.sum(axis=-1)[:, 0].tolist() for part in (keys, values, distractors, asks)]
    assert one_hot == [
        [1, 1, 1, 1, 0, 0, 1],
        [1, 1, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 1, 1, 0],
        [0, 0, 0, 0, 0, 0, 1],
    ]
    assert all((part.sum(axis=-1) == part.sum(axis=-1)[:, :1]).all() for part in (keys, values, asks))
    assert set(np.unique(seen)) == {0.0, 1.0}
    for step in range(4):
        assert_rate(values[step, :, 0] == 1, 1 / 3)
        assert_rate(keys[step, :, 2] == 1, 1 / 5)
        after = (step + 1) % 4
        assert_rate((values[step] == values[after]).all(axis=-1), 1 / 3)
        same_key = (keys[step] == keys[after]).all(axis=-1)
        assert_rate(same_key, 1 / 5 if name == "Rewrite" else 0.0)
    assert_rate(distractors[4:6, :, 0].ravel() == 1, 1 / 2)


@PAIRS_TASKS
@pytest.mark.parametrize("queries", [1, 3, 9])
def test_answers_are_the_last_values_of_keys_that_were_shown(name, queries):
    task = make(name, 1, keys=6, values=4, pairs=6, delay=1, queries=queries)
    overwritten = 0
    for seed in range(100):
        task.reset(seed)
        seen, answers = watch(task)
        lasts, firsts = {}, {}
        for observation in seen[:6, 0]:
            key, value = int(observation[:6].argmax()), int(observation[6:10].argmax())
            lasts[key] = value
            firsts.setdefault(key, value)
        asked = seen[7:, 0, :6].argmax(axis=-1).tolist()
        assert len(set(asked)) == len(asked) == min(queries, len(lasts))
        assert answers[7:, 0].tolist() == [lasts[key] for key in asked]
        assert not seen[7:, 0, 6:-1].any()
        overwritten += sum(firsts[key] != lasts[key] for key in asked)
    assert (overwritten > 20) == (name == "Rewrite")


@PAIRS_TASKS
def test_every_key_shown_is_as_likely_to_be_asked_for(name):
    task = make(name, 6000, keys=4, pairs=4, delay=0, queries=1)
    task.reset(0)
    seen, _ = watch(task)
    shown, asked = seen[:4, :, :4], seen[4, :, :4]
    times = shown.sum(axis=0)
    assert (times[asked == 1] > 0).all()
    if name == "AssociativeRetrieval":
        for place in range(4):
            assert_rate((shown[place] == asked).all(axis=-1), 1 / 4)
        return
    # Where one key came three times and another once, it is asked for no more often.
    rows = (times.max(axis=1) == 3) & ((times > 0).sum(axis=1) == 2)
    assert rows.sum() > 500
    assert_rate(times[rows][asked[rows] == 1] == 3, 1 / 2)


@pytest.mark.parametrize(("keys", "queries"), [(2, 1), (3, 2), (3, 3), (4, 2), (3, 9)])
def test_rate_of_guessing_equals_enumeration(keys, queries):
    sizes = np.array([4, 1, 2, 3, 4])
    expected = [
        np.mean([0.3 ** min(queries, len(set(drawn))) for drawn in itertools.product(range(keys), repeat=n)])
        for n in sizes
    ]
    np.testing.assert_allclose(guess_rates(sizes, keys, queries, 0.3), expected, rtol=1e-12)


def test_more_pairs_than_keys():
    message = r"pairs=5: must be from 1 to keys=4"
    with pytest.raises(ValueError, match=message):
        make("AssociativeRetrieval", 2, keys=4, pairs=5)
    task = make("AssociativeRetrieval", 2, keys=4, pairs=4)
    for change in (
        lambda: task.set_levels([2, (3, 5)]),
        lambda: task.set_parameters(pairs=5),
        lambda: task.set_parameters(queries=2, pairs=(1, 5)),
    ):
        with pytest.raises(ValueError, match=message):
            change()
    assert task.settings.get("pairs") == [4, 4]
    assert task.settings.get("queries") == [1, 1]
    make("Rewrite", 2, keys=2, pairs=5)
