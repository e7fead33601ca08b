"""The built wheel holds the library alone and works in a project that has an `envs` package of its own."""

import os
import re
import shutil
import site
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]

USER_SCRIPT = """
import importlib.util
import pathlib
import sys

import numpy as np

import envs.lights
import rmt_rl
from rmt_rl import MemoryPPO

site, repository = map(pathlib.Path, sys.argv[1:])
assert pathlib.Path(rmt_rl.__file__).is_relative_to(site), rmt_rl.__file__
assert envs.lights.COLOUR == "the user's own green"
assert not any(pathlib.Path(entry or ".").resolve() == repository for entry in sys.path), sys.path
for name in ("agents", "scripts", "tests"):
    spec = importlib.util.find_spec(name)
    assert spec is None or not str(spec.origin).startswith(str(repository)), (name, spec)

model = MemoryPPO(
    "MlpPolicy", "CartPole-v1", n_steps=128, sequence_length=32, batch_size=128, n_epochs=2, seed=0,
    policy_kwargs=dict(core="xl"),
)
before = [parameter.detach().clone() for parameter in model.policy.parameters()]
model.learn(256)
assert model.num_timesteps == 256
assert any((old != new).any() for old, new in zip(before, model.policy.parameters(), strict=True))
model.save("agent")
loaded = MemoryPPO.load("agent")

observations = np.random.default_rng(0).uniform(-0.05, 0.05, size=(5, 1, 4)).astype(np.float32)
state, loaded_state = None, None
for t, observation in enumerate(observations):
    start = np.array([t == 0])
    action, state = model.predict(observation, state=state, episode_start=start, deterministic=True)
    again, loaded_state = loaded.predict(
        observation, state=loaded_state, episode_start=start, deterministic=True
    )
    assert action.shape == (1,) and action[0] in (0, 1)
    assert (action == again).all()
print("trained, saved, loaded, predicted")
"""


BUILD_TOOL = "hatchling"
SOURCES = ("Makefile", "pyproject.toml", "constraints.txt", "README.md", "LICENSE", "rmt_rl")


def with_what_it_needs(name: str) -> set[str]:
    """The names of an installed distribution and of all that it requires here, extras aside."""
    required = [
        re.split(r"[^\w.-]", requirement)[0]
        for requirement in metadata.requires(name) or ()
        if "extra ==" not in requirement and "python_version" not in requirement
    ]
    return {name}.union(*map(with_what_it_needs, required))


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built, in which `make wheel` has run, without a package index.

    The build tool, with what it needs itself, is all that its pip can find.
    """
    clone, tools = tmp_path_factory.mktemp("clone"), tmp_path_factory.mktemp("tools")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, clone / name)
    for name in with_what_it_needs(BUILD_TOOL):
        for top in {file.parts[0] for file in metadata.files(name) or ()} - {"..", "__pycache__"}:
            (tools / top).symlink_to(metadata.distribution(name).locate_file(top))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "PYTHON", "MAKE"))}
    environment |= {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PYTHONPATH": str(tools)}
    built = subprocess.run(
        ["make", "wheel", f"PYTHON={sys.executable}"],
        cwd=clone, env=environment, capture_output=True, text=True, timeout=180,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    return clone


@pytest.fixture(scope="module")
def wheel(clone: Path) -> Path:
    (built,) = (clone / "dist").glob("*.whl")
    return built


def test_a_wheel_is_built_without_the_development_environment(clone: Path) -> None:
    assert not (clone / ".venv").exists()
    (packages,) = (clone / "build" / "venv").glob("lib/python*/site-packages")
    installed = {found.name.lower() for found in metadata.distributions(path=[str(packages)])}
    assert "pip" in installed and installed <= {"pip", "setuptools"}


def test_the_build_tool_is_what_the_project_names() -> None:
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    assert f'requires = ["{BUILD_TOOL}>=' in project
    assert f"\n{BUILD_TOOL}==" in (ROOT / "constraints.txt").read_text("utf-8")


def test_wheel_holds_the_library_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    info = wheel.name.removesuffix("-py3-none-any.whl") + ".dist-info"
    assert {name.split("/")[0] for name in names} == {"rmt_rl", info}
    assert "rmt_rl/py.typed" in names
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "rmt_rl").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules


def test_wheel_in_a_users_project(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    install = [*PIP, "install", "--no-deps", "--no-index", "--target", str(target), str(wheel)]
    subprocess.run(install, check=True, timeout=120)

    project = tmp_path / "project"
    (project / "envs").mkdir(parents=True)
    (project / "envs" / "__init__.py").write_text("")
    (project / "envs" / "lights.py").write_text('COLOUR = "the user\'s own green"\n')
    (project / "train.py").write_text(USER_SCRIPT)

    # -S reads no .pth file, so the repository's editable install is out of the script's sight; the packages
    # that rmt_rl needs are put back by name.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONPATH"] = os.pathsep.join([str(target), *site.getsitepackages()])
    result = subprocess.run(
        [sys.executable, "-S", "train.py", str(target), str(ROOT)],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.endswith("trained, saved, loaded, predicted\n")
    assert (project / "agent.zip").is_file()
