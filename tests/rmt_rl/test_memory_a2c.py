"""MemoryA2C is SB3's A2C with a memory: the same updates, on what was acted, with gradients through it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch as th
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from rmt_rl import CORES, MemoryA2C, MemoryCore, MemoryPPO
from tests.rmt_rl.test_memory_ppo import replay_errors, worlds
from tests.rmt_rl.test_predict import assert_same, observations, sharp, stack
from tests.rmt_rl.worlds import CORE_KWARGS, POLICIES


class NoState(NamedTuple):
    """Nothing, of B rows."""

    empty: th.Tensor


class Wire(MemoryCore[NoState]):
    """No memory and no parameters: what goes in comes out."""

    def __init__(self, input_dim: int) -> None:
        super().__init__(input_dim, input_dim)

    def initial_state(self, batch_size: int) -> NoState:
        return NoState(th.zeros(batch_size, 0))

    def forward(
        self, inputs: th.Tensor, state: NoState, episode_starts: th.Tensor
    ) -> tuple[th.Tensor, NoState]:
        return inputs, state


def build(env: VecEnv, core: str = "rmt", policy: str = "MlpPolicy", **kwargs: Any) -> MemoryA2C:
    policy_kwargs = dict(core=core, core_kwargs=CORE_KWARGS[core], net_arch=[8]) | kwargs.pop(
        "policy_kwargs", {}
    )
    return MemoryA2C(policy, env, policy_kwargs=policy_kwargs, **(dict(n_steps=12, seed=0) | kwargs))


@pytest.mark.parametrize("action", ["discrete", "box"])
@pytest.mark.parametrize(
    ("ours", "theirs", "options"),
    [
        (MemoryA2C, A2C, dict(n_steps=6)),
        (MemoryA2C, A2C, dict(n_steps=6, use_rms_prop=False, normalize_advantage=True, gae_lambda=0.9)),
        (MemoryPPO, PPO, dict(n_steps=12, batch_size=36, learning_rate=3e-3, clip_range_vf=0.2)),
    ],
)
def test_without_a_memory_it_is_sb3s(ours: Any, theirs: Any, options: dict[str, Any], action: str) -> None:
    """Step for step, truncated episodes included: the same weights after four updates."""
    trained = []
    # The whole rollout at once: minibatches would be drawn in another order.
    for algorithm, policy_kwargs, more in (
        (theirs, {}, {}),
        (ours, dict(core=Wire), dict(sequence_length=6)),
    ):
        policy_kwargs = dict(net_arch=[8]) | policy_kwargs
        model = algorithm(
            "MlpPolicy", worlds(action=action), seed=0, policy_kwargs=policy_kwargs, **options, **more
        )
        model.learn(4 * model.n_steps * model.n_envs)
        trained.append(dict(model.policy.named_parameters()))
    reference, parameters = trained
    assert reference.keys() == parameters.keys()
    for name, parameter in parameters.items():
        th.testing.assert_close(parameter, reference[name], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("sequence_length", [4, None])
def test_training_replays_acting(core: str, sequence_length: int | None) -> None:
    model = build(worlds(), core, sequence_length=sequence_length)
    before = model.policy.parameters_to_vector()
    assert max(replay_errors(model, 5)) < 1e-5  # type: ignore[arg-type]
    assert np.abs(model.policy.parameters_to_vector() - before).max() > 1e-3


@pytest.mark.parametrize("observation", ["image", "dict"])
@pytest.mark.parametrize("action", ["multi_discrete", "multi_binary", "box"])
def test_spaces(observation: str, action: str) -> None:
    model = build(worlds(2, observation=observation, action=action), policy=POLICIES[observation])
    assert max(replay_errors(model, 2)) < 1e-4  # type: ignore[arg-type]


def test_an_update_is_one_step_on_the_whole_rollout() -> None:
    model = build(worlds(), sequence_length=6)
    steps: list[int] = []
    evaluate, step = model.policy.evaluate_actions, model.policy.optimizer.step
    model.policy.evaluate_actions = lambda obs, actions: (steps.append(len(actions)), evaluate(obs, actions))[  # type: ignore[method-assign]
        1
    ]
    model.policy.optimizer.step = lambda *args: (steps.append(-1), step(*args))[1]  # type: ignore[method-assign]
    model.learn(2 * 36)
    # Of each update the replay check, the loss, and the step.
    assert steps == [36, 36, -1] * 2


def test_gradients_reach_back_as_far_as_a_sequence() -> None:
    """A loss of an environment's last step: which of its observations does it depend on?"""
    for sequence_length, reached in ((None, range(12)), (4, range(8, 12))):
        model = build(worlds(1, length=(1000, 1000)), "gru", sequence_length=sequence_length)
        assert model.sequence_length == len(reached)
        model.learn(12)
        (data,) = model.rollout_buffer.sequences(np.arange(12 // len(reached)))
        seen = data.observations.observations.requires_grad_()  # type: ignore[union-attr]
        values, _, _ = model.policy.evaluate_actions(data.observations, data.actions.long().flatten())  # type: ignore[arg-type]
        (gradient,) = th.autograd.grad(values[-1], seen)
        assert gradient.abs().sum(1).nonzero().flatten().tolist() == list(reached)


def test_the_optimizer_is_a2cs() -> None:
    def settings_of(**kwargs: Any) -> tuple[type[th.optim.Optimizer], dict[str, Any]]:
        optimizer = build(worlds(), **kwargs).policy.optimizer
        group = optimizer.param_groups[0]
        return type(optimizer), {name: group.get(name) for name in ("lr", "eps", "alpha", "fused")}

    rms = dict(lr=7e-4, eps=1e-5, alpha=0.99, fused=None)
    assert settings_of() == (th.optim.RMSprop, rms)
    assert settings_of(rms_prop_eps=1e-3) == (th.optim.RMSprop, rms | dict(eps=1e-3))
    adam = dict(lr=1e-3, eps=1e-5, alpha=None, fused=True)
    assert settings_of(use_rms_prop=False, learning_rate=1e-3) == (th.optim.Adam, adam)
    chosen = dict(optimizer_class=th.optim.AdamW)
    assert settings_of(policy_kwargs=chosen)[0] is th.optim.AdamW


def test_save_load_set_env_and_continue(tmp_path: Path) -> None:
    model = build(worlds(), sequence_length=6, vf_coef=0.3)
    model.learn(72)
    model.save(tmp_path / "agent")
    loaded = MemoryA2C.load(tmp_path / "agent")
    assert (loaded.n_steps, loaded.sequence_length, loaded.vf_coef, loaded._memory) == (12, 6, 0.3, None)
    assert type(loaded.policy.optimizer) is th.optim.RMSprop
    obs = worlds().reset()
    state = other = None
    for _ in range(9):
        actions, state = model.predict(obs, state, deterministic=True)
        again, other = loaded.predict(obs, other, deterministic=True)
        np.testing.assert_array_equal(actions, again)
    loaded.set_env(worlds())
    loaded.learn(36, reset_num_timesteps=False)
    assert loaded.num_timesteps == 72 + 36


def test_warm_up_equals_stepping() -> None:
    env = worlds(length=(1000, 1000))
    model = sharp(build(env))  # type: ignore[arg-type]
    seen, state = observations(env, 7), None
    for obs in seen:
        _, state = model.predict(obs, state)
    assert_same(model.warm_up(stack(seen)), state)  # type: ignore[arg-type]


def test_callbacks_vecnormalize_and_tensorboard(tmp_path: Path) -> None:
    env = VecNormalize(worlds())
    evaluation = VecNormalize(worlds(), training=False)
    callback = EvalCallback(
        evaluation, n_eval_episodes=3, eval_freq=12, log_path=str(tmp_path), verbose=0, warn=False
    )
    model = build(env, tensorboard_log=str(tmp_path / "tb"))
    model.learn(2 * 36, callback=callback, log_interval=1)
    assert np.load(tmp_path / "evaluations.npz")["results"].shape == (2, 3)
    assert list((tmp_path / "tb" / "MemoryA2C_1").glob("events*"))
    assert model.logger.name_to_value["train/replay_error"] < 1e-5
    assert len(evaluate_policy(model, evaluation, 3, warn=False, return_episode_rewards=True)[0]) == 3  # type: ignore[arg-type]


def test_default_lengths() -> None:
    model = MemoryA2C("MlpPolicy", "CartPole-v1")
    assert model.n_steps == model.sequence_length == model.rollout_buffer.sequence_length == 32
    assert MemoryA2C("MlpPolicy", "CartPole-v1", n_steps=7).sequence_length == 7


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (dict(sequence_length=5), "sequence_length=5 does not divide n_steps=12.*3, 4, 6"),
        (dict(sequence_length=0), "sequence_length must be at least 1, got 0"),
        (dict(n_steps=0), "n_steps must be at least 1, got 0"),
    ],
)
def test_lengths(lengths: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(worlds(), **lengths)
