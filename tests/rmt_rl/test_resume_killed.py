"""A training that is killed at any moment and taken up again is the one that was never killed, to the bit."""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
import time
import zipfile
from pathlib import Path

import pytest

from rmt_rl.resuming.checkpoints import checkpoints_of
from rmt_rl.resuming.snapshots import read
from tests.rmt_rl import resume_runs


def check_readable(folder: Path) -> None:
    """Read every checkpoint through."""
    for path in checkpoints_of(folder):
        with zipfile.ZipFile(path / "model.zip") as archive:
            assert archive.testzip() is None
        assert read(path / "model.zip").training is not None


def kill_and_resume(folder: Path, kind: str, total: int, cycles: int) -> int:
    """Kill a training ``cycles`` times, again and again from its beginning if it gets to its end.

    Between two kills it writes 0 to 3 checkpoints, and then has some time that it does not know of.

    :return: how often it came to its end, each time with the state of the uninterrupted one
    """
    # Forked from a process that has imported everything, so that it is the training that is killed.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.rmt_rl.resume_runs"])

    def start(run: Path) -> multiprocessing.process.BaseProcess:
        process = context.Process(target=resume_runs.work, args=(run, kind, total, result))
        process.start()
        return process

    result, run = folder / "result.json", folder / "run"
    start(folder / "warm").join()
    began = time.monotonic()
    start(folder / "whole").join()
    pace = (time.monotonic() - began) * resume_runs.ROLLOUT / total
    expected = json.loads(result.read_text())
    moments, ends = random.Random(0), 0
    while cycles > 0 or not ends:
        result.unlink(missing_ok=True)
        process = start(run)
        if cycles > 0:
            began, newest = time.monotonic(), checkpoints_of(run)[-1:]
            count = goal = moments.randrange(4)
            while count and process.is_alive():
                time.sleep(0.002)
                if (found := checkpoints_of(run)[-1:]) != newest:
                    newest, count = found, count - 1
            if goal > 0:
                pace = (time.monotonic() - began) / goal
            process.join(moments.uniform(0.0, 1.5 * pace))
        else:
            process.join()
        if process.exitcode is None:
            process.kill()
            process.join()
            check_readable(run)
            cycles -= 1
            continue
        assert process.exitcode == 0
        assert json.loads(result.read_text()) == expected
        shutil.rmtree(run)
        ends += 1
    return ends


def test_killed_and_resumed(tmp_path: Path) -> None:
    assert kill_and_resume(tmp_path, "batched", resume_runs.TOTAL, cycles=3) >= 1


@pytest.mark.slow
def test_killed_and_resumed_200_times(tmp_path: Path) -> None:
    began = time.monotonic()
    ends = kill_and_resume(tmp_path, "batched", resume_runs.TOTAL, cycles=200)
    print(f"200 kills, {ends} trainings to their ends, {time.monotonic() - began:.0f} s")
    assert ends >= 10


@pytest.mark.slow
def test_killed_and_resumed_with_workers(tmp_path: Path) -> None:
    assert kill_and_resume(tmp_path, "spawn", resume_runs.TOTAL, cycles=6) >= 1
