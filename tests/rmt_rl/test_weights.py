"""Files of weights: what is saved is loaded, what is not plain is named, a model takes all or none."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.common.utils import LinearSchedule

from rmt_rl import CORES, MemoryActorCriticPolicy, MemoryPPO
from rmt_rl.buffers import MemoryRolloutBuffer
from rmt_rl.cores import FeedForward
from rmt_rl.features import IdEmbeddingExtractor
from rmt_rl.on_policy import MemoryOnPolicyAlgorithm
from rmt_rl.saving import plain
from rmt_rl.saving.description import POLICY, SETTINGS, describe
from rmt_rl.saving.plain_spaces import SPACE
from rmt_rl.schedules import HoldThenLinear
from tests.rmt_rl.test_memory_ppo import SMALL, build, replay_errors, worlds
from tests.rmt_rl.worlds import ACTIONS, CORE_KWARGS, OBSERVATIONS, POLICIES


def parameters(model: MemoryPPO) -> np.ndarray[Any, Any]:
    return model.policy.parameters_to_vector().copy()


def assert_acts_alike(one: MemoryPPO, other: MemoryPPO, steps: int = 9, rows: int = 3) -> None:
    state, again = None, None
    space = one.observation_space
    space.seed(3)
    for t in range(steps):
        seen = [space.sample() for _ in range(rows)]
        obs: Any = (
            {key: np.stack([o[key] for o in seen]) for key in seen[0]}
            if isinstance(space, spaces.Dict)
            else np.stack(seen)
        )
        starts = np.array([t == 0, t in (0, 4), t in (0, 7)])
        actions, state = one.predict(obs, state, starts, deterministic=True)
        others, again = other.predict(obs, again, starts, deterministic=True)
        np.testing.assert_array_equal(actions, others)


@pytest.mark.parametrize("share_memory", [True, False])
@pytest.mark.parametrize("core", CORES)
def test_every_core_comes_back(core: str, share_memory: bool, tmp_path: Path) -> None:
    model = build(worlds(), core=core, policy_kwargs=dict(share_memory=share_memory))
    with th.no_grad():
        model.policy.action_net.weight.normal_(std=3.0)
    model.save_weights(tmp_path / "agent")
    loaded = MemoryPPO.load_weights(tmp_path / "agent.safetensors", device="cpu")
    np.testing.assert_array_equal(parameters(loaded), parameters(model))
    assert describe(loaded) == describe(model)
    assert_acts_alike(model, loaded)


@pytest.mark.parametrize("observation", OBSERVATIONS)
@pytest.mark.parametrize("action", ACTIONS)
def test_every_space_comes_back(observation: str, action: str, tmp_path: Path) -> None:
    env = worlds(2, observation=observation, action=action)
    options = dict(use_sde=True) if action == "box" else {}
    model = build(env, POLICIES.get(observation, "MlpPolicy"), **options)
    model.save_weights(tmp_path / "agent")
    loaded = MemoryPPO.load_weights(tmp_path / "agent")
    assert loaded.observation_space == model.observation_space
    assert loaded.action_space == model.action_space
    assert type(loaded.policy) is type(model.policy)
    assert_acts_alike(model, loaded)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(np.array([-np.inf, 0.1], np.float32), np.array([2.5, np.inf], np.float32)),
        spaces.Box(0, np.array([[7, 1], [255, 3]], np.uint8), dtype=np.uint8),
        spaces.Box(-(2**62), 2**62, (2, 1), np.int64),
        spaces.Box(-1.0, 1.0, (), np.float64),
        spaces.Discrete(7, start=-3),
        spaces.Discrete(7, start=2**62, dtype=np.uint64),
        spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [0, -1]]),
        spaces.MultiBinary(5),
        spaces.MultiBinary([2, 3]),
        # In an order that is not the alphabet's.
        spaces.Dict([("z", spaces.Discrete(2)), ("a", spaces.Box(0, 1, (2,), np.float32))]),
    ],
    ids=str,
)
def test_spaces_are_exact(space: spaces.Space[Any]) -> None:
    again = SPACE.read(SPACE.write(space))
    assert again == space
    assert again.dtype == space.dtype
    if isinstance(space, spaces.Box):
        np.testing.assert_array_equal(again.low, space.low)
        np.testing.assert_array_equal(again.high, space.high)
    if isinstance(space, spaces.Dict):
        assert list(again) == list(space)


def test_settings_come_back_and_training_goes_on(tmp_path: Path) -> None:
    policy_kwargs = dict(
        net_arch=dict(pi=[8, 6], vf=[5]), activation_fn=th.nn.ELU, optimizer_class=th.optim.AdamW,
        optimizer_kwargs=dict(betas=(0.8, 0.99)), features_extractor_class=FlattenExtractor,
    )  # fmt: skip
    model = build(
        worlds(), policy_kwargs=policy_kwargs, learning_rate=HoldThenLinear(1e-3, 1e-4, hold=0.5),
        clip_range_vf=0.3, clip_range=LinearSchedule(0.3, 0.1, 0.9), target_kl=0.5,
        gamma=np.float32(0.5), ent_coef=0.25,
    )  # fmt: skip
    model.learn(36)
    model.save_weights(tmp_path / "agent")
    loaded = MemoryPPO.load_weights(tmp_path / "agent", env=worlds(2))
    assert (loaded.n_envs, loaded.num_timesteps) == (2, 36)
    assert loaded.learning_rate == model.learning_rate
    for progress in (1.0, 0.6, 0.05):
        assert loaded.lr_schedule(progress) == model.lr_schedule(progress)
        assert loaded.clip_range(progress) == model.clip_range(progress)  # type: ignore[operator]
        assert loaded.clip_range_vf(progress) == 0.3  # type: ignore[operator, misc]
    assert (loaded.gamma, loaded.ent_coef, loaded.target_kl) == (0.5, 0.25, 0.5)
    assert type(loaded.policy.optimizer) is th.optim.AdamW
    assert tuple(loaded.policy.optimizer.param_groups[0]["betas"]) == (0.8, 0.99)
    assert max(replay_errors(loaded, 1)) < 1e-5
    loaded = MemoryPPO.load_weights(tmp_path / "agent")
    loaded.set_env(worlds())
    loaded.learn(36, reset_num_timesteps=False)
    assert loaded.num_timesteps == 72


def test_no_argument_of_the_constructors_is_forgotten() -> None:
    left_out = {
        "self", "policy", "env", "tensorboard_log", "stats_window_size", "verbose", "seed", "device",
        "policy_kwargs", "ppo_kwargs", "rollout_buffer_kwargs", "_init_setup_model",
    }  # fmt: skip
    model = build(worlds())
    taken = {*inspect.signature(MemoryPPO.__init__).parameters, *inspect.signature(PPO.__init__).parameters}
    assert taken - left_out == SETTINGS.keys() - {"n_envs", "num_timesteps"}
    assert set(SETTINGS) <= set(vars(model))
    arguments = model.policy._get_constructor_parameters()
    elsewhere = {"observation_space", "action_space", "lr_schedule", "use_sde", "reconstruction"}
    assert arguments.keys() - elsewhere == POLICY.keys()


def test_an_extractor_is_kept_once(tmp_path: Path) -> None:
    """SB3's state dict has a shared extractor under three names."""
    model = build(worlds(2, observation="image"), "CnnPolicy")
    model.save_weights(tmp_path / "agent")
    weights = sum(p.nbytes for p in model.policy.parameters())
    assert (tmp_path / "agent.safetensors").stat().st_size < weights + 8192


