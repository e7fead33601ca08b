"""MemoryPPO trains on what it acted, on every space, and keeps SB3's interface."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, VecNormalize

from rmt_rl import CORES, MemoryPPO
from tests.rmt_rl.worlds import CORE_KWARGS, POLICIES, Noise

SMALL = dict(n_steps=12, sequence_length=6, batch_size=12, n_epochs=2, seed=0)


def worlds(count: int = 3, **kwargs: Any) -> VecEnv:
    return DummyVecEnv([lambda seed=seed: Noise(seed=seed, **kwargs) for seed in range(count)])


def build(env: VecEnv, policy: str = "MlpPolicy", core: str = "rmt", **kwargs: Any) -> MemoryPPO:
    policy_kwargs = dict(core=core, core_kwargs=CORE_KWARGS[core], net_arch=[8]) | kwargs.pop(
        "policy_kwargs", {}
    )
    return MemoryPPO(policy, env, policy_kwargs=policy_kwargs, **(SMALL | kwargs))


def replay_errors(model: MemoryPPO, updates: int) -> list[float]:
    """Train, and return ``train/replay_error`` of every update."""
    errors: list[float] = []
    record = model.replay_error
    model.replay_error = lambda: errors.append(record()) or errors[-1]  # type: ignore[method-assign, func-returns-value]
    model.learn(updates * model.n_steps * model.n_envs)
    del model.replay_error
    assert len(errors) == updates
    return errors


def test_every_core_has_a_small_configuration() -> None:
    assert set(CORE_KWARGS) == set(CORES)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("share_memory", [True, False])
def test_training_replays_acting(core: str, share_memory: bool) -> None:
    """Through resets, segment boundaries, rollout boundaries, and updates that leave stale caches behind."""
    model = build(worlds(), core=core, learning_rate=3e-3, policy_kwargs=dict(share_memory=share_memory))
    before = model.policy.parameters_to_vector()
    assert max(replay_errors(model, 5)) < 1e-5
    assert np.abs(model.policy.parameters_to_vector() - before).max() > 1e-3


@pytest.mark.parametrize(
    "observation", ["box", "discrete", "multi_discrete", "multi_binary", "image", "dict"]
)
@pytest.mark.parametrize("action", ["discrete", "multi_discrete", "multi_binary", "box"])
def test_spaces(observation: str, action: str) -> None:
    env = worlds(2, observation=observation, action=action)
    model = build(env, POLICIES.get(observation, "MlpPolicy"))
    assert max(replay_errors(model, 2)) < 1e-4
    obs = env.reset()
    actions, _ = model.predict(obs, episode_start=np.ones(2, bool))
    assert actions.shape == (2, *(env.action_space.shape or ()))
    assert all(env.action_space.contains(a) for a in actions)
    single = {k: v[0] for k, v in obs.items()} if isinstance(obs, dict) else obs[0]
    action_, _ = model.predict(single)
    assert env.action_space.contains(action_ if action != "discrete" else int(action_))


@pytest.mark.parametrize(
    "options", [dict(use_sde=True, sde_sample_freq=4), dict(clip_range_vf=0.2), dict(target_kl=1e-9)]
)
def test_ppo_options(options: dict[str, Any]) -> None:
    model = build(worlds(action="box"), **options)
    assert max(replay_errors(model, 3)) < 1e-5


def test_actor_and_critic_apart() -> None:
    model = build(
        worlds(),
        policy_kwargs=dict(
            share_memory=False, share_features_extractor=False, core="xl", core_kwargs=CORE_KWARGS["xl"]
        ),
    )
    assert max(replay_errors(model, 3)) < 1e-5
    policy = model.policy
    assert policy.critic_core is not None and policy.critic_core is not policy.core
    # A loss of the actor moves nothing of the critic's memory, and the other way round.
    data = next(iter(model.rollout_buffer.sequences(np.arange(3))))
    values, log_prob, _ = policy.evaluate_actions(data.observations, data.actions.long().flatten())  # type: ignore[arg-type]
    for loss, moved, still in (
        (log_prob, policy.core, policy.critic_core),
        (values, policy.critic_core, policy.core),
    ):
        policy.zero_grad()
        loss.sum().backward(retain_graph=True)
        assert all(p.grad is None or not p.grad.any() for p in still.parameters())
        assert any(p.grad is not None and p.grad.any() for p in moved.parameters())


def test_truncation_is_bootstrapped_under_the_memory_of_then() -> None:
    """A cut episode's last stored reward is the reward plus gamma V(whole history, terminal observation)."""

    class Recorder(gym.Wrapper[Any, Any, Any, Any]):
        episodes: list[tuple[list[Any], list[float], bool]] = []

        def reset(self, **kwargs: Any) -> Any:
            obs, info = super().reset(**kwargs)
            self.seen, self.rewards = [obs], []
            return obs, info

        def step(self, action: Any) -> Any:
            obs, reward, terminated, truncated, info = super().step(action)
            self.seen.append(obs)
            self.rewards.append(float(reward))
            if terminated or truncated:
                self.episodes.append((self.seen, self.rewards, truncated))
            return obs, reward, terminated, truncated, info

    # Episodes of 7 steps: more than two segments, two to a rollout of 14.
    env = DummyVecEnv([lambda: Recorder(Noise(length=(7, 7), truncates=0.5, seed=1))])
    model = build(env, n_steps=70, sequence_length=70, batch_size=70, learning_rate=0.0)
    Recorder.episodes.clear()
    model.learn(70)
    assert len(Recorder.episodes) == 10
    cuts = [truncated for _, _, truncated in Recorder.episodes]
    assert any(cuts) and not all(cuts)
    stored = model.rollout_buffer.rewards[:, 0]
    policy = model.policy
    for index, (seen, rewards, truncated) in enumerate(Recorder.episodes):
        expected = np.array(rewards)
        if truncated:
            state = policy.warm_up(np.stack(seen[:-1])[None])
            with th.no_grad():
                terminal = th.as_tensor(seen[-1])[None]
                value = policy.predict_values(terminal, state.states, th.zeros(1, dtype=th.bool))
                fresh = policy.predict_values(terminal, policy.initial_states(1), th.zeros(1, dtype=th.bool))
            assert abs(float(value - fresh)) > 1e-4  # a memoryless bootstrap would not pass
            expected[-1] += model.gamma * value.item()
        np.testing.assert_allclose(stored[index * 7 : index * 7 + 7], expected, atol=1e-5)


