"""Environments in worker processes: one that dies is named, and nobody waits for it."""

from __future__ import annotations

from multiprocessing.connection import wait
from typing import Any

import numpy as np
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

PATIENCE = 1.0
"""seconds between two looks at a worker that has not answered"""
GRACE = 5.0
"""seconds that a worker is given to end once its pipe has"""


class DeadEnvironmentError(RuntimeError):
    """The worker process of an environment has ended in the middle of a training.

    :param index: of the environment
    :param pid: of its process
    :param exitcode: as ``multiprocessing`` gives it: below 0 for a signal
    """

    def __init__(self, index: int, pid: int | None, exitcode: int | None) -> None:
        how = f"killed by signal {-exitcode}" if exitcode is not None and exitcode < 0 else f"code {exitcode}"
        super().__init__(
            f"environment {index} is dead: its worker process {pid} has ended ({how}). If that was not from "
            "outside (a person, a lack of memory), the worker has printed the environment's own error"
        )
        self.index, self.pid, self.exitcode = index, pid, exitcode

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.index, self.pid, self.exitcode)


def step(env: VecEnv, actions: np.ndarray[Any, Any]) -> VecEnvStepReturn:
    """``env.step``, but for a ``SubprocVecEnv`` a worker's death is an error at once.

    Under the start method "fork" the workers hold each other's pipes open: SB3 would wait for a dead one's
    answer without end.

    :raises DeadEnvironmentError: if a worker has died
    """
    workers = env.unwrapped
    if not isinstance(workers, SubprocVecEnv):
        return env.step(actions)
    try:
        env.step_async(actions)
        for remote, process in zip(workers.remotes, workers.processes, strict=True):
            while not remote.poll(PATIENCE):
                # One that is over and has sent nothing will not send anything.
                if not process.is_alive() and not remote.poll():
                    raise EOFError
        return env.step_wait()
    except (EOFError, ConnectionError) as error:
        raise name_the_dead(env, error) from error


def name_the_dead(env: VecEnv | None, error: BaseException) -> BaseException:
    """The error that names the worker whose death ``error`` tells of; ``error`` itself if there is none.

    The other workers are ended as well: they are of no use without it, and closing the vector would wait.
    """
    workers = None if env is None else env.unwrapped
    if (
        not isinstance(workers, SubprocVecEnv)
        or not isinstance(error, EOFError | ConnectionError)
        or workers.closed
    ):
        return error
    ended = wait([process.sentinel for process in workers.processes], GRACE)
    for index, process in enumerate(workers.processes):
        if process.sentinel in ended:
            process.join(GRACE)  # its pipes end a moment before it does
            named = DeadEnvironmentError(index, process.pid, process.exitcode)
            _end(workers)
            return named
    return error


def _end(workers: SubprocVecEnv) -> None:
    for process in workers.processes:
        process.terminate()
    for process in workers.processes:
        process.join()
    for remote in workers.remotes:
        remote.close()
    workers.waiting, workers.closed = False, True
