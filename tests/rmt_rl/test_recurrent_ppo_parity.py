"""What users of sb3-contrib's RecurrentPPO are used to, with each of these cores instead of its LSTM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from rmt_rl import MemoryPPO
from rmt_rl.schedules import HoldThenLinear
from tests.rmt_rl.test_memory_ppo import build, replay_errors, worlds
from tests.rmt_rl.test_predict import observations, sharp
from tests.rmt_rl.worlds import CORE_KWARGS, POLICIES

every_core = pytest.mark.parametrize("core", ["gru", "lstm", "xl", "rmt"])
SHARING: dict[str, dict[str, Any]] = {
    "one memory": {},
    "the actor's memory": dict(critic_shapes_memory=False),
    "a memory each": dict(share_memory=False),
    "an extractor each": dict(share_memory=False, share_features_extractor=False),
}


@every_core
@pytest.mark.parametrize("observation", ["image", "dict"])
@pytest.mark.parametrize("sharing", SHARING)
def test_sharing(core: str, observation: str, sharing: str) -> None:
    """Of the critic's loss and the actor's, each moves what is its own and what they share."""
    features = dict(features_extractor_kwargs=dict(features_dim=8)) if observation == "image" else {}
    model = build(
        worlds(2, observation=observation),
        POLICIES.get(observation, "MlpPolicy"),
        core,
        policy_kwargs=SHARING[sharing] | features,
        n_epochs=1,
    )
    assert max(replay_errors(model, 2)) < 1e-5
    policy = model.policy
    (data,) = model.rollout_buffer.sequences(np.arange(4))
    values, log_prob, _ = policy.evaluate_actions(data.observations, data.actions.long().flatten())  # type: ignore[arg-type]
    moved = []
    for loss in (log_prob.sum(), values.sum()):
        policy.zero_grad()
        loss.backward(retain_graph=True)
        moved.append(
            {name for name, p in policy.named_parameters() if p.grad is not None and p.grad.abs().max() > 0}
        )
    actors, critics = moved
    assert actors | critics == {name for name, _ in policy.named_parameters()}
    both = {name.split(".")[0] for name in actors & critics}
    extractor = {"features_extractor"} if observation == "image" else set()
    expected = {"one memory": {"core"} | extractor, "a memory each": extractor}.get(sharing, set())
    assert both == expected


@every_core
def test_dropout_is_of_training_alone(core: str) -> None:
    kwargs = CORE_KWARGS[core] | dict(layers=2, dropout=0.5)
    model = build(worlds(), core=core, policy_kwargs=dict(core_kwargs=kwargs))
    assert max(replay_errors(model, 2)) < 1e-5
    (data,) = model.rollout_buffer.sequences(np.arange(6))
    actions = data.actions.long().flatten()
    for mode, alike in ((False, True), (True, False)):
        model.policy.set_training_mode(mode)
        first, second = (model.policy.evaluate_actions(data.observations, actions)[0] for _ in range(2))  # type: ignore[arg-type]
        assert th.equal(first, second) is alike


@every_core
@pytest.mark.parametrize(("action", "squash"), [("box", True), ("matrix", False)])
def test_gsde(core: str, action: str, squash: bool) -> None:
    """Noise is a function of what the actor's head sees, drawn anew every 4 steps, and off when asked."""
    env = worlds(action=action, length=(1000, 1000))
    model = build(
        env,
        core=core,
        use_sde=True,
        sde_sample_freq=4,
        clip_range_vf=0.1,
        policy_kwargs=dict(squash_output=squash),
    )
    drawn: list[int] = []
    draw = model.policy.reset_noise
    model.policy.reset_noise = lambda n=1: (drawn.append(n), draw(n))[1]  # type: ignore[method-assign]
    model.learn(36)
    # At the start of the rollout and at its steps 0, 4 and 8.
    assert drawn[:4] == [3] * 4
    del model.policy.reset_noise
    assert max(replay_errors(model, 2)) < 1e-5
    obs = env.reset()
    actions = [model.predict(obs, None, np.ones(3, bool), deterministic=True)[0] for _ in range(2)]
    np.testing.assert_array_equal(*actions)
    assert actions[0].shape == (3, *env.action_space.shape)  # type: ignore[misc]
    assert all(env.action_space.contains(action) for action in actions[0])