class Mine(FeedForward):
    """A user's own core."""


class Extractor(FlattenExtractor):
    """A user's own extractor."""


class Buffer(MemoryRolloutBuffer):
    """A user's own buffer."""


class Policy(MemoryActorCriticPolicy):
    """A user's own policy."""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(learning_rate=lambda _: 1e-3), "learning_rate=.*a number, or a schedule of the kinds HoldThen"),
        (dict(clip_range=lambda _: 0.2), "clip_range="),
        (dict(rollout_buffer_class=Buffer), "rollout_buffer_class=.*Buffer"),
        (dict(policy_kwargs=dict(core=Mine, core_kwargs={})), "core=.*Mine.*rmt_rl.CORES"),
        (
            dict(policy_kwargs=dict(features_extractor_class=Extractor)),
            "features_extractor_class=.*Extractor",
        ),
        (dict(policy_kwargs=dict(activation_fn=th.nn.Softplus)), "activation_fn=.*Softplus"),
        (dict(policy_kwargs=dict(optimizer_class=th.optim.Adagrad)), "optimizer_class=.*Adagrad"),
    ],
)
def test_what_is_not_plain_is_named(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    model = build(worlds(), **options)
    with pytest.raises(ValueError, match=message):
        model.save_weights(tmp_path / "agent")
    assert not list(tmp_path.iterdir())


def test_a_policy_of_ones_own_is_named(tmp_path: Path) -> None:
    model = MemoryPPO(Policy, worlds(), **SMALL, policy_kwargs=dict(core="none"))
    with pytest.raises(ValueError, match="policy=Policy"):
        model.save_weights(tmp_path / "agent")


def test_what_one_has_registered_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = dict(core=Mine, core_kwargs=dict(width=8), features_extractor_class=Extractor)
    model = build(worlds(), policy_kwargs=options)
    with monkeypatch.context() as patch:
        patch.setitem(CORES, "mine", Mine)
        patch.setitem(plain.EXTRACTORS, "Extractor", Extractor)
        model.save_weights(tmp_path / "agent")
        loaded = MemoryPPO.load_weights(tmp_path / "agent")
    assert type(loaded.policy.core) is Mine
    assert type(loaded.policy.features_extractor) is Extractor
    with pytest.raises(ValueError, match=r"agent.safetensors cannot be loaded: core must be .*, got mine"):
        MemoryPPO.load_weights(tmp_path / "agent")


def test_ids_in_minigrids_manner_come_back(tmp_path: Path) -> None:
    class Grid(spaces.Box):
        """Only to show that a subclass of a space is refused by name."""

    space = spaces.Box(0, np.array([[[10, 5, 2]]], np.uint8).repeat(3, 0).repeat(3, 1), dtype=np.uint8)
    env = worlds(1)
    env.observation_space = space
    model = build(env, policy_kwargs=dict(features_extractor_class=IdEmbeddingExtractor))
    model.save_weights(tmp_path / "agent")
    loaded = MemoryPPO.load_weights(tmp_path / "agent")
    np.testing.assert_array_equal(loaded.observation_space.high, space.high)  # type: ignore[attr-defined]
    assert_acts_alike(model, loaded)
    model.policy.observation_space = Grid(0, 1, (3,))
    with pytest.raises(ValueError, match="observation_space="):
        model.save_weights(tmp_path / "agent")


def test_set_weights(tmp_path: Path) -> None:
    """Into a model that is there, of another length of rollouts; its optimiser and counts are its own."""
    source = build(worlds())
    source.learn(36)
    source.save_weights(tmp_path / "agent")
    model = build(worlds(), seed=1, n_steps=24, gamma=0.5)
    model.set_weights(tmp_path / "agent")
    np.testing.assert_array_equal(parameters(model), parameters(source))
    assert (model.gamma, model.n_steps, model.num_timesteps) == (0.5, 24, 0)
    assert_acts_alike(model, source)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (dict(core="gru"), "core is rmt here, gru there"),
        (
            dict(policy_kwargs=dict(core_kwargs=CORE_KWARGS["rmt"] | dict(segment_length=4))),
            "segment_length=4",
        ),
        (dict(policy_kwargs=dict(core_kwargs=CORE_KWARGS["rmt"] | dict(heads=1))), "heads=1"),
        (dict(policy_kwargs=dict(net_arch=[7])), "net_arch"),
        (dict(policy_kwargs=dict(activation_fn=th.nn.ReLU)), "activation_fn is Tanh here, ReLU there"),
        (dict(policy_kwargs=dict(share_memory=False)), "share_memory"),
        (dict(action="multi_discrete"), "action_space"),
        (dict(observation="discrete"), "observation_space"),
    ],
)
def test_a_file_of_another_policy_is_refused(other: dict[str, Any], message: str, tmp_path: Path) -> None:
    spaces_of = {name: other.pop(name) for name in ("action", "observation") if name in other}
    build(worlds(**spaces_of), **other).save_weights(tmp_path / "agent")
    model = build(worlds())
    before = parameters(model)
    with pytest.raises(ValueError, match=rf"agent.safetensors cannot be loaded: .*({message})"):
        model.set_weights(tmp_path / "agent")
    np.testing.assert_array_equal(parameters(model), before)


