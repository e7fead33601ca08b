"""The scripts with environments and cores of other people: no levels, no success, any space."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.checkpoints import find_checkpoint
from agents.recipes import RECIPES, MiniGridRecipe
from rmt_rl.features import IdEmbeddingExtractor
from scripts import clone, console, evaluate, inspect_memory, sources, train, watch
from tests.scripts.test_scripts import fails
from tests.scripts.worlds import OwnCore

WORLDS = "tests.scripts.worlds"
SMALL = [
    "--n-envs", "2", "--n-steps", "8", "--sequence-length", "8", "--n-minibatches", "1", "--n-epochs", "1",
    "--total-steps", "32",
]  # fmt: skip
OWN = ["--core", f"{WORLDS}:OwnCore"]
NAMES = ("Silent", "Continuous", "Pictures", "Grids", "Masked", "Levelled", "Successful")


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console.CONSOLE, "width", 200)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on each world, with a core of the user's own."""
    out = tmp_path_factory.mktemp("runs")
    for name in NAMES:
        train.main([f"{WORLDS}:{name}-v0", *SMALL, *OWN, "--out", str(out), "--name", name])
    return out


def test_what_a_run_keeps(runs: Path) -> None:
    for name in NAMES:
        checkpoint = find_checkpoint(runs / name)
        text = json.loads((checkpoint.path / "recipe.json").read_text())
        assert text["core"] == f"{WORLDS}:OwnCore"
        assert checkpoint.recipe.levels == ((2, 3) if name == "Levelled" else ())
        assert ("levels" in checkpoint.curriculum) == (name == "Levelled")
        core: Any = checkpoint.load_model(device="cpu").policy.core
        assert type(core) is OwnCore and core.output_dim == 8


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_measured(name: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    evaluate.main([str(runs / name), "--episodes", "5", "--json", str(file)])
    out = capsys.readouterr().out
    (row,) = json.loads(file.read_text())["results"]
    assert (row["episodes"], row["mean_length"]) == (5, 3.0)
    assert row["level"] == (3 if name == "Levelled" else None)
    assert bool(re.search(r"\blevel\b", out)) == (name == "Levelled")
    assert (row["success"] is not None) == ("success" in out) == (name == "Successful")
    low, high = row["return_interval"]
    assert f"{row['mean_return']:.2f} ({low:.2f} to {high:.2f})" in out
    if name == "Silent":
        assert (low, row["mean_return"], high) == (3.0, 3.0, 3.0)


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_inspected(
    name: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inspect_memory.main([str(runs / name), "--episodes", "4", "--out", str(tmp_path / "memory.png")])
    out = capsys.readouterr().out
    assert out.count("random actions, as measured") == 1
    assert (("success" in out), ("mean return" in out)) == (name == "Successful", name != "Successful")
    with Image.open(tmp_path / "memory.png") as image:
        assert image.format == "PNG"


@pytest.mark.parametrize("name", NAMES)
def test_a_run_is_watched(name: str, runs: Path, tmp_path: Path) -> None:
    watch.main([str(runs / name), "--episodes", "2", "--out", str(tmp_path / "episodes.gif")])
    with Image.open(tmp_path / "episodes.gif") as image:
        assert image.n_frames == 2 * (3 + 1)


def test_a_task_with_masks_is_watched_at_random(tmp_path: Path) -> None:
    """An action that is forbidden would be an error."""
    for words in ([], ["--best"]):
        watch.main([f"{WORLDS}:Masked-v0", *words, "--episodes", "5", "--out", str(tmp_path / "x.gif")])


def test_a_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train.main([f"{WORLDS}:Successful-v0", *SMALL, "--out", str(tmp_path), "--env-kwargs", "length", "2"])
    out = capsys.readouterr().out
    assert re.search(r"the last episodes: success 0\.\d\d, return \d\.\d\d\n", out)
    folder = tmp_path / "successful-v0-rmt-seed0"
    with pytest.warns(UserWarning, match="the episodes begin anew"):
        train.main(["--resume", str(folder), "--total-steps", "64"])
    assert find_checkpoint(folder).steps == 64
    assert find_checkpoint(folder).recipe.env_kwargs == {"length": 2}
    assert "from step 32 to step 64" in capsys.readouterr().out


def test_an_expert_is_cloned_by_its_masks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [f"{WORLDS}:Masked-v0", *SMALL, *OWN, "--demonstrations", "8", "--epochs", "20", "--episodes", "4"]
    clone.main([*argv, "--rate", "0.02", "--out", str(tmp_path)])
    out = capsys.readouterr().out
    losses = [float(found) for found in re.findall(r"loss (\d\.\d+)", out)]
    # Of two that are allowed at each step one is right: without the masks it would begin near log 3.
    assert losses[0] == pytest.approx(0.69, abs=0.05) and losses[-1] < 0.3
    assert "0.00 (0.00 to 0.00)" in out and "success" not in out
    model = find_checkpoint(tmp_path / "masked-v0-OwnCore-seed0-cloned").load_model(device="cpu")
    assert type(model.policy.core) is OwnCore


# -- what the words mean


def recipe_of(*argv: str) -> tuple[str, Any]:
    name, arguments, _ = train.parse(list(argv))
    return name, arguments.recipe


def test_the_first_word_may_be_an_id() -> None:
    name, recipe = recipe_of("CartPole-v1", "--seed", "2")
    assert (name, recipe.env_id, recipe.levels, recipe.seed) == (
        "cartpole-v1-rmt-seed2",
        "CartPole-v1",
        (),
        2,
    )
    assert recipe_of("--env-id", "CartPole-v1", "--seed", "2") == (name, recipe)
    assert recipe_of("--seed", "2", "--env-id=CartPole-v1") == (name, recipe)
    assert recipe_of("--seed", "2", "--env_id", "CartPole-v1") == (name, recipe)


@pytest.mark.parametrize(
    ("short", "env_id"),
    [
        ("RMT/Memorize-v0", "envs:RMT/Memorize-v0"),
        ("RMT/popgym-RepeatFirstEasy-v0", "envs.gyms:RMT/popgym-RepeatFirstEasy-v0"),
        ("RMT/MiniGrid-KeysN3-v0", "envs.minigrid:RMT/MiniGrid-KeysN3-v0"),
    ],
)
def test_own_ids_get_their_module(short: str, env_id: str) -> None:
    for _ in range(2):  # the second time all of them are registered
        _, recipe = recipe_of(short)
        assert recipe.env_id == env_id
    assert isinstance(recipe, MiniGridRecipe) == ("MiniGrid" in env_id)


def test_levels_are_those_that_the_environment_tells_of() -> None:
    assert recipe_of("envs:RMT/Memorize-v0", "--env-kwargs", "delay", "5")[1].levels == (5,)
    assert recipe_of("envs:RMT/Memorize-v0", "--levels", "2", "3-4")[1].levels == (2, (3, 4))
    levels = recipe_of("RMT/MiniGrid-Memory-v0")[1].levels
    assert levels[0] == "S7" and "S17Random" in levels


def test_another_environment_for_a_recipe_has_other_levels() -> None:
    name, recipe = recipe_of("tmaze", "--env-id", "CartPole-v1")
    assert name == "cartpole-v1-rmt-seed0"
    assert (recipe.levels, recipe.evaluation_levels, recipe.env_kwargs) == ((), (), {})
    assert recipe.learning_rate == RECIPES["tmaze"].learning_rate
    assert recipe_of("memorize", "--env-id", "envs:RMT/DetectAndMemorize-v0", "--levels", "4")[1].levels == (
        4,
    )
    # The same one: nothing changes.
    assert recipe_of("memorize", "--env-id", "envs:RMT/Memorize-v0")[1] == RECIPES["memorize"]
    # A recipe for MiniGrid and another environment, and the other way round.
    assert type(recipe_of("minigrid-memory-s9", "--env-id", "CartPole-v1")[1]) is type(RECIPES["memorize"])
    assert isinstance(recipe_of("memorize", "--env-id", "RMT/MiniGrid-Doors-v0")[1], MiniGridRecipe)


def test_grids_are_embedded(runs: Path) -> None:
    for name, expected in (("Grids", True), ("Pictures", False)):
        extractor = find_checkpoint(runs / name).load_model(device="cpu").policy.features_extractor
        assert isinstance(extractor, IdEmbeddingExtractor) == expected


def test_short_names() -> None:
    words = ("memorize", "my:Env-v0", "a.b:C/Env-v1", "CartPole-v1")
    names = ["memorize", "env-v0", "env-v1", "cartpole-v1"]
    assert [sources.short_name(word) for word in words] == names


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["Cartpole"], "did you mean the environment CartPole-v1?"),
        (["CartPole-v7"], "unknown environment 'CartPole-v7'; did you mean CartPole-v1"),
        (["--env-id"], "--env-id needs an environment's id"),
        (["--env-id", "nothing"], "unknown environment 'nothing'"),
        (["CartPole-v1", "--env-id", "Pendulum-v1"], "two environments are given"),
        (["nowhere:Env-v0"], "there is no module 'nowhere'"),
        ([f"{WORLDS}:World-v0", "--env-kwargs", "lngth", "3"], "cannot be made with lngth=3"),
        ([f"{WORLDS}:World-v0", "--levels", "3"], "has no levels (no set_levels): leave 3 out"),
        ([f"{WORLDS}:Levelled-v0", "--levels", "2", "S9"], "has no level 2, S9: lengths must be integers"),
        (["CartPole-v1", "--core", f"{WORLDS}:OwnCor"], f"did you mean {WORLDS}:OwnCore?"),
        (["CartPole-v1", "--core", f"{WORLDS}:NoCore"], "something else than a subclass of MemoryCore"),
        (["CartPole-v1", "--core", "nowhere:Core"], "the module of core 'nowhere:Core' cannot be imported"),
        (["CartPole-v1", "--core", ":Core"], "or module:Class, got ':Core'"),
        (
            ["CartPole-v1", *OWN, "--core-kwargs", "width", "wide"],
            "must be an integer of at least 1, got 'wide'",
        ),
        (["CartPole-v1", *OWN, "--core-kwargs", "depth", "2"], "core OwnCore has no option 'depth'"),
        (["CartPole-v1", "--core-kwargs", "width", "wide"], "width must be an integer"),
        (["CartPole-v1", "--n-minibatches", "2048"], "batch_size=1 (in steps) is not a multiple"),
        (["CartPole-v1", "--threads", "0"], "threads must be at least 1, got 0"),
        (["CartPole-v1", "--device", "gpu"], "device must be auto, cpu, cuda or cuda:N, got 'gpu'"),
        (["Blackjack-v1"], "observation space Tuple"),
        (["CartPole-v1", "--seeed", "3"], "Unrecognized options: --seeed, 3; did you mean --seed"),
    ],
)
def test_train_refuses(
    argv: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one line, with nothing said before of a run, and nothing left of one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["train.py", *argv])
    with pytest.raises(SystemExit) as ending:
        console.run(train.main)
    assert ending.value.code == 2
    said = capsys.readouterr()
    assert words in said.err and said.err.startswith("error: ")
    assert (said.err.count("\n"), said.out) == (1, "")
    assert not list(tmp_path.glob("runs/*/*"))


def test_evaluate_refuses(
    runs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for argv, words in (
        (["--levels", "3"], "has no levels"),
        (["--seed", "-1"], "seed must be at least 0, got -1"),
        (["--episodes", "0"], "episodes must be at least 1, got 0"),
    ):
        assert words in fails(evaluate.main, [str(runs / "Silent"), *argv], capsys, monkeypatch)
    # The second level does not exist: the first is not played either.
    monkeypatch.setattr("agents.evaluation.play", None)
    argv = [str(runs / "Levelled"), "--levels", "2", "S9"]
    assert "has no level S9" in fails(evaluate.main, argv, capsys, monkeypatch)
