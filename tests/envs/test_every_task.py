"""An agent trains on every task that there is, without an error and without a warning."""

from __future__ import annotations

import warnings

import pytest
from gymnasium import spaces

from agents.environments import make_vec
from envs.catalogue import TaskInfo, tasks
from rmt_rl import MemoryPPO
from rmt_rl.features import IdEmbeddingExtractor

CORES = ("gru", "rmt", "xl", "rmt_xl", "armt", "lstm")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "task"), list(enumerate(tasks())), ids=lambda value: getattr(value, "env_id", "")
)
def test_an_agent_trains(number: int, task: TaskInfo) -> None:
    """The cores take turns."""
    env = make_vec(task.env_id, 8, seed=0)
    is_minigrid = task.env_id.startswith("envs.minigrid:")
    extractor = dict(features_extractor_class=IdEmbeddingExtractor) if is_minigrid else {}
    space = env.observation_space
    vector_or_picture = "CnnPolicy" if len(space.shape or ()) == 3 else "MlpPolicy"
    policy = "MultiInputPolicy" if isinstance(space, spaces.Dict) else vector_or_picture
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MemoryPPO(
            policy, env, n_steps=128, batch_size=512, sequence_length=64, n_epochs=2, seed=0, device="cpu",
            policy_kwargs=dict(core=CORES[number % len(CORES)], **extractor),
        )  # fmt: skip
        model.learn(20_000)
    env.close()
    assert model.num_timesteps >= 20_000
    assert model.logger.name_to_value["train/replay_error"] < 1e-3
