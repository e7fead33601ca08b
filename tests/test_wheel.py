"""The built wheel holds the library alone and works in a project that has an `envs` package of its own."""

import os
import site
import subprocess
import sys
import zipfile
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    offline = ["--no-deps", "--no-index", "--no-build-isolation"]
    subprocess.run([*PIP, "wheel", *offline, "--wheel-dir", str(folder), str(ROOT)], check=True, timeout=120)
    (built,) = folder.glob("*.whl")
    return built


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
