"""scripts/zoo.py: rl_zoo3's commands with our algorithms."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from rl_zoo3.utils import ALGOS

from agents.zoo import ALGORITHMS
from rmt_rl import MemoryPPO
from scripts import zoo
from tests.scripts.test_scripts import fails

QUICK = "--eval-freq -1 --device cpu --seed 0 --verbose 0"
LENGTHS = ["-params", "n_envs:1", "n_steps:50", "sequence_length:25"]


def train(folder: Path, algo: str, env: str, *more: str) -> None:
    zoo.main(["train", "--algo", algo, "--env", env, "-f", str(folder), *QUICK.split(), *more])


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[Any, Any, Any]]]:
    """State and episode starts that predict was given, and the state that it returned."""
    seen: list[tuple[Any, Any, Any]] = []
    predict = MemoryPPO.predict

    def spy(
        self: MemoryPPO, observation: Any, state: Any = None, episode_start: Any = None, **rest: Any
    ) -> Any:
        actions, after = predict(self, observation, state, episode_start, **rest)
        seen.append((state, np.array(episode_start), after))
        return actions, after

    monkeypatch.setattr(MemoryPPO, "predict", spy)
    yield seen


def test_train_and_enjoy(tmp_path: Path, calls: list[tuple[Any, Any, Any]]) -> None:
    train(tmp_path, "memory_ppo", "CartPole-v1", "-n", "200", *LENGTHS, "batch_size:50", "n_epochs:1")
    model = MemoryPPO.load(tmp_path / "memory_ppo/CartPole-v1_1/CartPole-v1.zip", device="cpu")
    assert (model.num_timesteps, model.sequence_length) == (200, 25)
    assert not calls
    enjoy = "enjoy --algo memory_ppo --env CartPole-v1 -n 50 --no-render --device cpu --stochastic -f"
    zoo.main([*enjoy.split(), str(tmp_path)])
    assert len(calls) == 50
    assert calls[0][0] is None and calls[0][1].all()
    for (*_, after), (state, *_) in pairwise(calls):
        assert state is after  # the memory goes from call to call
    assert any(starts.any() for _, starts, _ in calls[1:])  # and the second episode begins with a fresh one


def test_a2c_and_a_recipe(tmp_path: Path) -> None:
    train(tmp_path, "memory_a2c", "CartPoleNoVel-v1", "-n", "100", *LENGTHS)
    assert (tmp_path / "memory_a2c/CartPoleNoVel-v1_1/CartPoleNoVel-v1/vecnormalize.pkl").is_file()
    env = "Zoo/minigrid-memory-s9-v0"
    train(tmp_path, "memory_ppo", env, "-n", "100", *LENGTHS, "batch_size:50", "n_epochs:1")
    zoo.main(f"enjoy --algo memory_ppo --env {env} -n 20 --no-render --device cpu -f {tmp_path}".split())


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_tunes(algo: str, tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/study.db"
    options = (
        f"-n 64 -optimize --n-trials 1 --n-evaluations 1 --storage {storage} --study-name s --no-optim-plots"
    )
    train(tmp_path, algo, "CartPole-v1", *options.split(), "--eval-episodes", "1", "-params", "n_envs:1")
    (trial,) = optuna.load_study(study_name="s", storage=storage).trials
    assert trial.state is optuna.trial.TrialState.COMPLETE
    assert trial.value is not None and trial.value >= 1


def test_theirs_and_a_given_file_are_left_alone() -> None:
    assert "ppo_lstm" in ALGOS
    assert zoo.with_hyperparameters("train", ["--algo", "ppo"]) == ["--algo", "ppo"]
    given = ["--algo", "memory_ppo", "-conf", "mine.yml"]
    assert zoo.with_hyperparameters("train", given) == given
    assert zoo.with_hyperparameters("enjoy", given[:2]) == given[:2]


def test_refuses(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "must be one of train, enjoy, got 'play'" in fails(zoo.main, ["play"], capsys, monkeypatch)