@every_core
@pytest.mark.parametrize("action", ["multi_discrete", "multi_binary", "matrix"])
def test_actions_of_several_dimensions(core: str, action: str) -> None:
    env = worlds(action=action)
    model = build(env, core=core)
    assert max(replay_errors(model, 2)) < 1e-5
    assert model.rollout_buffer.actions.shape[-1] == np.prod(env.action_space.shape)  # type: ignore[arg-type]
    actions, _ = model.predict(env.reset())
    assert actions.shape == (3, *env.action_space.shape)  # type: ignore[misc]


@every_core
def test_schedules(core: str) -> None:
    """Learning rate and clip ranges follow the progress, at every update."""
    falls = HoldThenLinear(0.3, 0.0)
    model = build(worlds(), core=core, learning_rate=falls, clip_range=falls, clip_range_vf=falls)
    seen: list[tuple[float, ...]] = []
    train = model.train

    def record() -> None:
        train()
        values = model.logger.name_to_value
        names = ("train/learning_rate", "train/clip_range", "train/clip_range_vf")
        seen.append((model.policy.optimizer.param_groups[0]["lr"], *(values[name] for name in names)))

    model.train = record  # type: ignore[method-assign]
    model.learn(4 * 36)
    np.testing.assert_allclose(seen, [[0.3 * left] * 4 for left in (0.75, 0.5, 0.25, 0.0)], atol=1e-9)


@every_core
def test_target_kl_ends_an_update(core: str) -> None:
    model = build(worlds(), core=core, n_epochs=8, learning_rate=1e-2, target_kl=1e-4).learn(36)
    assert model._n_updates < 8
    assert build(worlds(), core=core, n_epochs=8, learning_rate=1e-2).learn(36)._n_updates == 8


@every_core
def test_a_new_environment_begins_with_an_empty_memory(core: str) -> None:
    model = build(worlds(length=(1000, 1000)), core=core).learn(36)
    model.set_env(worlds(length=(1000, 1000)))
    model.learn(36, reset_num_timesteps=False)
    (data,) = model.rollout_buffer.sequences(np.array([0, 2, 4]))
    assert data.observations.episode_starts[:, 0].all()  # type: ignore[union-attr]
    assert max(replay_errors(model, 1)) < 1e-5


@every_core
def test_predict_for_several_environments(core: str) -> None:
    """Each row as if alone; where an episode starts, as if there had been nothing before."""
    env = worlds(length=(1000, 1000))
    model = sharp(build(env, core=core))
    seen = observations(env, 9)
    starts = np.zeros((9, 3), bool)
    starts[0] = starts[4, 1] = starts[6, 2] = True
    together, state = [], None
    for obs, first in zip(seen, starts, strict=True):
        actions, state = model.predict(obs, state, first, deterministic=True)
        together.append(actions)
    for row in range(3):
        state = None
        for t in range(9):
            if starts[t, row]:
                state = None
            action, state = model.predict(seen[t][row], state, deterministic=True)
            assert action == together[t][row]


