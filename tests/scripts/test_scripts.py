"""The command lines, as a person uses them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from agents.checkpoints import find_checkpoint
from agents.evaluation import Result
from agents.recipes import RECIPES, MiniGridRecipe
from scripts import console, demo, evaluate, list_envs, train, watch

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "--n-envs 4 --n-steps 16 --sequence-length 16 --n-minibatches 2 --n-epochs 1 --total-steps 128 "
    "--window 2 --threshold 0.01 --levels 2 3-4"
)
OPTIONS = "--core xl --seed 3 --core-kwargs memory_length 8 width 16 --env-kwargs noise 0.5"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run by the command line, with another core and memory than the recipe's."""
    out = tmp_path_factory.mktemp("runs")
    train.main(["memorize", *SMALL.split(), *OPTIONS.split(), "--out", str(out)])
    return out / "memorize-xl-seed3"


def fails(
    main: Any, argv: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> str:
    """Run a script with bad input: what it prints as the error."""
    monkeypatch.setattr(sys, "argv", ["script", *argv])
    monkeypatch.setattr(console.ERRORS, "width", 1000)
    with pytest.raises(SystemExit) as ending:
        console.run(main)
    assert ending.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("main", "argv", "words"),
    [
        (train.main, ["tmaze"], "--segment-length"),
        (evaluate.main, [], "--delays"),
        (watch.main, [], "CHECKPOINT|RECIPE"),
        (demo.main, [], "--episodes"),
    ],
)
def test_help(main: Any, argv: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ending:
        main([*argv, "--help"])
    assert ending.value.code == 0
    assert words in capsys.readouterr().out


def test_a_script_is_a_program() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "train.py"), "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
    )
    assert "minigrid-memory-s17random" in done.stdout
    assert not done.stderr


def test_options_reach_the_recipe(run: Path) -> None:
    checkpoint = find_checkpoint(run)
    changes: dict[str, Any] = dict(
        core="xl", seed=3, core_kwargs={"memory_length": 8, "width": 16}, env_kwargs={"noise": 0.5},
        n_envs=4, n_steps=16, sequence_length=16, n_minibatches=2, n_epochs=1, total_steps=128, window=2,
        levels=(2, (3, 4)), threshold=0.01,
    )  # fmt: skip
    assert checkpoint.recipe == replace(RECIPES["memorize"], **changes)
    model = checkpoint.load_model(device="cpu")
    core: Any = model.policy.core
    assert (core.memory_length, core.output_dim, checkpoint.steps) == (8, 16, 128)


def test_minigrid_fields_are_options() -> None:
    argv = "minigrid-memory-s9 --view-size 5 --max-steps None --core gru".split()  # noqa: SIM905
    _, arguments, _ = train.parse(argv)
    recipe = arguments.recipe
    assert isinstance(recipe, MiniGridRecipe)
    assert (recipe.view_size, recipe.max_steps, recipe.core) == (5, None, "gru")
    assert replace(recipe, view_size=3, max_steps=96, core="rmt") == RECIPES["minigrid-memory-s9"]


