"""Environments in worker processes: one that dies is named, and nobody waits for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import Any

from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

PATIENCE = 1.0
"""seconds between two looks at a worker that has not answered"""
GRACE = 5.0
"""seconds that a worker is given to end once its pipe has"""


class DeadEnvironmentError(RuntimeError):
    """The worker process of an environment has ended in the middle of a training.

    :param index: of the environment
    :param pid: of its process
    :param exitcode: as ``multiprocessing`` gives it: below 0 for a signal; None if another process than the
        one that started the workers asks
    """

    def __init__(self, index: int, pid: int | None, exitcode: int | None) -> None:
        if exitcode is None:
            how = "its exit code is known to the process that started it"
        else:
            how = f"killed by signal {-exitcode}" if exitcode < 0 else f"code {exitcode}"
        super().__init__(
            f"environment {index} is dead: its worker process {pid} has ended ({how}). If that was not from "
            "outside (a person, a lack of memory), the worker has printed the environment's own error"
        )
        self.index, self.pid, self.exitcode = index, pid, exitcode

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.index, self.pid, self.exitcode)


class WatchedPipe:
    """The learner's end of a worker's pipe, whose ``recv`` ends with the worker.

    Under the start method "fork" the workers hold each other's pipes open, so that a plain ``recv`` waits for
    a dead one's answer without end.
    """

    def __init__(self, pipe: Any, process: Any) -> None:
        self._pipe, self._process = pipe, process

    def recv(self) -> Any:
        while not self._pipe.poll(PATIENCE):
            # One that is over and has sent nothing will not send anything.
            if not _is_alive(self._process) and not self._pipe.poll():
                raise EOFError(f"the worker process {self._process.pid} has ended")
        return self._pipe.recv()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipe, name)


@contextmanager
def watched(envs: Iterable[VecEnv]) -> Iterator[None]:
    """Within, no wait for a dead worker of these environments is without end.

    Only the pipes of the innermost vectors are watched: what wrappers do, and in which of their methods, is
    left to them. A worker's death is an ``EOFError`` or a ``ConnectionError``; see ``name_the_dead``.
    """
    vectors = {id(env.unwrapped): env.unwrapped for env in envs}.values()
    before = [(one, one.remotes) for one in vectors if isinstance(one, SubprocVecEnv) and not one.closed]
    for workers, pipes in before:
        workers.remotes = tuple(map(WatchedPipe, pipes, workers.processes))
    try:
        yield
    finally:
        for workers, pipes in before:
            workers.remotes = pipes


def name_the_dead(envs: Iterable[VecEnv], error: BaseException) -> BaseException:
    """The error that names the worker whose death ``error`` tells of; ``error`` itself if there is none.

    The other workers are ended as well: they are of no use without it, and closing the vector would wait.
    """
    if not isinstance(error, EOFError | ConnectionError):
        return error
    for workers in {id(env.unwrapped): env.unwrapped for env in envs}.values():
        if not isinstance(workers, SubprocVecEnv) or workers.closed:
            continue
        ended = wait([process.sentinel for process in workers.processes], GRACE)
        for index, process in enumerate(workers.processes):
            if process.sentinel in ended:
                named = DeadEnvironmentError(index, process.pid, _exit_code(process))
                _end(workers)
                return named
    return error


def _is_alive(process: Any) -> bool:
    try:
        return process.is_alive()  # type: ignore[no-any-return]
    except AssertionError:  # this process is not the one that started the worker
        return not wait([process.sentinel], 0)


def _exit_code(process: Any) -> int | None:
    """None in another process than the one that started the worker, which cannot know."""
    try:
        process.join(GRACE)  # its pipes end a moment before it does
    except AssertionError:
        wait([process.sentinel], GRACE)
        return None
    return process.exitcode  # type: ignore[no-any-return]


def _end(workers: SubprocVecEnv) -> None:
    for process in workers.processes:
        process.terminate()
    for process in workers.processes:
        _exit_code(process)
    for remote in workers.remotes:
        remote.close()
    workers.waiting, workers.closed = False, True
