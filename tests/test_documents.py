"""What the documents tell users to do works: every snippet runs, every command, option and name exists."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
import types
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.documents import DOCUMENTS, ROOT, Block, code_spans, commands, fenced_blocks, snippets

BEFORE = {
    "FROM_RECURRENT_PPO.md": (
        "from stable_baselines3.common.env_util import make_vec_env\nenv = make_vec_env('CartPole-v1', 2)\n"
    ),
}
"""What the text takes for granted; apart from it a document's snippets go on from one to the next."""
FEW_STEPS = 2048
every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))


def shortened(code: str) -> str:
    """The code with every ``learn`` cut to a few steps, and otherwise as it is."""
    return re.sub(r"(\.learn\()[\d_]+", rf"\g<1>{FEW_STEPS}", code)


def run_snippets(blocks: list[Block], name: str) -> dict[str, Any]:
    """Run a document's snippets one after the other, shortened, as one program: its names."""
    module = types.ModuleType("__main__")
    exec(BEFORE.get(name, ""), vars(module))
    for block in blocks:
        # Lines are those of the document, in tracebacks too.
        code = compile("\n" * block.line + shortened(block.text), name, "exec")
        exec(code, vars(module))
    return vars(module)


@every_document
def test_every_snippet_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_snippets(snippets(document.read_text("utf-8")), document.name)


@every_document
def test_every_block_is_run_or_read(document: Path) -> None:
    """Blocks of another language would be passed over."""
    assert {block.language for block in fenced_blocks(document.read_text("utf-8"))} <= {"python", "sh"}


def test_snippets_are_run() -> None:
    """That the test above can fail: at a name that there is not, in whichever snippet, in its line."""
    text = "A\n\n```python\nx = 1\n```\n\nB\n\n```python\nx = x + 1\n\nunknown(x)\n```\n"
    with pytest.raises(NameError, match="unknown") as error:
        run_snippets(snippets(text), "a.md")
    assert error.traceback[-1].lineno + 1 == 12
    assert run_snippets(snippets(text.replace("unknown", "str")), "a.md")["x"] == 2
    with pytest.raises(ValueError, match="line 3 has no end"):
        snippets("A\n\n```python\nx = 1\n")


def test_only_the_number_of_steps_is_changed() -> None:
    code = 'model.learn(80_000, progress_bar=True)\nmodel.n_steps = 80_000\nmodel.learn(x, "80_000")\n'
    assert shortened(code) == code.replace("learn(80_000", "learn(2048")


def first_snippet() -> str:
    return snippets((ROOT / "README.md").read_text("utf-8"))[0].text


def test_the_first_snippet_shows_how_to_begin() -> None:
    calls = {
        ast.unparse(node.func): {word.arg: ast.unparse(word.value) for word in node.keywords}
        for node in ast.walk(ast.parse(first_snippet()))
        if isinstance(node, ast.Call)
    }
    assert int(calls["make_vec_env"]["n_envs"]) > 1
    assert calls["model.learn"]["progress_bar"] == "True"
    assert "torch.set_num_threads" in calls


