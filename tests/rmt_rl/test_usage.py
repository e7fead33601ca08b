"""What is passed by habit from elsewhere is answered with what would do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv

from rmt_rl import MemoryA2C, MemoryActorCriticPolicy, MemoryPPO
from tests.rmt_rl.test_memory_ppo import build, worlds
from tests.rmt_rl.worlds import Noise

ALGORITHMS = pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
SMALL = dict(core="gru", core_kwargs=dict(width=4))


@ALGORITHMS
@pytest.mark.parametrize(
    ("env", "message"),
    [
        ([Noise(), Noise()], r"env must be an environment, .*make_vec_env.*got a list of 2"),
        ((Noise().reset()), "got a tuple of 2"),
        (Noise, r"got the class Noise: pass an instance, env=Noise\(\)"),
        (gym.make_vec("CartPole-v1", num_envs=2), "VectorEnv, a vector of Gymnasium: .*make_vec_env"),
        (lambda: Noise(), r"got <function .*call it, or pass DummyVecEnv\(\[it\]\)"),
        (gym.spec("CartPole-v1"), "got EnvSpec"),
        (None, "got None"),
    ],
    ids=["list", "tuple", "class", "make_vec", "function", "spec", "none"],
)
def test_what_is_no_environment(algorithm: Any, env: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        algorithm("MlpPolicy", env, policy_kwargs=SMALL)
    if env is not None:
        with pytest.raises(TypeError, match=message):
            build(worlds()).set_env(env)


@ALGORITHMS
@pytest.mark.parametrize(
    ("policy", "error", "message"),
    [
        (
            "MlpLstmPolicy",
            ValueError,
            r"'MlpLstmPolicy' is unknown.*'MlpPolicy' with policy_kwargs=dict\(core='lstm'",
        ),
        ("CnnLstmPolicy", ValueError, "'CnnPolicy' with policy_kwargs"),
        ("MultiInputLstmPolicy", ValueError, "'MultiInputPolicy' with policy_kwargs"),
        (
            "mlppolicy",
            ValueError,
            "there are MlpPolicy, CnnPolicy, MultiInputPolicy.*Did you mean 'MlpPolicy'",
        ),
        (RecurrentActorCriticPolicy, TypeError, r"got RecurrentActorCriticPolicy \(pass \"MlpPolicy\" with"),
        (None, TypeError, "must be a MemoryActorCriticPolicy, got None"),
    ],
)
def test_what_is_no_policy(algorithm: Any, policy: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        algorithm(policy, Noise())


OF_LSTM = [
    (dict(lstm_hidden_size=64), r"'lstm_hidden_size': .*core='lstm', core_kwargs=dict\(width=64\)"),
    (dict(n_lstm_layers=2), r"'n_lstm_layers': .*core_kwargs=dict\(layers=2\)"),
    (dict(shared_lstm=True), r"'shared_lstm': policy_kwargs=dict\(share_memory=True\)"),
    (dict(enable_critic_lstm=True), r"'enable_critic_lstm': .*share_memory=False"),
    (dict(lstm_kwargs=dict(dropout=0.5)), r"'lstm_kwargs': .*dropout"),
]


@ALGORITHMS
@pytest.mark.parametrize(
    ("options", "message"),
    [
        *OF_LSTM,
        (dict(width=64), r"'width': an option of the memory core, core_kwargs=dict\(width=64\)"),
        (
            dict(core="xl", memory_length=16),
            r"'memory_length': an option of the memory core, core_kwargs=dict\(memory_length=16\)",
        ),
        (dict(net_arc=[8]), "'net_arc': did you mean 'net_arch'"),
        (dict(core_kwarg={}), "'core_kwarg': did you mean 'core_kwargs'"),
    ],
    ids=str,
)
def test_options_that_a_policy_has_not(algorithm: Any, options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        algorithm("MlpPolicy", Noise(), policy_kwargs=options)
    with pytest.raises(TypeError, match=message):
        MemoryActorCriticPolicy(Noise().observation_space, Noise().action_space, lambda _: 0.0, **options)


@ALGORITHMS
@pytest.mark.parametrize(
    ("options", "message"),
    [
        *OF_LSTM,
        (dict(core="gru"), r"'core': an option of the policy, policy_kwargs=dict\(core='gru'\)"),
        (
            dict(core_kwargs=dict(width=4)),
            r"'core_kwargs': an option of the policy, policy_kwargs=dict\(core_kwargs",
        ),
        (dict(share_memory=False), r"policy_kwargs=dict\(share_memory=False\)"),
        (dict(net_arch=[8]), r"policy_kwargs=dict\(net_arch=\[8\]\)"),
        (
            dict(segment_length=8),
            r"'segment_length': an option of a memory core, policy_kwargs=dict\(core_kwargs",
        ),
        (dict(gama=0.9), "'gama': did you mean 'gamma'"),
        (dict(sequence_lenght=8), "did you mean 'sequence_length'"),
    ],
    ids=str,
)
def test_options_that_an_algorithm_has_not(algorithm: Any, options: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        algorithm("MlpPolicy", Noise(), **options)


def test_a_policy_of_ones_own_keeps_its_own_options() -> None:
    class Mine(MemoryActorCriticPolicy):
        def __init__(self, *args: Any, mine: int = 0, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.mine = mine

    model = MemoryPPO(Mine, Noise(), policy_kwargs=dict(mine=3, **SMALL))
    assert model.policy.mine == 3


@ALGORITHMS
@pytest.mark.parametrize("kind", ["id", "environment", "vector"])
def test_files_are_loaded_with_every_kind_of_environment(algorithm: Any, kind: str, tmp_path: Path) -> None:
    env: Any = {"id": "CartPole-v1", "environment": gym.make("CartPole-v1")}.get(kind)
    env = make_vec_env("CartPole-v1", n_envs=2) if env is None else env
    batch = dict(batch_size=8, n_epochs=1) if algorithm is MemoryPPO else {}
    model = algorithm("MlpPolicy", env, n_steps=8, sequence_length=8, policy_kwargs=SMALL, **batch)
    model.save(tmp_path / "agent")
    model.save_weights(tmp_path / "weights")
    obs = np.zeros((1, 4), np.float32)
    for loaded in (
        algorithm.load(tmp_path / "agent", env),
        algorithm.load_weights(tmp_path / "weights", env),
    ):
        assert isinstance(loaded.env, VecEnv) and loaded.n_envs == (2 if kind == "vector" else 1)
        loaded.learn(16)
        loaded.set_env(env)
        assert loaded.predict(obs)[0].shape == (1,)
    with pytest.raises(TypeError, match="got the class Noise"):
        algorithm.load_weights(tmp_path / "weights", Noise)
    with pytest.raises((TypeError, ValueError), match="got the class Noise"):
        algorithm.load(tmp_path / "agent", Noise)
