"""What an environment forbids is never done, and what is allowed has the softmax over what is allowed."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from sb3_contrib import MaskablePPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.distributions import make_proba_distribution
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecNormalize

from rmt_rl import MemoryA2C, MemoryPPO
from rmt_rl.masking import (
    MaskableEvalCallback,
    evaluate_policy,
    get_action_masks,
    is_masking_supported,
    masked_distribution,
)
from tests.rmt_rl.test_memory_a2c import Wire
from tests.rmt_rl.test_memory_ppo import SMALL, build, replay_errors, worlds
from tests.rmt_rl.worlds import ACTIONS, CORE_KWARGS, POLICIES, Masked, Noise, value_counts, wrapped_world

KINDS = ("discrete", "multi_discrete", "multi_binary")


def masked_worlds(count: int = 3, **kwargs: Any) -> VecEnv:
    return DummyVecEnv([lambda seed=seed: Masked(seed=seed, **kwargs) for seed in range(count)])


def draw_masks(space: Any, rows: int, seed: int = 0) -> th.Tensor:
    world = Masked(seed=seed)
    world.action_space = space
    masks = []
    for _ in range(rows):
        world._draw_masks()
        masks.append(world.action_masks())
    return th.from_numpy(np.stack(masks))


def draw_logits(space: Any, rows: int, scale: float = 3.0) -> th.Tensor:
    width = space.n if isinstance(space, spaces.MultiBinary) else sum(value_counts(space))
    generator = th.Generator().manual_seed(0)
    return th.randn(rows, int(width), generator=generator, dtype=th.float64) * scale


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [3.0, 300.0])
def test_it_is_the_softmax_over_what_is_allowed(kind: str, scale: float) -> None:
    """Against all actions, one by one: what is allowed, weighed by its logits."""
    space = ACTIONS[kind]
    counts = value_counts(space)
    masks, logits = draw_masks(space, 50), draw_logits(space, 50, scale)
    distribution = masked_distribution(space, logits, masks)
    joint = list(itertools.product(*(range(n) for n in counts)))
    weights = th.full((50, len(joint)), -th.inf, dtype=th.float64)
    for row in range(50):
        parts = masks[row].split(counts)
        for index, action in enumerate(joint):
            if all(part[value] for part, value in zip(parts, action, strict=True)):
                if kind == "multi_binary":
                    weights[row, index] = sum(logits[row, bit] * value for bit, value in enumerate(action))
                else:
                    pieces = zip(logits[row].split(counts), action, strict=True)
                    weights[row, index] = sum(part[value] for part, value in pieces)
    expected = weights.log_softmax(1)
    for index, action in enumerate(joint):
        actions = th.tensor(action).expand(50, -1)
        log_prob = distribution.log_prob(actions.flatten() if kind == "discrete" else actions)
        allowed = expected[:, index].isfinite()
        th.testing.assert_close(log_prob[allowed], expected[allowed, index], atol=1e-9, rtol=1e-9)
        assert (log_prob[~allowed].exp() == 0).all()
    entropy = -(expected.exp() * expected.nan_to_num(neginf=0.0)).sum(1)
    th.testing.assert_close(distribution.entropy(), entropy, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_with_everything_allowed_it_is_sb3s(kind: str) -> None:
    space = ACTIONS[kind]
    logits = draw_logits(space, 50)
    masks = th.ones(50, sum(value_counts(space)), dtype=th.bool)
    ours = masked_distribution(space, logits, masks)
    theirs = make_proba_distribution(space).proba_distribution(logits)
    actions = theirs.sample()
    th.testing.assert_close(ours.log_prob(actions), theirs.log_prob(actions))
    th.testing.assert_close(ours.entropy(), theirs.entropy())
    th.testing.assert_close(ours.mode().double(), theirs.mode().double())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_no_gradient_reaches_what_is_forbidden(kind: str, scale: float) -> None:
    space = ACTIONS[kind]
    masks = draw_masks(space, 50)
    logits = draw_logits(space, 50).float().requires_grad_()
    distribution = masked_distribution(space, logits, masks)
    loss = distribution.log_prob(distribution.sample()).sum() + distribution.entropy().sum()
    (gradient,) = th.autograd.grad(loss * scale, logits)
    # Of a bit, one logit stands for both values: it matters where both are allowed.
    counted = masks.view(50, -1, 2).all(2) if kind == "multi_binary" else masks
    assert (gradient[~counted] == 0).all() and gradient.isfinite().all()
    several = (
        counted if kind == "multi_binary" else counted & (masks.sum(1, keepdim=True) > len(masks[0]) - 1)
    )
    assert (gradient[several] != 0).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("deterministic", [True, False])
def test_predict_takes_what_is_allowed(kind: str, deterministic: bool) -> None:
    """Of a policy that would far rather do what is forbidden; ``Masked`` refuses that."""
    env = masked_worlds(action=kind)
    model = build(env)
    with th.no_grad():
        model.policy.action_net.bias += 20.0 * th.randn(len(model.policy.action_net.bias))
    obs, state, starts = env.reset(), None, np.ones(3, bool)
    for _ in range(100):
        masks = get_action_masks(env)
        actions, state = model.predict(obs, state, starts, deterministic, action_masks=masks)
        obs, _, starts, _ = env.step(actions)
    single, masks = obs[1], get_action_masks(env)[1]
    for shaped in (masks, masks[None], masks.astype(float), masks.tolist()):
        action, _ = model.predict(single, None, np.ones(1, bool), deterministic, action_masks=shaped)
        env.envs[1].step(action)  # type: ignore[attr-defined]
        env.envs[1].allowed = np.split(masks, np.cumsum(value_counts(env.action_space))[:-1])  # type: ignore[attr-defined]
    with pytest.raises(AssertionError, match="not allowed"):
        for _ in range(100):
            env.step(model.predict(obs, None, np.ones(3, bool), deterministic)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("algorithm", [MemoryPPO, MemoryA2C])
@pytest.mark.parametrize("observation", ["box", "dict"])
def test_training_replays_acting(kind: str, algorithm: Any, observation: str) -> None:
    lengths = SMALL if algorithm is MemoryPPO else dict(n_steps=12, sequence_length=6, seed=0)
    policy_kwargs = dict(core="rmt", core_kwargs=CORE_KWARGS["rmt"], net_arch=[8])
    model = algorithm(
        POLICIES.get(observation, "MlpPolicy"),
        masked_worlds(action=kind, observation=observation),
        learning_rate=3e-3,
        policy_kwargs=policy_kwargs,
        **lengths,
    )
    assert max(replay_errors(model, 3)) < 1e-5
    masks = model.rollout_buffer.action_masks
    assert masks.shape == (12, 3, sum(value_counts(ACTIONS[kind]))) and not masks.all()
    # Without the masks the same rollout has other probabilities.
    model.rollout_buffer._flat_masks = None
    assert model.replay_error() > 0.1


def test_masks_go_with_their_steps() -> None:
    """Through the buffer's cut into sequences: what was chosen is allowed by the mask beside it."""
    model = build(masked_worlds(action="multi_discrete")).learn(36)
    seen = 0
    for data in model.rollout_buffer.get(12):
        masks = data.observations.action_masks  # type: ignore[union-attr]
        assert masks.dtype == th.bool and masks.shape == (12, 5)
        chosen = th.cat(
            [th.nn.functional.one_hot(data.actions[:, i].long(), n) for i, n in ((0, 3), (1, 2))], 1
        )
        assert masks[chosen.bool()].all()
        seen += int(masks.sum())
    assert seen == model.rollout_buffer.action_masks.sum()  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["discrete", "multi_discrete"])
