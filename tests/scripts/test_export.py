"""scripts/export.py, as a person uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agents.checkpoints import save_checkpoint
from agents.environments import make_env
from agents.training import build_curriculum, build_model
from scripts import export
from tests.agents.helpers import tiny
from tests.scripts.test_scripts import fails


def test_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = tiny(core="gru", core_kwargs=dict(width=8))
    model = build_model(recipe, make_env(recipe, 2, 0), "cpu")
    checkpoint = save_checkpoint(tmp_path, model, recipe, build_curriculum(recipe).state_dict())
    export.main([str(tmp_path), "--steps", "50"])
    assert (checkpoint / "agent.onnx").is_file()
    out = " ".join(capsys.readouterr().out.split())
    assert "observation, episode_start, state.hidden -> action, value, next_state.hidden" in out
    assert "acts as the agent over 50 steps" in out


def test_refuses(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no folder nowhere" in fails(export.main, ["nowhere"], capsys, monkeypatch)
