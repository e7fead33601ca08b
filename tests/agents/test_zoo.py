"""What rl_zoo3 gets from us: tasks, hyperparameters and what optuna draws."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import optuna
import pytest
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER, HYPERPARAMS_SAMPLER
from rl_zoo3.utils import ALGOS
from stable_baselines3.common.env_util import make_vec_env

from agents.recipes import RECIPES
from agents.training import build_model
from agents.zoo import ALGORITHMS, env_id, hyperparameters_file, make_recipe_env, register
from agents.zoo.hyperparameters import from_recipes


@pytest.fixture(autouse=True)
def registered() -> None:
    register()


def test_register_adds_ours_and_keeps_theirs() -> None:
    register()
    assert ALGOS.items() >= ALGORITHMS.items()
    assert "ppo_lstm" in ALGOS
    assert ALGORITHMS.keys() <= HYPERPARAMS_SAMPLER.keys() & HYPERPARAMS_CONVERTER.keys()


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_gives_the_same_model_as_here(name: str) -> None:
    arguments: dict[str, Any] = from_recipes()[env_id(name)]
    env = make_vec_env(env_id(name), n_envs=RECIPES[name].n_envs)
    theirs = ALGORITHMS["memory_ppo"](
        env=env,
        device="cpu",
        **{
            key: arguments[key]
            for key in arguments.keys() - {"n_timesteps", "n_envs", "callback", "learning_rate"}
        },
    )
    ours = build_model(RECIPES[name], env, "cpu")
    assert str(theirs.policy) == str(ours.policy)
    for field in ("n_steps", "batch_size", "sequence_length", "n_epochs", "gamma", "gae_lambda", "ent_coef"):
        assert getattr(theirs, field) == getattr(ours, field)
    for field in ("vf_coef", "max_grad_norm", "target_kl", "normalize_advantage", "policy_kwargs"):
        assert getattr(theirs, field) == getattr(ours, field)
    assert float(arguments["learning_rate"].removeprefix("lin_")) == RECIPES[name].learning_rate


def test_a_task_is_at_the_last_level() -> None:
    env = gym.make(env_id("memorize"))
    env.reset(seed=0)
    _, _, _, truncated, info = env.step(env.action_space.sample())
    steps = 1
    while not truncated and "is_success" not in info:
        *_, truncated, info = env.step(env.action_space.sample())
        steps += 1
    low, high = RECIPES["memorize"].levels[-1]
    assert low + 2 <= steps <= high + 2


def test_whatever_is_drawn_fits() -> None:
    """Lengths fit each other, and a trial that is loaded gives what it gave when it was drawn."""
    for name, algorithm in ALGORITHMS.items():
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        env = make_vec_env("CartPole-v1", n_envs=3)
        for _ in range(40):
            trial = study.ask()
            arguments = HYPERPARAMS_SAMPLER[name](trial, 0, 3, {})
            assert arguments == HYPERPARAMS_CONVERTER[name](trial.params)
            assert "policy_kwargs" not in arguments
            algorithm("MlpPolicy", env, device="cpu", policy_kwargs=dict(core="none"), **arguments)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match=r"memory_ppo, memory_a2c, got 'ppo'"):
        hyperparameters_file("ppo")
    with pytest.raises(ValueError, match="unknown recipe 'memorise'"):
        make_recipe_env("memorise")
