"""What a training by a recipe adds to the library's checkpoints, and finding and reading them.

A run's folder holds ``checkpoints/<steps>/`` with

- ``model.zip``: the model, as ``MemoryPPO.load`` takes it, and all that going on exactly takes;
- ``recipe.json``: what it was trained by;
- ``state.json``: steps of training and where the curriculum stood.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from stable_baselines3.common.vec_env import VecEnv

from agents.cores import find_core
from agents.recipes import Recipe, recipe_from_json, recipe_to_json
from rmt_rl import MemoryPPO
from rmt_rl.resuming import checkpoints
from rmt_rl.resuming.checkpoints import MODEL

FOLDER = "checkpoints"
RECIPE, STATE = "recipe.json", "state.json"

T = TypeVar("T")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk, its JSON read."""

    path: Path
    recipe: Recipe
    steps: int
    curriculum: dict[str, Any]
    """what ``CurriculumCallback.load_state_dict`` takes; empty if there are no levels"""

    @property
    def run(self) -> Path:
        """The folder of the run that it belongs to."""
        return self.path.parent.parent

    def load_model(self, env: VecEnv | None = None, device: str = "auto") -> MemoryPPO:
        """Load the model.

        :param env: environments to go on training in
        :raises ValueError: if the file is damaged, or holds something else than such a model; if the recipe's
            core is of a module that is not to be found here
        """
        find_core(self.recipe.core)  # the file refers to it, and would only say that a module is missing
        file = self.path / MODEL
        try:
            model: MemoryPPO = MemoryPPO.load(file, env=env, device=device)
        except ValueError as error:
            # It names the file already.
            reason = str(error).removeprefix(f"{file} cannot be loaded: ")
            raise ValueError(f"{file} is damaged, or no model of MemoryPPO: {reason}") from error
        return model


def extra_files(steps: int, recipe: Recipe, curriculum: dict[str, Any]) -> dict[str, bytes]:
    """What lies beside the model."""
    state = {"steps": steps, "curriculum": curriculum}
    return {
        name: (json.dumps(content, indent=2) + "\n").encode()
        for name, content in ((RECIPE, recipe_to_json(recipe)), (STATE, state))
    }


def save_checkpoint(run: Path, model: MemoryPPO, recipe: Recipe, curriculum: dict[str, Any]) -> Path:
    """Write a checkpoint of a model that is not being trained, and return where."""
    buffer = BytesIO()
    model.save(buffer)
    files = {MODEL: buffer.getvalue(), **extra_files(model.num_timesteps, recipe, curriculum)}
    return checkpoints.write_checkpoint(run / FOLDER, model.num_timesteps, files)


def checkpoints_of(run: Path) -> list[Path]:
    """The checkpoints in a run's folder, oldest first."""
    return checkpoints.checkpoints_of(run / FOLDER)


def find_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint's folder, or the newest checkpoint of a run's; ``model.zip`` stands for its folder.

    :raises ValueError: if there is none, or its files are damaged or something else
    """
    if path.name == MODEL:
        path = path.parent
    if not path.is_dir():
        raise ValueError(f"there is no folder {path}: give a checkpoint's or a run's")
    if not (path / STATE).exists():
        found = checkpoints_of(path)
        if not found:
            raise ValueError(
                f"{path} holds no checkpoint ({MODEL}, {RECIPE}, {STATE}) and no {FOLDER}/ with one"
            )
        path = found[-1]
    recipe = _read(path / RECIPE, recipe_from_json)
    steps, curriculum = _read(path / STATE, _state_from_json)
    if not (path / MODEL).exists():
        raise ValueError(f"{path} is not whole: there is no {MODEL}")
    return Checkpoint(path, recipe, steps, curriculum)


def _state_from_json(data: Any) -> tuple[int, dict[str, Any]]:
    if (
        not isinstance(data, dict)
        or type(data.get("steps")) is not int
        or not isinstance(data.get("curriculum"), dict)
    ):
        raise ValueError("it must hold steps and curriculum")
    return data["steps"], data["curriculum"]


def _read(file: Path, convert: Callable[[Any], T]) -> T:
    try:
        return convert(json.loads(file.read_text()))
    except FileNotFoundError as error:
        raise ValueError(f"{file.parent} is not whole: there is no {file.name}") from error
    except ValueError as error:  # JSON's own errors are of this kind too
        raise ValueError(f"{file} is damaged, or of something else: {error}") from error
