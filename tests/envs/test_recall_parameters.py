"""Bad input is refused with its value and the allowed range, and leaves everything as it was."""

import numpy as np
import pytest

from envs.recall.parameters import LevelTable
from envs.recall.tasks.memorize import Memorize
from tests.envs.recall_cases import make

BAD = [
    ("Memorize", {"delay": 0}, r"delay=0: must be an integer from 1 to 100000000"),
    ("Memorize", {"delay": 10**9}, r"delay=1000000000: must be an integer from 1 to 100000000"),
    ("Memorize", {"delay": 2.5}, r"delay=2\.5: must be an integer from 1"),
    ("Memorize", {"delay": True}, r"delay=True: must be an integer"),
    ("Memorize", {"delay": (5, 3)}, r"delay=\(5, 3\): a range is \(low, high\) with low at most high"),
    ("Memorize", {"delay": (0, 3)}, r"delay=0: must be an integer from 1"),
    ("Memorize", {"delay": (1, 2, 3)}, r"delay=\(1, 2, 3\): a range is a pair"),
    ("Memorize", {"delay": "3"}, r"delay='3': must be an integer"),
    ("Memorize", {"cues": 1}, r"cues=1: must be an integer from 2 to 5000"),
    ("Memorize", {"distractors": 0}, r"distractors=0: must be an integer from 1 to 5000"),
    ("Memorize", {"noise": -0.5}, r"noise=-0\.5: must be a finite number of at least 0"),
    ("Memorize", {"noise": float("nan")}, r"noise=nan: must be a finite number"),
    ("Memorize", {"noise": float("inf")}, r"noise=inf: must be a finite number"),
    ("Memorize", {"reward_correct": "1"}, r"reward_correct='1': must be a finite number"),
    ("Memorize", {"reward_correct": 0.0}, r"reward_correct=0: must be above reward_wrong=0"),
    ("Memorize", {"n_envs": 0}, r"n_envs=0: must be an integer of at least 1"),
    ("DetectAndMemorize", {"earliest": 1.5}, r"earliest=1\.5: must be a finite number from 0 to 1"),
    ("DetectAndMemorize", {"earliest": 0.6, "latest": 0.4}, r"earliest=0\.6: must not be above latest=0\.4"),
    ("DetectAndMemorize", {"delay": 0}, r"delay=0: must be an integer from 1"),
    ("TMaze", {"length": 0}, r"length=0: must be an integer from 1"),
    ("TMaze", {"active": 1}, r"active=1: must be True or False"),
    ("TMaze", {"start_distance": 0}, r"start_distance=0: must be an integer from 1"),
    ("TMaze", {"slack": -1}, r"slack=-1: must be an integer from 0"),
    ("TMaze", {"goal_reward": 0.0}, r"goal_reward=0: must be above 0"),
    ("TMaze", {"penalty": -1.0}, r"penalty=-1\.0: must be a finite number of at least 0"),
    ("Copy", {"length": 0}, r"length=0: must be an integer from 1 to 100000"),
    ("Copy", {"symbols": 1}, r"symbols=1: must be an integer from 2 to 5000"),
    ("Copy", {"repeats": 0}, r"repeats=0: must be an integer from 1"),
    ("Copy", {"show_position": 1}, r"show_position=1: must be True or False"),
    ("Copy", {"reward_wrong": 1.0}, r"reward_correct=1: must be above reward_wrong=1"),
    ("Reverse", {"delay": -1}, r"delay=-1: must be an integer from 0"),
    ("Reverse", {"length": (6, 2)}, r"length=\(6, 2\): a range is \(low, high\)"),
    ("AssociativeRetrieval", {"pairs": 9}, r"pairs=9: must be from 1 to keys=8"),
    ("AssociativeRetrieval", {"keys": 1}, r"keys=1: must be an integer from 2 to 5000"),
    ("AssociativeRetrieval", {"queries": 0}, r"queries=0: must be an integer from 1"),
    ("Rewrite", {"pairs": 0}, r"pairs=0: must be an integer from 1 to 10000"),
    ("Rewrite", {"values": 1}, r"values=1: must be an integer from 2"),
    ("RepeatPrevious", {"lag": 0}, r"lag=0: must be an integer from 1"),
    ("RepeatPrevious", {"answers": 0}, r"answers=0: must be an integer from 1"),
    ("MemoryLength", {"length": 0}, r"length=0: must be an integer from 1 to 100000000"),
    ("MemoryLength", {"length": (5, 2)}, r"length=\(5, 2\): a range is \(low, high\) with low at most"),
    ("MemoryLength", {"reward_correct": -1.0}, r"reward_correct=-1: must be above reward_wrong=-1"),
    ("MemorySize", {"bits": 41}, r"bits=41: must be from 1 to max_bits=40"),
    ("MemorySize", {"bits": (2, 9), "max_bits": 8}, r"bits=9: must be from 1 to max_bits=8"),
    ("MemorySize", {"bits": 0}, r"bits=0: must be an integer from 1"),
    ("MemorySize", {"length": 0}, r"length=0: must be an integer from 1"),
    ("MemorySize", {"max_bits": 0}, r"max_bits=0: must be an integer from 1 to 1000"),
    ("CountRecall", {"length": 0}, r"length=0: must be an integer from 1 to 10000"),
    ("CountRecall", {"length": (9, 3)}, r"length=\(9, 3\): a range is \(low, high\) with low at most high"),
    ("CountRecall", {"every": 0}, r"every=0: must be an integer from 1"),
    ("CountRecall", {"symbols": 1}, r"symbols=1: must be an integer from 2 to 5000"),
    ("CountRecall", {"max_count": 0}, r"max_count=0: must be an integer from 1 to 1000"),
    ("CountRecall", {"reward_wrong": 2.0}, r"reward_correct=1: must be above reward_wrong=2"),
    ("Reasoning", {"delay": 0}, r"delay=0: must be an integer from 1 to 100000000"),
    ("Reasoning", {"delay": (9, 4)}, r"delay=\(9, 4\): a range is \(low, high\) with low at most high"),
    ("Reasoning", {"holders": 1}, r"holders=1: must be an integer from 2 to 500"),
    ("Reasoning", {"places": "4"}, r"places='4': must be an integer from 2 to 5000"),
    ("Reasoning", {"distractors": 0}, r"distractors=0: must be an integer from 1 to 5000"),
    ("Reasoning", {"reward_wrong": 1.0}, r"reward_correct=1: must be above reward_wrong=1"),
    ("ReasoningParity", {"delay": 0}, r"delay=0: must be an integer from 1"),
    ("ReasoningParity", {"modulus": 1}, r"modulus=1: must be an integer from 2 to 5000"),
]


