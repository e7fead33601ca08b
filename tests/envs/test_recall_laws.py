"""What holds for every recall task, whatever it asks for."""

import copy
import pickle

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from envs.recall.tasks import TASKS
from tests.envs.recall_cases import CASES, IDS, SHORT, assert_rate, make, play, random_actions

every_case = pytest.mark.parametrize(("name", "kwargs"), CASES, ids=IDS)
every_task = pytest.mark.parametrize("name", SHORT)


@every_case
def test_64_rows_equal_64_tasks_of_one_row(name, kwargs):
    whole = make(name, 64, **kwargs)
    rows = [make(name, 1, **kwargs) for _ in range(64)]
    np.testing.assert_array_equal(
        whole.reset(7), np.concatenate([row.reset(7 + i) for i, row in enumerate(rows)])
    )
    for actions in random_actions(whole, 40):
        observations, outcome, finished = whole.step_and_restart(actions)
        results = [row.step_and_restart(actions[i : i + 1]) for i, row in enumerate(rows)]
        np.testing.assert_array_equal(observations, np.concatenate([result[0] for result in results]))
        for field in outcome._fields:
            expected = np.concatenate([getattr(result[1], field) for result in results])
            np.testing.assert_array_equal(getattr(outcome, field), expected)
        ended = [result[2] is not None for result in results]
        assert ended == (outcome.terminated | outcome.truncated).tolist()
        if finished is not None:
            assert finished.rows.tolist() == np.flatnonzero(ended).tolist()
            for field in finished._fields[1:]:
                expected = np.concatenate([getattr(result[2], field) for result in results if result[2]])
                np.testing.assert_array_equal(getattr(finished, field), expected)


@every_case
def test_same_seed_same_episodes_and_another_seed_others(name, kwargs):
    def record(seed):
        task = make(name, 16, **kwargs)
        observations = [task.reset(seed)]
        observations += [task.step_and_restart(actions)[0] for actions in random_actions(task, 60)]
        return np.stack(observations)

    np.testing.assert_array_equal(record(3), record(3))
    assert (record(3) != record(4)).any()


@every_task
def test_unseeded_tasks_differ_and_reset_without_seed_goes_on(name):
    first, second = make(name, 64), make(name, 64)
    first.reset()
    second.reset()
    assert (first.get_state()["key"] != second.get_state()["key"]).all()
    first.reset(5)
    begun = first.get_state()["key"]
    first.reset()
    assert (first.get_state()["key"] != begun).all()
    first.reset([5 + i if i % 2 else None for i in range(64)])
    assert ((first.get_state()["key"] == begun) == (np.arange(64) % 2 == 1)).all()


def remembering(policy):
    """The policy with the memory it hands out handed back to it, as an SB3 model is used."""
    memory = None

    def act(observations, starts):
        nonlocal memory
        actions, memory = policy.predict(observations, memory, starts)
        return actions

    return act


@every_case
def test_oracle_and_remembering_policy_get_the_best_return(name, kwargs):
    task = make(name, 32, **kwargs)
    task.reset(1)
    best = task.best_return[0]
    success, returns, _ = play(task, lambda obs, starts: task.optimal_action(), 400)
    assert success.all()
    assert (returns == best).all()
    task.reset()  # the rows are at different steps by now
    success, returns, _ = play(task, remembering(task.policy_class(task)), 400)
    assert success.all()
    assert (returns == best).all()


@every_case
def test_oracle_reads_a_state(name, kwargs):
    task, other = make(name, 32, **kwargs), make(name, 32, **kwargs)
    task.reset(1)
    other.reset(2)
    assert (task.optimal_action() != other.optimal_action()).any() or name == "TMaze"
    np.testing.assert_array_equal(task.optimal_action(), other.optimal_action(task.get_state()))


@every_task
def test_no_policy_without_memory_beats_chance(name):
    task = make(name, 250, **SHORT[name])
    task.reset(0)
    policy = task.policy_class(task, remember=False)
    success, _, _ = play(task, remembering(policy), 10_000)
    assert_rate(success, task.chance)


@every_task
def test_random_policy_meets_its_rate(name):
    for level in (1, 2, 4):
        task = make(name, 250, **{**SHORT[name], TASKS[name].LEVEL.name: level})
        task.reset(0)
        rng = np.random.default_rng(0)
        success, _, _ = play(task, lambda obs, starts: rng.integers(0, task.n_actions, 250), 10_000)  # noqa: B023
        assert_rate(success, task.random_success[0])


def probe_hits(features, labels):
    """Which of the later half of the labels (N,) least squares on the earlier half tells from (N, D)."""
    half = len(labels) // 2
    features = np.c_[features, np.ones(len(features))].astype(np.float64)
    train = features[:half]
    ridge = train.T @ train + 1e-3 * np.eye(features.shape[1])
    weights = np.linalg.solve(ridge, train.T @ np.eye(labels.max() + 1)[labels[:half]])
    return (features[half:] @ weights).argmax(axis=1) == labels[half:]


