"""The recipes do what they are for: an agent learns, and remembers far beyond what it was trained on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from agents.evaluation import evaluate
from agents.recipes import RECIPES, longest
from agents.training import read_logs, train

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("name", "levels"),
    [
        ("memorize", [longest(1), longest(7), longest(64), longest(512)]),
        ("detect", [longest(1), longest(7), longest(64)]),
        ("tmaze", [15, 111]),
    ],
)
def test_rmt_learns(name: str, levels: list[int], seed: int, tmp_path: Path) -> None:
    recipe = replace(RECIPES[name], seed=seed)
    trained = train(recipe, tmp_path, device="cpu")
    assert max(row.get("train/replay_error", 0.0) for row in read_logs(tmp_path)) <= 1e-4
    for result in evaluate(trained.model, recipe, levels):
        assert result.success >= 0.99, result


def test_nothing_is_learnt_without_memory(tmp_path: Path) -> None:
    recipe = replace(RECIPES["memorize"], core="none", total_steps=200_000)
    trained = train(recipe, tmp_path, device="cpu")
    assert trained.curriculum.stage == 0
    (result,) = evaluate(trained.model, recipe, [longest(1)], episodes=512)
    low, high = result.interval
    assert low <= 0.25 <= high
