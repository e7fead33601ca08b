"""Whatever agent hypothesis comes up with learns on what it acted and is the same once loaded."""

from __future__ import annotations

import io
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecNormalize
from torch import nn

from rmt_rl import MemoryA2C, MemoryPPO
from rmt_rl.masking import get_action_masks
from rmt_rl.schedules import HoldThenLinear
from tests.rmt_rl.test_core_combinations import cores
from tests.rmt_rl.test_memory_ppo import replay_errors
from tests.rmt_rl.worlds import ACTIONS, OBSERVATIONS, POLICIES, Masked, Noise

N_STEPS = 12
Drawn = dict[str, Any]


@st.composite
def agents(draw: st.DrawFn) -> Drawn:
    """Arguments of everything: environments, policy, algorithm."""
    any_bool = st.booleans()
    observation, action = draw(st.sampled_from(sorted(OBSERVATIONS))), draw(st.sampled_from(sorted(ACTIONS)))
    is_box = action in ("box", "matrix")
    core, core_kwargs = draw(cores())
    policy: Drawn = dict(
        core=core,
        core_kwargs=core_kwargs,
        share_memory=draw(any_bool),
        critic_shapes_memory=draw(any_bool),
        net_arch=draw(st.sampled_from([[], [5], dict(pi=[], vf=[4]), dict(pi=[6, 5], vf=[])])),
        activation_fn=draw(st.sampled_from([nn.Tanh, nn.ReLU])),
        ortho_init=draw(any_bool),
    )
    if not policy["share_memory"]:
        policy["share_features_extractor"] = draw(any_bool)
    if "image" in observation:
        width = "features_dim" if observation == "image" else "cnn_output_dim"
        policy["features_extractor_kwargs"] = {width: 7}
    falls = HoldThenLinear(0.3, 0.1)
    sequence_length = draw(st.sampled_from([1, 3, 4, 12]))
    n_envs = draw(st.integers(1, 3))
    options: Drawn = dict(
        sequence_length=sequence_length,
        gae_lambda=draw(st.sampled_from([0.0, 0.9, 1.0])),
        ent_coef=draw(st.sampled_from([0.0, 0.1])),
        normalize_advantage=draw(any_bool),
        learning_rate=draw(st.sampled_from([1e-3, HoldThenLinear(3e-3, 0.0)])),
    )
    if is_box:
        options["use_sde"] = draw(any_bool)
        options["sde_sample_freq"] = draw(st.sampled_from([-1, 3]))
        if options["use_sde"]:
            policy["squash_output"] = draw(any_bool)
    algorithm: type[MemoryA2C | MemoryPPO] = draw(st.sampled_from([MemoryA2C, MemoryPPO]))
    if algorithm is MemoryA2C:
        options["use_rms_prop"] = draw(any_bool)
    else:
        most = N_STEPS * n_envs // sequence_length
        least = 2 if sequence_length == 1 else 1  # SB3 refuses a minibatch of one step
        options["batch_size"] = sequence_length * draw(st.integers(least, most))
        options["n_epochs"] = draw(st.integers(1, 2))
        options["clip_range"] = draw(st.sampled_from([0.2, falls]))
        options["clip_range_vf"] = draw(st.sampled_from([None, 0.2, falls]))
        options["target_kl"] = draw(st.sampled_from([None, 1e-3]))
    shortest = draw(st.integers(1, 15))
    return dict(
        algorithm=algorithm,
        observation=observation,
        action=action,
        n_envs=n_envs,
        masks=not is_box and draw(any_bool),
        normalize=draw(any_bool),
        length=(shortest, shortest + draw(st.integers(0, 5))),
        truncates=draw(st.sampled_from([0.0, 0.5, 1.0])),
        policy_kwargs=policy,
        seed=draw(st.integers(0, 3)),
        **options,
    )


def make_env(drawn: Drawn, seed: int, workers: bool) -> VecEnv:
    cls = Masked if drawn["masks"] else Noise
    kwargs = {name: drawn[name] for name in ("observation", "action", "length", "truncates")}
    makers = [partial(cls, seed=seed + i, **kwargs) for i in range(drawn["n_envs"])]
    env: VecEnv = SubprocVecEnv(makers, start_method="spawn") if workers else DummyVecEnv(makers)
    keys = ["vector"] if drawn["observation"] == "dict" else None
    can_normalize = keys is not None or drawn["observation"] == "box"
    return VecNormalize(env, norm_obs=can_normalize, norm_obs_keys=keys) if drawn["normalize"] else env


def check_learns_saves_loads_and_acts(drawn: Drawn, workers: bool = False) -> None:
    """:param workers: a process for every environment, spawned"""
    world = ("observation", "action", "n_envs", "masks", "normalize", "length", "truncates", "algorithm")
    kwargs = {name: value for name, value in drawn.items() if name not in world}
    algorithm = drawn["algorithm"]
    policy = POLICIES.get(drawn["observation"], "MlpPolicy")
    training_env = make_env(drawn, 0, workers)
    model = algorithm(policy, training_env, n_steps=N_STEPS, **kwargs)
    before = model.policy.parameters_to_vector()
    assert max(replay_errors(model, 2)) < 1e-4
    training_env.close()
    after = model.policy.parameters_to_vector()
    assert np.isfinite(after).all()
    # Dropout alone moves the policy further than a small target_kl, and then PPO takes no step.
    assert drawn.get("target_kl") or (after != before).any()

    file = io.BytesIO()
    model.save(file)
    file.seek(0)
    loaded = algorithm.load(file)
    np.testing.assert_array_equal(loaded.policy.parameters_to_vector(), after)
    env = make_env(drawn, 50, workers)
    obs, states, starts = env.reset(), [None, None], np.ones(drawn["n_envs"], bool)
    for _ in range(8):
        masks = dict(action_masks=get_action_masks(env)) if drawn["masks"] else {}
        actions, states[0] = model.predict(obs, states[0], starts, deterministic=True, **masks)
        again, states[1] = loaded.predict(obs, states[1], starts, deterministic=True, **masks)
        np.testing.assert_array_equal(actions, again)
        obs, _, starts, _ = env.step(actions)
    env.close()


@settings(max_examples=50)
@given(agents())
def test_agents(drawn: Drawn) -> None:
    check_learns_saves_loads_and_acts(drawn)


@pytest.mark.slow
@settings(max_examples=2000)
@given(agents())
def test_many_agents(drawn: Drawn) -> None:
    check_learns_saves_loads_and_acts(drawn)


@pytest.mark.slow
@settings(max_examples=40)
@given(agents())
def test_many_agents_with_workers(drawn: Drawn) -> None:
    check_learns_saves_loads_and_acts(drawn, workers=True)
