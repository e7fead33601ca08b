"""What users pass by habit from elsewhere (SB3, RecurrentPPO, Gymnasium) is answered with what would do."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.type_aliases import GymEnv

from rmt_rl.cores import find_core
from rmt_rl.spaces import check_action_space, check_observation_space

EXPECTED = (
    "env must be an environment, its id, or a VecEnv of Stable-Baselines3 (for several, "
    "make_vec_env(id, n_envs=8) or DummyVecEnv([make_one, make_another]))"
)
OF_RECURRENT_PPO = {
    "lstm_hidden_size": "policy_kwargs=dict(core='lstm', core_kwargs=dict(width={value!r}))",
    "n_lstm_layers": "policy_kwargs=dict(core='lstm', core_kwargs=dict(layers={value!r}))",
    "lstm_kwargs": "policy_kwargs=dict(core='lstm', core_kwargs=dict(dropout=...))",
    "shared_lstm": "policy_kwargs=dict(share_memory={value!r})",
    "enable_critic_lstm": "policy_kwargs=dict(share_memory=False) for a core each, True for a shared one",
}
"""what stands here for the options of RecurrentPPO's policies"""


def as_environment(env: Any) -> GymEnv:
    """Bring what was given as an environment into one form, an id made into what it names.

    :raises TypeError: if it is nothing that SB3 takes
    :raises ValueError: if its spaces cannot be learnt with
    """
    if isinstance(env, str):
        env = gym.make(env)
    elif isinstance(env, type):
        raise TypeError(f"{EXPECTED}, got the class {env.__name__}: pass an instance, env={env.__name__}()")
    elif isinstance(env, VectorEnv) or isinstance(getattr(env, "unwrapped", None), VectorEnv):
        raise TypeError(
            f"{EXPECTED}, got {type(env).__name__}, a vector of Gymnasium: Stable-Baselines3 has vectors of "
            "its own, which make_vec_env makes of the same id"
        )
    elif isinstance(env, list | tuple | set | dict):
        raise TypeError(f"{EXPECTED}, got a {type(env).__name__} of {len(env)}")
    elif not (hasattr(env, "observation_space") and hasattr(env, "action_space")):
        would = ": call it, or pass DummyVecEnv([it])" if callable(env) else ""
        raise TypeError(f"{EXPECTED}, got {env!r:.100}{would}")
    check_observation_space(env.observation_space)
    check_action_space(env.action_space)
    return env  # type: ignore[no-any-return]


def unknown_policy(name: str, known: Iterable[str]) -> str:
    """What to say of a policy's name that is none."""
    known = list(known)
    meant = name.replace("Lstm", "").replace("LSTM", "").replace("Gru", "")
    text = (
        f"policy {name!r} is unknown; there are {', '.join(known)}, or a subclass of MemoryActorCriticPolicy"
    )
    if name != meant and meant in known:
        return f"{text}. The memory is an option of each: {meant!r} with policy_kwargs=dict(core='lstm')"
    near = get_close_matches(name.lower(), [other.lower() for other in known], n=1, cutoff=0.5)
    hint = next((other for other in known if near and other.lower() == near[0]), None)
    return f"{text}. Did you mean {hint!r}?" if hint else text


def check_set_up(model: Any, base: type) -> None:
    """Raise TypeError unless a model has spaces, and a policy that is a subclass of ``base``."""
    policy = model.policy_class
    if not (isinstance(policy, type) and issubclass(policy, base)):
        got = policy.__name__ if isinstance(policy, type) else f"{policy!r:.100}"
        would = ' (pass "MlpPolicy" with policy_kwargs=dict(core="lstm"))' if "Recurrent" in got else ""
        raise TypeError(f"the policy must be a {base.__name__}, got {got}{would}")
    if not hasattr(model, "observation_space"):
        raise TypeError(f"{EXPECTED}, got None")


def check_algorithm_kwargs(algorithm: type, given: Mapping[str, Any]) -> None:
    """Raise TypeError for arguments that an algorithm has not, with what would do.

    :param algorithm: SB3's, which takes them
    :param given: by keyword, without those that are the subclass's own
    """
    parameters = inspect.signature(algorithm).parameters
    for name, value in given.items():
        if name in parameters:
            continue
        if name in OF_RECURRENT_PPO:
            would = OF_RECURRENT_PPO[name].format(value=value)
        elif name in _policy_options():
            would = f"an option of the policy, policy_kwargs=dict({name}={value!r:.60})"
        elif name in _core_options():
            would = f"an option of a memory core, policy_kwargs=dict(core_kwargs=dict({name}={value!r:.60}))"
        else:
            near = get_close_matches(name, [*parameters, "sequence_length", *_policy_options()], n=1)
            would = f"did you mean {near[0]!r}?" if near else "see the class's docstring for what there is"
        raise TypeError(f"there is no argument {name!r}: {would}")


def check_policy_kwargs(given: Mapping[str, Any], core: Any) -> None:
    """Raise TypeError for arguments that a policy has not, with what would do.

    :param given: those that go to SB3's policy
    :param core: which core there is to be
    """
    parameters = inspect.signature(ActorCriticPolicy).parameters
    for name, value in given.items():
        if name in parameters:
            continue
        if name in OF_RECURRENT_PPO:
            would = OF_RECURRENT_PPO[name].format(value=value)
        elif name in inspect.signature(find_core(core)).parameters or name in _core_options():
            would = f"an option of the memory core, core_kwargs=dict({name}={value!r:.60})"
        else:
            near = get_close_matches(name, [*parameters, *_policy_options()], n=1)
            would = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(_policy_options())}"
        raise TypeError(f"there is no policy argument {name!r}: {would}")


def _policy_options() -> list[str]:
    from rmt_rl.policies import MemoryActorCriticPolicy

    own = inspect.signature(MemoryActorCriticPolicy).parameters
    both = {**own, **inspect.signature(ActorCriticPolicy).parameters}
    fixed = ("observation_space", "action_space", "lr_schedule", "args", "kwargs", "use_sde")
    return [name for name in both if name not in fixed]


def _core_options() -> set[str]:
    from rmt_rl.cores import CORES

    return {name for core in CORES.values() for name in inspect.signature(core).parameters} - {"input_dim"}