@pytest.mark.slow
def test_the_first_snippet_learns_to_remember(tmp_path: Path) -> None:
    """As pasted: the right answer in every episode, one in four by chance."""
    (tmp_path / "first.py").write_text(first_snippet())
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    result = subprocess.run(
        [sys.executable, "first.py"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    mean = re.search(r"\((?:np\.float64\()?([\d.]+)", result.stdout.splitlines()[-1])
    assert mean is not None and float(mean[1]) >= 0.95, result.stdout
    assert (tmp_path / "agent.zip").is_file()


# -- command lines -------------------------------------------------------------------------------------------


def help_of(script: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a script prints with --help, behind the words that choose a command or recipe."""
    main = importlib.import_module(f"scripts.{script}").main
    with pytest.raises(SystemExit) as ending:
        main([*words, "--help"])
    printed = capsys.readouterr().out
    assert not ending.value.code and printed
    return printed


def check_python(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A script that there is, with options that it has."""
    if words[1] == "-m":
        assert words[2] in ("venv", "pytest"), words
        return
    folder, _, file = words[1].partition("/")
    assert folder == "scripts" and (ROOT / "scripts" / file).is_file(), words
    first_option = next((n for n, word in enumerate(words) if word.startswith("-")), len(words))
    known = help_of(file.removesuffix(".py"), words[2:first_option], capsys).replace(",", " ").split()
    for word in words[first_option:]:
        if re.match(r"--?[a-z]", word):
            assert word in known, f"{' '.join(words)}: no option {word}"


def check_make(words: list[str]) -> None:
    """Targets that there are; variables that the Makefile reads."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for word in words[1:]:
        name, is_variable, _ = word.partition("=")
        assert re.search(rf"^{name}\s*\?=" if is_variable else rf"^{name}:", makefile, re.MULTILINE), words


def check_pip(words: list[str]) -> None:
    """Files that there are, and extras that the project has."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for option, file in pairwise(words):
        if option in ("-c", "-r"):
            assert (ROOT / file).is_file(), words
    for word in words[2:]:
        if match := re.match(r"^(?:\.|rmt-rl)\[(.+)\]$", word):
            unknown = set(match[1].split(",")) - set(project["optional-dependencies"])
            assert not unknown, f"{' '.join(words)}: no extras {unknown}"
        elif word.startswith("rmt-rl"):
            assert word == project["name"] or word.startswith("rmt-rl @ git+https://HOST/"), words


@every_document
def test_every_command_exists(document: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in commands(document.read_text("utf-8")):
        match Path(words[0]).name:
            case "make":
                check_make(words)
            case "pip":
                check_pip(words)
            case _:
                check_python(words, capsys)


def test_commands_are_found() -> None:
    readme = list(commands((ROOT / "README.md").read_text("utf-8")))
    assert ["make", "demo"] in readme and ["pip", "install", "tqdm", "rich"] in readme
    assert ["make", "wheel"] in readme and ["pip", "install", "dist/rmt_rl-*.whl"] in readme
    assert ["python", "scripts/clone.py", "memorize", "--levels", "60"] in readme
    assert ["python", "scripts/capacity.py"] in readme  # in a sentence
    assert sum(words[0] == "python" for words in readme) >= 12


@pytest.mark.parametrize(
    "line",
    [
        "python scripts/trane.py memorize",
        "python scripts/train.py memorize --cores rmt",
        "python scripts/evaluate.py runs/x --delay 3",
        "python scripts/zoo.py train --algorithm memory_ppo",
        "make wheels",
        "make wheel FOLDER=x",
        'pip install -e ".[environments]"',
        "pip install -c constraint.txt tqdm",
        'pip install "rmt-rl @ git+https://example.com/rmt-rl"',
    ],
)
def test_wrong_commands_are_found(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = tmp_path / "README.md"
    document.write_text(f"Do this:\n\n    {line}    # a comment\n")
    with pytest.raises(AssertionError):
        test_every_command_exists(document, capsys)


# -- figures of speed ----------------------------------------------------------------------------------------


def figure(ratio: float) -> str:
    """As the documents write ratios: 2.0, 1.1, .94."""
    return f"{ratio:.1f}" if round(ratio, 2) >= 1 else f"{ratio:.2f}".removeprefix("0")


def speeds(file: str, **wanted: Any) -> dict[str, Any]:
    rows = json.loads((ROOT / "results" / file).read_text("utf-8"))
    return {row["name"]: row for row in rows if wanted.items() <= row.items()}


@pytest.mark.parametrize(
    ("task", "cores"),
    [
        ("popgym-RepeatPreviousMedium", ["gru", "rmt", "xl", "armt"]),
        ("Memorize, 7 segments of 16", ["gru", "rmt", "xl", "rmt_xl", "armt"]),
    ],
)
def test_where_the_distance_shrinks_and_reverses(task: str, cores: list[str]) -> None:
    rows = speeds("speed_training.json", workload=task)
    figures = [re.escape(f"`{core}` {figure(rows[core]['over_recurrent_ppo'])}") for core in cores]
    assert re.search(r"(, | and |, but )".join(figures) + r"\b", (ROOT / "README.md").read_text("utf-8"))


def test_speed_against_environments() -> None:
    rows = speeds("speed_scaling.json", sweep="environments")
    base = rows["RecurrentPPO"]["steps_per_second"]
    text = (ROOT / "results" / "README.md").read_text("utf-8")
    at_64 = {}
    for core in ("gru", "rmt", "xl", "rmt_xl", "armt"):
        ratios = [figure(a / b) for a, b in zip(rows[core]["steps_per_second"], base, strict=True)]
        assert f"| `{core}` | {' | '.join(ratios)} |\n" in text
        at_64[core] = ratios[rows[core]["sizes"].index(64)]
    listed = ", ".join(f"`{core}` {ratio}" for core, ratio in at_64.items())
    assert f"it is {listed} (" in (ROOT / "README.md").read_text("utf-8")


# -- names ---------------------------------------------------------------------------------------------------


def resolves(name: str) -> bool:
    """Whether a dotted name is a module of the library or something in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def is_a_file(path: str, document: Path) -> bool:
    """Whether a path, or the end of one, is that of a file here or beside the document."""
    if (ROOT / path).is_file() or (document.parent / path).is_file():
        return True
    return any(next(ROOT.glob(f"{top}/**/{path}"), None) for top in ("rmt_rl", "envs", "agents", "tests"))


@every_document
def test_every_name_exists(document: Path) -> None:
    spans = code_spans(document.read_text("utf-8"))
    names = {name for span in spans for name in re.findall(r"\brmt_rl(?:\.[A-Za-z_]\w*)+", span)}
    assert not {name for name in names if not resolves(name)}
    files = {span for span in spans if re.fullmatch(r"[\w/.]+\.(py|json|txt|toml|md)", span)}
    assert not {file for file in files if not is_a_file(file, document)} - {"rmt_rl/cores/elman.py"}


@every_document
def test_every_link_leads_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text("utf-8")):
        if target.startswith("https://"):
            continue
        file, _, heading = target.partition("#")
        there = document.parent / file if file else document
        assert there.exists(), target
        if heading:
            titles = re.findall(r"^#+ (.*)$", there.read_text("utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
            assert heading in slugs, target
