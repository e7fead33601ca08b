"""What a random policy reaches, measured: ``python -m envs.gyms.measure [episodes] [part of an id ...]``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from envs.gyms.registration import IDS, make


def random_returns(env_id: str, episodes: int, seed: int = 0) -> NDArray[np.float64]:
    """Returns (episodes,) of uniformly random actions.

    Raises:
        ValueError: fewer than one episode, or an unknown id.
    """
    if episodes < 1:
        raise ValueError(f"episodes={episodes}: must be at least 1")
    env = make(env_id, disable_env_checker=True)
    env.action_space.seed(seed + 2**20)  # not the numbers that the environment draws
    returns = np.zeros(episodes)
    for episode in range(episodes):
        env.reset(seed=seed if episode == 0 else None)
        ended = False
        while not ended:
            _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
            returns[episode] += float(reward)
            ended = terminated or truncated
    env.close()
    return returns


def main(arguments: Sequence[str]) -> None:
    """Print the mean and its standard error for each id that contains one of the parts, or for all."""
    episodes = int(arguments[0]) if arguments else 200
    parts = list(arguments[1:]) or [""]
    for env_id in IDS:
        if any(part in env_id for part in parts):
            returns = random_returns(env_id, episodes)
            error = returns.std() / np.sqrt(episodes)
            print(f"{env_id:45} {returns.mean():7.3f} ± {error:.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
