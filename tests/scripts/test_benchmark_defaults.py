"""The bench of untuned agents: what a row holds, what counts as learnt, and that a row is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scripts import benchmark_defaults as bench
from scripts.benchmark_defaults import CONTRIB, TASKS, Arguments, main, table, work
from scripts.rows import write


@pytest.mark.parametrize("core", ["gru", CONTRIB])
def test_a_row(core: str) -> None:
    arguments = Arguments(steps=256, ppo_kwargs=dict(n_steps=64, sequence_length=32, batch_size=64))
    row = work("cartpole-no-velocity", 2, core, 1, arguments)
    assert [steps for steps, _ in row["curve"]] == ([128, 128, 256, 256] if core == "gru" else [256] * 4)
    assert all(8 <= value <= 500 for _, value in row["curve"]) and not row["learnt"]
    assert row["settings"]["n_steps"] == (64 if core == "gru" else 128)


def test_tasks_hide_what_they_say() -> None:
    for name, count in (("cartpole", 4), ("cartpole-no-velocity", 2), ("pendulum-no-velocity", 2)):
        env = TASKS[name].make(2, 0)
        assert env.observation_space.shape == (count,) and env.reset().shape == (2, count)  # type: ignore[union-attr]
        env.close()
    hidden, whole = TASKS["cartpole-no-velocity"].make(1, 5), TASKS["cartpole"].make(1, 5)
    np.testing.assert_array_equal(hidden.reset()[0], whole.reset()[0][[0, 2]])  # type: ignore[call-overload, index]


def test_rows_are_kept_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def measure(file: Path, work: Any, wanted: list[Any], *rest: Any) -> None:
        asked.extend(key[:4] for key in wanted)
        rows = [
            dict(zip(bench.ORDER, ("default", *key[:4]), strict=True), curve=[(1, 480.0)], learnt=key[3] > 0)
            for key in wanted
        ]
        write(file, rows, bench.ORDER)

    monkeypatch.setattr(bench, "measure_missing", measure)
    options = ["--tasks", "cartpole", "--n-envs", "1", "--cores", "rmt", "--seeds", "0", "1"]
    options += ["--results", str(tmp_path / "rows.json")]
    main(options)
    assert asked == [("cartpole", 1, "rmt", 0), ("cartpole", 1, "rmt", 1)]
    asked.clear()
    monkeypatch.setattr(bench, "measure_missing", lambda file, work, wanted, *rest: asked.extend(wanted))
    main(options)
    assert asked == []
    rows = bench.read(tmp_path / "rows.json")
    assert [next(iter(column.cells)) for column in table(rows).columns] == [
        "default",
        "rmt",
        "480 (1/2)",
        "1/2",
    ]
    with pytest.raises(ValueError, match=r"unknown tasks \['cart'\]; there are cartpole"):
        main(["--tasks", "cart"])
