"""Training by a recipe: what is left on disk, and that it goes on where it was left."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback

from agents.callbacks import Reports
from agents.checkpoints import Checkpoint, checkpoints_of, find_checkpoint
from agents.recipes import Recipe
from agents.training import build_curriculum, choose_policy, read_logs, train
from rmt_rl import MemoryPPO
from rmt_rl.resuming.locks import FolderLock
from rmt_rl.resuming.snapshots import read
from tests.agents.helpers import tiny

MULTI = "MultiInputPolicy"


class StopAt(BaseCallback):
    """Ctrl-C at a step."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.steps:
            raise KeyboardInterrupt
        return True


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 128 steps, with a checkpoint at 64."""
    folder = tmp_path_factory.mktemp("run")
    easy = easy_recipe()
    train(easy, folder, device="cpu", checkpoint_every=64)
    return folder


def easy_recipe(**changes: Any) -> Recipe:
    """Levels that count as solved after two episodes, one of them right."""
    return tiny(levels=((1, 2), (3, 4), (5, 6)), threshold=0.01, **changes)


def test_what_a_run_leaves(run: Path) -> None:
    assert [path.name for path in checkpoints_of(run)] == ["000000064", "000000128"]
    newest = find_checkpoint(run)
    assert newest.path == run / "checkpoints" / "000000128"
    assert (newest.steps, newest.recipe, newest.run) == (128, easy_recipe(), run)
    assert newest.curriculum["stage"] > 0
    assert sorted(path.name for path in newest.path.iterdir()) == ["model.zip", "recipe.json", "state.json"]
    assert not list((run / "checkpoints").glob(".draft*"))
    assert find_checkpoint(newest.path) == find_checkpoint(newest.path / "model.zip") == newest


def test_logs_hold_every_update(run: Path) -> None:
    logs = read_logs(run)
    assert [row["time/total_timesteps"] for row in logs] == [64, 128, 128]
    errors = [row["train/replay_error"] for row in logs if "train/replay_error" in row]
    assert len(errors) == 2
    assert max(errors) <= 1e-4
    assert {
        "curriculum/stage",
        "curriculum/success_rate",
        "rollout/ep_rew_mean",
        "rollout/success_rate",
    } <= set(logs[1])


def test_a_model_needs_no_recipe(run: Path) -> None:
    model = MemoryPPO.load(find_checkpoint(run).path / "model.zip", device="cpu")
    assert model.num_timesteps == 128
    assert type(model.learning_rate).__module__.startswith("rmt_rl.")
    action, _ = model.predict(model.observation_space.sample())
    assert model.action_space.contains(int(action))


def test_resume_goes_on(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(run, folder)
    checkpoint = find_checkpoint(folder)
    seen: list[tuple[int, int, float, float]] = []

    class Look(BaseCallback):
        curriculum: Any = None

        def _on_rollout_start(self) -> None:
            parameters = torch.cat([p.detach().flatten() for p in self.model.policy.parameters()])
            rate = self.model.policy.optimizer.param_groups[0]["lr"]
            total = parameters.double().sum().item()
            seen.append((self.num_timesteps, self.curriculum.stage, total, rate))

        def _on_step(self) -> bool:
            return True

    before = checkpoint.load_model(device="cpu")
    weights = torch.cat([p.detach().flatten() for p in before.policy.parameters()]).double().sum().item()
    longer = replace(checkpoint.recipe, total_steps=256)
    trained = train(
        longer, folder, resume=checkpoint, device="cpu", checkpoint_every=1000, callbacks=[Look()]
    )
    assert seen[0][:3] == (128, checkpoint.curriculum["stage"], weights)
    assert [entry[0] for entry in seen] == [128, 192]
    assert trained.model.num_timesteps == 256
    # The learning rate goes on down the line to the new end.
    assert seen[1][3] == pytest.approx(1e-3 * 64 / 256)
    assert [entry[0] for entry in trained.curriculum.history][: len(checkpoint.curriculum["history"])] == [
        entry[0] for entry in checkpoint.curriculum["history"]
    ]
    assert find_checkpoint(folder).recipe == longer
    assert [row["time/total_timesteps"] for row in read_logs(folder)] == [64, 128, 128, 192, 256, 256]


def test_curriculum_state_comes_back(run: Path) -> None:
    checkpoint = find_checkpoint(run)
    curriculum = build_curriculum(checkpoint.recipe, checkpoint.curriculum)
    assert json.loads(json.dumps(curriculum.state_dict())) == checkpoint.curriculum
    assert curriculum.levels == [(1, 2), (3, 4), (5, 6)]  # ranges, not JSON's lists


def state_of(path: Path) -> tuple[bytes, ...]:
    """A checkpoint's weights, optimizer and curriculum, to the bit."""
    saved = read(path / "model.zip")
    optimizer = saved.parameters["policy.optimizer"]
    leaves = [*saved.parameters["policy"].values()]
    leaves += [value for moments in optimizer["state"].values() for value in moments.values()]
    words = [repr(optimizer["param_groups"]), (path / "state.json").read_text()]
    return (*(leaf.numpy().tobytes() for leaf in leaves), *(text.encode() for text in words))


