"""Every space is either learnt with, from and to its own values, or refused by name with what would do."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from agents.cloning import clone, record
from rmt_rl import MemoryA2C, MemoryActorCriticPolicy, MemoryPPO
from rmt_rl.export import check_onnx, export_onnx
from rmt_rl.masking import evaluate_policy as evaluate_masked
from rmt_rl.masking import get_action_masks
from rmt_rl.saving.plain_spaces import SPACE
from rmt_rl.spaces import ShiftedDistribution
from rmt_rl.states import SequenceBatch
from tests.rmt_rl.test_memory_ppo import replay_errors
from tests.rmt_rl.worlds import value_counts

KWARGS = dict(core="gru", core_kwargs=dict(width=6), net_arch=[6])
DISCRETE = spaces.Discrete(3, start=-2)
MULTI = spaces.MultiDiscrete([3, 2], start=[5, -1])
SHIFTED: dict[str, spaces.Space[Any]] = {
    "discrete": DISCRETE,
    "far": spaces.Discrete(4, start=2**40 + 1),
    "multi_discrete": MULTI,
    "dict": spaces.Dict({"a": DISCRETE, "b": MULTI, "x": spaces.Box(-1, 1, (2,), np.float32)}),
}


class World(gym.Env[Any, Any]):
    """Random observations of a space; refuses actions that are not of its own. Half its episodes are cut."""

    def __init__(self, observation: spaces.Space[Any], action: spaces.Space[Any], seed: int = 0) -> None:
        self.observation_space, self.action_space = observation, action
        self.random = np.random.default_rng(seed)
        self.left = 0
        self.taken: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.left = int(self.random.integers(1, 6))
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        scalar = isinstance(self.action_space, spaces.Box) and not self.action_space.shape
        assert self.action_space.contains(np.asarray(action) if scalar else action), action
        self.taken.append(action)
        self.left -= 1
        over, cut = self.left == 0, bool(self.random.random() < 0.5)
        reward = float(self.random.normal())
        return self.observation_space.sample(), reward, over and not cut, over and cut, {}


class MaskedWorld(World):
    """Allows one value of each component, and refuses the others."""

    def action_masks(self) -> np.ndarray[Any, Any]:
        self.allowed = [int(self.random.integers(n)) for n in value_counts(self.action_space)]
        counts = value_counts(self.action_space)
        return np.concatenate([np.arange(n) == which for n, which in zip(counts, self.allowed, strict=True)])

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        shifted = np.ravel(action) - np.ravel(self.action_space.start)  # type: ignore[attr-defined]
        assert shifted.tolist() == self.allowed
        return super().step(action)


def worlds(observation: spaces.Space[Any], action: spaces.Space[Any], kind: Any = World) -> VecEnv:
    observation.seed(0)
    return DummyVecEnv([partial(kind, observation, action, seed) for seed in range(2)])


def policy_name(observation: spaces.Space[Any]) -> str:
    return "MultiInputPolicy" if isinstance(observation, spaces.Dict) else "MlpPolicy"


def build(env: VecEnv, algorithm: Any = MemoryPPO, policy_kwargs: Any = KWARGS, **kwargs: Any) -> Any:
    batch = dict(batch_size=8, n_epochs=2) if algorithm is MemoryPPO else {}
    name = policy_name(env.observation_space)
    options = dict(n_steps=8, sequence_length=4, seed=0, device="cpu") | batch | kwargs
    return algorithm(name, env, policy_kwargs=policy_kwargs, **options)


def single(batch: Any) -> Any:
    return {k: v[0] for k, v in batch.items()} if isinstance(batch, dict) else batch[0]


@pytest.mark.parametrize("observation", SHIFTED)
@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
def test_a_start_is_kept_to(observation: str, algorithm: Any, tmp_path: Path) -> None:
    """Learning, predicting, evaluating, saving and loading, each in the environment's own values."""
    for action in (DISCRETE, MULTI, SHIFTED["far"]):
        env = worlds(SHIFTED[observation], action)
        model = build(env, algorithm)
        assert max(replay_errors(model, 2)) < 1e-5
        obs = env.reset()
        actions, _ = model.predict(obs, deterministic=True)
        assert all(action.contains(a) for a in actions)
        assert action.contains(model.predict(single(obs), episode_start=np.ones(1, bool))[0])
        sent = env.envs[0].taken  # type: ignore[attr-defined]
        assert (
            {tuple(np.ravel(a)) for a in sent}
            >= set(  # every value, the first and the last included
                map(tuple, np.stack([model.rollout_buffer.actions[: model.n_steps].min(0)]))
            )
        )
        evaluate_policy(model, env, n_eval_episodes=2)
        model.save(tmp_path / "agent")
        model.save_weights(tmp_path / "weights")
        others = algorithm.load(tmp_path / "agent"), algorithm.load_weights(tmp_path / "weights", env)
        for other in others:
            np.testing.assert_array_equal(
                other.predict(obs, None, np.ones(2), deterministic=True)[0], actions
            )
        assert max(replay_errors(others[1], 1)) < 1e-5


