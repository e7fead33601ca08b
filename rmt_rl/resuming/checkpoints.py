"""Checkpoints from which a training goes on as if it had never stopped.

A checkpoint is a folder ``<steps>/`` that holds ``model.zip``, a file of SB3's with all else that a training
needs: ``MemoryPPO.load`` takes it as well. What is there under its final name is always whole.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from rmt_rl.cores.base import require_positive
from rmt_rl.health import check_weights
from rmt_rl.on_policy import MemoryOnPolicyAlgorithm
from rmt_rl.resuming.locks import FolderLock
from rmt_rl.resuming.resumable import BetweenRollouts
from rmt_rl.resuming.snapshots import Snapshots, read

MODEL = "model.zip"
STOPPED = "stopped.txt"
"""why the last training in a folder was cut short, if it was"""
DIGITS = 9
_DRAFT, _OLD, _GONE = ".draft-", ".old-", ".gone-"

Files = Mapping[str, bytes]


class ExactCheckpoint(BetweenRollouts):
    """Writes checkpoints of a training, and goes on from them bit for bit.

    The same program, run again with ``resume=True``, goes on from the newest checkpoint, or begins if there
    is none:

        model = MemoryPPO("MlpPolicy", env, seed=0)
        model.learn(1_000_000, callback=[ExactCheckpoint("run", every=50_000, resume=True), ...])

    A checkpoint holds weights, optimizer, counters, the memory and the present observation of every
    environment, the statistics of ``VecNormalize``, what the other callbacks know, pending logs, all random
    generators, and, if they have ``get_state()`` and ``set_state(state)``, the environments; of others the
    episodes begin anew, with a warning. Checkpoints are taken between rollouts: a training that is killed
    goes on from the last one written, one that ends by an error or by Ctrl-C from the beginning of its last
    rollout. What comes after is the same, to the bit, if the program and its versions, the machine and the
    number of torch's threads are, and if what torch computes there is deterministic.

    :param folder: for the checkpoints, of this training alone
    :param every: steps of training between two of them, all environments together
    :param keep: how many there are at most; the oldest go; None keeps all
    :param resume: go on from the newest checkpoint in the folder, if there is one; or the one to go on from
        (those after it stay until they are written anew)
    :param extra: further files for each checkpoint, by name
    :raises UnhealthyTrainingError: while training, if a weight is no number any more
    :raises ValueError: if a number is out of range; when training starts, if another process uses the folder,
        if it holds checkpoints and ``resume`` is false, or if the one to go on from is another model's
    """

    model: MemoryOnPolicyAlgorithm
    order = 1

    def __init__(
        self,
        folder: str | Path,
        every: int,
        keep: int | None = 2,
        resume: bool | str | Path = False,
        extra: Callable[[], Files] | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(verbose)
        if every < 1:
            raise ValueError(f"checkpoints must be at least 1 step apart, got {every}")
        self.folder, self.every, self.resume, self.extra = Path(folder), every, resume, extra
        self.keep = None if keep is None else require_positive("keep", keep)
        self.path: Path | None = None
        """the newest checkpoint that this training has written, or has gone on from"""
        self._lock: FolderLock | None = None
        self._source: Path | None = None
        self._taken: tuple[int, Files] | None = None
        """the last state that was in order: its step and its files"""
        self._written_at = -1
        self._begun = self._in_rollout = False

    def _init_callback(self) -> None:
        if not isinstance(self.model, MemoryOnPolicyAlgorithm):
            raise TypeError(f"ExactCheckpoint is for MemoryPPO, got {type(self.model).__name__}")
        self._taken, self._in_rollout = None, False
        self._lock = FolderLock(self.folder)
        _tidy(self.folder)
        if not self._begun:  # a further call of learn goes on from where the last one ended
            self._source = self._find()

    def _find(self) -> Path | None:
        if not isinstance(self.resume, bool):
            path = Path(self.resume)
            return path if path.name == MODEL else path / MODEL
        found = checkpoints_of(self.folder)
        if found and not self.resume:
            raise ValueError(
                f"the folder {self.folder} holds checkpoints already, the newest of step "
                f"{int(found[-1].name)}: go on from it with resume=True, or give another folder"
            )
        return found[-1] / MODEL if found else None

    def on_ready(self) -> None:
        others = [callback for callback in self.model._callbacks if callback is not self]
        self.snapshots = Snapshots(self.model, others)
        if self._source is not None:
            self.snapshots.restore(read(self._source))
            self.path = self._source.parent
            if self.verbose:
                print(f"going on from {self.path}")
        else:
            self.path = None
        self._written_at = self.model.num_timesteps
        self._begun = True
        (self.folder / STOPPED).unlink(missing_ok=True)

    def between_rollouts(self) -> bool:
        if self._source is not None:
            # Once more, as callbacks may have changed something when told that training starts.
            self.snapshots.restore(read(self._source), restart=False)
            self._source = None
        self._take()
        if self.model.num_timesteps >= self._written_at + self.every:
            self._write()
        return True

    def _on_rollout_start(self) -> None:
        self._in_rollout = True

    def _on_rollout_end(self) -> None:
        self._in_rollout = False

    def _on_training_end(self) -> None:
        if self._taken is None or self._taken[0] != self.model.num_timesteps:
            # A callback has ended it inside a rollout, or another one has found it out of order.
            self._take(complete=not self._in_rollout)
        self._write()
        self._release()

    def on_failure(self, error: BaseException) -> None:
        try:
            if self._taken is not None:
                self._write()
                error.add_note(f"the last state that was in order is kept in {self.path}")
                notes = "\n".join((f"{type(error).__name__}: {error}", *error.__notes__))
                (self.folder / STOPPED).write_text(f"step {self.model.num_timesteps}: {notes}\n")
        finally:
            self._release()

    def _take(self, complete: bool = True) -> None:
        check_weights(self.model.policy)  # or such a checkpoint might take the place of a good one
        extra = self.extra() if self.extra is not None else {}
        self._taken = self.model.num_timesteps, {MODEL: self.snapshots.take(complete), **extra}

    def _write(self) -> None:
        assert self._taken is not None
        steps, files = self._taken
        if steps == self._written_at and self.path is not None:
            return
        self.path = write_checkpoint(self.folder, steps, files)
        self._written_at = steps
        if self.verbose:
            print(f"checkpoint: {self.path}")
        if self.keep is not None:
            # Later ones are there if this training began with an old one: they are not the oldest.
            until = [path for path in checkpoints_of(self.folder) if int(path.name) <= steps]
            for old in until[: -self.keep]:
                _remove(old)

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None


def checkpoints_of(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    return sorted(
        (path for path in folder.glob("[0-9]*") if path.name.isdecimal()), key=lambda path: int(path.name)
    )


def write_checkpoint(folder: Path, steps: int, files: Files) -> Path:
    """Write a checkpoint, and return where. Whenever this is cut off, what was there before is whole."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{steps:0{DIGITS}d}"
    old = folder / f"{_OLD}{path.name}"
    draft = Path(tempfile.mkdtemp(prefix=_DRAFT, dir=folder))
    try:
        draft.chmod(0o755)
        for name, content in files.items():
            with (draft / name).open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        _sync(draft)
        if path.exists():
            os.replace(path, old)  # no folder takes the place of another; _tidy knows what this name means
        os.replace(draft, path)
        _sync(folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        if old.exists() and not path.exists():
            os.replace(old, path)
        shutil.rmtree(draft, ignore_errors=True)
    return path


def _remove(path: Path) -> None:
    """Under its own name a checkpoint is never half gone."""
    gone = path.with_name(f"{_GONE}{path.name}")
    os.replace(path, gone)
    shutil.rmtree(gone)


def _tidy(folder: Path) -> None:
    """Clear away what a killed process has left half done."""
    for old in folder.glob(f"{_OLD}*"):
        path = folder / old.name.removeprefix(_OLD)
        if not path.exists():
            os.replace(old, path)
    for prefix in (_DRAFT, _OLD, _GONE):
        for rest in folder.glob(f"{prefix}*"):
            shutil.rmtree(rest)


def _sync(folder: Path) -> None:
    """Have the names in a folder on disk."""
    if os.name == "nt":
        return  # folders cannot be opened there
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
