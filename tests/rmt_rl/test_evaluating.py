"""The policy's public methods take what users have; whole episodes are evaluated as they were acted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from rmt_rl import CORES, MemoryPPO, MemoryState
from rmt_rl.masking import get_action_masks
from tests.rmt_rl.test_memory_ppo import build, worlds
from tests.rmt_rl.test_predict import assert_same, sharp, stack
from tests.rmt_rl.test_spaces import KWARGS, MULTI, SHIFTED, World
from tests.rmt_rl.worlds import ACTIONS, POLICIES, Masked

STARTS = np.zeros((3, 7), bool)
STARTS[:, 0] = STARTS[1, 3] = STARTS[2, 5] = True


def acted(model: Any, env: Any, masks: bool = False) -> tuple[Any, ...]:
    """Seven steps of three environments; values and log-probabilities of each, one step at a time."""
    policy, state, columns = model.policy, None, []
    policy.set_training_mode(False)
    for t in range(STARTS.shape[1]):
        obs, starts = env.reset(), STARTS[:, t]
        allowed = get_action_masks(env) if masks else None
        values = policy.predict_values(obs, state, starts)
        distribution, after = policy.get_distribution(obs, state, starts, allowed)
        actions, state = model.predict(obs, state, starts, action_masks=allowed)
        assert_same(after, state)
        seen = th.as_tensor(actions.astype(np.float32) if actions.dtype.kind == "f" else actions)
        if policy.squash_output:
            seen = th.as_tensor(policy.scale_action(actions))
        shaped = seen.reshape(3, *(() if isinstance(env.action_space, spaces.Discrete) else (-1,)))
        log_probs, entropies = distribution.log_prob(shaped), distribution.entropy()
        columns.append((obs, actions, values.squeeze(1), log_probs, entropies, allowed))
    obs, actions, values, log_probs, entropies, allowed = zip(*columns, strict=True)
    sequences = stack(list(obs)), np.stack(actions, 1), np.stack(allowed, 1) if masks else None
    entropy = None if entropies[0] is None else th.stack(entropies, 1)
    return *sequences, th.stack(values, 1), th.stack(log_probs, 1), entropy, state


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("share_memory", [True, False])
def test_an_episode_is_evaluated_as_it_was_acted(core: str, share_memory: bool) -> None:
    env = worlds(length=(1000, 1000))
    model = sharp(build(env, core=core, policy_kwargs=dict(share_memory=share_memory)))
    with th.no_grad():
        obs, actions, _, *expected, last = acted(model, env)
        result = model.evaluate_episode(obs, actions, None, STARTS)
        assert result.values.shape == (3, 7)
        for got, right in zip(result, expected, strict=False):
            th.testing.assert_close(got, right, atol=1e-5, rtol=1e-4)
        assert_same(result.state, last)
        # One environment without the batch, in two pieces.
        half = model.evaluate_episode(obs[1, :4], actions[1, :4], None, STARTS[1, :4])
        rest = model.evaluate_episode(obs[1, 4:], actions[1, 4:], half.state, STARTS[1, 4:])
        whole = th.cat([half.log_probs, rest.log_probs])
        th.testing.assert_close(whole, expected[1][1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("observation", ["discrete", "multi_discrete", "multi_binary", "image", "dict"])
@pytest.mark.parametrize("action", ACTIONS)
def test_every_space_is_evaluated(observation: str, action: str) -> None:
    env = worlds(observation=observation, action=action)
    model = build(env, POLICIES.get(observation, "MlpPolicy"), core="gru")
    with th.no_grad():
        obs, actions, _, *expected, last = acted(model, env)
        result = model.evaluate_episode(obs, actions, episode_starts=STARTS)
        for got, right in zip(result, expected, strict=False):
            th.testing.assert_close(got, right, atol=1e-5, rtol=1e-4)
        assert_same(result.state, last)


def test_squashed_actions_are_evaluated_as_predict_returned_them() -> None:
    env = worlds(action="box")
    model = build(env, core="gru", use_sde=True, policy_kwargs=dict(squash_output=True))
    with th.no_grad():
        obs, actions, _, _, log_probs, entropy, _ = acted(model, env)
        result = model.evaluate_episode(obs, actions, None, STARTS)
    assert entropy is None and result.entropies is None
    th.testing.assert_close(result.log_probs, log_probs, atol=1e-4, rtol=1e-3)


def test_masked_actions_and_starts_are_evaluated() -> None:
    from stable_baselines3.common.vec_env import DummyVecEnv

    env = DummyVecEnv([lambda seed=seed: Masked(action="multi_discrete", seed=seed) for seed in range(3)])
    model = build(env, core="gru")
    with th.no_grad():
        obs, actions, masks, _, log_probs, _, _ = acted(model, env, masks=True)
        result = model.evaluate_episode(obs, actions, None, STARTS, masks)
        th.testing.assert_close(result.log_probs, log_probs, atol=1e-5, rtol=1e-4)
        assert (model.evaluate_episode(obs, actions, None, STARTS).log_probs < log_probs).all()
    env = DummyVecEnv([lambda: World(SHIFTED["dict"], MULTI)] * 3)
    model = MemoryPPO(
        "MultiInputPolicy", env, n_steps=8, sequence_length=8, batch_size=8, policy_kwargs=KWARGS
    )
    with th.no_grad():
        obs, actions, _, _, log_probs, _, _ = acted(model, env)
        result = model.evaluate_episode(obs, actions, None, STARTS)
    th.testing.assert_close(result.log_probs, log_probs, atol=1e-5, rtol=1e-4)


def test_gradients_reach_the_first_step_and_dropout_is_off_without_them() -> None:
    kwargs = dict(core="rmt", core_kwargs=dict(width=8, heads=2, layers=1, segment_length=4, dropout=0.5))
    model = build(worlds(), policy_kwargs=kwargs)
    obs, actions = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32), np.arange(9) % 3
    model.policy.set_training_mode(True)
    with th.no_grad():
        assert th.equal(*(model.evaluate_episode(obs, actions).values for _ in range(2)))
    model.policy.set_training_mode(True)
    first, second = (model.evaluate_episode(obs, actions) for _ in range(2))
    assert model.policy.training and not th.equal(first.values, second.values)
    assert first.values.requires_grad and not first.state.states[0].memory.requires_grad
    first.log_probs[-1].backward()
    encoder = model.policy.core.encode.weight
    assert encoder.grad is not None and encoder.grad.abs().max() > 0


FORMS = {
    "arrays and what predict returned": (np.asarray, lambda state: state, np.asarray),
    "tensors and what predict returned": (th.as_tensor, lambda state: state, th.as_tensor),
    "tensors and the cores' states": (th.as_tensor, lambda state: state.states, th.as_tensor),
    "arrays, the cores' states, lists": (np.asarray, lambda state: state.states, list),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share_memory", [True, False])
def test_one_step_in_every_form(form: str, share_memory: bool) -> None:
    env = worlds()
    model = build(env, policy_kwargs=dict(share_memory=share_memory))
    policy, (of_obs, of_state, of_starts) = model.policy, FORMS[form]
    obs = env.reset()
    _, state = model.predict(obs)
    obs, starts, actions = env.reset(), np.array([False, True, False]), np.array([0, 1, 2])
    tensors = th.as_tensor(obs), state.states, th.as_tensor(starts)
    expected = policy.predict_values(*tensors)
    given = of_obs(obs), of_state(state), of_starts(starts)
    assert th.equal(policy.predict_values(*given), expected)
    distribution, after = policy.get_distribution(*given)
    assert isinstance(after, MemoryState) == isinstance(given[1], MemoryState)
    log_prob = policy.get_distribution(*tensors)[0].log_prob(th.as_tensor(actions))
    assert th.equal(distribution.log_prob(th.as_tensor(actions)), log_prob)
    for taken in (actions, th.as_tensor(actions), actions[:, None], actions.tolist()):
        values, log_probs, entropies = policy.evaluate_actions(given[0], taken, *given[1:])
        th.testing.assert_close((values, log_probs), (expected, log_prob))
        assert entropies is not None and entropies.shape == (3,)
    _, values, _, after = policy(*given)
    assert th.equal(values, expected) and isinstance(after, MemoryState) == isinstance(given[1], MemoryState)


def test_one_environment_and_an_empty_memory() -> None:
    for core in ("rmt", "none"):
        env = worlds(1)
        model = build(env, core=core)
        obs = env.reset()
        expected = model.policy.predict_values(obs, None, np.ones(1, bool))
        assert expected.shape == (1, 1)
        assert th.equal(model.policy.predict_values(obs[0]), expected)
        distribution, state = model.policy.get_distribution(obs[0])
        assert distribution.get_actions().shape == (1,)
        model.predict(obs, state)


@pytest.mark.parametrize("method", ["predict_values", "get_distribution", "evaluate_actions", "forward"])
def test_what_does_not_fit_is_named(method: str) -> None:
    env = worlds()
    model, obs = build(env), env.reset()
    call: Any = getattr(model.policy, method)
    actions = (np.zeros(3, int),) if method == "evaluate_actions" else ()
    _, state = model.predict(obs)
    with pytest.raises(TypeError, match="state must be what predict returned, or None, got ndarray"):
        call(obs, *actions, np.zeros(3), np.zeros(3, bool))
    with pytest.raises(TypeError, match=r"state must be what predict returned.*got (tuple|list)"):
        call(obs, *actions, [np.zeros(3)] * 2, np.zeros(3, bool))
    with pytest.raises(ValueError, match="3 environments, 2 observations"):
        call(obs[:2], *actions, state, np.zeros(2, bool))
    with pytest.raises(ValueError, match=r"episode_starts must have the shape \(3,\), got \(2,\)"):
        call(obs, *actions, state, np.zeros(2, bool))
    with pytest.raises(ValueError, match=r"(?i)unexpected observation shape \(3, 4\)"):
        call(np.zeros((3, 4), np.float32), *actions, state, np.zeros(3, bool))
    with pytest.raises(ValueError, match=r"observations of shape .* holds 1 NaN"):
        call(np.where(np.arange(9).reshape(3, 3) == 4, np.nan, obs), *actions, state, np.zeros(3, bool))
    if method != "evaluate_actions":
        model.learn(36)
        batch: Any = next(model.rollout_buffer.get(12)).observations
        with pytest.raises(TypeError, match=r"got a SequenceBatch: .*evaluate_actions and evaluate_episode"):
            call(batch)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            dict(observations=np.zeros((3, 7, 4))),
            r"observations must have the shape \(B, T, 3\).*\(3, 7, 4\)",
        ),
        (dict(observations=np.zeros(3)), r"must have the shape \(B, T, 3\).*got \(3,\)"),
        (dict(observations={"a": np.zeros((3, 7, 3))}), "observations must be of Box.*got dict"),
        (dict(actions=np.zeros((3, 6), int)), r"actions must be 21 of Discrete\(3\).*\(3, 6\)"),
        (dict(actions=np.full((3, 7), 3)), r"action 0 is none of Discrete\(3\): 3"),
        (
            dict(episode_starts=np.zeros((7, 3), bool)),
            r"episode_starts must have the shape \(3, 7\).*\(7, 3\)",
        ),
        (dict(action_masks=np.ones((3, 7, 2))), "must be 3 flags"),
        (dict(state=np.zeros(3)), "state must be what predict returned"),
    ],
)
def test_an_episode_that_does_not_fit_is_named(change: Any, message: str) -> None:
    arguments = dict(observations=np.zeros((3, 7, 3), np.float32), actions=np.zeros((3, 7), int)) | change
    with pytest.raises((ValueError, TypeError), match=message):
        build(worlds()).evaluate_episode(**arguments)


def test_a_prefix_without_a_batch_is_named() -> None:
    model = build(worlds())
    with pytest.raises(ValueError, match=r"\(B, T, 3\).*got \(11, 3\): .*observations\[None\]"):
        model.warm_up(np.zeros((11, 3), np.float32))
    model = build(worlds(observation="dict"), "MultiInputPolicy")
    with pytest.raises(
        ValueError, match=r"\['vector'\] must have the shape \(B, T, 3\).*observations\[None\]"
    ):
        model.warm_up({"vector": np.zeros((11, 3), np.float32), "kind": np.zeros(11, int)})
    model = build(worlds(observation="discrete"))
    with pytest.raises(ValueError, match=r"\(B, T\).*got \(11,\)"):
        model.warm_up(np.zeros(11, int))


def test_states_compare_and_print_themselves_shortly() -> None:
    env = worlds()
    model = build(env)
    obs = env.reset()
    _, state = model.predict(obs)
    _, other = model.predict(obs, None, np.ones(3, bool))
    _, later = model.predict(obs, other)
    _, two = model.predict(obs[:2], None, np.ones(2, bool))
    _, foreign = build(env, core="gru").predict(obs)
    assert state == state and state == other and hash(state) == hash(other)
    assert state != later and state != two and state != foreign and state != "state"
    assert state != state.to("meta")
    assert {state, other, later} == {state, later}
    count = sum(leaf.numel() for leaf in state.states[0])
    assert repr(state) == str(state) == f"<MemoryState of RMT: 3 environments, {count} numbers on cpu>"
    assert "RMT: 1 environment," in repr(model.predict(obs[:1], None, [True])[1])
    assert repr(build(env, core="none").predict(obs)[1]) == (
        "<MemoryState of FeedForward: 3 environments, 0 numbers>"
    )


def test_the_guides_snippet_runs() -> None:
    text = (Path(__file__).parents[2] / "FROM_RECURRENT_PPO.md").read_text("utf-8")
    (snippet,) = (code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "evaluate_" in code)
    names: dict[str, Any] = {}
    exec(snippet, names)
    assert names["values"].shape == names["log_probs"].shape == (len(names["actions"]),)