@every_case
def test_a_linear_probe_of_the_last_observation_finds_chance(name, kwargs):
    task = make(name, 8000, **kwargs)
    last, answers = task.reset(0), task.optimal_action()
    running = np.ones(8000, dtype=bool)
    while running.any():
        actions = task.optimal_action()
        last[running], answers[running] = task.observe()[running], actions[running]
        finished = task.step_and_restart(actions)[2]
        if finished is not None:
            running[finished.rows] = False
    hits, chance = probe_hits(last, answers), task.answer_chance
    assert hits.mean() <= chance + 4 * np.sqrt(chance * (1 - chance) / len(hits))
    # It would find what is there: a trace of the answer is enough.
    noise = np.random.default_rng(0).normal(0.0, 0.1, (8000, task.n_actions))
    assert probe_hits(np.c_[last, 0.5 * np.eye(task.n_actions)[answers] + noise], answers).mean() > 0.95


@every_case
def test_state_goes_back_and_forth(name, kwargs):
    task = make(name, 16, **kwargs)
    task.reset(11)
    actions = random_actions(task, 90)
    for step in actions[:17]:
        task.step_and_restart(step)
    state = task.get_state()
    kept = copy.deepcopy(state)

    def follow(player):
        return [player.step_and_restart(step) for step in actions[17:]]

    expected = follow(task)
    same, fresh = task, make(name, 16, **kwargs)
    pickled = pickle.loads(pickle.dumps(fresh))
    for player in (same, fresh, pickled):
        player.set_state(state)
        np.testing.assert_equal(player.get_state(), kept)
        np.testing.assert_equal(follow(player), expected)
    np.testing.assert_equal(state, kept)  # a state handed out or in is not shared


@every_task
def test_one_row_can_be_set_and_bad_states_are_refused(name):
    task = make(name, 4)
    task.reset(0)
    before = task.get_state()
    donor = make(name, 1)
    donor.reset(99)
    task.set_state(donor.get_state(), rows=np.array([2]))
    after = task.get_state()
    assert after["key"][2] == donor.get_state()["key"][0]
    assert (after["key"] == before["key"]).tolist() == [True, True, False, True]
    with pytest.raises(ValueError, match="must have exactly"):
        task.set_state({"t": np.zeros(4)})
    with pytest.raises(ValueError, match="has shape"):
        task.set_state(donor.get_state())


@every_case
def test_observations_are_new_arrays_in_bounds_and_looking_changes_nothing(name, kwargs):
    task = make(name, 16, **kwargs)
    seen = task.reset(2)
    for actions in random_actions(task, 30):
        before = task.get_state()
        np.testing.assert_array_equal(task.observe(), seen)
        np.testing.assert_equal(task.get_state(), before)
        assert seen.dtype == np.float32
        assert seen.shape == (16, task.observation_dim)
        assert seen.min() >= task.observation_low
        assert seen.max() <= task.observation_high
        again = task.observe()
        again[:] = -7.0
        np.testing.assert_array_equal(task.observe(), seen)
        seen = task.step_and_restart(actions)[0]


@every_task
def test_levels_apply_to_later_episodes_in_their_proportions(name):
    task = make(name, 200, **SHORT[name])
    task.set_levels([2])
    task.reset(0)
    levels = [1, (3, 4)]
    task.set_levels(levels, [0.25, 0.75])
    first = [True] * 200
    later = []
    sizes = {1: set(), (3, 4): set()}
    rng = np.random.default_rng(0)
    while len(later) < 4000:
        current = task.get_state()
        finished = task.step_and_restart(rng.integers(0, task.n_actions, 200))[2]
        if finished is None:
            continue
        for row, level in zip(finished.rows, finished.levels, strict=True):
            if first[row]:
                assert level == 2
                assert current["size"][row] == 2
            else:
                assert any(level is given for given in levels)
                sizes[level].add(int(current["size"][row]))
                later.append(level == 1)
            first[row] = False
    assert sizes == {1: {1}, (3, 4): {3, 4}}
    started = make(name, 10_000)
    started.set_levels(levels, [0.25, 0.75])
    started.reset(0)
    assert_rate(started.get_state()["size"] == 1, 0.25)
    assert_rate(started.get_state()["size"] == 3, 0.375)


@every_task
def test_step_needs_a_running_episode(name):
    task = make(name, 3, **SHORT[name])
    with pytest.raises(ResetNeeded, match=r"rows \[0, 1, 2\]"):
        task.step([0, 0, 0])
    task.reset(0)
    while not task.ended.any():
        task.step(task.optimal_action())
    with pytest.raises(ResetNeeded):
        task.step([0, 0, 0])