@pytest.mark.parametrize(("name", "kwargs", "message"), BAD)
def test_bad_arguments(name, kwargs, message):
    with pytest.raises(ValueError, match=message):
        make(name, **{"n_envs": 2, **kwargs})
    task = make(name, 2)
    before = {key: task.settings.get(key) for key in (*task.settings.names, "levels")}
    if "n_envs" not in kwargs:
        with pytest.raises(ValueError, match=r"must (be|not|stay)|a range"):
            task.set_parameters(**kwargs)
    assert {key: task.settings.get(key) for key in before} == before


LEVELS = [
    ([], None, r"levels=\[\]: must be a sequence of at least one level"),
    (5, None, r"levels=5: must be a sequence"),
    ("", None, r"levels='': must be a sequence"),
    (["S7"], None, r"delay='S7': must be an integer"),
    ([3, (9, 4)], None, r"delay=\(9, 4\): a range"),
    ([1, 2], [1.0], r"probabilities=\[1\.0\]: must be one per level, here 2"),
    ([1, 2], [0.7, 0.7], r"probabilities=\[0\.7, 0\.7\]: must be from 0 to 1 and add up to 1"),
    ([1, 2], [1.5, -0.5], r"must be from 0 to 1 and add up to 1"),
    ([1, 2], [float("nan"), 1.0], r"must be from 0 to 1 and add up to 1"),
    ([1, 2], ["a", "b"], r"must be numbers, one per level"),
]


@pytest.mark.parametrize(("levels", "probabilities", "message"), LEVELS)
def test_bad_levels(levels, probabilities, message):
    task = make("Memorize", 2, delay=7)
    with pytest.raises(ValueError, match=message):
        task.set_levels(levels, probabilities)
    assert task.settings.get("levels") == [(7,), (7,)]