def test_save_load_set_env_and_continue(tmp_path: Path) -> None:
    model = build(worlds())
    model.learn(72)
    model.save(tmp_path / "agent")
    obs = worlds().reset()
    loaded = MemoryPPO.load(tmp_path / "agent")
    assert loaded.sequence_length == 6 and loaded._memory is None
    state, other = None, None
    for _ in range(9):
        actions, state = model.predict(obs, state, deterministic=True)
        again, other = loaded.predict(obs, other, deterministic=True)
        np.testing.assert_array_equal(actions, again)
    loaded.set_env(worlds())
    assert max(replay_errors(loaded, 2)) < 1e-5
    loaded.learn(36, reset_num_timesteps=False)
    assert loaded.num_timesteps == 72 + 36


def test_continued_training_keeps_the_memory_between_calls_of_learn() -> None:
    model = build(worlds(length=(1000, 1000)))
    model.learn(36)
    assert model._memory is not None
    position = model._memory[0].position.clone()
    assert (position > 0).all()
    model.learn(36, reset_num_timesteps=False)
    assert max(replay_errors(model, 1)) < 1e-5


def test_sb3_evaluation_vecnormalize_tensorboard_progress_bar(tmp_path: Path) -> None:
    env = VecNormalize(make_vec_env("CartPole-v1", n_envs=2, seed=0))
    model = build(env, tensorboard_log=str(tmp_path / "tb"), n_steps=24)
    evaluation = VecNormalize(make_vec_env("CartPole-v1", n_envs=2, seed=1), training=False)
    callback = EvalCallback(
        evaluation, n_eval_episodes=2, eval_freq=24, best_model_save_path=str(tmp_path), verbose=0
    )
    model.learn(96, callback=callback, progress_bar=True)
    assert (tmp_path / "best_model.zip").exists() and list((tmp_path / "tb").rglob("events*"))
    mean, _ = evaluate_policy(model, evaluation, n_eval_episodes=3)
    assert mean > 0


def test_replay_error_watches_for_what_is_no_function_of_the_history() -> None:
    class Noisy(FlattenExtractor):
        def forward(self, observations: th.Tensor) -> th.Tensor:
            return super().forward(observations) + 0.3 * th.randn(observations.shape[0], 1)

    model = build(worlds(), policy_kwargs=dict(features_extractor_class=Noisy), learning_rate=0.0)
    with th.no_grad():
        model.policy.action_net.weight.normal_()
    with pytest.warns(UserWarning, match="replay_error"):
        model.learn(36)
    assert model.logger.name_to_value["train/replay_error"] > 1e-3


def test_replay_error_of_a_part_is_of_every_sequence_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmt_rl.on_policy.REPLAY_STEPS", 12)  # 2 sequences of 6
    model = build(worlds(), learning_rate=0.0)
    model.learn(36)
    buffer = model.rollout_buffer
    steps, count = buffer.buffer_size * buffer.n_envs, buffer.buffer_size * buffer.n_envs // 6
    assert model.replay_error(whole=True) < 1e-5
    noticed = []
    for wrong in range(count):
        before = buffer.log_probs.copy()
        buffer.log_probs[wrong * 6 + 3] -= 1.0
        assert model.replay_error(whole=True) > 0.5
        found = []
        for update in range(count // 2):
            model.num_timesteps = update * steps
            found.append(model.replay_error() > 0.5)
        noticed.append(sum(found))
        buffer.log_probs[:] = before
    assert noticed == [1] * count


@pytest.mark.parametrize("option", [dict(dropout=0.5), dict(memory_noise=1.0)])
def test_dropout_and_noise_are_off_while_acting(option: dict[str, float]) -> None:
    kwargs = CORE_KWARGS["rmt"] | option
    model = build(worlds(), policy_kwargs=dict(core="rmt", core_kwargs=kwargs))
    assert max(replay_errors(model, 2)) < 1e-5
    obs = worlds().reset()
    starts = np.ones(3, bool)
    first, second = (model.predict(obs, None, starts, deterministic=True)[0] for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_the_optimizer_is_sb3s_in_one_call_unless_told_otherwise() -> None:
    def settings_of(**policy_kwargs: Any) -> tuple[type[th.optim.Optimizer], float, Any]:
        optimizer = build(worlds(), policy_kwargs=policy_kwargs).policy.optimizer
        return type(optimizer), optimizer.param_groups[0].get("eps"), optimizer.param_groups[0].get("fused")

    assert settings_of() == (th.optim.Adam, 1e-5, True)
    assert settings_of(optimizer_kwargs={}) == (th.optim.Adam, 1e-8, None)
    assert settings_of(optimizer_kwargs=dict(eps=1e-3)) == (th.optim.Adam, 1e-3, None)
    assert settings_of(optimizer_class=th.optim.AdamW) == (th.optim.AdamW, 1e-8, None)
