"""The embedding of ids equals one-hots and a linear map, in value, gradient and inside SB3's policy."""

from collections import OrderedDict

import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.policies import MultiInputActorCriticPolicy
from stable_baselines3.common.preprocessing import preprocess_obs
from torch.nn.functional import one_hot

from rmt_rl.features import IdEmbedding, IdEmbeddingExtractor

COUNTS = np.broadcast_to(np.array([11, 6, 3]), (7, 7, 3))
IMAGE = spaces.Box(np.zeros((7, 7, 3), np.uint8), (COUNTS - 1).astype(np.uint8), dtype=np.uint8)
EVERYTHING = spaces.Dict(
    {
        "image": IMAGE,
        "direction": spaces.Discrete(4),
        "pair": spaces.MultiDiscrete([2, 3]),
        "bits": spaces.MultiBinary(3),
        "speed": spaces.Box(-1, 1, (2,), dtype=np.float32),
    }
)


def sample_ids(n: int, seed: int = 0) -> torch.Tensor:
    return torch.as_tensor(np.random.default_rng(seed).integers(0, COUNTS, size=(n, 7, 7, 3)))


def by_one_hots(ids: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """One-hot each entry by itself, concatenate, multiply: an independent computation of the same map."""
    columns = [one_hot(ids.flatten(1)[:, k], int(n)) for k, n in enumerate(COUNTS.flatten())]
    return torch.cat(columns, dim=1).to(weight.dtype) @ weight


def test_equals_one_hots_and_a_linear_map_in_value_and_gradient() -> None:
    embedding = IdEmbedding(COUNTS, 5).double()
    torch.nn.init.normal_(embedding.weight, generator=torch.Generator().manual_seed(0))
    ids = sample_ids(9)
    weight = embedding.weight.detach().clone().requires_grad_()
    ours, theirs = embedding(ids.float()), by_one_hots(ids, weight)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    direction = torch.randn(9, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    (ours * direction).sum().backward()
    (theirs * direction).sum().backward()
    torch.testing.assert_close(embedding.weight.grad, weight.grad, rtol=1e-12, atol=1e-12)


def test_every_id_of_every_entry_has_a_row_of_its_own() -> None:
    embedding = IdEmbedding(COUNTS, 2)
    lowest, highest = torch.zeros(1, 7, 7, 3), torch.as_tensor(COUNTS - 1)[None]
    assert embedding.weight.shape == (7 * 7 * 20, 2)
    embedding.weight.data.zero_()
    embedding.weight.data[-1] = 1.0  # the largest id of the last entry
    assert embedding(lowest).tolist() == [[0.0, 0.0]] and embedding(highest).tolist() == [[1.0, 1.0]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.bfloat16])
def test_ids_may_come_in_any_type_and_are_rounded(dtype: torch.dtype) -> None:
    extractor, ids = IdEmbeddingExtractor(IMAGE), sample_ids(4)
    torch.testing.assert_close(extractor(ids.to(dtype)), extractor(ids), rtol=0, atol=0)
    torch.testing.assert_close(extractor(ids - 0.001), extractor(ids), rtol=0, atol=0)


def test_a_dict_is_one_linear_map_of_all_its_one_hots() -> None:
    extractor = IdEmbeddingExtractor(EVERYTHING, features_dim=6)
    observation = {name: space.sample() for name, space in EVERYTHING.spaces.items()}
    batch = preprocess_obs(
        {k: torch.as_tensor(np.asarray(v))[None] for k, v in observation.items()}, EVERYTHING
    )
    assert batch["image"].dtype == torch.float32 and batch["image"].max() > 1  # SB3 took it for no picture
    expected = by_one_hots(batch["image"].long(), extractor.embeddings["image"].weight) + extractor.bias
    expected = expected + by_presence(batch["image"][0].long(), extractor.presences["image"].weight)
    for name in ("direction", "pair", "bits", "speed"):
        expected = expected + batch[name].flatten(1) @ extractor.linears[name].weight.T
    torch.testing.assert_close(extractor(batch), expected.relu())
    assert (extractor.bias == 0).all() and extractor.features_dim == 6


def by_presence(image: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The sum of the vectors of the ids that are anywhere in an image (7, 7, 3), channel by channel."""
    total, first = torch.zeros(weight.shape[1]), 0
    for channel, count in enumerate(COUNTS[0, 0]):
        for thing in range(count):
            if (image[..., channel] == thing).any():
                total = total + weight[first + thing]
        first += count
    assert first == len(weight)
    return total


def test_a_thing_is_present_wherever_it_is_seen() -> None:
    extractor = IdEmbeddingExtractor(IMAGE)
    empty = torch.zeros(1, 7, 7, 3, dtype=torch.long)
    here, there = empty.clone(), empty.clone()
    here[0, 1, 2, 0] = there[0, 6, 0, 0] = 5
    presence = extractor.presences["observation"]
    torch.testing.assert_close(presence(here), presence(there))
    torch.testing.assert_close(presence(here) - presence(empty), presence.weight[5:6])
    assert not torch.allclose(extractor(here), extractor(there))  # and yet it can be told where


def test_every_part_matters_and_order_does_not() -> None:
    extractor = IdEmbeddingExtractor(EVERYTHING)
    samples = [{name: space.sample() for name, space in EVERYTHING.spaces.items()} for _ in range(8)]
    batch = {k: torch.as_tensor(np.stack([s[k] for s in samples])) for k in samples[0]}
    batch = preprocess_obs(batch, EVERYTHING)
    features = extractor(batch)
    assert features.shape == (8, 128)
    torch.testing.assert_close(extractor(OrderedDict(reversed(batch.items()))), features)
    for name in batch:
        changed = {**batch, name: batch[name].flip(0)}
        assert not torch.allclose(extractor(changed), features)


@pytest.mark.parametrize("space", [IMAGE, EVERYTHING, spaces.Box(0, 3, (2,), dtype=np.int64)])
@pytest.mark.parametrize("layer_norm", [False, True])
def test_features_start_with_unit_variance(space: spaces.Space, layer_norm: bool) -> None:
    torch.manual_seed(0)
    extractor = IdEmbeddingExtractor(space, features_dim=4096, layer_norm=layer_norm)
    space.seed(0)
    sample = space.sample()
    parts = (
        {k: torch.as_tensor(np.asarray(v))[None] for k, v in sample.items()}
        if isinstance(sample, dict)
        else torch.as_tensor(sample)[None]
    )
    features = extractor(preprocess_obs(parts, space))
    # One from what is where, and for grids a share for each id that is present, of which six count as one.
    variance = 1.0
    for name in extractor.presences:
        image = sample[name] if isinstance(sample, dict) else sample
        variance += sum(len(np.unique(image[..., channel])) for channel in range(3)) / 6
    # Of a normal's positive half, the mean square is half the variance.
    expected = 0.5 if layer_norm else 0.5 * variance
    assert features.square().mean().item() == pytest.approx(expected, rel=0.12)


def test_trains_inside_sb3s_policy_and_reloads() -> None:
    policy = MultiInputActorCriticPolicy(
        EVERYTHING, spaces.Discrete(3), lambda _: 1e-3, features_extractor_class=IdEmbeddingExtractor
    )
    observation = {name: space.sample() for name, space in EVERYTHING.spaces.items()}
    obs, _ = policy.obs_to_tensor(observation)
    values, log_prob, _ = policy.evaluate_actions(obs, torch.zeros(1))
    (values.sum() + log_prob.sum()).backward()
    assert all(p.grad is not None for p in policy.features_extractor.parameters())
    other = MultiInputActorCriticPolicy(
        EVERYTHING, spaces.Discrete(3), lambda _: 1e-3, features_extractor_class=IdEmbeddingExtractor
    )
    other.load_state_dict(policy.state_dict())
    torch.testing.assert_close(other.predict_values(obs), policy.predict_values(obs))


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Box(0, 255, (84, 84, 3), dtype=np.uint8), "ids from 0 to at most 63.* 0 to 255"),
        (spaces.Box(-1, 3, (2,), dtype=np.int64), "from -1 to 3"),
        (spaces.Box(-1, 1, (2,), dtype=np.float32), "must hold a Box of integer ids"),
        (spaces.Discrete(3), "must hold a Box of integer ids"),
        (spaces.Dict({"speed": spaces.Box(-1, 1, (2,))}), "must hold a Box of integer ids"),
        (spaces.Dict({"image": IMAGE, "text": spaces.Text(5)}), "'text' must be a Box, Discrete"),
        (spaces.Text(5), "'observation' must be a Box"),
    ],
)
def test_refuses_spaces_without_ids(space: spaces.Space, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        IdEmbeddingExtractor(space)


def test_more_ids_by_permission_and_a_width() -> None:
    space = spaces.Box(0, 99, (2,), dtype=np.int16)
    assert IdEmbeddingExtractor(space, max_ids=100)(torch.tensor([[0, 99]])).shape == (1, 128)
    with pytest.raises(ValueError, match="features_dim must be at least 1, got 0"):
        IdEmbeddingExtractor(space, features_dim=0)
