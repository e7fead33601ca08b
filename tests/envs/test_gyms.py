"""The gyms of others by their ids: each can be made, is accepted, can be repeated; none is imported early."""

import random
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gym_check_env
from gymnasium.utils.env_checker import data_equivalence
from stable_baselines3 import PPO
from stable_baselines3.common.env_checker import check_env as sb3_check_env

from envs import gyms, make_sb3_vec
from envs.catalogue import KINDS
from envs.gyms.catalogue import CATALOGUE
from envs.gyms.measure import random_returns
from envs.minigrid import MEMORY_LEVELS
from tests.envs.gyms_play import random_walk

ROOT = Path(__file__).resolve().parents[2]
every_id = pytest.mark.parametrize("env_id", gyms.IDS)
# What the checkers say of spaces that are as they have to be, and of MiniGrid's wrapper and grids of ids.
UNAVOIDABLE = ".*(value is -?infinity|symmetric and norm|has a wrapper|minimal resolution|is an image but)"
POPGYM = r"needs popgym \(.*pip install -c constraints.txt -e '.\[popgym\]'"
MEMORY_GYM = r"needs memory-gym 1.0.2 \(.*pip install --no-deps -r requirements-memory-gym.txt"
EXACT = [
    row.id
    for row in CATALOGUE.values()
    if row.exact and row.metric == "return" and row.id.endswith("Easy-v0")
]


def test_lists_what_the_packages_register() -> None:
    assert (len(gyms.POPGYM_IDS), len(gyms.MEMORY_GYM_IDS), len(gyms.MINIGRID_IDS)) == (48, 10, 6)
    assert len(set(gyms.IDS)) == 64
    for own in (gyms.POPGYM_IDS[0], gyms.MEMORY_GYM_IDS[0]):
        gyms.make(own)  # which has the package register its ids
    registered: dict[str, set[str]] = {}
    for env_id, spec in gym.registry.items():
        if isinstance(spec.entry_point, str):
            registered.setdefault(spec.entry_point.split(".")[0], set()).add(env_id)
    assert registered["popgym"] == set(gyms.POPGYM_IDS)
    assert registered["memory_gym"] == set(gyms.MEMORY_GYM_IDS)
    assert list(gyms.MINIGRID_IDS) == [f"MiniGrid-Memory{level}-v0" for level in MEMORY_LEVELS]