class Sights(gym.Env[Any, Any]):
    """The same seven observations in every episode, and the actions, weighed by their step, as rewards."""

    observation_space = spaces.Box(-9, 9, (2,), np.float32)
    action_space = spaces.Box(-99, 99, (1,), np.float32)
    seen = np.random.default_rng(0).uniform(-9, 9, (8, 2)).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.time = 0
        return self.seen[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.time += 1
        return self.seen[self.time], self.time * float(action[0]), self.time == 7, False, {}


@every_core
def test_evaluate_policy_passes_the_memory_on(core: str) -> None:
    model = sharp(build(DummyVecEnv([Sights]), core=core))
    state, expected, forgetful = None, 0.0, 0.0
    for t in range(7):
        action, state = model.predict(Sights.seen[t], state, deterministic=True)
        expected += (t + 1) * action[0]
        forgetful += (t + 1) * model.predict(Sights.seen[t], deterministic=True)[0][0]
    assert abs(expected - forgetful) > 1e-2
    for n_envs in (1, 3):
        env = DummyVecEnv([Sights] * n_envs)
        returns, _ = evaluate_policy(model, env, 5, return_episode_rewards=True, warn=False)
        np.testing.assert_allclose(returns, [expected] * 5, rtol=1e-4)


@every_core
def test_vecnormalize(core: str, tmp_path: Path) -> None:
    """Statistics follow the training into the evaluation, and are found again beside the saved agent."""
    env, evaluation = VecNormalize(worlds()), VecNormalize(worlds(), training=False, norm_reward=False)
    callback = EvalCallback(evaluation, n_eval_episodes=2, eval_freq=12, verbose=0, warn=False)
    model = build(env, core=core)
    model.learn(72, callback=callback)
    assert evaluation.obs_rms.count == pytest.approx(env.obs_rms.count, abs=1)  # type: ignore[union-attr]
    model.save(tmp_path / "agent")
    env.save(str(tmp_path / "statistics"))
    again = VecNormalize.load(str(tmp_path / "statistics"), worlds())
    loaded = MemoryPPO.load(tmp_path / "agent", env=again)
    assert loaded.get_vec_normalize_env() is again
    obs = np.full((3, 3), 0.5, np.float32)
    first, _ = model.predict(env.normalize_obs(obs), deterministic=True)
    second, _ = loaded.predict(again.normalize_obs(obs), deterministic=True)
    np.testing.assert_array_equal(first, second)


def cart_pole_without_velocity() -> gym.Env[Any, Any]:
    env = gym.make("CartPole-v1")
    low, high = env.observation_space.low[[0, 2]], env.observation_space.high[[0, 2]]  # type: ignore[attr-defined]
    return TransformObservation(env, lambda obs: obs[[0, 2]], spaces.Box(low, high))


FALLS = HoldThenLinear(7e-4, 0.0)
# Attention learns less steadily, hence the decay. To attend to the last step, rmt has to find it among the
# slots of its segment: the fewer the better. With segments of 32 it got to 314.
POLE: dict[str, tuple[Any, dict[str, Any]]] = {
    "gru": (7e-4, {}),
    "lstm": (7e-4, {}),
    "xl": (FALLS, {}),
    "rmt": (FALLS, dict(layers=1, segment_length=4, memory_tokens=2)),
}


@pytest.mark.slow
@every_core
def test_balances_a_pole_without_velocity(core: str) -> None:
    """Of 500; what does not remember the last position hardly gets beyond 50."""
    env = VecNormalize(make_vec_env(cart_pole_without_velocity, n_envs=8, seed=0))
    evaluation = VecNormalize(
        make_vec_env(cart_pole_without_velocity, n_envs=4, seed=1000), training=False, norm_reward=False
    )
    callback = EvalCallback(evaluation, n_eval_episodes=20, eval_freq=5000 // env.num_envs, verbose=0)
    learning_rate, core_kwargs = POLE[core]
    model = MemoryPPO(
        "MlpPolicy",
        env,
        learning_rate=learning_rate,
        n_steps=128,
        sequence_length=64,
        batch_size=256,
        n_epochs=10,
        gae_lambda=0.98,
        max_grad_norm=1.0,
        policy_kwargs=dict(
            core=core,
            core_kwargs=core_kwargs,
            share_memory=False,
            net_arch=dict(pi=[], vf=[64]),
            ortho_init=False,
        ),
        seed=0,
    )
    model.learn(50_000, callback=callback)
    assert callback.best_mean_reward >= 450
    assert evaluate_policy(model, evaluation, 20)[0] >= 450
