"""Acting with what ``rmt_rl.export`` writes: no torch, the memory as inputs and outputs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from rmt_rl import MemoryPPO
from rmt_rl.export import export_onnx

TYPES = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}


def exported_stepping(model: MemoryPPO, n_envs: int, steps: int, threads: int) -> Callable[[], None]:
    """A function that acts for so many steps of one episode, from an empty memory each time.

    :raises ImportError: without the packages for it
    """
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    with tempfile.TemporaryDirectory() as folder:
        file = export_onnx(model, Path(folder, "agent"))
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    given = {
        entry.name: np.zeros([n_envs, *entry.shape[1:]], TYPES[entry.type]) for entry in session.get_inputs()
    }
    noise = np.random.default_rng(0).normal(size=given["observation"].shape)
    begins, goes_on = np.ones(n_envs, bool), np.zeros(n_envs, bool)
    outputs = [entry.name for entry in session.get_outputs()]
    memory = [name.removeprefix("next_") for name in outputs[2:]]

    def run() -> None:
        inputs: dict[str, Any] = given | dict(observation=noise.astype(np.float32), episode_start=begins)
        for _ in range(steps):
            _, _, *state = session.run(outputs, inputs)
            inputs |= zip(memory, state, strict=True)
            inputs["episode_start"] = goes_on

    return run
