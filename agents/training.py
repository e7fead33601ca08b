"""Training by a recipe: model, curriculum, checkpoints and logs; and going on where it was left."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, make_output_format
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import VecEnv

from agents.callbacks import EntropySchedule
from agents.checkpoints import FOLDER, Checkpoint, checkpoints_of, extra_files
from agents.environments import make_env, training_seed
from agents.recipes import Recipe
from rmt_rl import MemoryPPO
from rmt_rl.callbacks import CurriculumCallback
from rmt_rl.features import IdEmbeddingExtractor
from rmt_rl.health import Health
from rmt_rl.resuming.checkpoints import ExactCheckpoint
from rmt_rl.resuming.locks import FolderLock
from rmt_rl.schedules import HoldThenLinear

LOGS = "logs"
STEPS = "time/total_timesteps"
SMALLEST_PICTURE = 36
"""pixels: the smallest side that the three convolutions of SB3's NatureCNN leave anything of"""


@dataclass(frozen=True)
class Trained:
    """What a training leaves behind."""

    model: MemoryPPO
    curriculum: CurriculumCallback | None
    """None if the recipe has no levels"""
    checkpoint: Path
    finished: bool
    """false if it was interrupted"""


def build_model(recipe: Recipe, env: VecEnv, device: str = "auto") -> MemoryPPO:
    """A model that has learnt nothing yet.

    :raises ValueError: if an option of the recipe is out of range or of another type, some do not fit each
        other, or the environments have a space that no policy takes
    """
    rate: Any = recipe.learning_rate
    if recipe.final_learning_rate != rate:
        rate = HoldThenLinear(recipe.learning_rate, recipe.final_learning_rate, recipe.hold)
    policy, policy_kwargs = choose_policy(env.observation_space)
    policy_kwargs |= recipe.make_policy_kwargs()
    try:
        return MemoryPPO(
            policy,
            env,
            learning_rate=rate,
            n_steps=recipe.n_steps,
            batch_size=recipe.batch_size,
            sequence_length=recipe.sequence_length,
            n_epochs=recipe.n_epochs,
            gamma=recipe.gamma,
            gae_lambda=recipe.gae_lambda,
            clip_range=recipe.clip_range,
            ent_coef=recipe.ent_coef,
            vf_coef=recipe.vf_coef,
            max_grad_norm=recipe.max_grad_norm,
            target_kl=recipe.target_kl,
            normalize_advantage=recipe.normalize_advantage,
            policy_kwargs=policy_kwargs,
            seed=recipe.seed,
            device=device,
        )
    # What SB3, torch and constructors of cores raise for options that will not do.
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        reason = str(error) or type(error).__name__
        raise ValueError(f"the model cannot be built by these options: {reason}") from error


def choose_policy(space: spaces.Space[Any]) -> tuple[str, dict[str, Any]]:
    """The policy for an observation space, and what its arguments should be beside the recipe's.

    Arrays (height, width, channels) of integers too small for SB3's network for pictures are taken for grids
    of ids, which want embeddings.
    """
    parts = list(space.values()) if isinstance(space, spaces.Dict) else [space]
    pictures = [part for part in parts if is_image_space(part)]
    options: dict[str, Any] = {}
    # The channels are the smallest of the three dimensions, wherever they stand: sides come after them.
    if pictures and all(sorted(part.shape or ())[1] < SMALLEST_PICTURE for part in pictures):
        options = dict(
            features_extractor_class=IdEmbeddingExtractor,
            features_extractor_kwargs=dict(max_ids=256),
            normalize_images=False,
        )
    if isinstance(space, spaces.Dict):
        return "MultiInputPolicy", options
    return ("CnnPolicy" if pictures and not options else "MlpPolicy"), options


def build_curriculum(recipe: Recipe, saved: dict[str, Any] | None = None) -> CurriculumCallback | None:
    """The recipe's curriculum, at its beginning or where ``saved`` was taken; None without levels.

    :raises ValueError: if ``saved`` is another curriculum's
    """
    if not recipe.levels:
        if saved:
            raise ValueError("the recipe has no levels, the saved curriculum has")
        return None
    curriculum = CurriculumCallback(
        recipe.levels,
        recipe.threshold,
        recipe.window,
        recipe.easier,
        stop_when_solved=recipe.stop_when_solved,
    )
    if saved is not None:
        try:
            curriculum.load_state_dict(saved)
        except (KeyError, TypeError) as error:
            raise ValueError(f"the state of the curriculum is not whole: {error!r}") from error
    return curriculum


