"""How models are saved and loaded: SB3's zip files, guarded, and files of weights (``weights.py``).

SB3's files hold pickled objects, and to unpickle is to execute: load none that you do not trust. Files of
weights are plain data.
"""

from __future__ import annotations

import pickle
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from os import PathLike
from pathlib import Path
from typing import Any, Self

import torch as th
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.save_util import open_path
from stable_baselines3.common.type_aliases import GymEnv

from rmt_rl.policies import MemoryActorCriticPolicy
from rmt_rl.saving import weights
from rmt_rl.saving.origin import check_origin
from rmt_rl.usage import as_environment

DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, LookupError, MemoryError,
    RuntimeError, TypeError, ValueError, pickle.UnpicklingError, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What SB3, torch and zipfile raise for a damaged or foreign file, depending on where they stumble."""


class SavingAlgorithm(OnPolicyAlgorithm):
    """An algorithm whose files are loaded whole or not at all."""

    policy: MemoryActorCriticPolicy

    @classmethod
    def load(cls, path: Any, env: GymEnv | str | None = None, *args: Any, **kwargs: Any) -> Self:
        """As SB3's, which unpickles: for the files of strangers there is ``load_weights``.

        :param env: an environment, its id, or a VecEnv
        :raises ValueError: naming the file, if it is damaged or of something else, another algorithm
            included; nothing of such a one is unpickled
        :raises TypeError: if ``env`` is nothing that SB3 takes
        """
        env = None if env is None else as_environment(env)
        with guarded(path, cls):
            return super().load(path, env, *args, **kwargs)

    def set_parameters(
        self, load_path_or_dict: Any, exact_match: bool = True, device: th.device | str = "auto"
    ) -> None:
        """As SB3's; on an error all parameters stay as they were.

        :raises ValueError: naming the file, if it is damaged or of something else
        """
        before: Any = deepcopy(self.get_parameters())
        try:
            if isinstance(load_path_or_dict, dict):
                super().set_parameters(load_path_or_dict, exact_match, device)
            else:
                with guarded(load_path_or_dict, type(self)):
                    super().set_parameters(load_path_or_dict, exact_match, device)
        except BaseException:
            super().set_parameters(before, device=device)
            raise

    def save_weights(self, path: str | PathLike[str]) -> None:
        """Save the agent as plain data, which whoever loads it need not trust: no code is in it.

        One safetensors file with the weights and all that the model was built from. It has no optimiser's
        moments and no environments: to go on training as if nothing had happened, use ``save``.

        :param path: ``.safetensors`` is added where it has no suffix
        :raises ValueError: naming what is not plain, e.g. a function as the learning rate or a core that is
            not in ``rmt_rl.CORES``; naming weights that are not finite
        :raises ImportError: without the package safetensors
        """
        weights.save(self, path)

    @classmethod
    def load_weights(
        cls,
        path: str | PathLike[str],
        env: GymEnv | str | None = None,
        device: th.device | str = "auto",
        max_bytes: int = weights.MOST_BYTES,
    ) -> Self:
        """A new model from a file of ``save_weights``, also a stranger's: nothing in it is executed.

        :param env: environments to go on training in (or an id); there may be another number of them
        :param max_bytes: how much memory the model's rollouts, tables and state may take, beside the weights
        :raises ValueError: naming the file, if it is damaged, of something else, or asks for too much; if
            the environments are others
        :raises ImportError: without the package safetensors
        """
        return weights.load(cls, path, env, device, max_bytes)

    def set_weights(self, path: str | PathLike[str]) -> None:
        """Take the weights of a file of ``save_weights``, all of them or, on an error, none.

        The file's policy must be as this one, its algorithm may be another. The optimiser keeps its moments.

        :raises ValueError: naming the file, if it is damaged or of another policy
        :raises ImportError: without the package safetensors
        """
        weights.load_into(self, path)


@contextmanager
def guarded(source: Any, algorithm: type) -> Iterator[None]:
    """Check a zip file, then turn whatever goes wrong in loading it into a ValueError that names it.

    :param source: a path or an open file, as SB3 takes it
    :param algorithm: whose it has to be
    """
    name = source if isinstance(source, str | Path) else getattr(source, "name", source)
    try:
        _check(source, algorithm)
        yield
    except (*DAMAGE, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise  # there is no such file, or it may not be read
        raise ValueError(f"{name} cannot be loaded: {str(error) or type(error).__name__}") from error


def _check(source: Any, algorithm: type) -> None:
    """Raise ValueError, or what zipfile does, unless every member is as it was written by that algorithm.

    Reading them does not tell: torch leaves checksums out.
    """
    file: Any = open_path(source, "r", verbose=0, suffix="zip")
    try:
        begin = file.tell()
        with zipfile.ZipFile(file) as archive:
            if damaged := archive.testzip():
                raise ValueError(f"its {damaged} is damaged")
            check_origin(algorithm, archive)
    finally:
        if file is source:
            file.seek(begin)
        else:
            file.close()
