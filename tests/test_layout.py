"""Who may import whom, and which folders there are.

`rmt_rl` is what users install, so it must stand alone; `envs` must be of use without torch; `agents` reach
environments through their ids. Every import statement is read, the lazy ones inside functions as well.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"rmt_rl", "envs", "agents", "scripts"}
FOLDERS = PACKAGES | {"tests"}
OPTIONAL_FOLDERS = {"results"}

LIBRARY_MAY_IMPORT = {"rmt_rl", "torch", "numpy", "gymnasium", "stable_baselines3"}
OPTIONAL = {  # extras, imported when they are needed
    "rmt_rl/saving/weights.py": {"safetensors"},
    "rmt_rl/export.py": {"onnxruntime"},
}
ENVS_MAY_IMPORT = {"envs", "numpy", "gymnasium", "minigrid"}
OTHERS_GYMS = {"popgym", "memory_gym", "pygame"}  # adapted in envs/gyms/ and nowhere else


def imported_modules(source: str) -> Iterator[tuple[int, str]]:
    """Line and top-level name of every absolute import; relative ones cannot leave their package."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield node.lineno, alias.name.split(".")[0]
            case ast.ImportFrom(module=str(module), level=0):
                yield node.lineno, module.split(".")[0]
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield node.lineno, module.split(".")[0]


def allowed(file: Path, module: str) -> bool:
    """Whether `file` (relative to the root) may import the top-level module `module`."""
    if module in sys.stdlib_module_names:
        return True
    match file.parts[0]:
        case "rmt_rl":
            return module in LIBRARY_MAY_IMPORT | OPTIONAL.get(file.as_posix(), set())
        case "envs":
            sb3_face = file.name.startswith(("sb3", "vec_sb3")) and module == "stable_baselines3"
            others_gym = file.parts[:2] == ("envs", "gyms") and module in OTHERS_GYMS
            return module in ENVS_MAY_IMPORT or sb3_face or others_gym
        case "agents":
            return module not in {"envs", "scripts", "tests"}
        case "scripts":
            return module != "tests"
    return True


def forbidden_imports(file: Path, source: str) -> list[str]:
    """One line for each import in `source` that the file at `file` must not have."""
    return [
        f"{file}:{line}: {file.parts[0]} must not import {module}"
        for line, module in imported_modules(source)
        if not allowed(file, module)
    ]


def test_no_forbidden_arrow() -> None:
    files = [file for package in sorted(PACKAGES) for file in sorted((ROOT / package).rglob("*.py"))]
    assert len(files) > len(PACKAGES)
    found = [
        line for file in files for line in forbidden_imports(file.relative_to(ROOT), file.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("rmt_rl/policies.py", "import envs"),
        ("rmt_rl/policies.py", "from envs.recall import base"),
        ("rmt_rl/cores/rmt.py", "def late():\n    from agents import recipes"),
        ("rmt_rl/callbacks.py", "if TYPE_CHECKING:\n    import scripts.train as train"),
        ("rmt_rl/callbacks.py", "import importlib\nimportlib.import_module('envs.recall')"),
        ("rmt_rl/features.py", "import minigrid"),
        ("rmt_rl/policies.py", "import safetensors"),
        ("envs/recall/base.py", "import torch.nn as nn"),
        ("envs/recall/base.py", "from rmt_rl import make_core"),
        ("envs/recall/base.py", "from stable_baselines3.common.vec_env import VecEnv"),
        ("envs/recall/not_sb3.py", "import stable_baselines3"),
        ("envs/recall/sb3_vec.py", "import torch"),
        ("envs/recall/gyms.py", "import popgym"),
        ("envs/gyms/popgym.py", "import mazelib"),
        ("envs/minigrid/memory.py", "import numpy, agents"),
        ("agents/recipes.py", "import envs"),
        ("agents/baselines.py", "from scripts.train import main"),
        ("scripts/train.py", "from tests.conftest import torch"),
    ],
)
def test_checker_finds(file: str, source: str) -> None:
    assert len(forbidden_imports(Path(file), source)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("rmt_rl/policies.py", "import torch\nfrom stable_baselines3 import PPO\nfrom . import buffers"),
        ("rmt_rl/cores/rmt.py", "from rmt_rl.cores.base import MemoryCore\nfrom ..features import envs"),
        ("rmt_rl/callbacks.py", '"""See `import envs`."""\nvalue = "import envs"'),
        ("rmt_rl/saving/weights.py", "def late():\n    import safetensors.torch"),
        ("envs/recall/sb3_vec.py", "from stable_baselines3.common.vec_env import VecEnv\nimport numpy"),
        ("envs/recall/vec_sb3.py", "import stable_baselines3"),
        ("envs/gyms/popgym.py", "def load():\n    import popgym"),
        ("agents/recipes.py", "import rmt_rl, torch, sb3_contrib\nenv_id = 'envs:RMT/TMaze-v0'"),
        ("scripts/train.py", "import tyro, envs, rmt_rl\nfrom agents import recipes"),
    ],
)
def test_checker_lets_pass(file: str, source: str) -> None:
    assert forbidden_imports(Path(file), source) == []


@pytest.mark.parametrize("file", OPTIONAL)
def test_extras_are_imported_late(file: str) -> None:
    """`import rmt_rl` works without them."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    early = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    assert not OPTIONAL[file] & {name for _, name in imported_modules(ast.unparse(early))}


def test_top_level_folders() -> None:
    ignored = set(re.findall(r"^/(\w+)/$", (ROOT / ".gitignore").read_text(), re.MULTILINE)) | {"__pycache__"}
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")}
    assert folders - ignored - OPTIONAL_FOLDERS == FOLDERS


def test_no_script_stands_in_for_a_package() -> None:
    """A script that is run by its path puts its own folder in front of all others."""
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert {"rmt_rl", "envs", "agents"} <= packages
    assert not packages & {path.stem for path in (ROOT / "scripts").glob("*.py")}