def untimed(run: Path) -> list[dict[str, float]]:
    """A run's logs but for the clock."""
    clock = {"time/fps", "time/time_elapsed"}
    return [{name: row[name] for name in row.keys() - clock} for row in read_logs(run)]


def test_ctrl_c_and_going_on_is_the_same_training(tmp_path: Path) -> None:
    recipe = easy_recipe(total_steps=320, final_ent_coef=0.0, stop_when_solved=False)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(recipe, whole, device="cpu", checkpoint_every=64)
    resume, begins = None, []
    for steps in (72, 140, 141, 290):
        trained = train(recipe, parts, resume=resume, device="cpu", callbacks=[StopAt(steps)])
        assert not trained.finished and trained.model.num_timesteps >= steps
        resume = find_checkpoint(parts)
        assert resume.path == trained.checkpoint
        begins.append(resume.steps)
    assert begins == [64, 128, 128, 256]  # where the rollout began that was cut short
    trained = train(recipe, parts, resume=resume, device="cpu", checkpoint_every=64)
    assert trained.finished and trained.model.num_timesteps == 320
    assert state_of(trained.checkpoint) == state_of(whole / "checkpoints" / "000000320")
    assert untimed(parts) == untimed(whole)


def test_a_run_belongs_to_one_process(run: Path, tmp_path: Path) -> None:
    checkpoint = copy_of(run, tmp_path / "copy")
    longer = replace(checkpoint.recipe, total_steps=256)
    logs = read_logs(checkpoint.run)
    with (
        FolderLock(checkpoint.run),
        pytest.raises(ValueError, match=f"in use by this process, {os.getpid()}"),
    ):
        train(longer, checkpoint.run, resume=checkpoint, device="cpu")
    assert read_logs(checkpoint.run) == logs
    assert find_checkpoint(checkpoint.run) == checkpoint
    assert train(longer, checkpoint.run, resume=checkpoint, device="cpu").finished


def test_episodes_that_cannot_be_gone_on_with_begin_anew(tmp_path: Path) -> None:
    recipe = tiny("minigrid-memory-s9", total_steps=128)
    train(recipe, tmp_path, device="cpu")
    longer = replace(recipe, total_steps=256)
    with pytest.warns(UserWarning, match="begin anew.*no get_state") as warned:
        trained = train(longer, tmp_path, resume=find_checkpoint(tmp_path), device="cpu")
    assert sum("begin anew" in str(one.message) for one in warned) == 1
    assert trained.model.num_timesteps == 256


def test_the_log_after_a_crash_has_no_step_twice(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "progress_000000000.csv").write_text("time/total_timesteps,x\n64,1.0\n128,2.0\n")
    (logs / "progress_000000064.csv").write_text("time/total_timesteps,x,y\n128,3.0,\n192,4.0,5.0\n")
    assert read_logs(tmp_path) == [
        {"time/total_timesteps": 64, "x": 1},
        {"time/total_timesteps": 128, "x": 3},
        {"time/total_timesteps": 192, "x": 4, "y": 5},
    ]


def test_the_curriculum_of_no_levels_is_none(tmp_path: Path) -> None:
    recipe = tiny(env_id="tests.scripts.worlds:Successful-v0", levels=(), evaluation_levels=())
    told: list[tuple[int, str]] = []
    trained = train(recipe, tmp_path, device="cpu", callbacks=[Reports(lambda *words: told.append(words))])
    assert trained.curriculum is None
    assert find_checkpoint(tmp_path).curriculum == {}
    assert told[-1][1].startswith("success 0.") and ", return " in told[-1][1]
    with pytest.raises(ValueError, match="the recipe has no levels, the saved curriculum has"):
        build_curriculum(recipe, {"levels": [3]})


@pytest.mark.parametrize(
    ("space", "policy", "is_embedded"),
    [
        (spaces.Box(-1, 1, (3,)), "MlpPolicy", False),
        (spaces.Box(-1, 1, (40, 40, 3)), "MlpPolicy", False),
        (spaces.Box(0, 255, (40, 36, 3), np.uint8), "CnnPolicy", False),
        (spaces.Box(0, 255, (4, 40, 36), np.uint8), "CnnPolicy", False),
        (spaces.Box(0, 255, (40, 35, 3), np.uint8), "MlpPolicy", True),
        (spaces.Discrete(4), "MlpPolicy", False),
        (
            spaces.Dict(a=spaces.Box(0, 255, (7, 7, 3), np.uint8), b=spaces.Discrete(2)),
            "MultiInputPolicy",
            True,
        ),
        (spaces.Dict(a=spaces.Box(0, 255, (84, 84, 3), np.uint8)), MULTI, False),
    ],
)
def test_policies_by_space(space: spaces.Space[Any], policy: str, is_embedded: bool) -> None:
    chosen, options = choose_policy(space)
    assert (chosen, "features_extractor_class" in options) == (policy, is_embedded)