def test_without_a_memory_it_is_maskable_ppo(kind: str) -> None:
    """sb3-contrib's, step for step: the same weights after three updates."""
    trained = []
    options = dict(n_steps=12, batch_size=36, learning_rate=3e-3, ent_coef=0.01, seed=0)
    for algorithm, core, more in (
        (MaskablePPO, {}, {}),
        (MemoryPPO, dict(core=Wire), dict(sequence_length=6)),
    ):
        model = algorithm(
            "MlpPolicy",
            masked_worlds(action=kind),
            policy_kwargs=dict(net_arch=[8]) | core,
            **options,
            **more,
        )
        trained.append(dict(model.learn(3 * 36).policy.named_parameters()))
    reference, parameters = trained
    for name, parameter in parameters.items():
        th.testing.assert_close(parameter, reference[name], atol=1e-5, rtol=1e-4)


def test_worker_processes_and_wrappers() -> None:
    env = VecNormalize(SubprocVecEnv([wrapped_world] * 2, start_method="spawn"))
    try:
        env.reset()
        assert is_masking_supported(env) and get_action_masks(env).shape == (2, 3)
        model = build(env)
        assert max(replay_errors(model, 2)) < 1e-5
        assert model.rollout_buffer.action_masks is not None
        returns, lengths = evaluate_policy(model, env, 4, return_episode_rewards=True)
        assert len(returns) == len(lengths) == 4  # type: ignore[arg-type]
    finally:
        env.close()


def test_masks_are_taken_where_there_are_any_unless_told_otherwise() -> None:
    model = build(worlds())
    assert not is_masking_supported(model.get_env()) and not is_masking_supported(Noise())  # type: ignore[arg-type]
    assert not model.learn(36).use_masking and model.rollout_buffer.action_masks is None
    with pytest.raises(ValueError, match="use_masking=True, but the environment has no action_masks"):
        model.learn(36, use_masking=True)
    with pytest.raises(ValueError, match="has no action_masks"):
        evaluate_policy(model, worlds(), warn=False)
    evaluate_policy(model, worlds(), warn=False, use_masking=False)

    masked = build(masked_worlds()).learn(36, use_masking=True)
    assert masked.use_masking
    with pytest.raises(AssertionError, match="not allowed"):
        masked.learn(36, use_masking=False)
    with pytest.raises(AssertionError, match="not allowed"):
        evaluate_policy(masked, masked_worlds(), warn=False, deterministic=False, use_masking=False)