def curriculum_state(curriculum: CurriculumCallback | None) -> dict[str, Any]:
    """What a checkpoint keeps of a curriculum: nothing of none."""
    return {} if curriculum is None else curriculum.state_dict()


def train(
    recipe: Recipe,
    run: Path,
    *,
    resume: Checkpoint | None = None,
    device: str = "auto",
    checkpoint_every: int = 100_000,
    tensorboard: bool = False,
    callbacks: Sequence[BaseCallback] = (),
) -> Trained:
    """Train to the recipe's ``total_steps``, with checkpoints on the way and one at the end.

    Ctrl-C ends it early, with a checkpoint too. See ``ExactCheckpoint`` for how exactly a training goes on.

    :param run: folder for checkpoints and logs, of one process at a time
    :param resume: go on from here; the recipe may then differ from the checkpoint's in ``total_steps``
    :param checkpoint_every: steps between checkpoints
    :param tensorboard: write tensorboard's logs, too
    :param callbacks: further ones; those with a ``curriculum`` attribute get the curriculum there
    :raises ValueError: if an option will not do, or there is nothing left to train
    :raises UnhealthyTrainingError: if it has diverged; the last state in order is then kept as a checkpoint
    """
    steps = 0 if resume is None else resume.steps
    if steps >= recipe.total_steps:
        raise ValueError(
            f"{steps} steps are done already: total_steps must be more, got {recipe.total_steps}"
        )
    curriculum = build_curriculum(recipe, None if resume is None else resume.curriculum)
    seed = training_seed(recipe.seed, 0)
    env = make_env(recipe, recipe.n_envs, seed)
    try:
        model = build_model(recipe, env, device)
        env.seed(seed)  # the model has just seeded them with seeds that other trainings share

        def extra() -> dict[str, bytes]:
            return extra_files(model.num_timesteps, recipe, curriculum_state(curriculum))

        checkpoint = ExactCheckpoint(
            run / FOLDER,
            checkpoint_every,
            keep=None,
            resume=False if resume is None else resume.path,
            extra=extra,
        )
        with FolderLock(run):
            model.set_logger(make_logger(run / LOGS, steps, tensorboard))
            finished = _learn(model, recipe, curriculum, [checkpoint, Health(), *callbacks])
        assert checkpoint.path is not None
        return Trained(model, curriculum, checkpoint.path, finished)
    except OSError as error:
        if kept := checkpoints_of(run):
            error.add_note(f"the last checkpoint is whole: {kept[-1]}")
        raise
    finally:
        env.close()


def _learn(
    model: MemoryPPO,
    recipe: Recipe,
    curriculum: CurriculumCallback | None,
    callbacks: list[BaseCallback],
) -> bool:
    """Whether it came to its end."""
    for callback in callbacks:
        if hasattr(callback, "curriculum"):
            callback.curriculum = curriculum
    if curriculum is not None:
        callbacks.insert(0, curriculum)
    if recipe.final_ent_coef is not None:
        schedule = HoldThenLinear(recipe.ent_coef, recipe.final_ent_coef, recipe.hold)
        callbacks.append(EntropySchedule(schedule))
    finished = True
    try:
        # When it is taken up again, too: the checkpoint brings the steps that are done.
        model.learn(recipe.total_steps, callback=callbacks, log_interval=1)
    except KeyboardInterrupt:
        finished = False
    # What the last update recorded; SB3 leaves that out.
    model.logger.record(STEPS, model.num_timesteps)
    model.logger.dump(model.num_timesteps)
    model.logger.close()
    return finished


def make_logger(folder: Path, steps: int, tensorboard: bool) -> Logger:
    """Logs into ``folder``: ``progress_<steps>.csv``, one file for each time the training was taken up."""
    folder.mkdir(parents=True, exist_ok=True)
    formats = [make_output_format("csv", str(folder), f"_{steps:09d}")]
    if tensorboard:
        formats.append(make_output_format("tensorboard", str(folder)))
    return Logger(str(folder), formats)


def read_logs(run: Path) -> list[dict[str, float]]:
    """What a run logged, one entry per update and one more at the end, by the names in tensorboard."""
    rows: list[dict[str, float]] = []
    for file in sorted((run / LOGS).glob("progress_*.csv")):
        # What came after the checkpoint that this file goes on from was done again.
        begin = int(file.stem.removeprefix("progress_"))
        rows = [row for row in rows if row[STEPS] <= begin]
        with file.open(newline="") as lines:
            for row in csv.DictReader(lines):
                rows.append({name: float(value) for name, value in row.items() if value})
    return rows
