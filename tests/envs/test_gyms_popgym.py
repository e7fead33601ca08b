"""POPGym behind its adapter: its own episodes, the right ends, nothing leaked, the catalogue's scores."""

import random
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from envs import gyms
from envs.gyms.catalogue import CATALOGUE
from envs.gyms.encoding import Encoder
from tests.envs.gyms_play import episode, random_walk, total

every_id = pytest.mark.parametrize("env_id", gyms.POPGYM_IDS)


def make(name: str, **kwargs: Any) -> Any:
    return gyms.make(f"popgym-{name}-v0", **kwargs)


def score(env_id: str, which: str) -> float:
    value = getattr(CATALOGUE[f"RMT/popgym-{env_id}-v0"], which)
    assert value is not None
    return value


@every_id
def test_plays_popgyms_own_episodes_as_its_own_wrappers_show_them(env_id: str) -> None:
    from popgym.wrappers import Antialias, Flatten, PreviousAction

    env = gyms.make(env_id)
    own = Flatten(Antialias(PreviousAction(gyms.make(env_id).unwrapped.game)))
    env.action_space.seed(0)
    shown, _ = env.reset(seed=2)
    expected, _ = own.reset(seed=2)
    size = Encoder(env.unwrapped.game.observation_space).size
    np.testing.assert_array_equal(shown[:size], expected[:size].astype(np.float32))
    # At the first step POPGym shows an action that may be a real one; here there is none, and a flag.
    assert not shown[size:-1].any() and shown[-1] == expected[-1] == 1
    terminated = truncated = False
    for _ in range(70):
        if terminated or truncated:
            break
        shown, reward, terminated, truncated, _ = env.step(action := env.action_space.sample())
        expected, own_reward, own_terminated, own_truncated, _ = own.step(action)
        # POPGym's flag is one-hot as well.
        np.testing.assert_array_equal(shown[:-1], expected[:-2].astype(np.float32))
        assert shown[-1] == expected[-1] == 0
        assert reward == own_reward
        assert terminated == own_terminated and truncated == (own_truncated and not own_terminated)


@every_id
def test_info_is_empty_at_every_step(env_id: str) -> None:
    assert all(info == {} for *_, info in random_walk(gyms.make(env_id), 60, seed=1))


@pytest.mark.parametrize(
    ("name", "length", "is_timeout"),
    [
        ("RepeatFirstEasy", 51, False),
        ("RepeatPreviousMedium", 103, False),
        ("AutoencodeEasy", 51 + 52, False),
        ("CountRecallEasy", 51, False),
        ("HigherLowerHard", 155, False),
        ("MultiarmedBanditEasy", 200, True),
        ("ConcentrationEasy", 104, True),
        ("LabyrinthExploreHard", 1023, True),
        ("PositionOnlyPendulumMedium", 150, True),
    ],
)
def test_the_end_of_a_deck_terminates_and_a_time_limit_truncates(
    name: str, length: int, is_timeout: bool
) -> None:
    steps = episode(make(name), lambda env: np.zeros_like(env.action_space.sample()), seed=0)
    assert len(steps) == length
    assert steps[-1][2:4] == (not is_timeout, is_timeout)


def battleship(env: Any, hit: bool) -> np.ndarray:
    game = env.game
    return np.argwhere((game.board == 1) & (game.guesses == 0) if hit else game.board == 0)[0]


@pytest.mark.parametrize(("misses", "end"), [(52, (True, False)), (53, (False, True))])
def test_an_end_at_the_time_limit_is_no_time_out(misses: int, end: tuple[bool, bool]) -> None:
    hits = iter([False] * misses + [True] * 12)
    steps = episode(make("BattleshipEasy"), lambda env: battleship(env, next(hits)), seed=0)
    assert len(steps) == 64 and steps[-1][2:4] == end


def oracle(name: str) -> Any:
    """A player that reads what is hidden."""

    def count_recall(env: Any) -> int:
        return int(env.game.counts[env.game.query])

    def autoencode(env: Any) -> int:
        deck = env.game.deck
        return int(deck.suits_idx[deck["system"][-1]])

    def concentration(env: Any) -> int:
        game = env.game
        turned = game.deck["in_play_idx"]
        hidden = [i for i in range(len(game.state)) if i not in game.deck["face_up_idx"] and i not in turned]
        return hidden[0] if not turned else next(i for i in hidden if game.state[i] == game.state[turned[0]])

    def higher_lower(env: Any) -> int:
        deck = env.game.deck
        following = deck.ranks_idx[deck.idx[len(deck) - 1]]
        return 0 if following > deck.show("player", ["ranks_idx"]).item() else 1

    def pole(env: Any) -> int:
        return int(env.get_state() @ (1.0, 1.6, 18.7, 3.4) > 0)

    def mine_sweeper(env: Any) -> np.ndarray:
        return np.argwhere(env.game.hidden_grid == 0)[0]

    players = {
        "RepeatFirst": lambda env: int(env.get_state()[0]),
        "RepeatPrevious": lambda env: int(env.get_state()[0][0]),
        "CountRecall": count_recall,
        "Autoencode": autoencode,
        "Battleship": lambda env: battleship(env, True),
        "Concentration": concentration,
        "HigherLower": higher_lower,
        "MineSweeper": mine_sweeper,
        "MultiarmedBandit": lambda env: int(env.get_state().argmax()),
    }
    return next((player for start, player in players.items() if name.startswith(start)), pole)