def test_environments_must_fit(tmp_path: Path) -> None:
    build(worlds()).save_weights(tmp_path / "agent")
    with pytest.raises(ValueError, match="Observation spaces do not match"):
        MemoryPPO.load_weights(tmp_path / "agent", env=worlds(observation="discrete"))


def test_an_algorithm_of_another_name_is_refused(tmp_path: Path) -> None:
    class Other(MemoryPPO):
        pass

    build(worlds()).save_weights(tmp_path / "agent")
    with pytest.raises(ValueError, match="it is of MemoryPPO, not of Other"):
        Other.load_weights(tmp_path / "agent")


class ActorCritic(MemoryOnPolicyAlgorithm, A2C):
    """Without minibatches, and with another optimiser."""

    def __init__(self, policy: Any, env: Any, n_steps: int = 6, **kwargs: Any) -> None:
        self.sequence_length = n_steps
        super().__init__(policy, env, n_steps=n_steps, **kwargs)


@pytest.mark.parametrize("use_rms_prop", [True, False])
def test_another_algorithm(use_rms_prop: bool, tmp_path: Path) -> None:
    options = dict(core="gru", core_kwargs=CORE_KWARGS["gru"], net_arch=[8])
    model = ActorCritic("MlpPolicy", worlds(), use_rms_prop=use_rms_prop, policy_kwargs=options, seed=3)
    model.save_weights(tmp_path / "agent")
    loaded = ActorCritic.load_weights(tmp_path / "agent")
    assert describe(loaded) == describe(model)
    assert type(loaded.policy.optimizer) is type(model.policy.optimizer)
    assert loaded.policy.optimizer.defaults == model.policy.optimizer.defaults
    with pytest.raises(ValueError, match="it is of ActorCritic, not of MemoryPPO"):
        MemoryPPO.load_weights(tmp_path / "agent")
    other = build(worlds(), core="gru")
    other.set_weights(tmp_path / "agent")
    np.testing.assert_array_equal(parameters(other), model.policy.parameters_to_vector())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_named(value: float, tmp_path: Path) -> None:
    model = build(worlds())
    model.save_weights(tmp_path / "agent")
    whole = (tmp_path / "agent.safetensors").read_bytes()
    with th.no_grad():
        model.policy.core.encode.bias[1] = value  # type: ignore[index, union-attr]
    with pytest.raises(ValueError, match=r"core.encode.bias are not all finite"):
        model.save_weights(tmp_path / "agent")
    assert (tmp_path / "agent.safetensors").read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == ["agent.safetensors"]


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(worlds())
    model.save_weights(tmp_path / "agent")
    for name in [name for name in sys.modules if name.partition(".")[0] == "safetensors"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install 'rmt-rl\[weights\]'"):
        model.save_weights(tmp_path / "other")
    with pytest.raises(ImportError, match=r"pip install 'rmt-rl\[weights\]'"):
        MemoryPPO.load_weights(tmp_path / "agent")


def test_no_file() -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere.safetensors"):
        MemoryPPO.load_weights("nowhere")
