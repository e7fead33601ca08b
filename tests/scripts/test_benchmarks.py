"""The benchmarks' scripts: what they measure is what they say."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from agents.training import train as train_recipe
from envs.recall.tasks import make_task
from scripts import benchmark_envs, capacity, inspect_memory, rows
from tests.agents.helpers import tiny


def test_rows_are_kept_in_order_and_whole(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "rows.json"
    assert rows.read(file) == []
    rows.write(
        file, [dict(core="b", seed=1), dict(core="a", seed=2), dict(core="b", seed=0)], ("core", "seed")
    )
    assert [(row["core"], row["seed"]) for row in rows.read(file)] == [("a", 2), ("b", 0), ("b", 1)]
    assert [path.name for path in file.parent.iterdir()] == ["rows.json"]


def test_a_row_measured_again_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    rows.put(file, [dict(core="b", seed=1, value=1), dict(core="a", seed=1, value=2)], ("core", "seed"))
    rows.put(file, [dict(core="b", seed=1, value=3), dict(core="b", seed=0, value=4)], ("core", "seed"))
    assert [(row["core"], row["seed"], row["value"]) for row in rows.read(file)] == [
        ("a", 1, 2),
        ("b", 0, 4),
        ("b", 1, 3),
    ]


def test_environments_are_timed(capsys: pytest.CaptureFixture[str]) -> None:
    benchmark_envs.main(["--only", "Memory", "--kind", "object", "--seconds", "0.01", "--repeats", "1"])
    printed = capsys.readouterr().out
    assert "MemoryLength" in printed and "MiniGrid-MemoryS9" in printed and "Memorize" not in printed
    with pytest.raises(ValueError, match="no id has that in it"):
        benchmark_envs.main(["--only", "nothing"])


# -- capacity ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", capacity.SETTINGS, ids=lambda s: f"{s.task}-{s.segments}")
def test_settings_are_what_they_say(setting: capacity.Setting) -> None:
    """So many segments, and answers that the task itself accepts as right."""
    episodes = capacity.play(setting, 0)(setting.level, 3)
    steps = episodes.observations.shape[1]
    assert -(-steps // setting.segment_length) == setting.segments
    assert episodes.answers.shape == episodes.due.shape == (3, steps) and episodes.due.any(1).all()
    task = make_task(setting.task, 3, setting.parameters)
    task.set_levels([setting.level])
    task.reset(0)
    task.restart(np.arange(3))  # the first episodes after the first reset are the second ones
    total = np.zeros(3)
    for t in range(steps):
        np.testing.assert_array_equal(task.observe(), episodes.observations[:, t])
        total += task.step(episodes.answers[:, t]).rewards
    np.testing.assert_allclose(total, 1.0)
    assert task.success.all()


@pytest.mark.parametrize("setting", capacity.SETTINGS, ids=lambda s: f"{s.task}-{s.segments}")
def test_a_curriculum_comes_to_the_level(setting: capacity.Setting) -> None:
    """From a single piece to what is asked for; of sequences, symbols and distractors fill whole segments."""
    lows, highs, changes = zip(*setting.curriculum, strict=True)
    assert highs[-1] == setting.level and list(highs) == sorted(highs)
    assert all(low <= high for low, high in zip(lows, highs, strict=True))
    if setting.task in ("Copy", "Reverse"):
        assert lows == highs and len(lows) > 1 and not changes[-1].get("delay")
        for length, changed in zip(lows, changes, strict=True):
            assert (length + changed.get("delay", 0)) % setting.segment_length == 0


@pytest.mark.parametrize("core", ["rmt", "gru"])
def test_a_run_gives_a_row(core: str) -> None:
    """A few updates: nothing learnt, everything there; and the table has its figure."""
    arguments = capacity.Arguments(updates=3, batch=4, episodes=6, width=8, layers=1)
    number = next(n for n, s in enumerate(capacity.SETTINGS) if s.task == "AssociativeRetrieval")
    row = json.loads(json.dumps(capacity.work(number, core, 0, arguments)))
    assert (row["task"], row["core"], row["updates"], row["solved"]) == (
        "AssociativeRetrieval",
        core,
        3,
        False,
    )
    assert set(row["accuracy"]) == {"4"} and 0.0 <= row["accuracy"]["4"] <= 1.0
    table = capacity.table([row])
    assert table.row_count == 1


def test_what_has_a_row_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default the cores that have published figures, and gru."""
    asked: list[tuple[str, str, int]] = []

    def note(file: Path, work: object, wanted: list[tuple[int, str, int, object]], *_: object) -> None:
        asked.extend((capacity.SETTINGS[number].task, core, seed) for number, core, seed, _ in wanted)

    monkeypatch.setattr(capacity, "measure_missing", note)
    results = tmp_path / "rows.json"
    row = dict(task="Rewrite", segments=51, core="gru", seed=1, accuracy={"50": 0.1, "500": 0.1})
    rows.write(results, [row], ("task",))
    capacity.main(["--tasks", "Rewrite", "--seeds", "0", "1", "--results", str(results)])
    assert asked == [("Rewrite", "armt", 0), ("Rewrite", "gru", 0), ("Rewrite", "armt", 1)]


def test_few_updates_suffice_for_one_pair() -> None:
    """What an answerer is for: with one pair to remember it is soon always right."""
    setting = capacity.SETTINGS[-1]._replace(
        parameters=dict(keys=2, values=2, delay=0), level=1, segment_length=2
    )
    source = capacity.play(setting, 0)
    first = source(1, 2)
    model = capacity.Answerer("gru", first.observations.shape[-1], 2, width=16)
    fitted = capacity.fit(
        model,
        capacity.Fitting(
            [capacity.Stage(source, 1, 1)], updates=400, batch=32, learning_rate=1e-2, settling=50
        ),
    )
    assert fitted.solved and fitted.updates < 400
    assert capacity.accuracy(model, capacity.play(setting, 1), 1, 50) == [1.0] * 50


def test_a_level_has_its_share_and_the_rate_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing is ever solved: two levels of ten updates each, then a rate that falls to 0."""
    setting = capacity.SETTINGS[-1]
    source, asked = capacity.play(setting, 0), []
    model = capacity.Answerer("none", source(1, 1).observations.shape[-1], 16, width=8, layers=1)
    rates: list[float] = []
    step = torch.optim.AdamW.step
    monkeypatch.setattr(
        torch.optim.AdamW, "step", lambda self: (rates.append(self.param_groups[0]["lr"]), step(self))
    )

    def recording(level: int, count: int) -> capacity.Episodes:
        asked.append(level)
        return source(level, count)

    stages = [capacity.Stage(recording, level, level) for level in (1, 2)]
    fitting = capacity.Fitting(stages, updates=20, batch=2, learning_rate=1.0, settling=4, solved=2.0)
    fitted = capacity.fit(model, fitting)
    assert not fitted.solved and fitted.updates == 20
    assert asked[:10] == [1] * 10 and asked[10:].count(2) > 5
    np.testing.assert_allclose(rates, [min((n + 1) / 50, (20 - n) / 4) for n in range(20)])


# -- memory --------------------------------------------------------------------------------------------------


def test_a_memory_is_inspected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train_recipe(tiny(), tmp_path / "run", device="cpu")
    inspect_memory.main([str(tmp_path / "run"), "--level", "6", "--episodes", "4"])
    assert "use of what is handed on from segment to segment" in " ".join(capsys.readouterr().out.split())
    with Image.open(tmp_path / "run" / "memory.png") as image:
        assert image.format == "PNG"
