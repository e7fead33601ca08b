"""The bench for learning: questions that only a memory answers, and updates that are counted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from agents.micro_tasks import MICRO_TASKS, SYMBOLS, MicroTask, pairs, repeat
from agents.supervised import Answerer, learn_micro_task
from rmt_rl import make_core
from scripts import benchmark_learning as bench
from scripts import rows

every_task = pytest.mark.parametrize("name", MICRO_TASKS)


@every_task
def test_questions_are_whole_and_judged_across_segments(name: str) -> None:
    task = MICRO_TASKS[name]
    one, other, again = (task.draw(np.random.default_rng(seed), 5) for seed in (0, 1, 0))
    rows_, steps, width = one.observations.shape
    assert (rows_, width) == (5, task.input_dim) and one.observations.dtype == np.float32
    assert one.answers.shape == one.due.shape == one.judged.shape == (5, steps)
    assert steps % task.segment_length == 0 and steps >= 4 * task.segment_length
    assert one.judged.any(1).all() and not (one.judged & ~one.due).any()
    assert not one.due[:, 0].any() and 0 <= one.answers.min() <= one.answers.max() < SYMBOLS
    for leaf, same in zip(one, again, strict=True):
        np.testing.assert_array_equal(leaf, same)
    assert not np.array_equal(one.answers, other.answers)
    assert not one.judged[:, : task.segment_length].any()


def test_what_was_seen_k_steps_ago_is_asked_for() -> None:
    drawn = repeat(3, steps=12, segment=4)(np.random.default_rng(0), 2)
    symbols = drawn.observations.argmax(-1)
    np.testing.assert_array_equal(drawn.answers[:, 3:], symbols[:, :-3])
    np.testing.assert_array_equal(drawn.due[0], np.arange(12) >= 3)
    assert np.flatnonzero(drawn.judged[0]).tolist() == [4, 5, 6, 8, 9, 10]  # slot 3 looks at slot 0


def test_keys_are_asked_for_without_their_values() -> None:
    drawn = pairs(3, steps=16, segment=4)(np.random.default_rng(0), 6)
    keys, values = drawn.observations[..., :3], drawn.observations[..., 3:]
    assert not drawn.due[:, :4].any() and (values[:, 4:] == 0).all()
    np.testing.assert_array_equal(keys[:, :4].sum(1), np.ones((6, 3)))
    for row, step in np.argwhere(drawn.due):
        (shown,) = np.flatnonzero(keys[row, :4, keys[row, step].argmax()])
        assert values[row, shown].argmax() == drawn.answers[row, step]


@pytest.mark.parametrize("name", ["copy-8", "flagged", "keep-64"])
def test_what_was_shown_first_is_asked_for(name: str) -> None:
    drawn = MICRO_TASKS[name].draw(np.random.default_rng(0), 4)
    segment, symbols = MICRO_TASKS[name].segment_length, drawn.observations[..., :SYMBOLS]
    for row, step in np.argwhere(drawn.due):
        cue = step % segment if name == "copy-8" else drawn.observations[row, :, SYMBOLS].argmax()
        assert cue < segment and symbols[row, cue].argmax() == drawn.answers[row, step]
        assert drawn.observations[row, step, -1] == 1.0


def test_parameters_are_equally_many() -> None:
    """Within some percent, or updates could not be compared."""
    counts = [
        sum(p.numel() for p in make_core(core, MICRO_TASKS[task].input_dim, **options).parameters())
        for core in bench.SIZES
        for task in MICRO_TASKS
        for options in [bench.options_of(core, task, {})]
    ]
    assert max(counts) / min(counts) < 1.1


def test_updates_are_counted_until_it_is_solved() -> None:
    """One symbol back, without segments: soon always right; with a memory of nothing, never."""
    task = MicroTask(repeat(1, steps=6, segment=2), SYMBOLS, updates=200)
    torch.manual_seed(0)
    learnt = learn_micro_task(Answerer("gru", SYMBOLS, SYMBOLS, width=16), task, 0, learning_rate=2e-2)
    assert learnt.solved and 10 <= learnt.updates < 200 and learnt.right >= 0.97
    none = learn_micro_task(Answerer("none", SYMBOLS, SYMBOLS, width=8), task, 0, updates=20)
    assert (none.updates, none.solved) == (20, False) and 0.15 < none.right < 0.35


def test_rows_are_kept_and_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    results, asked = tmp_path / "learning.json", []

    def measure(
        file: Path, work: object, wanted: list[tuple[str, str, int, bench.Arguments]], *_: object
    ) -> None:
        asked.extend(key[:3] for key in wanted)
        kept = [bench.work(*key) for key in wanted]
        rows.put(file, json.loads(json.dumps(kept)), bench.ORDER)

    monkeypatch.setattr(bench, "measure_missing", measure)
    words = ["--only", "repeat-4", "--cores", "rmt", "--updates", "1", "--results", str(results)]
    bench.main([*words, "--seeds", "0"])
    bench.main([*words, "--seeds", "0", "1", "--core-kwargs", "layers", "1"])
    bench.main([*words, "--seeds", "0", "--variant", "wide", "--core-kwargs", "width", "32"])
    assert asked == [("repeat-4", "rmt", 0), ("repeat-4", "rmt", 1), ("repeat-4", "rmt", 0)]
    kept = rows.read(results)
    assert [(row["variant"], row["seed"]) for row in kept] == [("default", 0), ("default", 1), ("wide", 0)]
    assert [row["core_kwargs"].get("layers", 2) for row in kept] == [2, 1, 2]
    assert kept[2]["parameters"] < kept[0]["parameters"]
    assert not any(row["solved"] for row in kept)
    assert "1 (2 not)" in capsys.readouterr().out


def test_a_window_is_not_asked_beyond_its_reach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, int]] = []
    monkeypatch.setattr(
        bench, "measure_missing", lambda file, work, wanted, *_: asked.extend(key[:3] for key in wanted)
    )
    bench.main(["--cores", "xl", "--seeds", "0", "--results", str(tmp_path / "rows.json")])
    assert [name for name, _, _ in asked] == [name for name in MICRO_TASKS if name != "keep-64"]
    for words, message in ((["--only", "juggle"], "juggle.*repeat-4"), (["--cores", "elman"], "elman.*rmt")):
        with pytest.raises(ValueError, match=message):
            bench.main([*words, "--results", str(tmp_path / "rows.json")])
