"""The auxiliary loss: what it is for each space, whose gradient it gives, and what leaves it out."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch as th
import torch.nn.functional as F
from gymnasium import spaces
from stable_baselines3.common.env_util import make_vec_env

from envs import make_sb3_vec
from rmt_rl import MemoryA2C, MemoryPPO
from rmt_rl.export import export_onnx
from rmt_rl.reconstruction import Reconstruction, add_loss
from rmt_rl.resuming.checkpoints import ExactCheckpoint
from tests.rmt_rl.test_memory_ppo import build, worlds
from tests.rmt_rl.worlds import POLICIES

D = 6
FALSE = th.zeros(2, 5, dtype=th.bool)


def test_a_loss_is_added_whatever_becomes_of_the_values() -> None:
    weight = th.tensor([2.0, 3.0], requires_grad=True)
    for scale in (1.0, 0.0, -7.0):
        values = add_loss(5.0 * weight, (weight**2).sum())
        assert th.equal(values, 5.0 * weight)
        (gradient,) = th.autograd.grad((scale * values).sum(), weight)
        th.testing.assert_close(gradient, 5.0 * scale + 2.0 * weight.detach())


def last_logits(reconstruction: Reconstruction, outputs: th.Tensor) -> th.Tensor:
    return reconstruction.heads[0](reconstruction.hidden(outputs.flatten(0, 1)))  # type: ignore[no-any-return]


SPACES: dict[str, tuple[spaces.Space[Any], Any]] = {
    "box": (spaces.Box(-1, 1, (3,), np.float32), lambda p, x: F.smooth_l1_loss(p, x)),
    "discrete": (spaces.Discrete(4), lambda p, x: F.cross_entropy(p, x)),
    "multi_binary": (
        spaces.MultiBinary(3),
        lambda p, x: F.binary_cross_entropy(p.sigmoid(), x.float()),
    ),
    "image": (
        spaces.Box(0, 255, (2, 3, 1), np.uint8),
        lambda p, x: F.binary_cross_entropy(p.sigmoid(), x.flatten(1) / 255),
    ),
    "multi_discrete": (
        spaces.MultiDiscrete([4, 2]),
        lambda p, x: (F.cross_entropy(p[:, :4], x[:, 0]) + F.cross_entropy(p[:, 4:6], x[:, 1])) / 2,
    ),
    "ids": (
        spaces.Box(1, 3, (2, 2), np.int8),
        lambda p, x: F.cross_entropy(p.view(-1, 3), x.flatten().long() - 1),
    ),
    "counts": (spaces.Box(0, 200, (2,), np.int64), lambda p, x: F.smooth_l1_loss(p, x.float())),
}


def samples(space: spaces.Space[Any], count: int = 10) -> th.Tensor:
    space.seed(0)
    return th.as_tensor(np.stack([np.asarray(space.sample()) for _ in range(count)]))


@pytest.mark.parametrize("kind", SPACES)
def test_the_loss_of_each_space(kind: str) -> None:
    space, expected = SPACES[kind]
    th.manual_seed(0)
    reconstruction, outputs, seen = Reconstruction(space, D, 1), th.randn(2, 5, D), samples(space)
    loss = reconstruction(outputs, seen, FALSE)
    th.testing.assert_close(loss, expected(last_logits(reconstruction, outputs), seen))


def test_of_a_dict_it_is_the_sum() -> None:
    names = ("box", "discrete", "ids")
    space = spaces.Dict({name: SPACES[name][0] for name in names})
    whole = Reconstruction(space, D, 1)
    outputs, seen = th.randn(2, 5, D), {name: samples(space[name]) for name in names}
    expected = 0.0
    for head, name in zip(whole.heads, space, strict=True):
        part = Reconstruction(space[name], D, 1)
        part.hidden, part.heads = whole.hidden, th.nn.ModuleList([head])
        expected += part(outputs, seen[name], FALSE)
    th.testing.assert_close(whole(outputs, seen, FALSE), expected)


@pytest.mark.parametrize("steps", [1, 3])
def test_steps_back(steps: int) -> None:
    """Against a loop; an observation of another episode, or before the sequence, is not asked for."""
    th.manual_seed(0)
    space = spaces.Box(-1, 1, (3,), np.float32)
    reconstruction = Reconstruction(space, D, 1, steps=steps)
    outputs, seen = th.randn(2, 5, D), samples(space)
    starts = th.tensor([[1, 0, 0, 1, 0], [0, 0, 0, 0, 0]], dtype=th.bool)
    predictions = last_logits(reconstruction, outputs).view(2, 5, 3)
    losses = [
        F.smooth_l1_loss(predictions[b, t], seen.view(2, 5, 3)[b, t - steps])
        for b in range(2)
        for t in range(steps, 5)
        if not starts[b, t - steps + 1 : t + 1].any()
    ]
    assert len(losses) == {1: 7, 3: 2}[steps]
    th.testing.assert_close(reconstruction(outputs, seen, starts), th.stack(losses).mean())


def test_no_step_may_reach_back_that_far() -> None:
    reconstruction = Reconstruction(spaces.Discrete(2), D, 1, steps=2)
    starts = th.ones(2, 5, dtype=th.bool)
    loss = reconstruction(th.randn(2, 5, D), th.zeros(10), starts)
    assert loss == 0 and loss.requires_grad
    with pytest.raises(ValueError, match=r"2 steps back needs .*sequence_length is 2"):
        reconstruction(th.randn(1, 2, D), th.zeros(2), th.zeros(1, 2, dtype=th.bool))


def test_features_have_no_gradient_as_targets() -> None:
    features = th.randn(10, 4, requires_grad=True)
    reconstruction = Reconstruction(spaces.Text(3), D, 4, target="features")
    outputs = th.randn(2, 5, D)
    loss = reconstruction(outputs, features, FALSE)
    th.testing.assert_close(loss, F.smooth_l1_loss(last_logits(reconstruction, outputs), features))
    loss.backward()
    assert features.grad is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(coef=0.0), "coef must be .*above 0, got 0.0"),
        (dict(coef=float("nan")), "coef must be"),
        (dict(steps=-1), "steps must be at least 1"),
        (dict(target="reward"), "target must be one of 'observation', 'features', got 'reward'"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Reconstruction(spaces.Discrete(2), D, 1, **options)


def test_an_observation_that_is_too_large() -> None:
    space = spaces.Dict({"camera": spaces.Box(0, 255, (200, 200, 3), np.uint8)})
    with pytest.raises(ValueError, match=r"under the key 'camera' has 120,000 numbers.*target=.features"):
        Reconstruction(space, D, 1)
    Reconstruction(space, D, 1, target="features")


# -- in an agent

OPTIONS: list[dict[str, Any]] = [dict(coef=0.5), dict(steps=2), dict(target="features")]


def build_with(
    env: Any, options: dict[str, Any] | None, policy: str = "MlpPolicy", **kwargs: Any
) -> MemoryPPO:
    policy_kwargs = kwargs.pop("policy_kwargs", {}) | dict(reconstruction=options)
    return build(env, policy, policy_kwargs=policy_kwargs, **kwargs)


def gradients(model: MemoryPPO) -> dict[str, th.Tensor]:
    """Of a loss on one minibatch, as SB3's PPO would make of it."""
    policy = model.policy
    policy.set_training_mode(True)
    data = next(iter(model.rollout_buffer.sequences(np.arange(3))))
    values, log_prob, _ = policy.evaluate_actions(data.observations, data.actions.long().flatten())  # type: ignore[arg-type]
    policy.zero_grad()
    (0.3 * values.square().mean() - log_prob.mean()).backward()
    return {name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("share_memory", [True, False])
def test_the_gradient_is_that_of_the_sum(options: dict[str, Any], share_memory: bool) -> None:
    model = build_with(worlds(), options, policy_kwargs=dict(share_memory=share_memory), learning_rate=0.0)
    model.learn(36)
    policy, reconstruction = model.policy, model.policy.reconstruction
    assert reconstruction is not None
    got = gradients(model)
    policy.reconstruction = None
    expected = gradients(model)
    batch = next(iter(model.rollout_buffer.sequences(np.arange(3)))).observations
    policy.zero_grad()
    features = policy.extract_features(batch.observations)  # type: ignore[union-attr]
    outputs = policy.core.replay(features.unflatten(0, (3, 6)), batch.states[0], batch.episode_starts)  # type: ignore[union-attr]
    target = features if reconstruction.target == "features" else batch.observations  # type: ignore[union-attr]
    (reconstruction.coef * reconstruction(outputs, target, batch.episode_starts)).backward()  # type: ignore[union-attr]
    for name, parameter in policy.named_parameters():
        own = parameter.grad if parameter.grad is not None else th.zeros_like(parameter)
        th.testing.assert_close(got[name], expected.get(name, th.zeros_like(own)) + own, atol=1e-6, rtol=1e-4)
    for name, parameter in reconstruction.named_parameters():
        assert got[f"reconstruction.{name}"].any() and parameter.grad is not None
    assert any(p.grad is not None and p.grad.any() for p in policy.core.parameters())


@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
@pytest.mark.parametrize("observation", ["discrete", "multi_discrete", "multi_binary", "dict", "image"])
def test_agents_learn_to_reconstruct(algorithm: Any, observation: str) -> None:
    """Both algorithms, whose ``train`` is SB3's, log a loss that falls; acting is replayed as ever."""
    env = worlds(observation=observation)
    batch = dict(batch_size=36, n_epochs=3) if algorithm is MemoryPPO else {}
    model = algorithm(
        POLICIES.get(observation, "MlpPolicy"), env, n_steps=12, sequence_length=6, learning_rate=1e-2,
        seed=0, policy_kwargs=dict(core="gru", core_kwargs=dict(width=16), reconstruction=dict(coef=1.0)),
        **batch,
    )  # fmt: skip
    losses: list[float] = []
    record = model.train

    def train() -> None:
        assert model.replay_error(whole=True) < 1e-4
        record()
        losses.append(model.logger.name_to_value["train/reconstruction_loss"])

    model.train = train
    model.learn(36 * 12)
    assert np.mean(losses[-3:]) < (1.0 if observation == "image" else 0.95) * losses[0]  # random pixels


def test_predictions_and_values_are_as_without_it() -> None:
    env = worlds()
    model, obs = build_with(env, dict(coef=0.5)), env.reset()
    plain = build_with(env, None)
    own = plain.policy.state_dict()
    plain.policy.load_state_dict({name: model.policy.state_dict()[name] for name in own})
    starts = np.ones(3, bool)
    for one, other in zip(
        (model.predict(obs, None, starts, True)[0], model.policy.predict_values(obs, None, starts)),
        (plain.predict(obs, None, starts, True)[0], plain.policy.predict_values(obs, None, starts)),
        strict=True,
    ):
        np.testing.assert_array_equal(np.asarray(one.tolist()), np.asarray(other.tolist()))


def test_a_users_own_step_has_no_such_loss() -> None:
    model = build_with(worlds(), dict(steps=2))
    model.policy.set_training_mode(True)
    values, _, _ = model.policy.evaluate_actions(np.zeros((3, 3), np.float32), np.zeros(3, int))
    values.sum().backward()
    assert model.policy.reconstruction is not None
    assert all(parameter.grad is None for parameter in model.policy.reconstruction.parameters())


def test_files_of_weights_leave_it_out(tmp_path: Path) -> None:
    env = worlds()
    model = build_with(env, dict(coef=0.5)).learn(36)
    model.save_weights(tmp_path / "agent")
    loaded = MemoryPPO.load_weights(tmp_path / "agent")
    assert loaded.policy.reconstruction is None
    head = model.policy.reconstruction.heads[0].weight.clone()  # type: ignore[union-attr, operator]
    other = build_with(env, dict(coef=0.5), seed=1)
    own_head = other.policy.reconstruction.heads[0].weight.clone()  # type: ignore[union-attr, operator]
    other.set_weights(tmp_path / "agent")
    assert th.equal(other.policy.reconstruction.heads[0].weight, own_head)  # type: ignore[union-attr]
    assert not th.equal(head, own_head)
    obs, starts = env.reset(), np.ones(3, bool)
    for one in (loaded, other):
        np.testing.assert_array_equal(
            one.predict(obs, None, starts, True)[0], model.predict(obs, None, starts, True)[0]
        )


@pytest.mark.slow  # an export takes seconds
def test_an_exported_step_leaves_it_out(tmp_path: Path) -> None:
    model = build_with(worlds(), dict(coef=0.5)).learn(36)
    graph = onnx.load(export_onnx(model, tmp_path / "step"))
    assert not any("reconstruction" in tensor.name for tensor in graph.graph.initializer)


def test_it_is_saved_and_resumed_exactly(tmp_path: Path) -> None:
    def make() -> MemoryPPO:
        return build_with(make_vec_env("CartPole-v1", 2, seed=0), dict(coef=0.5, steps=2))

    model = make().learn(48)
    model.save(tmp_path / "agent")
    again = MemoryPPO.load(tmp_path / "agent", make_vec_env("CartPole-v1", 2))
    for one, other in zip(model.policy.parameters(), again.policy.parameters(), strict=True):
        assert th.equal(one, other)
    again.learn(24)
    assert pickle.loads(pickle.dumps(model.policy)).reconstruction.steps == 2

    def run(folder: str, *parts: int) -> Any:
        for steps in parts:
            trained = build_with(worlds_with_state(), dict(coef=0.5))
            trained.learn(steps, callback=ExactCheckpoint(tmp_path / folder, every=24, resume=True))
        return trained.policy.parameters_to_vector()

    np.testing.assert_array_equal(run("whole", 96), run("parts", 48, 96))


def worlds_with_state() -> Any:
    return make_sb3_vec("RMT/Memorize-v0", 2, 0, delay=5)


def test_unknown_options_and_changed_integers() -> None:
    with pytest.raises(TypeError, match=r"no option 'coeff'; it has coef, steps, target"):
        build_with(worlds(), dict(coeff=1.0))
    space = spaces.Box(0, 9, (3,), np.int8)
    with pytest.raises(ValueError, match="outside its space"):
        Reconstruction(space, D, 1)(th.randn(2, 5, D), th.full((10, 3), -2.0), FALSE)