def test_a_set_of_changes_is_all_or_nothing():
    task = make("Memorize", 2)
    with pytest.raises(ValueError, match="noise"):
        task.set_parameters(delay=5, reward_correct=3.0, noise=-1.0)
    assert task.settings.get("delay") == [30, 30]
    assert task.settings.get("reward_correct") == [1.0, 1.0]
    with pytest.raises(ValueError, match="'dealy' is no parameter"):
        task.set_parameters(delay=5, dealy=5)
    assert task.settings.get("delay") == [30, 30]


@pytest.mark.parametrize("seed", [-1, [0], [0, -2], [0, 1.5]])
def test_bad_seeds(seed):
    with pytest.raises(ValueError, match=r"seed=|seeds were given"):
        make("Memorize", 2).reset(seed)


def test_numpy_numbers_are_numbers():
    task = make("Memorize", np.int64(2), delay=np.int32(5), noise=np.float32(0.5))
    task.set_levels(np.array([3, 4]), np.array([0.0, 1.0]))
    task.reset(np.int64(3))
    assert task.get_state()["size"].tolist() == [4, 4]
    np.testing.assert_array_equal(task.observe(), make("Memorize", 2).reset(3))


@pytest.mark.parametrize(
    "name",
    [
        *("Memorize", "DetectAndMemorize", "TMaze", "Reasoning", "FactRecall", "MemoryLength", "CountRecall"),
        *("Copy", "AssociativeRetrieval", "Rewrite", "RepeatPrevious"),
    ],
)
def test_every_parameter_can_be_changed_and_applies_to_the_next_episode(name):
    values = {
        "delay": 2,
        "length": 2,
        "noise": 0.5,
        "reward_correct": 2.0,
        "reward_wrong": -2.0,
        "earliest": 0.25,
        "latest": 0.75,
        "active": True,
        "start_distance": 3,
        "slack": 4,
        "goal_reward": 2.0,
        "penalty": 0.5,
        "facts": 8,
        "hops": 2,
        "every": 2,
        "repeats": 2,
        "pairs": 2,
        "queries": 2,
        "lag": 2,
        "answers": 3,
    }
    task = make(name, 4)
    task.reset(0)
    before = task.get_state()
    for parameter in task.settings.names:
        if parameter in values:
            task.set_parameters(np.array([1]), **{parameter: values[parameter]})
            given = task.settings.get(parameter)
            assert given[1] == values[parameter]
            assert given[0] != values[parameter]
    np.testing.assert_equal(task.get_state(), before)
    changed = set(task.settings.names) & set(values) - {task.LEVEL.name}
    task.restart(np.array([0, 2]))
    np.testing.assert_equal(
        {key: task.get_state()[key] for key in changed}, {key: before[key] for key in changed}
    )
    task.restart(np.array([3, 1]))
    after = task.get_state()
    for parameter in changed:
        assert after[parameter].tolist() == task.settings.get(parameter)
    assert after["size"].tolist() == [before["size"][0], values[task.LEVEL.name], *before["size"][2:]]


def test_level_table_at_its_bounds():
    table = LevelTable(Memorize.LEVEL, [5, 6, (1, 4), 7], [0.0, 0.25, 0.75, 0.0])
    levels, numbers = table.draw(np.array([0.0, 0.24, 0.25, 0.99, 0.5]), np.array([0.0, 0.0, 0.0, 0.99, 0.5]))
    assert levels.tolist() == [6, 6, (1, 4), (1, 4), (1, 4)]
    assert numbers.tolist() == [6, 6, 1, 4, 3]


def test_distribution_of_what_later_episodes_draw():
    task = make("Copy", 4)
    task.set_levels([3, (2, 5)], [0.25, 0.75])
    task.set_levels([3], rows=np.array([0]))
    task.set_parameters(np.array([1]), repeats=2)
    lengths, shares = task.settings.distribution()
    assert lengths.tolist() == [[2, 3, 4, 5]]
    assert shares == pytest.approx([9 / 64, 1 / 4 + 3 / 16 + 9 / 64, 9 / 64, 9 / 64])
    drawn, shares = task.settings.distribution("repeats")
    assert drawn.tolist() == [[2, 2, 3, 3, 4, 4, 5, 5], [1, 2] * 4]
    rows = np.array([1 / 4 + 2 / 4 * 7 / 16, 1 / 4 * 7 / 16])  # that have each number, and draw 3
    others = np.array([2 / 4, 1 / 4]) * 3 / 16
    assert shares == pytest.approx([*others, *rows, *others, *others])