def test_a_new_process_imports_no_gym_until_it_makes_one() -> None:
    code = """
import sys
import gymnasium as gym
import envs.gyms, envs.gyms.catalogue
early = {"popgym", "memory_gym", "pygame", "minigrid", "torch"} & set(sys.modules)
assert not early, early
for env_id in ("popgym-LabyrinthEscapeEasy-v0", "MemoryGym-MysteryPath-v0", "MiniGrid-MemoryS7-v0"):
    env = gym.make(f"envs.gyms:RMT/{env_id}")
    assert env.reset(seed=0)[0] in env.observation_space
assert {"popgym", "memory_gym", "pygame", "minigrid"} <= set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # no warning, and no sound card is looked for


@every_id
def test_both_checkers_accept_it_and_its_spec_makes_it_again(env_id: str) -> None:
    env = gyms.make(env_id)
    # MiniGrid's tasks are a wrapper, beneath Gymnasium's own two.
    bare = env.env.env if "MiniGrid" in env_id else env.unwrapped
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", UNAVOIDABLE)
        gym_check_env(bare, skip_render_check=True)
        sb3_check_env(bare)
    again = gym.make(env.spec)
    assert again.observation_space == env.observation_space and again.action_space == env.action_space


@every_id
def test_the_same_seed_gives_the_same_episodes_whatever_else_is_played(env_id: str) -> None:
    env, other = gyms.make(env_id), gyms.make(f"envs.gyms:{env_id}")
    expected = list(random_walk(env, 60, seed=3))
    list(random_walk(env, 30, seed=4))
    others = random_walk(other, 200, seed=5)
    again = []
    for step in random_walk(env, 60, seed=3):
        again.append(step)
        next(others)
    assert data_equivalence(again, expected)


@every_id
def test_no_step_both_terminates_and_truncates(env_id: str) -> None:
    steps = random_walk(gyms.make(env_id), 250, seed=0)
    assert not any(terminated and truncated for _, _, terminated, truncated, _ in steps)


@pytest.mark.parametrize("env_id", ["popgym-LabyrinthExploreEasy-v0", "MortarMayhem-v0"])
def test_the_global_generators_are_left_alone(env_id: str) -> None:
    env = gyms.make(env_id)
    state = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002  # others draw from it
    list(random_walk(env, 10, seed=3))
    env.reset()
    assert (random.getstate(), np.random.get_state()[1].tolist()) == state  # noqa: NPY002


@pytest.mark.parametrize(
    ("name", "env_id"),
    [
        ("popgym-RepeatFirstEasy-v0", "RMT/popgym-RepeatFirstEasy-v0"),
        ("envs.gyms:RMT/popgym-RepeatFirstEasy-v0", "RMT/popgym-RepeatFirstEasy-v0"),
        ("MysteryPath-Grid-v0", "RMT/MemoryGym-MysteryPath-Grid-v0"),
        ("MemoryGym-MysteryPath-Grid-v0", "RMT/MemoryGym-MysteryPath-Grid-v0"),
        ("RMT/MiniGrid-MemoryS7-v0", "RMT/MiniGrid-MemoryS7-v0"),
    ],
)
def test_make_takes_ids_with_and_without_a_namespace(name: str, env_id: str) -> None:
    assert gyms.make(name).spec.id == env_id


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("popgym-RepeatLastEasy-v0", r"got 'popgym-RepeatLastEasy-v0'.* 'RMT/popgym-RepeatFirstEasy-v0'"),
        ("MiniGrid-MemoryS8-v0", r"one of the 64 .* got 'MiniGrid-MemoryS8-v0'.* 'RMT/MiniGrid-MemoryS\d"),
    ],
)
def test_an_unknown_id_is_refused_with_the_nearest(env_id: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        gyms.make(env_id)


@pytest.mark.parametrize(
    ("missing", "env_id", "words"),
    [
        ("popgym", "popgym-RepeatFirstEasy-v0", POPGYM),
        ("memory_gym", "MysteryPath-v0", MEMORY_GYM),
        ("pygame", "MysteryPath-v0", MEMORY_GYM),
        ("envs.minigrid", "MiniGrid-MemoryS7-v0", r"needs minigrid \(.*-e '.\[envs\]'"),
    ],
)
def test_a_missing_package_is_named_with_what_to_install(
    missing: str, env_id: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=words):
        gyms.make(env_id)


@pytest.mark.parametrize(
    ("env_id", "words"),
    [
        ("popgym-LabyrinthEscapeEasy-v0", r"needs popgym\[navigation\].*pip install -c constraints.txt"),
        ("MysteryPath-v0", MEMORY_GYM),  # 0.3.0, which pip would choose for a new gymnasium, has other ids
    ],
)
def test_a_package_without_the_id_is_as_good_as_missing(
    env_id: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gyms.make(env_id)
    monkeypatch.delitem(gym.registry, env_id)
    with pytest.raises(ImportError, match=words):
        gyms.make(env_id)


@pytest.mark.parametrize(
    ("env_id", "policy"),
    [
        ("popgym-AutoencodeEasy-v0", "MlpPolicy"),
        ("MemoryGym-Endless-MysteryPath-v0", "CnnPolicy"),
        ("MemoryGym-MortarMayhemB-Grid-v0", "MultiInputPolicy"),
    ],
)
def test_an_agent_trains_without_a_warning(env_id: str, policy: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        venv = make_sb3_vec(f"envs.gyms:RMT/{env_id}", 2, seed=0)
        model = PPO(policy, venv, n_steps=16, batch_size=32, n_epochs=1, seed=0).learn(64)
    assert model.num_timesteps == 64
    assert all(np.isfinite(parameter.detach().numpy()).all() for parameter in model.policy.parameters())
    venv.close()


def test_the_catalogue_has_a_row_for_every_id() -> None:
    assert list(CATALOGUE) == list(gyms.IDS)
    for row in CATALOGUE.values():
        assert row.kind in KINDS and row.metric in ("return", "success")
        assert (row.reference is None) == (row.source == "")
        known = [score for score in (row.chance, row.ceiling, row.oracle) if score is not None]
        assert known == sorted(known)


@pytest.mark.parametrize("env_id", EXACT)
def test_random_actions_reach_the_chance_that_follows_from_the_rules(env_id: str) -> None:
    returns = random_returns(env_id, 30)
    assert abs(returns.mean() - CATALOGUE[env_id].chance) < 4 * returns.std() / np.sqrt(len(returns))


def test_measuring_needs_episodes() -> None:
    with pytest.raises(ValueError, match="episodes=0: must be at least 1"):
        random_returns(gyms.IDS[0], 0)