@pytest.mark.parametrize(
    "name",
    [
        *("RepeatFirstEasy", "RepeatFirstHard", "RepeatPreviousEasy", "RepeatPreviousHard"),
        *("CountRecallEasy", "CountRecallHard", "AutoencodeEasy", "AutoencodeHard", "BattleshipHard"),
        *("ConcentrationMedium", "ConcentrationHard", "MineSweeperEasy", "MineSweeperHard"),
        *("PositionOnlyCartPoleHard", "VelocityOnlyCartpoleEasy", "NoisyPositionOnlyCartPoleHard"),
    ],
)
def test_who_knows_what_is_hidden_reaches_the_oracles_score(name: str) -> None:
    steps = episode(make(name), oracle(name), seed=0)
    assert total(steps) == pytest.approx(score(name, "oracle"))


@pytest.mark.parametrize("name", ["HigherLowerEasy", "MultiarmedBanditEasy"])
def test_who_knows_what_is_hidden_reaches_the_oracles_score_on_average(name: str) -> None:
    env = make(name)
    returns = [total(episode(env, oracle(name), seed)) for seed in (0, *[None] * 59)]
    assert abs(np.mean(returns) - score(name, "oracle")) < 4 * np.std(returns) / np.sqrt(len(returns))


def test_counting_cards_is_worth_little_in_higher_lower() -> None:
    def play(env: Any, count: bool) -> int:
        card = env.game.deck.show("player", ["ranks_idx"]).item()
        left = np.round(4 - 4 * env.get_state()) if count else np.ones(13)
        return int(left[card + 1 :].sum() < left[:card].sum())

    env, n = make("HigherLowerEasy"), 60
    counting = [total(episode(env, lambda env: play(env, True), seed)) for seed in range(n)]
    forgetting = [total(episode(env, lambda env: play(env, False), seed)) for seed in range(n)]
    assert abs(np.mean(counting) - score("HigherLowerEasy", "ceiling")) < 4 * np.std(counting) / np.sqrt(n)
    assert abs(np.mean(forgetting) - 84 / 169) < 4 * np.std(forgetting) / np.sqrt(n)


def test_mazes_follow_the_seed_and_not_the_global_generators() -> None:
    def mazes(env: Any) -> list[list[int]]:
        return [env.unwrapped.game.maze.grid.ravel().tolist() for _ in range(3) if env.reset()]

    env, other = make("LabyrinthExploreEasy"), make("LabyrinthExploreEasy")
    env.reset(seed=1)
    expected = mazes(env)
    other.reset(seed=1)
    random.random()
    np.random.rand()  # noqa: NPY002  # what mazelib draws from
    assert mazes(other) == expected
    assert len({tuple(maze) for maze in expected}) == 3


def test_without_the_previous_action_popgyms_observation_is_all() -> None:
    env = make("AutoencodeEasy", previous_action=False)
    assert env.observation_space.shape == (2 + 4,)
    observation, _ = env.reset(seed=0)
    watching, suit = env.unwrapped.game.make_obs(env.unwrapped.game.deck["system"][-1])
    assert observation.tolist() == np.eye(2)[watching].tolist() + np.eye(4)[suit].tolist()


def test_encodes_each_kind_of_space() -> None:
    assert Encoder(spaces.Discrete(3))(1).tolist() == [0, 1, 0]
    assert Encoder(spaces.MultiDiscrete([2, 3]))(np.array([1, 0])).tolist() == [0, 1, 1, 0, 0]
    assert Encoder(spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))))((0, 1)).tolist() == [1, 0, 0, 1]
    box = Encoder(spaces.Box(np.array([[1.0, -2.0]], np.float32), np.array([[3.0, 2.0]], np.float32)))
    assert box(np.array([[1.5, 0.5]])).tolist() == [1.5, 0.5] and box(None).tolist() == [0, 0]
    assert box.space() == spaces.Box(np.array([0, -2], np.float32), np.array([3, 2], np.float32))
    for space in (spaces.Dict({}), spaces.Discrete(2, start=1), spaces.Tuple((spaces.Box(0, 1),))):
        with pytest.raises(TypeError, match="must be a Box, or a Discrete, MultiDiscrete or Tuple"):
            Encoder(space)


def test_renders_what_was_seen_done_and_earned() -> None:
    env = make("RepeatFirstEasy", render_mode="ansi")
    suit = int(env.reset(seed=0)[0][:4].argmax())
    assert env.render() == f"sees {suit}\n"
    shown, *_ = env.step((suit + 1) % 4)
    assert env.render() == f"did {(suit + 1) % 4}, reward -0.020, sees {shown[:4].argmax()}\n"
    for name in ("ConcentrationMedium", "PositionOnlyPendulumEasy"):
        env = make(name, render_mode="rgb_array")
        env.reset(seed=0)
        first = env.render()
        assert first.dtype == np.uint8 and first.shape[2] == 3 and first.std() > 0
        env.step(env.action_space.sample())
        assert env.render().shape == first.shape and (env.render() != first).any()
    assert make("RepeatFirstEasy").unwrapped.render() is None


def test_what_is_hidden_can_be_read() -> None:
    env = make("CountRecallEasy")
    env.reset(seed=0)
    assert env.unwrapped.get_state() in env.unwrapped.state_space


def test_refuses_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="render_mode='human': must be None or one of ansi, rgb_array"):
        gyms.POPGymTask("popgym-RepeatFirstEasy-v0", render_mode="human")
    with pytest.raises(ValueError, match="env_id='RepeatFirst': must be one of popgym-AutoencodeEasy-v0"):
        gyms.POPGymTask("RepeatFirst")
    with pytest.raises(ValueError, match=r"options=\{'k': 3\}: .* none"):
        make("RepeatFirstEasy").reset(options={"k": 3})