def test_train_tells_what_it_did(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train.main(["--resume", str(run), "--total-steps", "256"])
    out = " ".join(capsys.readouterr().out.split())
    assert "from step 128 to step 256" in out
    assert "every level is solved" in out
    assert find_checkpoint(run).steps == 256
    assert find_checkpoint(run).curriculum["stage"] == 1


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["memorise"], "unknown recipe 'memorise': there are memorize, detect"),
        ([], "the first argument must be a recipe"),
        (["--seed", "3"], "the first argument must be a recipe"),
        (["--resume"], "--resume needs the folder"),
        (["--resume", "nowhere"], "there is no folder nowhere"),
        (["memorize", "--core", "elephant"], "unknown memory core 'elephant'; there are rmt"),
        (["memorize", "--core-kwargs", "trunks", "2"], "core RMT has no option 'trunks'"),
        (["memorize", "--env-id", "envs:RMT/Memorise-v0"], "did you mean envs:RMT/Memorize-v0"),
        (["memorize", "--levels", "30-15"], "(30, 15)"),
        (["memorize", "--n-minibatches", "3"], "n_minibatches=3 does not divide"),
        (["memorize", "--sequence-length", "100"], "sequence_length=100 does not divide n_steps=256"),
    ],
)
def test_train_refuses(
    argv: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in fails(train.main, argv, capsys, monkeypatch)
    assert not list(tmp_path.glob("runs/*/checkpoints"))


def test_train_says_why_it_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ["memorize", *SMALL.split(), "--learning-rate", "30", "--out", str(tmp_path)]
    said = fails(train.main, argv, capsys, monkeypatch)
    assert "the training has diverged: kl is" in said and "max_kl=1" in said
    (path,) = tmp_path.glob("*/checkpoints/*0")
    assert f"is kept in {path}" in said


def test_a_run_is_not_overwritten(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ["memorize", "--core", "xl", "--seed", "3", "--out", str(run.parent)]
    assert "holds a run already" in fails(train.main, argv, capsys, monkeypatch)
    argv = ["--resume", str(run), "--learning-rate", "0.1"]
    assert "only --total-steps can be changed" in fails(train.main, argv, capsys, monkeypatch)
    assert "leave 'memorize' out" in fails(
        train.main, ["memorize", "--resume", str(run)], capsys, monkeypatch
    )


def test_evaluate_prints_a_table(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "figures.json"
    evaluate.main([str(run), "--delays", "5", "3-4", "40", "--episodes", "20", "--json", str(file)])
    out = capsys.readouterr().out
    rows = json.loads(file.read_text())["results"]
    assert [row["level"] for row in rows] == [5, [3, 4], 40]
    assert [row["mean_length"] for row in rows] == [7.0, pytest.approx(5.5, abs=0.5), 42.0]
    for row in rows:
        low, high = row["interval"]
        assert low <= row["success"] == row["successes"] / 20 <= high
        assert f"{100 * row['success']:.1f}% ({100 * low:.1f} to {100 * high:.1f})" in out


def test_tasks_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tasks.json"
    list_envs.main(["--kind", "object", "--json", str(file)])
    rows = json.loads(file.read_text())
    assert {row["kind"] for row in rows} == {"object"}
    assert "envs:RMT/Memorize-v0" in [row["env_id"] for row in rows]
    assert "0.25" in capsys.readouterr().out


def test_watch_writes_a_gif(run: Path, tmp_path: Path) -> None:
    file = tmp_path / "films" / "episodes.gif"
    watch.main([str(run), "--level", "3", "--episodes", "2", "--out", str(file)])
    with Image.open(file) as image:
        assert image.format == "GIF"
        assert image.n_frames == 2 * (5 + 1)  # cue, three distractors, query; and the outcome


def test_watch_shows_a_recipes_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "episodes.gif"
    watch.main(["minigrid-memory-s9", "--episodes", "1", "--most-frames", "12", "--out", str(file)])
    assert "random actions" in capsys.readouterr().out
    with Image.open(file) as image:
        assert image.n_frames <= 12
        assert image.width > 2 * 320  # the world and the view, side by side


def test_watch_shows_an_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The best actions take the shortest way: one frame for each step, one for the outcome."""
    file = tmp_path / "episodes.gif"
    for source, level, frames in (
        ("envs:RMT/TMaze-v0", ["--level", "4"], 6),
        ("RMT/Memorize-v0", [], 33),
        # Through the corridor to the fork, a turn, into an arm.
        ("RMT/MiniGrid-Corridor-v0", ["--level", "7"], 7 + 5 + 1),
    ):
        watch.main([source, *level, "--best", "--episodes", "1", "--out", str(file)])
        assert "the best actions" in capsys.readouterr().out
        with Image.open(file) as image:
            assert image.n_frames == frames


def test_watch_shows_what_renders_nothing(tmp_path: Path) -> None:
    file = tmp_path / "episodes.gif"
    watch.main(["tests.scripts.worlds:Silent-v0", "--episodes", "1", "--out", str(file)])
    with Image.open(file) as image:
        assert image.n_frames == 3 + 1


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["CartPole-v1", "--level", "3"], "CartPole-v1 has no levels"),
        (["CartPole-v1", "--best"], "does not say which action is best"),
        (["envs:RMT/Memorise-v0"], "did you mean envs:RMT/Memorize-v0"),
        (["memorise"], "did you mean memorize"),
        (["runs/none"], "there is no folder runs/none"),
        (["memorize", "--level", "S9"], "delay"),
        (["memorize", "--window"], "there is no display here"),
    ],
)
def test_watch_refuses(
    argv: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    assert words in fails(watch.main, argv, capsys, monkeypatch)


def test_watch_opens_a_window(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.chdir(tmp_path)
    watch.main(["memorize", "--window", "--level", "2", "--episodes", "1", "--fps", "1000"])
    assert not list(tmp_path.iterdir())


# -- the demonstration


class HereAndNow:
    """The demo's pool of processes without processes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __enter__(self) -> HereAndNow:
        return self

    def __exit__(self, *args: object) -> None: ...

    def submit(self, function: Any, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*args))
        return future


@pytest.mark.parametrize("processes", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_small_demo(
    processes: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.CONSOLE, "width", 200)
    monkeypatch.setattr(demo, "SEGMENTS", (1, 2, 3, 4))
    if processes:
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
    else:
        monkeypatch.setattr(demo, "ProcessPoolExecutor", HereAndNow)
    demo.main(["--out", str(tmp_path), "--total-steps", "8192", "--episodes", "16"])
    out = capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {"rmt", "none", "learning_curve.png", "episodes.gif"}
    for core in ("rmt", "none"):
        assert find_checkpoint(tmp_path / core).recipe.core == core
    assert "largest replay error" in out
    with Image.open(tmp_path / "learning_curve.png") as image:
        assert image.width > 600


def results(successes: list[int], episodes: int = 100) -> list[Result]:
    return [Result(n, episodes, k, 0.0, float(n)) for n, k in enumerate(successes)]


@pytest.mark.parametrize(
    ("memory", "control", "error", "expected"),
    [
        ([100, 99, 100, 99], [25, 30, 20, 25], 1e-6, [True, True, True]),
        ([100, 98, 100, 100], [25, 30, 20, 25], 1e-6, [False, True, True]),
        ([100] * 4, [25, 30, 45, 25], 2e-4, [True, False, False]),
    ],
)
def test_verdicts(memory: list[int], control: list[int], error: float, expected: list[bool]) -> None:
    verdicts = demo.verdicts({"rmt": results(memory), "none": results(control)}, 0.25, error)
    assert [good for good, _ in verdicts] == expected


def test_headline(tmp_path: Path) -> None:
    file = tmp_path / "minigrid_memory.json"
    assert "no results in" in str(demo.headline(file))
    row = dict(
        task="MiniGrid-MemoryS17Random", core="rmt", seed=0, steps_to_solve=1_070_000, success=0.985,
        interval=[0.97, 0.993], episodes=500,
    )  # fmt: skip
    file.write_text(
        json.dumps([row, {**row, "core": "gru", "steps_to_solve": None}, {**row, "task": "other"}])
    )
    table: Any = demo.headline(file)
    columns = [list(column.cells) for column in table.columns]
    assert columns == [
        ["rmt", "gru"],
        ["0", "0"],
        ["1,070,000", "-"],
        ["98.5% (97.0 to 99.3)"] * 2,
        ["500", "500"],
    ]