def test_forgotten_masks_are_noticed(tmp_path: Path) -> None:
    model = build(masked_worlds()).learn(36)
    model.save(tmp_path / "agent")
    loaded = MemoryPPO.load(tmp_path / "agent", env=masked_worlds())
    for agent in (model, loaded):
        with pytest.warns(UserWarning, match="without action_masks"):
            agent.predict(np.zeros(3, np.float32))
    assert max(replay_errors(loaded, 2)) < 1e-5


def test_evaluation_callback(tmp_path: Path) -> None:
    """Every action of the evaluation is allowed; all else is EvalCallback's."""
    model = build(masked_worlds())
    evaluation = DummyVecEnv([wrapped_world])
    seen: list[Any] = []

    class Best(EvalCallback):
        def _on_step(self) -> bool:
            seen.append(self.model)
            return True

    best = Best(evaluation)
    callback = MaskableEvalCallback(
        evaluation, best, n_eval_episodes=20, eval_freq=12, verbose=0, deterministic=False,
        log_path=str(tmp_path), best_model_save_path=str(tmp_path),
    )  # fmt: skip
    model.learn(72, callback=callback)
    assert np.load(tmp_path / "evaluations.npz")["results"].shape == (2, 20)
    assert callback.model is model and seen and all(agent is model for agent in seen)
    loaded = MemoryPPO.load(tmp_path / "best_model")
    mean, _ = evaluate_policy(loaded, evaluation, 5)
    assert np.isfinite(mean)
    assert evaluate_policy(loaded.policy, wrapped_world(), 2, return_episode_rewards=True)
    with pytest.raises(AssertionError, match="not allowed"):
        model.learn(
            72,
            callback=MaskableEvalCallback(
                evaluation, eval_freq=1, n_eval_episodes=20, verbose=0, deterministic=False, use_masking=False
            ),
        )


class Says(Noise):
    """Its masks are what it was told."""

    def __init__(self, masks: Any, action: str = "discrete") -> None:
        super().__init__(action=action)
        self.masks = masks

    def action_masks(self) -> Any:
        return self.masks


@pytest.mark.parametrize(
    ("action", "masks", "message"),
    [
        ("discrete", [0, 0, 0], r"environment 1 allows no action .*Discrete\(3\).*\[0, 0, 0\]"),
        ("multi_discrete", [1, 1, 1, 0, 0], r"environment 1 allows no action \(component 1 of MultiDiscrete"),
        ("multi_binary", [1, 1, 0, 0, 1, 1], r"environment 1 allows no action \(component 1 of MultiBinary"),
        (
            "discrete",
            [1, 1],
            r"mask of environment 1 must be 3 flags.*Discrete\(3\); got 2 numbers: \[1, 1\]",
        ),
        ("multi_binary", [1, 1, 1], r"mask of environment 1 must be 6 flags.*MultiBinary\(3\); got 3"),
        ("discrete", [0, 1, 2], r"mask of environment 1 must be 3 flags \(true or false\)"),
        ("discrete", [0.5, np.nan, 1], r"mask of environment 1 must be 3 flags"),
        ("discrete", None, r"mask of environment 1 must be 3 flags.*got 1 numbers: \[None\]"),
    ],
)
def test_bad_masks_are_named(action: str, masks: Any, message: str) -> None:
    good = np.ones(sum(value_counts(ACTIONS[action])), bool)
    env = DummyVecEnv([lambda: Says(good, action), lambda: Says(masks, action)])
    model = build(env)
    with pytest.raises(ValueError, match=message):
        model.learn(24)
    with pytest.raises(ValueError, match=message.replace("environment 1", "environment 0")):
        get_action_masks(Says(masks, action))
    with pytest.raises(ValueError, match=message):
        model.predict(env.reset(), action_masks=[good, masks])  # type: ignore[arg-type]


def test_masks_of_another_number_of_environments() -> None:
    model = build(masked_worlds())
    with pytest.raises(ValueError, match="2 rows for 3 environments"):
        model.predict(np.zeros((3, 3), np.float32), action_masks=np.ones((2, 3), bool))


def test_masks_may_be_lists_of_the_components() -> None:
    masks = [np.array([True, False, True]), [0, 1]]
    expected = np.array([1, 0, 1, 0, 1], bool)
    np.testing.assert_array_equal(get_action_masks(Says(masks, "multi_discrete")), expected)


def test_box_actions_cannot_be_masked() -> None:
    model = build(DummyVecEnv([lambda: Says([True], "box")]))
    with pytest.raises(ValueError, match=r"actions of Box.*cannot be masked.*use_masking=False"):
        model.learn(12)
    assert not model.learn(12, use_masking=False).use_masking
