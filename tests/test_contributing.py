"""A ninth core, added by the steps of CONTRIBUTING.md and no others."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from rmt_rl import MemoryPPO
from rmt_rl.cores import CORES
from tests.documents import ROOT, snippets
from tests.rmt_rl.test_memory_ppo import replay_errors, worlds

TEXT = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
NOT_COPIED = (".*", "__pycache__", "build", "dist", "runs", "demo")


def example() -> str:
    """The file of a core that the document shows."""
    (block,) = (block for block in snippets(TEXT) if "MemoryCore" in block.text)
    return block.text


def test_the_example_is_a_core(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("elman")
    monkeypatch.setitem(sys.modules, "elman", module)
    exec(example(), vars(module))
    model = MemoryPPO(
        "MlpPolicy", worlds(2), n_steps=16, sequence_length=8, batch_size=16, seed=0, device="cpu",
        policy_kwargs=dict(core=module.Elman, core_kwargs=dict(width=5)),
    )  # fmt: skip
    assert max(replay_errors(model, updates=3)) < 1e-5
    assert "elman" not in CORES


def insert(file: Path, before: str, text: str) -> None:
    """Put ``text`` in front of the one place where the file says ``before``."""
    content = file.read_text("utf-8")
    assert content.count(before) == 1
    file.write_text(content.replace(before, text + before))


def run_tests(clone: Path, *options: str) -> tuple[int, str]:
    """Status and last line of pytest in the copy, which stands in front of the installed project."""
    environment = os.environ | {"PYTHONPATH": str(clone)}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=clone, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    return result.returncode, result.stdout


@pytest.mark.slow
def test_a_ninth_core(tmp_path: Path) -> None:
    clone = shutil.copytree(ROOT, tmp_path / "clone", ignore=shutil.ignore_patterns(*NOT_COPIED))
    (clone / "rmt_rl/cores/elman.py").write_text(example())
    (entry,) = re.findall(r'`("elman": \w+)`', TEXT)
    cores = clone / "rmt_rl/cores/__init__.py"
    insert(cores, "from rmt_rl.cores.feedforward", "from rmt_rl.cores.elman import Elman\n")
    insert(cores, '    "none": FeedForward', f"    {entry},\n")
    status, printed = run_tests(clone, "-k", "registered_core")
    assert status == 1, printed
    assert "test_every_registered_core_is_under_the_laws" in printed

    (row,) = re.findall(r'`(Case\("elman", .*?\))`', TEXT)
    insert(clone / "tests/rmt_rl/core_cases.py", '    Case("none", "none"', f"    {row},\n")
    status, printed = run_tests(clone, "-k", "elman or registered_core", "-m", "slow or not slow")
    assert status == 0, printed
    passed = re.search(r"(\d+) passed", printed)
    assert passed is not None and int(passed[1]) > 60
