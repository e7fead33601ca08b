"""What a vector of environments hands over, as a rollout takes it."""

from __future__ import annotations

from typing import Any

import numpy as np

from rmt_rl.checks import check_numbers


def take_rewards(rewards: Any, n_envs: int, step: int) -> np.ndarray[Any, Any]:
    """Return the rewards (n_envs,) as a float32 copy, which may be added to.

    ``SubprocVecEnv`` hands over the environments' own types: integers, bools, arrays that may not be written
    to, of shape (n_envs, 1).

    :param step: of the training
    :raises ValueError: if they are no ``n_envs`` finite numbers
    """
    try:
        array = np.asarray(rewards)
        if array.dtype.kind not in "biuf":
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the environment's rewards are no numbers ({error}): {rewards!r:.100}") from error
    if array.size != n_envs:
        raise ValueError(
            f"the environment's rewards have shape {array.shape}; one number is needed for each of the "
            f"{n_envs} environments"
        )
    array = array.reshape(n_envs)
    check_numbers("the environment's rewards", array, step)
    return np.array(array, dtype=np.float32)


def take_dones(dones: Any, n_envs: int) -> np.ndarray[Any, Any]:
    """Return the ends of episodes (n_envs,) as bools.

    :raises ValueError: if they are no ``n_envs`` flags
    """
    array = np.array(dones, dtype=bool)
    if array.size != n_envs:
        raise ValueError(
            f"the environment's dones have shape {array.shape}; one flag is needed for each of the "
            f"{n_envs} environments"
        )
    return array.reshape(n_envs)
