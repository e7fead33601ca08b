"""``copy.deepcopy`` of an agent: the same agent, which shares nothing with the first."""

from __future__ import annotations

import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecMonitor, VecNormalize
from torch import nn

from rmt_rl import MemoryA2C, MemoryActorCriticPolicy, MemoryPPO
from rmt_rl.health import Health
from tests.rmt_rl.test_memory_ppo import build, replay_errors
from tests.rmt_rl.worlds import CORE_KWARGS, Masked, Noise


def parameters(model: Any) -> Any:
    return model.policy.parameters_to_vector()


def separate(count: int = 2, **kwargs: Any) -> DummyVecEnv:
    """Environments that share no space, as those of ``worlds`` do, and with it its random numbers."""

    def make(seed: int) -> Noise:
        env = Noise(seed=seed, **kwargs)
        env.observation_space = deepcopy(env.observation_space)
        return env

    return DummyVecEnv([lambda seed=seed: make(seed) for seed in range(count)])


@pytest.mark.parametrize(
    ("action", "algorithm"),
    [("discrete", MemoryA2C), ("multi_discrete", MemoryPPO), ("multi_binary", MemoryA2C), ("box", MemoryPPO)],
)
def test_a_copy_goes_on_as_the_first_would(action: str, algorithm: Any) -> None:
    batch = dict(batch_size=12) if algorithm is MemoryPPO else {}
    model = algorithm(
        "MlpPolicy", VecMonitor(VecNormalize(separate(action=action))), n_steps=12, sequence_length=6,
        policy_kwargs=dict(core="rmt", core_kwargs=CORE_KWARGS["rmt"]), seed=0, **batch,
    )  # fmt: skip
    model.learn(48)
    twin = deepcopy(model)
    assert twin.get_env() is not model.get_env()
    assert twin.get_vec_normalize_env() is twin.get_env().venv is not model.get_vec_normalize_env()
    before = parameters(model)
    th.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002 - SB3's buffers draw from it
    twin.learn(48, reset_num_timesteps=False)
    np.testing.assert_array_equal(parameters(model), before)
    assert model.num_timesteps == 48 and twin.num_timesteps == 96
    th.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    model.learn(48, reset_num_timesteps=False)
    np.testing.assert_array_equal(parameters(model), parameters(twin))
    assert (parameters(model) != before).any()


@pytest.mark.parametrize("options", [dict(use_sde=True), dict(policy_kwargs=dict(share_memory=False))])
def test_copies_of_other_agents(options: dict[str, Any]) -> None:
    model = build(separate(action="box"), **options).learn(24)
    twin = deepcopy(model)
    obs = np.zeros((2, 3), np.float32)
    expected, state = model.predict(obs, deterministic=True)
    actions, _ = twin.predict(obs, state, deterministic=True)
    assert actions.shape == expected.shape
    np.testing.assert_array_equal(twin.predict(obs, deterministic=True)[0], expected)
    assert max(replay_errors(twin, 2)) < 1e-5


def test_a_copy_with_open_logs_and_masks(tmp_path: Path) -> None:
    model = build(DummyVecEnv([Masked]), verbose=0)
    model.set_logger(configure(str(tmp_path), ["csv", "log"]))
    model.learn(24)
    twin = deepcopy(model)
    twin.learn(24)
    assert twin.use_masking


def test_a_copy_from_within_a_callback() -> None:
    copies: list[MemoryPPO] = []

    class Keep(BaseCallback):
        def _on_step(self) -> bool:
            if self.n_calls == 18:  # in the second rollout
                copies.append(deepcopy(self.model))  # type: ignore[arg-type]
            return True

    model = build(separate())
    model.learn(72, callback=[Keep(), Health()])
    assert not any(p._post_accumulate_grad_hooks for p in copies[0].policy.parameters())
    copies[0].learn(24)
    assert not copies[0]._callbacks


def test_environments_that_cannot_be_copied_are_left_out() -> None:
    env = SubprocVecEnv([Noise, Noise], start_method="fork")
    model = build(env).learn(24)
    with pytest.warns(UserWarning, match="no environments.*set_env"):
        twin = deepcopy(model)
    assert twin.get_env() is None
    twin.set_env(separate())
    twin.learn(24, reset_num_timesteps=False)
    assert twin.num_timesteps == 48
    env.close()


def test_a_policy_is_copied_and_pickled_after_an_update() -> None:
    policy = build(separate()).learn(24).policy
    obs = np.zeros((2, 3), np.float32)
    for twin in (deepcopy(policy), pickle.loads(pickle.dumps(policy))):
        both = [
            one.predict(obs, episode_start=np.ones(2, bool), deterministic=True) for one in (twin, policy)
        ]
        np.testing.assert_array_equal(both[0][0], both[1][0])


# -- parts of one's own, and where the policy lies


def test_a_value_net_of_ones_own_meets_a_time_limit() -> None:
    class Own(MemoryActorCriticPolicy):
        def _build(self, lr_schedule: Any) -> None:
            super()._build(lr_schedule)
            self.value_net = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))
            self.optimizer = self.optimizer_class(self.parameters(), lr=lr_schedule(1))

    policy_kwargs = dict(core="rmt", core_kwargs=CORE_KWARGS["rmt"], net_arch=[8])
    env = separate(length=(3, 3), truncates=1.0)
    model = MemoryPPO(
        Own, env, n_steps=12, sequence_length=6, batch_size=12, policy_kwargs=policy_kwargs, device="cpu"
    )
    assert max(replay_errors(model, 2)) < 1e-5
    assert model.policy.device == th.device("cpu")


@pytest.mark.parametrize("core", ["rmt", "gru", "none"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quantized(core: str) -> None:
    """Linear maps as int8, for acting on small machines."""
    policy = build(separate(), core=core).policy
    small = th.ao.quantization.quantize_dynamic(policy, {nn.Linear}, dtype=th.qint8)
    obs, state = np.zeros((2, 3), np.float32), None
    for _ in range(5):
        actions, state = small.predict(obs, state=state)
        assert actions.shape == (2,)
    assert small.device == th.device("cpu")
