"""The speed benchmark's subcommands, as a person uses them, on next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from scripts import benchmark_speed, rows
from scripts.speed import scaling, training
from scripts.speed.measures import PARTS

ROOT = Path(__file__).resolve().parents[2]


def test_training(tmp_path: Path) -> None:
    """Run by its path: the processes that it starts have to find it."""
    file = tmp_path / "folder" / "rows.json"
    options = (
        "--workloads memorize --cores gru --n-envs 2 --n-steps 8 --batch-size 16 --sequence-length 8 "
        "--width 8 --n-epochs 1 --repeats 2 --threads 1"
    )
    script = ROOT / "scripts" / "benchmark_speed.py"
    done = subprocess.run(
        [sys.executable, str(script), "training", *options.split(), "--results", str(file)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert "2 environments x 8 steps" in done.stdout and "GFLOP/s" in done.stdout
    found = {row["name"]: row for row in rows.read(file)}
    assert set(found) == {training.ALONE, "PPO", "RecurrentPPO", "gru"}
    del found[training.ALONE]
    for row in found.values():
        assert row["repeats"] == 2 and row["slowest"] <= row["steps_per_second"] <= row["fastest"]
        assert list(row["microseconds"]) == list(PARTS) and min(row["microseconds"].values()) > 0
        mean = 1e6 / sum(row["microseconds"].values())
        assert row["slowest"] * 0.999 <= mean <= row["fastest"] * 1.001
        assert row["peak_bytes"] - row["peak_over_ppo"] == found["PPO"]["peak_bytes"]
        assert row["update_flops"] > 0 and row["share_of_product"] > 0
    assert found["RecurrentPPO"]["memory_bytes"] == 2 * 8 * 4 * 8 * 4
    assert found["gru"]["memory_bytes"] == 2 * 8 * 4


def test_acting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.json"
    options = "--cores gru --early 5 --late 20 --steps 16 --repeats 1 --n-envs 1 3 --width 8 --jobs 1"
    benchmark_speed.main(["acting", *options.split(), "--results", str(file)])
    out = capsys.readouterr().out
    assert "1 environment:" in out and "3 environments:" in out
    one, three = rows.read(file)
    assert (one["n_envs"], three["n_envs"], one["early_bytes"], one["late_bytes"]) == (1, 3, 32, 32)
    assert one["late_over_early"] == pytest.approx(one["late_microseconds"] / one["early_microseconds"])
    assert one["recorded_over_late"] > 0
    assert one["early_over_ppo"] == pytest.approx(one["early_microseconds"] / one["ppo_microseconds"])


def test_scaling(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.json"
    options = (
        "--cores gru --delays 1 2 --environments 1 2 --widths 4 8 --n-envs 2 --n-steps 8 "
        "--sequence-length 8 --segment-length 4 --repeats 1 --threads 1"
    )
    benchmark_speed.main(["scaling", *options.split(), "--results", str(file)])
    out = capsys.readouterr().out
    for words in (*scaling.SWEEPS.values(), "microseconds of learning per step"):
        assert words in " ".join(out.split())
    found = rows.read(file)
    assert [(row["sweep"], row["name"]) for row in found] == [
        (sweep, name) for sweep in sorted(scaling.SWEEPS) for name in ("RecurrentPPO", "gru")
    ]
    for row in found:
        for key, exponent in (
            ("steps_per_second", "exponent"),
            ("learning_microseconds", "learning_exponent"),
        ):
            assert row[exponent] == pytest.approx(scaling.fit_exponent(row["sizes"], row[key]))
    with Image.open(file.with_suffix(".png")) as image:
        assert image.format == "PNG"


def test_bad_input_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    for options, words in (
        ("training --workloads memorize --sequence-length 7", "sequence_length=7 does not divide"),
        ("acting --late 5", "late must be more than early"),
        ("scaling --cores elephant", "unknown cores"),
    ):
        with pytest.raises(ValueError, match=words):
            benchmark_speed.main([*options.split(), "--results", str(file)])
    assert not file.exists()