def test_every_value_is_chosen_observed_and_given_back() -> None:
    """An observation of ``start + k`` is the one-hot of k, an action k is sent as ``start + k``."""
    env = worlds(MULTI, DISCRETE)
    model = build(env)
    policy = model.policy
    seen: list[th.Tensor] = []
    policy.features_extractor.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    for first in range(3):
        for second in range(2):
            model.predict(np.array([[5 + first, -1 + second]]), None, np.ones(1))
            expected = [float(i == first) for i in range(3)] + [float(i == second) for i in range(2)]
            assert seen[-1].tolist() == [expected]
    with th.no_grad():
        policy.action_net.weight.zero_()
        for k in range(3):
            policy.action_net.bias.copy_(th.eye(3)[k] * 20)
            action, _ = model.predict(np.array([[5, -1]]), None, np.ones(1))
            assert action.tolist() == [k - 2]


def test_the_distribution_is_of_the_environments_values() -> None:
    model = build(worlds(MULTI, MULTI))
    with th.no_grad():
        model.policy.action_net.weight.normal_()
    obs = th.tensor([[5, 0], [7, -1]])
    states, starts = model.policy.initial_states(2), th.ones(2, dtype=th.bool)
    distribution, _ = model.policy.get_distribution(obs, states, starts)
    assert isinstance(distribution, ShiftedDistribution)
    first, second = (part.logits for part in distribution.distribution)
    actions = th.tensor([[6, -1], [7, 0]])
    expected = th.stack([first[0, 1] + second[0, 0], first[1, 2] + second[1, 1]])
    th.testing.assert_close(distribution.log_prob(actions), expected)
    batch = SequenceBatch(obs, states, starts[:, None])
    th.testing.assert_close(model.policy.evaluate_actions(batch, actions)[1], expected)


@pytest.mark.parametrize("action", [DISCRETE, MULTI, spaces.Discrete(5, start=3)], ids=str)
def test_masks_of_a_space_with_a_start(action: spaces.Space[Any]) -> None:
    env = worlds(DISCRETE, action, MaskedWorld)
    model = build(env)
    model.learn(32)
    assert model.use_masking and model.replay_error(whole=True) < 1e-5
    evaluate_masked(model, env, n_eval_episodes=2)
    obs = env.reset()
    actions, _ = model.predict(obs, None, np.ones(2), action_masks=get_action_masks(env))
    env.step(actions)


@pytest.mark.parametrize("observation", SHIFTED)
def test_a_prefix_has_starts(observation: str) -> None:
    env = worlds(SHIFTED[observation], MULTI)
    model = build(env)
    seen, state = [env.reset() for _ in range(3)], None
    for obs in seen:
        _, state = model.predict(obs, state)
    stacked = (
        {key: np.stack([o[key] for o in seen], 1) for key in seen[0]}
        if isinstance(seen[0], dict)
        else np.stack(seen, 1)
    )
    warmed = model.warm_up(stacked)
    th.testing.assert_close(warmed.states[0].hidden, state.states[0].hidden)


def test_workers_get_the_start(tmp_path: Path) -> None:
    env = SubprocVecEnv([partial(World, SHIFTED["dict"], MULTI, s) for s in range(2)], start_method="spawn")
    try:
        model = build(env)
        assert max(replay_errors(model, 1)) < 1e-5  # a worker dies of an action outside its space
    finally:
        env.close()


