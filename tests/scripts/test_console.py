"""How scripts end: errors in one line, Ctrl-C with 130, a closed pipe in silence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from agents.checkpoints import find_checkpoint
from agents.progress import ProgressReport
from scripts import clone, console, demo, evaluate, inspect_memory, list_envs, rows, train, watch, zoo
from scripts.console import check_folder, check_output, in_one_line, run

ROOT = Path(__file__).resolve().parents[2]
SMALL = (
    "--n-envs 4 --n-steps 16 --sequence-length 16 --n-minibatches 2 --n-epochs 1 --total-steps 128 "
    "--levels 2 --core none"
)


def status_of(main: Callable[[Sequence[str]], None], *argv: str) -> int:
    """The status that a script ends with."""
    before = sys.argv
    sys.argv = ["script", *argv]
    try:
        run(main)
    except SystemExit as ending:
        assert isinstance(ending.code, int)
        return ending.code
    finally:
        sys.argv = before
    return 0


def failing(error: BaseException) -> Callable[[Sequence[str]], NoReturn]:
    def main(argv: Sequence[str]) -> NoReturn:
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("no [such] thing"), "error: no [such] thing"),
        (ValueError("two\n  lines"), "error: two lines"),
        (ValueError("long " * 50), f"error: {'long ' * 49}long"),
        (ValueError(), "error: ValueError"),
        (OSError(28, "No space left on device", "a/b"), "error: [Errno 28] No space left on device: 'a/b'"),
        (ModuleNotFoundError("No module named 'popgym'"), "error: No module named 'popgym'"),
    ],
)
def test_what_is_wrong_is_one_line(error: Exception, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(failing(error)) == 2
    assert capsys.readouterr().err == f"{line}\n"


def test_notes_are_lines_too(capsys: pytest.CaptureFixture[str]) -> None:
    error = OSError("full")
    error.add_note("the last checkpoint\nis whole")
    assert status_of(failing(error)) == 2
    assert capsys.readouterr().err == "error: full\nthe last checkpoint is whole\n"


def test_faults_of_the_program_are_not_hidden() -> None:
    for error in (RuntimeError("x"), KeyError("x"), AttributeError("x")):
        with pytest.raises(type(error)):
            run(failing(error))


@pytest.mark.parametrize("swallowed", [False, True])
def test_ctrl_c_ends_with_130(swallowed: bool) -> None:
    """Also where something on the way takes it for an end like any other, as rl_zoo3 does."""
    before = signal.getsignal(signal.SIGINT)

    def main(argv: Sequence[str]) -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if not swallowed:
                raise

    assert status_of(main) == 130
    assert signal.getsignal(signal.SIGINT) is before
    assert status_of(lambda argv: None) == 0


def test_in_the_background_the_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert status_of(lambda argv: signal.raise_signal(signal.SIGINT)) == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_modules_of_the_present_folder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_a_user.py").write_text("x = 3\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)

    def main(argv: Sequence[str]) -> None:
        import module_of_a_user  # type: ignore[import-not-found]

        assert module_of_a_user.x == 3

    assert status_of(main) == 0
    assert sys.path == before


def test_a_closed_pipe_is_silent() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "list_envs.py")]
    process = subprocess.Popen(
        script,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


# -- what is to be written


def test_what_cannot_be_written_is_found_and_nothing_is_left(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    for bad in (file / "x.json", file / "a" / "x.json"):
        with pytest.raises(NotADirectoryError):
            check_output(bad)
    with pytest.raises(NotADirectoryError):
        check_folder(file)
    with pytest.raises(IsADirectoryError):
        check_output(tmp_path)
    check_output(file)
    check_output(tmp_path / "new" / "folders" / "x.json")
    check_folder(tmp_path / "new" / "folders")
    check_output(None)
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]
    assert file.read_text() == "mine"


@pytest.mark.parametrize(
    ("main", "argv"),
    [
        (train.main, ["memorize", "--out", "file"]),
        (clone.main, ["memorize", "--out", "file"]),
        (demo.main, ["--out", "file"]),
        (evaluate.main, ["RUN", "--json", "file/x.json"]),
        (inspect_memory.main, ["RUN", "--out", "file/x.png"]),
        (watch.main, ["RUN", "--out", "file/x.gif"]),
        (list_envs.main, ["--json", "file/x.json"]),
    ],
)
def test_it_is_found_before_anything_is_played(
    main: Any,
    argv: list[str],
    small_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    for name in ("step_async", "reset"):
        monkeypatch.setattr(f"envs.recall.sb3_vec.RecallVecEnv.{name}", None)
    assert status_of(main, *(str(small_run) if word == "RUN" else word for word in argv)) == 2
    said = capsys.readouterr()
    assert (said.err, said.out) == (
        "error: [Errno 20] not a folder, so nothing can be written into it: 'file'\n",
        "",
    )


@pytest.fixture(scope="module")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("small")
    train.main(["memorize", *SMALL.split(), "--out", str(out), "--name", "run"])
    return out / "run"


def test_a_full_disk_keeps_the_last_checkpoint(
    small_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any) -> None:
        raise OSError(28, "No space left on device")

    last = find_checkpoint(small_run)
    monkeypatch.setattr("rmt_rl.resuming.checkpoints.os.fsync", fail)
    assert status_of(train.main, "--resume", str(small_run), "--total-steps", "256") == 2
    assert capsys.readouterr().err == (
        f"error: [Errno 28] No space left on device\nthe last checkpoint is whole: {last.path}\n"
    )
    assert find_checkpoint(small_run) == last


def test_ctrl_c_in_training_says_how_to_go_on(
    small_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(report: ProgressReport) -> bool:
        if report.num_timesteps >= 100:
            raise KeyboardInterrupt
        return True

    monkeypatch.setattr(ProgressReport, "_on_step", interrupt)
    argv = ["memorize", *SMALL.split(), "--out", str(tmp_path), "--name", "run"]
    assert status_of(train.main, *argv) == 130
    out = capsys.readouterr().out
    assert f"stopped; go on with: python scripts/train.py --resume {tmp_path / 'run'}\n" in out
    assert find_checkpoint(tmp_path / "run").steps == 64


# -- texts


def test_wrong_options_in_one_line() -> None:
    box = (
        "╭─ Unrecognized options ─────╮\n│ Unrecognized options: --a  │\n│ ────────────────────────── │\n"
        "│ Arguments similar to --a:  │\n│     --aa INT               │\n│ ────────────────────────── │\n"
        "│ For full helptext, run x   │\n╰────────────────────────────╯\n"
    )
    line = "Unrecognized options: --a; did you mean --aa?; --help tells all options"
    assert in_one_line(box) == line
    plain = (
        " Unrecognized options \n ------- \n  Unrecognized options: --a \n  ------- \n  Perhaps you meant: \n"
    )
    assert in_one_line(f"{plain}      --aa INT \n  -------\n  For full helptext, run x \n\n") == line


def test_zoo_helps(capsys: pytest.CaptureFixture[str]) -> None:
    zoo.main(["--help"])
    out = capsys.readouterr().out
    assert out.startswith("usage: zoo.py {train,enjoy}") and "--algo memory_ppo" in out


def test_damaged_rows_are_named(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    file.write_text("[{")
    with pytest.raises(ValueError, match=r"rows\.json is damaged, or no file of rows"):
        rows.read(file)


def test_a_small_terminal_gets_whole_ids(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.CONSOLE, "_force_terminal", True)
    known = [task.env_id for task in list_envs.by_kind(list_envs.tasks())]
    for width in (30, 80, 139, 140, 200):
        monkeypatch.setattr(console.CONSOLE, "width", width)
        list_envs.main([])
        lines = capsys.readouterr().out.splitlines()
        assert [word for line in lines for word in line.split()[:1] if word in known] == known
        if width < 140:
            assert all(len(line) <= max(width, len(line.split()[0])) for line in lines if line.strip())


def test_lines_for_other_programs(capsys: pytest.CaptureFixture[str]) -> None:
    list_envs.main(["--plain"])
    plain = capsys.readouterr().out
    list_envs.main([])  # no terminal
    assert capsys.readouterr().out == plain
    lines = [line.split("\t") for line in plain.splitlines()]
    assert sorted(line[0] for line in lines) == sorted(task.env_id for task in list_envs.tasks())
    assert all(len(line) >= 5 and line[1] and len(line[2]) > 10 for line in lines)
    assert not set("│┃━─┏└") & set(plain)
    assert ["envs:RMT/Memorize-v0", "object", "a cue at the first step, asked for after a delay", "success",
            "0.25", "1"] in lines  # fmt: skip
