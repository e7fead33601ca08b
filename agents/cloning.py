"""Behaviour cloning: a policy learns by maximum likelihood what an expert did, on recorded sequences.

The expert is a scripted policy of the environment. It should go by what the agent can see: what it does by
knowing the answer beforehand, no memory can learn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch as th
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from agents.environments import masks_of
from rmt_rl import MemoryActorCriticPolicy, MemoryPPO, MemoryState
from rmt_rl.policies import Observation
from rmt_rl.states import SequenceBatch

Expert = Callable[[Observation, np.ndarray[Any, Any]], np.ndarray[Any, Any]]
"""From observations (N, ...) and episode starts (N,) to actions (N, ...); it is asked at every step."""


class Demonstration(NamedTuple):
    """T steps of N environments, and what the expert did."""

    observations: Observation
    """(N, T, ...)"""
    actions: np.ndarray[Any, Any]
    """(N, T, ...)"""
    episode_starts: np.ndarray[Any, Any]
    """(N, T) bool"""
    action_masks: np.ndarray[Any, Any] | None = None
    """(N, T, A) bool, what was allowed, of environments with action masks"""


def find_expert(env: VecEnv) -> Expert:
    """The environments' expert: one that sees what an agent sees if there is one, else one that knows.

    It is ``scripted_policy()`` of the vector, as the recall tasks have it, or ``informed_action()`` or
    ``optimal_action()`` of each environment.

    :raises ValueError: if there is none
    """
    scripted = getattr(env, "scripted_policy", None)
    if scripted is not None:
        policy, memory = scripted(), None

        def act(observations: Observation, starts: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            nonlocal memory
            actions, memory = policy.predict(observations, memory, starts)
            return np.asarray(actions)

        return act
    for name in ("informed_action", "optimal_action"):
        try:
            # It finds the method without calling it: an expert is to be asked once a step.
            env.env_method("get_wrapper_attr", name)
        except AttributeError:
            continue
        return lambda observations, starts, name=name: np.array(env.env_method(name))  # type: ignore[misc]
    raise ValueError(
        "these environments have no expert: no scripted_policy, informed_action or optimal_action"
    )


def record(env: VecEnv, expert: Expert, steps: int, length: int) -> list[Demonstration]:
    """Let the expert play from new episodes on.

    :param steps: how many in each environment, at least
    :param length: T, steps of a demonstration; the next one goes on where it ends
    """
    demonstrations = []
    masks = masks_of(env)
    seen: Any = env.reset()
    starts = np.ones(env.num_envs, dtype=bool)
    for _ in range(-(-steps // length)):
        observations, actions, begins = [], [], []
        allowed: list[np.ndarray[Any, Any]] = []
        for _ in range(length):
            allowed += masks().values()
            action = expert(seen, starts)
            observations.append(seen)
            actions.append(action)
            begins.append(starts)
            seen, _, dones, _ = env.step(action)
            starts = np.asarray(dones, dtype=bool)
        demonstrations.append(
            Demonstration(
                _stack(observations),
                np.stack(actions, 1),
                np.stack(begins, 1),
                np.stack(allowed, 1) if allowed else None,
            )
        )
    return demonstrations


def clone(
    model: MemoryPPO,
    demonstrations: Sequence[Demonstration],
    *,
    epochs: int = 10,
    learning_rate: float = 1e-3,
    max_grad_norm: float = 0.5,
    on_epoch: Callable[[float], Any] | None = None,
) -> list[float]:
    """Make the expert's actions likely: an update for each demonstration, in their order, pass by pass.

    Gradients reach back to a demonstration's beginning; the memory before it is that of having seen those
    before. The critic learns nothing, and the model's own optimiser is left as it is.

    :param demonstrations: what ``record`` gave
    :param learning_rate: of Adam at the beginning; it falls in a line to a tenth
    :param on_epoch: called after each pass with its loss
    :return: the loss, the mean of -log p(action), of each pass
    :raises ValueError: if there is nothing to learn from
    """
    if not demonstrations or epochs < 1:
        raise ValueError(f"there must be demonstrations and epochs, got {len(demonstrations)} and {epochs}")
    losses: list[float] = []
    optimizer = th.optim.Adam(model.policy.parameters(), learning_rate, eps=1e-5)
    for epoch in range(epochs):
        optimizer.param_groups[0]["lr"] = learning_rate * (1.0 - 0.9 * epoch / epochs)
        state: MemoryState | None = None
        of_epoch = []
        for demonstration in demonstrations:
            loss = _loss(model.policy, demonstration, state)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(model.policy.parameters(), max_grad_norm)
            optimizer.step()
            of_epoch.append(loss.item())
            # Under the weights of now, as acting would have it.
            state = model.warm_up(demonstration.observations, state, demonstration.episode_starts)
        losses.append(float(np.mean(of_epoch)))
        if on_epoch is not None:
            on_epoch(losses[-1])
    return losses


def _loss(
    policy: MemoryActorCriticPolicy, demonstration: Demonstration, state: MemoryState | None
) -> th.Tensor:
    """Mean of -log p(action), with gradient."""
    observations, actions, starts, allowed = demonstration
    flat: Any = (
        {key: part.reshape(-1, *part.shape[2:]) for key, part in observations.items()}
        if isinstance(observations, dict)
        else observations.reshape(-1, *observations.shape[2:])
    )
    states = policy.initial_states(len(starts)) if state is None else state.states
    obs, _ = policy.obs_to_tensor(flat)
    masks = None if allowed is None else th.from_numpy(allowed).flatten(0, 1).to(policy.device)
    batch = SequenceBatch(obs, states, th.from_numpy(starts).to(policy.device), masks)
    right = th.from_numpy(actions.reshape(-1, *actions.shape[2:])).to(policy.device)
    policy.set_training_mode(True)
    _, log_prob, _ = policy.evaluate_actions(batch, right)
    return -log_prob.mean()


def _stack(observations: list[Any]) -> Observation:
    """Steps (N, ...) to sequences (N, T, ...)."""
    if isinstance(observations[0], dict):
        return {key: np.stack([seen[key] for seen in observations], 1) for key in observations[0]}
    return np.stack(observations, 1)