@pytest.mark.parametrize(
    ("observation", "action"),
    [
        ("discrete", MULTI),
        pytest.param("dict", DISCRETE, marks=pytest.mark.slow),
        pytest.param("dict", spaces.Box(-1, 1, (), np.float32), marks=pytest.mark.slow),
        pytest.param("discrete", spaces.Box(-1, 1, (2,), np.float16), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_exported_steps_have_starts(observation: str, action: spaces.Space[Any], tmp_path: Path) -> None:
    model = build(worlds(SHIFTED[observation], action))
    assert check_onnx(model, export_onnx(model, tmp_path / "step"), steps=40) <= 1e-5


def test_what_an_expert_did_has_a_start() -> None:
    env = worlds(DISCRETE, MULTI)
    model = build(env, policy_kwargs=KWARGS | dict(core="none"))

    def expert(observations: Any, starts: Any) -> np.ndarray[Any, Any]:
        return np.stack([observations + 7, np.minimum(observations, -1) % 2 - 1], axis=1)

    losses = clone(model, record(env, expert, 64, 16), epochs=40, learning_rate=0.02)
    assert losses[-1] < 0.1 * losses[0]
    obs = np.array([-2, -1, 0])
    actions, _ = model.predict(obs, None, np.ones(3), deterministic=True)
    np.testing.assert_array_equal(actions, expert(obs, None))


def test_an_observation_outside_its_space_is_named() -> None:
    model = build(worlds(DISCRETE, DISCRETE))
    with pytest.raises(ValueError, match=r"none of Discrete\(3, start=-2\).*start"):
        model.predict(np.array([1, 2]))
    with pytest.raises(ValueError, match=r"none of Discrete\(3, start=-2\)"):
        model.predict(np.array([-3]))


REFUSED_ACTIONS = [
    (spaces.MultiDiscrete([[2, 3], [4, 5]]), r"(?s)MultiDiscrete\(\[\[2 3\].*nvec.flatten\(\)"),
    (spaces.MultiBinary([2, 3]), r"MultiBinary\(\(2, 3\)\).*MultiBinary\(6\)"),
    (spaces.MultiBinary([3]), r"MultiBinary\(3\)"),
    (spaces.Box(0, 5, (2,), np.int64), "of int64, but .*float"),
    (spaces.Box(0, 1, (2,), bool), "of bool, but .*float"),
    (spaces.Box(-np.inf, np.inf, (2,), np.float32), "finite low and high"),
    (spaces.Box(0, np.inf, (2,), np.float32), "finite low and high"),
    (spaces.Box(-1, 1, (0,), np.float32), r"holds no numbers \(its shape is \(0,\)\)"),
    (spaces.Tuple([spaces.Discrete(2)]), r"Tuple\(Discrete\(2\)\) cannot be learnt"),
    (spaces.Dict({"a": spaces.Discrete(2)}), r"Dict\('a': Discrete\(2\)\) cannot be learnt"),
    (spaces.Text(3), "Text.* cannot be learnt"),
    (spaces.Sequence(spaces.Discrete(2)), "Sequence.* cannot be learnt"),
    (spaces.Graph(spaces.Discrete(2), None), "Graph.* cannot be learnt"),
    (spaces.OneOf([spaces.Discrete(2)]), "OneOf.* cannot be learnt"),
]
REFUSED_OBSERVATIONS = [
    (spaces.MultiDiscrete([[2, 3], [4, 5]]), r"(?s)MultiDiscrete\(\[\[2 3\].*FlattenObservation"),
    (spaces.Dict({"k": spaces.MultiDiscrete([[2]])}), "under the key 'k' has 2 dimensions"),
    (spaces.Box(0, 1, (2, 0), np.float32), r"holds no numbers \(its shape is \(2, 0\)\)"),
    (spaces.Dict({"k": spaces.Box(0, 1, (0,), np.float32)}), "key 'k' holds no numbers"),
    (spaces.Dict({}), r"Dict\(\) is empty"),
    (spaces.Dict({"k": spaces.Dict({"l": spaces.Discrete(2)})}), "under the key 'k' cannot be encoded"),
    (spaces.Tuple([spaces.Discrete(2)]), "cannot be encoded"),
    (spaces.Sequence(spaces.Discrete(2)), "cannot be encoded"),
    (spaces.Graph(spaces.Discrete(2), None), "cannot be encoded"),
    (spaces.OneOf([spaces.Discrete(2)]), "cannot be encoded"),
]


@pytest.mark.parametrize(("space", "message"), REFUSED_ACTIONS, ids=lambda value: str(value)[:40])
def test_actions_that_cannot_be_learnt(space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryPPO("MlpPolicy", World(DISCRETE, space))
    with pytest.raises(ValueError, match=message):
        MemoryActorCriticPolicy(DISCRETE, space, lambda _: 0.0)


@pytest.mark.parametrize(("space", "message"), REFUSED_OBSERVATIONS, ids=lambda value: str(value)[:40])
def test_observations_that_cannot_be_encoded(space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryA2C(policy_name(space), World(space, DISCRETE))
    with pytest.raises(ValueError, match=message):
        MemoryActorCriticPolicy(space, DISCRETE, lambda _: 0.0)


@pytest.mark.parametrize(
    ("policy", "space", "message"),
    [
        ("CnnPolicy", spaces.Discrete(3), r"Discrete\(3\) is not for a NatureCNN .*MlpPolicy"),
        ("CnnPolicy", spaces.Box(0, 255, (8, 8, 3), np.uint8), r"not for a NatureCNN .*36 x 36"),
        (
            "MultiInputPolicy",
            spaces.Discrete(3),
            r"Discrete\(3\) is not for a CombinedExtractor: .*MlpPolicy",
        ),
        (
            MemoryActorCriticPolicy,
            spaces.Dict({"a": DISCRETE}),
            r"not for a FlattenExtractor.*MultiInputPolicy",
        ),
        ("MultiInputPolicy", spaces.Dict({"a.b": DISCRETE}), r"'a.b'.* not for a CombinedExtractor.*rename"),
        (
            "MultiInputPolicy",
            spaces.Dict({"type": DISCRETE}),
            r"'type'.* not for a CombinedExtractor.*rename",
        ),
        (
            "MultiInputPolicy",
            spaces.Dict({"view": spaces.Box(0, 255, (7, 7, 3), np.uint8)}),
            r"'view'.* not for a CombinedExtractor.*36 x 36",
        ),
    ],
)
def test_an_extractor_for_another_space_is_named(policy: Any, space: spaces.Space[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryPPO(policy, World(space, DISCRETE))


STARTS = st.one_of(st.just(0), st.integers(-5, 5), st.sampled_from([-(2**62), 2**40 + 1]))
INTEGERS = st.sampled_from([np.int8, np.uint8, np.int32, np.uint16, np.uint32, np.int64, np.uint64])


@st.composite
def discretes(draw: st.DrawFn) -> spaces.Space[Any]:
    dtype = draw(INTEGERS)
    bounds = np.iinfo(dtype)
    start = min(max(draw(STARTS), int(bounds.min)), int(bounds.max) // 2)
    return spaces.Discrete(draw(st.integers(1, 4)), start=start, dtype=dtype)


@st.composite
def multi_discretes(draw: st.DrawFn) -> spaces.Space[Any]:
    dtype = draw(INTEGERS)
    bounds = np.iinfo(dtype)
    shape = draw(st.sampled_from([(1,), (3,), (2, 2)]))
    starts = [
        min(max(draw(STARTS), int(bounds.min)), int(bounds.max) // 2) for _ in range(int(np.prod(shape)))
    ]
    nvec = [draw(st.integers(1, 4)) for _ in starts]
    return spaces.MultiDiscrete(
        np.reshape(nvec, shape), dtype=dtype, start=np.reshape(np.array(starts, dtype), shape)
    )


@st.composite
def boxes(draw: st.DrawFn) -> spaces.Space[Any]:
    dtype: Any = draw(
        st.sampled_from([np.float16, np.float32, np.float64, np.uint8, np.int32, np.int64, bool])
    )
    shape = draw(st.sampled_from([(), (1,), (3,), (2, 3), (0,), (4, 4, 3)]))
    if np.dtype(dtype).kind == "b":
        return spaces.Box(0, 1, shape, dtype)
    if np.dtype(dtype).kind != "f":
        return spaces.Box(0, draw(st.sampled_from([1, 100])), shape, dtype)
    low, high = draw(
        st.sampled_from([(-1, 1), (0.1, 0.7), (-3, 100), (-np.inf, np.inf), (0, np.inf), (2, 2)])
    )
    return spaces.Box(low, high, shape, dtype)


MULTI_BINARIES = st.sampled_from([1, 3, [3], [2, 2]]).map(spaces.MultiBinary)
STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [
        spaces.Text(3), spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,), np.float32)]),
        spaces.Sequence(spaces.Discrete(2)), spaces.Dict({"a": spaces.Discrete(2)}), spaces.Tuple([]),
    ]
)  # fmt: skip
PARTS = st.one_of(discretes(), multi_discretes(), boxes(), MULTI_BINARIES)
DICTS = st.dictionaries(st.sampled_from(["a", "b", "type", "x.y"]), st.one_of(PARTS, STRANGE), max_size=3)


@settings(max_examples=60)
@given(
    observation=st.one_of(PARTS, DICTS.map(spaces.Dict), STRANGE),
    action=st.one_of(PARTS, STRANGE),
    algorithm=st.sampled_from([MemoryPPO, MemoryA2C]),
)
def test_every_space_is_learnt_with_or_refused(
    observation: spaces.Space[Any], action: spaces.Space[Any], algorithm: Any
) -> None:
    observation.seed(0)
    env = World(observation, action)
    batch = dict(batch_size=4) if algorithm is MemoryPPO else {}
    try:
        model = algorithm(
            policy_name(observation), env, n_steps=4, sequence_length=4, policy_kwargs=KWARGS, device="cpu",
            seed=0, **batch,
        )  # fmt: skip
    except ValueError as error:
        parts = observation.values() if isinstance(observation, spaces.Dict) else []
        assert any(str(space) in str(error) for space in (observation, action, *parts))
        return
    assert max(replay_errors(model, 2)) < 1e-4
    obs, _ = env.reset()
    chosen, state = model.predict(obs)
    assert action.contains(chosen)
    assert action.contains(model.predict(obs, state, deterministic=True)[0])
    again = SPACE.read(SPACE.write(action))
    assert again.contains(chosen)
