"""Algorithms under measurement, here or each in a process of its own."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import torch
from stable_baselines3.common.callbacks import BaseCallback

from scripts.speed.measures import memory_bytes, peak_memory, time_split, update_flops
from scripts.speed.workloads import Workload, make_algorithm


class Subject:
    """An algorithm that goes on with its training from one measurement to the next.

    :param name: a row of the tables, see ``make_algorithm``
    """

    def __init__(self, name: str, workload: Workload) -> None:
        self.workload = workload
        self.model: Any = make_algorithm(name, workload)

    def warm_up(self) -> int:
        """The first rollout and update, which are slow; bytes of memories that the buffer held for it."""
        held = _Held()
        self.model.learn(self.workload.rollout, callback=held)
        if self.workload.settle is not None:
            self.workload.settle(self.model.env)
        return held.bytes

    def measure(self, rollouts: int) -> dict[str, float]:
        """Seconds of training on so many rollouts, by ``PARTS``."""
        with time_split(self.model) as seconds:
            self.model.learn(self.workload.rollout * rollouts, reset_num_timesteps=False)
        return seconds

    def peak_memory(self) -> int:
        """Bytes, of the whole process."""
        return peak_memory()

    def update_flops(self) -> int:
        """See ``measures.update_flops``."""
        return update_flops(self.model)


class _Held(BaseCallback):
    """Looks into the buffer at the end of a rollout, before it is cut up for training."""

    bytes = 0

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.bytes = memory_bytes(self.model.rollout_buffer)  # type: ignore[attr-defined]


class Apart:
    """A ``Subject`` in a process of its own, whose memory is its alone and whose caches nobody else fills."""

    def __init__(self, name: str, workload: Workload) -> None:
        self.threads = workload.threads
        self._pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
        self._begun = self._pool.submit(_begin, name, workload)

    def call(self, method: str, *arguments: Any, threads: int | None = None) -> Future[Any]:
        """Call a method of the subject there.

        :param threads: of torch; by default the workload's
        """
        return self._pool.submit(_call, method, arguments, threads or self.threads)

    def check(self) -> None:
        """Raise what making the subject raised."""
        self._begun.result()

    def close(self) -> None:
        """End the process."""
        self._pool.shutdown(cancel_futures=True)


_subject: Subject | None = None
"""of a process of ``Apart``"""


def _begin(name: str, workload: Workload) -> None:
    global _subject
    _subject = Subject(name, workload)


def _call(method: str, arguments: tuple[Any, ...], threads: int) -> Any:
    torch.set_num_threads(threads)
    return getattr(_subject, method)(*arguments)


@contextmanager
def side_by_side(names: list[str], workload: Workload) -> Iterator[dict[str, Apart]]:
    """A process for each of the algorithms ``names``.

    :raises ValueError: if an algorithm cannot be made at these sizes
    """
    subjects: dict[str, Apart] = {}
    try:
        for name in names:
            subjects[name] = Apart(name, workload)
        for subject in subjects.values():
            subject.check()
        yield subjects
    finally:
        for subject in subjects.values():
            subject.close()


def at_once(subjects: dict[str, Apart], method: str) -> dict[str, Any]:
    """What a method gives for each, on one thread each: for what is not timed."""

    def call(subject: Apart) -> Any:
        return subject.call(method, threads=1).result()

    # As many together as they have threads when they are timed: more would only take more memory.
    with ThreadPoolExecutor(next(iter(subjects.values())).threads) as pool:
        return dict(zip(subjects, pool.map(call, subjects.values()), strict=True))
