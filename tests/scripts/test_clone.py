"""scripts/clone.py, as a person uses it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agents.checkpoints import find_checkpoint
from agents.recipes import MiniGridRecipe
from scripts import clone, evaluate, train
from tests.scripts.test_scripts import fails

SMALL = (
    "--n-envs 4 --n-steps 16 --sequence-length 16 --n-minibatches 2 --n-epochs 1 --total-steps 128 "
    "--demonstrations 32 --epochs 2 --episodes 8"
)


def test_a_cloned_agent_is_evaluated_and_trained_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    clone.main(["memorize", "--levels", "2", "3-4", *SMALL.split(), "--core", "gru", "--out", str(tmp_path)])
    folder = tmp_path / "memorize-gru-seed0-cloned"
    out = capsys.readouterr().out
    assert out.count("loss") == 2
    assert "from 128 steps" in out
    checkpoint = find_checkpoint(folder)
    assert (checkpoint.steps, checkpoint.recipe.core, checkpoint.recipe.levels) == (0, "gru", (2, (3, 4)))
    before = checkpoint.load_model(device="cpu").policy.parameters_to_vector()
    evaluate.main([str(folder), "--levels", "3", "--episodes", "8"])
    train.main(["--resume", str(folder)])
    trained = find_checkpoint(folder)
    assert trained.steps == 128
    after = trained.load_model(device="cpu").policy.parameters_to_vector()
    assert np.abs(after - before).max() > 1e-4


def test_environments_by_id(tmp_path: Path) -> None:
    source = "envs.minigrid:RMT/MiniGrid-Memory-v0"
    clone.main([source, "--levels", "S7", *SMALL.split(), "--out", str(tmp_path), "--name", "grid"])
    recipe = find_checkpoint(tmp_path / "grid").recipe
    assert isinstance(recipe, MiniGridRecipe)
    assert recipe.env_id == source
    _, arguments = clone.parse(["envs:RMT/Copy-v0"])
    assert arguments.recipe.levels


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "the first argument must be a recipe"),
        (["memorise"], "did you mean memorize"),
        (["envs:RMT/Memorise-v0"], "did you mean envs:RMT/Memorize-v0"),
        (["tests.scripts.worlds:Silent-v0", *SMALL.split()], "these environments have no expert"),
        (["memorize", "--episodes", "0"], "episodes must be at least 1"),
        (["memorize", "--rate", "-1"], "rate above 0, got 256 and -1"),
        (["memorize", "--epochs", "0", *SMALL.split()[:-4]], "there must be demonstrations and epochs"),
    ],
)
def test_refuses(
    argv: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in fails(clone.main, argv, capsys, monkeypatch)
    assert not list(tmp_path.iterdir())
