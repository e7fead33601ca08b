"""Memorize and DetectAndMemorize, step by step."""

import numpy as np
import pytest

from tests.envs.recall_cases import assert_rate, make, random_actions

QUERY_TASKS = pytest.mark.parametrize("name", ["Memorize", "DetectAndMemorize"])


def unroll(task, steps):
    """The observations (steps + 1, N, D) under action 0."""
    observations = [task.observe()]
    for _ in range(steps):
        task.step(np.zeros(task.n_envs, dtype=int))
        observations.append(task.observe())
    return np.stack(observations)


def test_memorize_shows_cue_distractors_query_and_blank():
    task = make("Memorize", 400, cues=3, delay=5, distractors=4)
    task.reset(0)
    cue = task.get_state()["cue"]
    seen = unroll(task, 7)
    assert seen.shape == (8, 400, 8)
    np.testing.assert_array_equal(seen[0], np.eye(8)[cue])
    distractors = seen[1:6]
    assert set(np.unique(distractors)) == {0.0, 1.0}
    assert (distractors[..., 3:7].sum(axis=-1) == 1).all()
    assert (distractors.sum(axis=-1) == 1).all()
    np.testing.assert_array_equal(seen[6], np.tile(np.eye(8)[7], (400, 1)))
    assert not seen[7].any()
    assert task.ended.all()
    for symbol in range(3):
        assert_rate(cue == symbol, 1 / 3)
    for symbol in range(4):
        assert_rate(distractors[..., 3 + symbol].ravel() == 1, 1 / 4)


def test_detect_shows_one_flagged_symbol_among_symbols_drawn_alike():
    task = make("DetectAndMemorize", 1000, cues=3, delay=5)
    task.reset(0)
    state = task.get_state()
    seen = unroll(task, 7)
    stream = seen[:6]
    assert (stream[..., :3].sum(axis=-1) == 1).all()
    assert (stream[..., 3].sum(axis=0) == 1).all()
    assert not stream[..., 4].any()
    place = stream[..., 3].argmax(axis=0)
    np.testing.assert_array_equal(place, state["position"])
    np.testing.assert_array_equal(stream[place, np.arange(1000), :3], np.eye(3)[state["cue"]])
    for step in range(6):
        assert_rate(place == step, 1 / 6)
    for symbol in range(3):
        assert_rate(stream[..., symbol][stream[..., 3] == 0] == 1, 1 / 3)
        assert_rate(stream[..., symbol][stream[..., 3] == 1] == 1, 1 / 3)
    np.testing.assert_array_equal(seen[6], np.tile(np.eye(5)[4], (1000, 1)))
    assert not seen[7].any()


@pytest.mark.parametrize(
    ("earliest", "latest", "places"), [(0, 0, {0}), (1, 1, {4}), (0.25, 0.75, {1, 2, 3})]
)
def test_detect_position_range(earliest, latest, places):
    task = make("DetectAndMemorize", 300, delay=4, earliest=earliest, latest=latest)
    task.reset(0)
    assert set(task.get_state()["position"].tolist()) == places


@QUERY_TASKS
@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_query_looks_the_same_for_every_cue(name, noise):
    task = make(name, 200, delay=3, noise=noise)
    task.reset(0)
    at_query = unroll(task, 4)[-1]
    assert len(np.unique(task.get_state()["cue"])) == 4
    assert len(np.unique(at_query, axis=0)) == 1
    assert not task.render_text(0).count("cue ")
    assert len({task.render_rgb(row).tobytes() for row in range(200)}) == 1


@QUERY_TASKS
def test_only_the_answer_counts(name):
    task = make(name, 64, delay=3, reward_correct=2.5, reward_wrong=-0.5)
    task.reset(0)
    cue = task.get_state()["cue"]
    for actions in random_actions(task, 4):
        outcome = task.step(actions)
        assert not outcome.rewards.any()
        assert not outcome.terminated.any()
    answers = random_actions(task, 1, seed=9)[0]
    outcome = task.step(answers)
    np.testing.assert_array_equal(outcome.rewards, np.where(answers == cue, 2.5, -0.5))
    np.testing.assert_array_equal(task.success, answers == cue)
    assert outcome.terminated.all()
    assert not outcome.truncated.any()


@pytest.mark.parametrize(
    ("name", "blurred"), [("Memorize", slice(0, 12)), ("DetectAndMemorize", slice(0, 4))]
)
def test_noise_blurs_distractors_alone(name, blurred):
    clear, noisy = make(name, 500, delay=6), make(name, 500, delay=6, noise=0.5)
    clear.reset(0)
    noisy.reset(0)
    difference = unroll(noisy, 8) - unroll(clear, 8)
    cue_steps = clear.get_state().get("position", np.zeros(500, dtype=int))
    distractor = np.arange(9)[:, None] != cue_steps
    distractor[7:] = False
    assert not difference[~distractor].any()
    rest = np.delete(difference, blurred, axis=-1)
    assert not rest.any()
    noise = difference[distractor][:, blurred]
    assert abs(noise.mean()) < 4 * 0.5 / np.sqrt(noise.size)
    assert abs(noise.std() - 0.5) < 4 * 0.5 / np.sqrt(2 * noise.size)
    wild = make(name, 20, delay=6, noise=50.0)
    wild.reset(0)
    assert abs(unroll(wild, 8)).max() == 10.0


@QUERY_TASKS
def test_a_very_long_delay_is_advanced_to_its_query(name):
    task = make(name, 8, delay=8192)
    task.reset(0)
    assert task.advance(8192).shape == (8, 8192, task.observation_dim)
    assert task.non_reactive_steps().tolist() == [1] * 8
    task.advance(1)
    assert task.non_reactive_steps().tolist() == [0] * 8
    assert (task.observe()[:, -1] == 1).all()
    _, _, finished = task.step_and_restart(task.optimal_action())
    assert finished.success.all()
    assert finished.lengths.tolist() == [8194] * 8
