"""``predict`` and ``warm_up``: an opaque state, equal to having stepped, and clear errors for any other."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch as th

from rmt_rl import CORES, MemoryPPO, MemoryState
from rmt_rl.states import leaves
from tests.rmt_rl.test_memory_ppo import build, worlds
from tests.rmt_rl.worlds import POLICIES

STARTS = np.zeros((3, 11), bool)
STARTS[1, 5] = STARTS[2, 0] = STARTS[2, 8] = True


def sharp(model: MemoryPPO) -> MemoryPPO:
    """An untrained policy hardly prefers one action; this one's actions show what it remembers."""
    with th.no_grad():
        model.policy.action_net.weight.normal_(std=3.0)
    return model


def observations(env: Any, steps: int) -> list[Any]:
    return [env.reset() for _ in range(steps)]


def stack(seen: list[Any]) -> Any:
    return (
        {k: np.stack([o[k] for o in seen], 1) for k in seen[0]}
        if isinstance(seen[0], dict)
        else np.stack(seen, 1)
    )


def assert_same(one: MemoryState, other: MemoryState) -> None:
    pairs = list(zip(leaves(one.states), leaves(other.states), strict=True))
    for a, b in pairs:
        th.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("core", CORES)
def test_warm_up_equals_stepping(core: str) -> None:
    env = worlds(length=(1000, 1000))
    model = sharp(build(env, core=core))
    seen = observations(env, 11)
    state = None
    for t, obs in enumerate(seen):
        _, state = model.predict(obs, state, STARTS[:, t] if t else np.ones(3, bool))
    for block in (4, 1024):
        warmed = model.policy.warm_up(stack(seen), None, STARTS, block=block)
        assert_same(state, warmed)  # type: ignore[arg-type]
    after = [model.predict(seen[0], s, deterministic=True)[0] for s in (state, warmed)]
    np.testing.assert_array_equal(*after)
    # From a state: the prefix in two pieces.
    half = model.warm_up(stack(seen[:6]), None, STARTS[:, :6])
    assert_same(state, model.warm_up(stack(seen[6:]), half, STARTS[:, 6:]))  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["discrete", "multi_discrete", "image", "dict"])
def test_warm_up_takes_every_observation(kind: str) -> None:
    env = worlds(2, observation=kind)
    model = build(env, POLICIES.get(kind, "MlpPolicy"))
    seen, state = observations(env, 5), None
    for obs in seen:
        _, state = model.predict(obs, state)
    assert_same(state, model.warm_up(stack(seen)))  # type: ignore[arg-type]


def test_memory_is_in_the_state_and_nowhere_else() -> None:
    """Two interleaved agents do not mix, and a pickled state goes on where it was."""
    env = worlds(length=(1000, 1000))
    model = sharp(build(env))
    first, second = observations(env, 8), observations(env, 8)
    alone: list[Any] = []
    state = None
    for obs in first:
        action, state = model.predict(obs, state, deterministic=True)
        alone.append(action)
    state = other = None
    for obs, noise, expected in zip(first, second, alone, strict=True):
        action, state = model.predict(obs, state, deterministic=True)
        _, other = model.predict(noise, other)
        state = pickle.loads(pickle.dumps(state))
        np.testing.assert_array_equal(action, expected)


def test_predict_agrees_with_training_on_sequences() -> None:
    env = worlds(length=(1000, 1000))
    model = sharp(build(env, n_steps=12, sequence_length=12, batch_size=36, learning_rate=0.0))
    model.learn(36)
    buffer = model.rollout_buffer
    data = next(iter(buffer.sequences(np.arange(3))))
    _, log_prob, _ = model.policy.evaluate_actions(data.observations, data.actions.long().flatten())  # type: ignore[arg-type]
    obs = data.observations.observations.unflatten(0, (3, 12))  # type: ignore[union-attr]
    states = model.policy.initial_states(3)
    for t in range(12):
        distribution, states = model.policy.get_distribution(obs[:, t], states, th.full((3,), t == 0))
        expected = distribution.log_prob(data.actions.view(3, 12)[:, t].long())
        th.testing.assert_close(log_prob.view(3, 12)[:, t], expected, atol=1e-5, rtol=1e-5)


def test_a_state_of_something_else_is_refused() -> None:
    env = worlds()
    obs = env.reset()
    model = build(env)
    _, state = model.predict(obs)
    _, foreign = build(env, core="gru").predict(obs)
    with pytest.raises(ValueError, match=r"GRU.*RMT"):
        model.predict(obs, foreign)
    with pytest.raises(ValueError, match="3 environments, 2 observations"):
        model.predict(obs[:2], state)
    with pytest.raises(ValueError, match="meta"):
        model.predict(obs, state.to("meta"))
    with pytest.raises(TypeError, match="ndarray"):
        model.predict(obs, np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="apart"):
        apart = build(env, policy_kwargs=dict(share_memory=False))
        model.predict(obs, apart.predict(obs)[1])


def test_bad_observations_are_named() -> None:
    env = worlds()
    model, obs = build(env), env.reset()
    obs[2, 1] = np.nan
    with pytest.raises(
        ValueError, match=r"observation of shape \(3, 3\) holds 1 NaN, the first at index \(2, 1\)"
    ):
        model.predict(obs)
    with pytest.raises(ValueError, match="observations of shape"):
        model.warm_up(obs[:, None])
    with pytest.raises(ValueError, match="tuple"):
        model.predict((obs, {}))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="2 entries for 3"):
        model.predict(env.reset(), episode_start=np.ones(2, bool))


def test_a_forgotten_state_is_noticed() -> None:
    env = worlds()
    model = build(env)
    with pytest.warns(UserWarning, match="without a state"):
        model.predict(env.reset(), episode_start=np.zeros(3, bool))


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_policy_that_gives_no_numbers_says_so(deterministic: bool) -> None:
    env = worlds()
    model, obs = build(env), env.reset()
    _, state = model.predict(obs)
    with pytest.raises(ValueError, match="or an observation is huge"):
        model.predict(np.where(obs == obs, 3e38, obs), state, deterministic=deterministic)
    with th.no_grad():
        next(model.policy.core.parameters()).fill_(np.nan)
    with pytest.raises(ValueError, match="its weights or its memory hold NaN"):
        model.predict(obs, state, deterministic=deterministic)