def test_nothing_left_to_train(run: Path, tmp_path: Path) -> None:
    checkpoint = find_checkpoint(run)
    with pytest.raises(ValueError, match="128 steps are done already: total_steps must be more, got 128"):
        train(checkpoint.recipe, tmp_path, resume=checkpoint)


def test_same_seed_same_training(tmp_path: Path) -> None:
    def weights(seed: int, folder: str) -> torch.Tensor:
        model = train(tiny(seed=seed), tmp_path / folder, device="cpu").model
        return torch.cat([p.detach().flatten() for p in model.policy.parameters()])

    first = weights(5, "a")
    assert torch.equal(first, weights(5, "b"))
    assert not torch.equal(first, weights(6, "c"))


@pytest.mark.parametrize("name", ["detect", "tmaze", "minigrid-memory-s9"])
@pytest.mark.parametrize("core", ["rmt", "gru"])
def test_every_task_trains(name: str, core: str, tmp_path: Path) -> None:
    recipe = tiny(name, core=core, total_steps=64)
    train(recipe, tmp_path, device="cpu")
    checkpoint = find_checkpoint(tmp_path)
    assert checkpoint.steps == 64
    assert checkpoint.load_model(device="cpu").policy.describe_memory().lower().startswith(core)


# -- damaged and foreign checkpoints


def copy_of(run: Path, folder: Path) -> Checkpoint:
    shutil.copytree(run, folder)
    return find_checkpoint(folder)


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("recipe.json", None, "not whole: there is no recipe.json"),
        ("recipe.json", "{", "recipe.json is damaged"),
        ("recipe.json", '{"kind": "Salad"}', "recipe.json is damaged, or of something else: .*kind"),
        (
            "state.json",
            "[]",
            "state.json is damaged, or of something else: it must hold steps and curriculum",
        ),
        ("model.zip", None, "there is no model.zip"),
    ],
)
def test_damaged_files(run: Path, tmp_path: Path, file: str, content: str | None, words: str) -> None:
    path = copy_of(run, tmp_path / "copy").path / file
    path.unlink()
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=words):
        find_checkpoint(path.parent)


def test_damaged_model(run: Path, tmp_path: Path) -> None:
    checkpoint = copy_of(run, tmp_path / "copy")
    whole = (checkpoint.path / "model.zip").read_bytes()
    for content in (b"", b"not a zip", whole[: len(whole) // 2]):
        (checkpoint.path / "model.zip").write_bytes(content)
        with pytest.raises(ValueError, match=r"model.zip is damaged, or no model of MemoryPPO") as raised:
            checkpoint.load_model(device="cpu")
        assert str(raised.value).count("model.zip") == 1  # and does not say it twice
        assert "cannot be loaded" not in str(raised.value)


def test_foreign_model(run: Path, tmp_path: Path) -> None:
    checkpoint = copy_of(run, tmp_path / "copy")
    PPO("MlpPolicy", "CartPole-v1", device="cpu").save(checkpoint.path / "model.zip")
    with pytest.raises(ValueError, match=r"model.zip is damaged, or no model of MemoryPPO"):
        checkpoint.load_model(device="cpu")


def test_curriculum_of_another_run(run: Path) -> None:
    checkpoint = find_checkpoint(run)
    with pytest.raises(ValueError, match="levels"):
        build_curriculum(tiny(), checkpoint.curriculum)
    with pytest.raises(ValueError, match="not whole"):
        build_curriculum(tiny(), {"levels": [list(level) for level in tiny().levels]})


@pytest.mark.parametrize(
    ("name", "words"), [("nowhere", "there is no folder"), ("empty", "holds no checkpoint")]
)
def test_no_checkpoint(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=words):
        find_checkpoint(tmp_path / name)


def test_a_failed_save_leaves_the_old_one(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = copy_of(run, tmp_path / "copy")

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr("rmt_rl.resuming.checkpoints.os.fsync", fail)
    with pytest.raises(OSError, match="no space"):
        train(replace(checkpoint.recipe, total_steps=256), checkpoint.run, resume=checkpoint, device="cpu")
    assert find_checkpoint(checkpoint.run) == checkpoint
    assert checkpoint.load_model(device="cpu").num_timesteps == 128
    assert not list((checkpoint.run / "checkpoints").glob(".draft*"))


# -- callbacks


def test_entropy_bonus_goes_down(tmp_path: Path) -> None:
    recipe = tiny(ent_coef=0.1, final_ent_coef=0.02, total_steps=256)
    seen: list[float] = []

    class Look(BaseCallback):
        def _on_rollout_end(self) -> None:
            seen.append(self.model.ent_coef)  # type: ignore[attr-defined]

        def _on_step(self) -> bool:
            return True

    train(recipe, tmp_path, device="cpu", callbacks=[Look()])
    np.testing.assert_allclose(seen, [0.1, 0.08, 0.06, 0.04])


def test_reports_tell_the_level(tmp_path: Path) -> None:
    told: list[tuple[int, str]] = []
    train(easy_recipe(), tmp_path, device="cpu", callbacks=[Reports(lambda *words: told.append(words))])
    assert [steps for steps, _ in told] == [64, 128]
    assert told[0][1].startswith("level ")
