"""What on-policy algorithms with a memory share: rollouts that carry it, and the check of their replay."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import GymEnv
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from rmt_rl.buffers import MemoryDictRolloutBuffer, MemoryRolloutBuffer
from rmt_rl.checks import check_numbers
from rmt_rl.copying import CopyingAlgorithm
from rmt_rl.cores.base import map_state
from rmt_rl.evaluating import Evaluation
from rmt_rl.forgetting import OMITTED
from rmt_rl.lengths import check_lengths
from rmt_rl.masking import decide_masking, get_action_masks
from rmt_rl.policies import (
    MemoryActorCriticCnnPolicy,
    MemoryActorCriticPolicy,
    MemoryMultiInputActorCriticPolicy,
    Observation,
)
from rmt_rl.resuming.resumable import ResumableAlgorithm
from rmt_rl.rollouts import take_dones, take_rewards
from rmt_rl.saving.archive import SavingAlgorithm
from rmt_rl.states import CoreStates, MemoryState
from rmt_rl.usage import as_environment, check_set_up, unknown_policy

REPLAY_TOLERANCE = 1e-3
REPLAY_STEPS = 1024
"""about how many steps of each rollout are replayed to check them"""


class MemoryOnPolicyAlgorithm(ResumableAlgorithm, SavingAlgorithm, CopyingAlgorithm):
    """To be put in front of SB3's PPO or A2C: their ``learn`` and ``train`` work on sequences unchanged."""

    policy_aliases: ClassVar[dict[str, type[BasePolicy]]] = {
        "MlpPolicy": MemoryActorCriticPolicy,
        "CnnPolicy": MemoryActorCriticCnnPolicy,
        "MultiInputPolicy": MemoryMultiInputActorCriticPolicy,
    }
    policy: MemoryActorCriticPolicy
    rollout_buffer: MemoryRolloutBuffer
    sequence_length: int
    batch_size: Any = None
    """steps of a minibatch; None, as with A2C, where an update takes the whole rollout at once"""
    use_masking: bool = False
    """whether the last ``learn`` took the environment's action masks"""
    _masking_wish: bool | None = None
    """``use_masking`` of the present call of ``learn``"""
    _memory: CoreStates | None = None
    """what the training environments remember, before their next step"""
    _has_warned = False
    """of sequences that do not replay what acting did"""

    @staticmethod
    def _wrap_env(env: GymEnv, verbose: int = 0, monitor_wrapper: bool = True) -> VecEnv:
        """SB3's hook for the environment given, in ``load`` and ``set_env`` too; see ``as_environment``."""
        return OnPolicyAlgorithm._wrap_env(as_environment(env), verbose, monitor_wrapper)

    def _get_policy_from_name(self, policy_name: str) -> type[BasePolicy]:
        if policy_name not in self.policy_aliases:
            raise ValueError(unknown_policy(policy_name, self.policy_aliases))
        return self.policy_aliases[policy_name]

    def _setup_model(self) -> None:
        check_set_up(self, MemoryActorCriticPolicy)
        # Here, as ``load`` sets the model up with other lengths than the constructor was given.
        check_lengths(self.n_steps, self.sequence_length, self.batch_size)
        self.n_steps, self.sequence_length = int(self.n_steps), int(self.sequence_length)
        if self.batch_size is not None:
            self.batch_size = int(self.batch_size)
        if self.rollout_buffer_class is None:
            is_dict = isinstance(self.observation_space, spaces.Dict)
            self.rollout_buffer_class = MemoryDictRolloutBuffer if is_dict else MemoryRolloutBuffer
        if not issubclass(self.rollout_buffer_class, MemoryRolloutBuffer):
            raise TypeError(
                "rollout_buffer_class must be a MemoryRolloutBuffer, got "
                f"{self.rollout_buffer_class.__name__}"
            )
        self.rollout_buffer_kwargs = {**self.rollout_buffer_kwargs, "sequence_length": self.sequence_length}
        super()._setup_model()

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        check_lengths(self.n_steps, self.sequence_length, self.batch_size)
        buffer = self.rollout_buffer
        for name, present, built in (
            ("n_steps", self.n_steps, buffer.buffer_size),
            ("sequence_length", self.sequence_length, buffer.sequence_length),
        ):
            if present != built:
                raise ValueError(
                    f"{name} was changed to {present} after the model had been set up with {built}: "
                    f"pass {name}={present} to the constructor or to load"
                )
        self.use_masking = decide_masking(self.env, self._masking_wish)
        return super()._setup_learn(*args, **kwargs)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, n_rollout_steps: int
    ) -> bool:
        """SB3's loop, carrying the memory of every environment along.

        However it is left (a callback that ends the training, an error, Ctrl-C), the last observations,
        episode starts and memories are those to go on from.

        :raises ValueError: if the environment returns what is no finite number, or masks that do not fit or
            allow no action
        """
        assert self._last_obs is not None, "no previous observation was provided"
        assert isinstance(rollout_buffer, MemoryRolloutBuffer)
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        # Before anything is drawn, so that what is restored there holds.
        callback.on_rollout_start()
        if self.use_sde:
            self.policy.reset_noise(env.num_envs)
        states = self._memory or self.policy.rollout_states(env.num_envs)
        check_numbers("the environment's observations", self._last_obs, self.num_timesteps)

        for n_steps in range(n_rollout_steps):
            if self.use_sde and self.sde_sample_freq > 0 and n_steps % self.sde_sample_freq == 0:
                self.policy.reset_noise(env.num_envs)
            if n_steps % self.sequence_length == 0:
                rollout_buffer.begin_sequences(states)
            action_masks = None
            if self.use_masking:
                allowed = get_action_masks(env)
                rollout_buffer.add_action_masks(allowed)
                action_masks = th.from_numpy(allowed).to(self.device)
            last_obs, last_starts = self._last_obs, self._last_episode_starts
            with th.no_grad():
                obs_tensor = obs_as_tensor(last_obs, self.device)
                starts = th.as_tensor(last_starts, dtype=th.bool, device=self.device)
                actions_tensor, values, log_probs, states = self.policy(
                    obs_tensor, states, starts, action_masks=action_masks
                )
            actions = actions_tensor.cpu().numpy()
            clipped_actions = self._to_env(actions)

            after: Any = None  # where the environments then are
            try:
                with self._interrupts:
                    new_obs, rewards, dones, infos = env.step(clipped_actions)
                    dones = take_dones(dones, env.num_envs)
                    after = new_obs, dones, states
                    self.num_timesteps += env.num_envs
                rewards = take_rewards(rewards, env.num_envs, self.num_timesteps)
                callback.update_locals(locals())
                if not callback.on_step():
                    return False
            finally:
                self._move_on(after, infos if after else [])
            check_numbers("the environment's observations", new_obs, self.num_timesteps)
            check_numbers(
                "the environment's rewards", rewards, self.num_timesteps
            )  # callbacks may add to them
            self._bootstrap(rewards, dones, infos, states)
            if isinstance(self.action_space, spaces.Discrete):
                actions = actions.reshape(-1, 1)
            rollout_buffer.add(last_obs, actions, rewards, last_starts, values, log_probs)

        with th.no_grad():
            starts = th.as_tensor(dones, dtype=th.bool, device=self.device)
            values = self.policy.predict_values(obs_as_tensor(new_obs, self.device), states, starts)  # type: ignore[arg-type]
        rollout_buffer.compute_returns_and_advantage(last_values=values, dones=dones)
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def _move_on(self, after: Any, infos: Sequence[dict[str, Any]]) -> None:
        """Keep where the environments are after a step.

        :param after: observations, ends of episodes, memories; None if the step failed, so that nobody knows:
            the next ``learn`` begins new episodes then
        """
        if after is None:
            self._last_obs, self._memory = None, None
            return
        self._last_obs, self._last_episode_starts, self._memory = after
        self._update_info_buffer(list(infos), after[1])

    def _to_env(self, actions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Actions within the environment's bounds."""
        return self.policy.bounded(actions)

    def _bootstrap(
        self,
        rewards: np.ndarray[Any, Any],
        dones: np.ndarray[Any, Any],
        infos: list[dict[str, Any]],
        states: CoreStates,
    ) -> None:
        """Add the value of what would have followed to the rewards of episodes that a time limit ended.

        The terminal observation is judged under the memory that the agent had then: ``states``, which have
        seen the step
        before it.
        """
        rows = [
            int(row)
            for row in np.flatnonzero(dones)
            if infos[row].get("TimeLimit.truncated", False)
            and infos[row].get("terminal_observation") is not None
        ]
        if not rows:
            return
        terminal = [infos[row]["terminal_observation"] for row in rows]
        if isinstance(self.observation_space, spaces.Dict):
            batch: Observation = {key: np.stack([obs[key] for obs in terminal]) for key in terminal[0]}
        else:
            batch = np.stack(terminal)
        check_numbers("the environment's terminal observations", batch, self.num_timesteps, rows)
        with th.no_grad():
            obs_tensor, _ = self.policy.obs_to_tensor(batch)
            index = th.as_tensor(rows, device=self.device)
            then = map_state(lambda leaf: leaf[index], states)
            values = self.policy.predict_values(obs_tensor, then, th.zeros_like(index, dtype=th.bool))
        rewards[rows] += self.gamma * values.squeeze(1).cpu().numpy()

    def train(self) -> None:
        """SB3's update, after checking that sequences replay what acting did (``train/replay_error``)."""
        error = self.replay_error()
        self.logger.record("train/replay_error", error)
        if error > REPLAY_TOLERANCE and not self._has_warned:
            self._has_warned = True  # the log has it for each update
            warnings.warn(
                "replaying the rollout gives other log-probabilities than acting did (train/replay_error "
                f"{error:.1e}): acting and training are not one function, so the policy gradient is wrong. "
                "Does an observation, the features extractor or the core depend on anything but its input?",
                stacklevel=2,
            )
        super().train()
        reconstruction = self.policy.reconstruction
        if reconstruction is not None and (loss := reconstruction.pop_mean()) is not None:
            self.logger.record("train/reconstruction_loss", loss)

    def replay_error(self, whole: bool = False) -> float:
        """The largest |log-probability replayed - log-probability recorded| in the present rollout.

        :param whole: in all of it; by default in sequences of ``REPLAY_STEPS`` steps together that lie evenly
            spread, and others after the next rollout
        """
        self.policy.set_training_mode(False)
        buffer, worst = self.rollout_buffer, 0.0
        steps = buffer.buffer_size * buffer.n_envs
        count = steps // self.sequence_length
        picked = count if whole else min(count, -(-REPLAY_STEPS // self.sequence_length))
        # Nothing is drawn: to look at a rollout changes no random number after it.
        which = (np.arange(picked) * count // picked + self.num_timesteps // steps) % count
        at_once = None if self.batch_size is None else max(REPLAY_STEPS, self.batch_size)
        with th.no_grad():
            for data in buffer.sequences(which, at_once):
                is_discrete = isinstance(self.action_space, spaces.Discrete)
                actions = data.actions.long().flatten() if is_discrete else data.actions
                _, log_prob, _ = self.policy.evaluate_actions(data.observations, actions)
                # Unlike Python's max, this one lets no NaN pass unseen.
                worst = float(np.maximum(worst, (log_prob - data.old_log_prob).abs().max().item()))
        return worst

    def warm_up(
        self,
        observations: Observation,
        state: MemoryState | None = None,
        episode_starts: np.ndarray[Any, Any] | None = None,
    ) -> MemoryState:
        """Run a prefix (B, T, ...) through the memory without acting: see the policy's ``warm_up``."""
        return self.policy.warm_up(observations, state, episode_starts)

    def evaluate_episode(
        self,
        observations: Observation,
        actions: np.ndarray[Any, Any] | th.Tensor,
        state: MemoryState | None = None,
        episode_starts: np.ndarray[Any, Any] | None = None,
        action_masks: np.ndarray[Any, Any] | None = None,
    ) -> Evaluation:
        """Values and log-probabilities along an episode (T, ...): see the policy's ``evaluate_episode``."""
        return self.policy.evaluate_episode(observations, actions, state, episode_starts, action_masks)

    def predict(  # type: ignore[override]
        self,
        observation: Observation,
        state: MemoryState | None = OMITTED,
        episode_start: np.ndarray[Any, Any] | None = None,
        deterministic: bool = False,
        action_masks: np.ndarray[Any, Any] | None = None,
    ) -> tuple[np.ndarray[Any, Any], MemoryState]:
        """Actions and the memory to pass to the next call: see the policy's ``predict``."""
        if self.use_masking and action_masks is None:
            warnings.warn(
                "predict was called without action_masks, with which the agent has learnt: it may take what "
                "the environment does not allow. Pass action_masks=get_action_masks(env); evaluate_policy "
                "and MaskableEvalCallback of rmt_rl.masking do.",
                stacklevel=2,
            )
        return self.policy.predict(observation, state, episode_start, deterministic, action_masks)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_memory", "_masking_wish", "_has_warned"]
