"""PPO whose policy has a memory."""

from __future__ import annotations

from typing import Any, Self

from stable_baselines3 import PPO
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule

from rmt_rl.lengths import check_lengths
from rmt_rl.on_policy import MemoryOnPolicyAlgorithm
from rmt_rl.policies import MemoryActorCriticPolicy
from rmt_rl.usage import check_algorithm_kwargs


class MemoryPPO(MemoryOnPolicyAlgorithm, PPO):
    """SB3's PPO (Schulman et al. 2017) on whole sequences, with gradients through the memory.

    Everything that SB3's ``PPO`` does and takes works as there. Differences: a minibatch consists of whole
    training sequences, so
    ``batch_size`` (in steps) is a multiple of ``sequence_length``, which divides ``n_steps``; ``predict``
    returns the memory to pass to
    the next call; ``train/replay_error`` is logged with every update.

    :param policy: "MlpPolicy", "CnnPolicy", "MultiInputPolicy", or a subclass of ``MemoryActorCriticPolicy``
    :param env: environment or id
    :param learning_rate: a number or a function of the remaining progress
    :param n_steps: steps of a rollout per environment
    :param batch_size: steps of a minibatch
    :param sequence_length: steps of a training sequence: how far gradients reach back
    :param policy_kwargs: ``core``, ``core_kwargs``, ``share_memory`` and what SB3's policies take
    :param ppo_kwargs: every other argument of SB3's ``PPO``; those in the signature are in its order and
        have its defaults
    :raises ValueError: if the lengths do not fit each other, or an option of the core is out of range
    """

    def __init__(
        self,
        policy: str | type[MemoryActorCriticPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule = 3e-4,
        n_steps: int = 512,
        batch_size: int = 256,
        n_epochs: int = 10,
        gamma: float = 0.99,
        gae_lambda: float = 0.95,
        clip_range: float | Schedule = 0.2,
        clip_range_vf: float | Schedule | None = None,
        normalize_advantage: bool = True,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        use_sde: bool = False,
        *,
        sequence_length: int = 64,
        **ppo_kwargs: Any,
    ) -> None:
        check_algorithm_kwargs(PPO, ppo_kwargs)
        check_lengths(n_steps, sequence_length, batch_size)
        self.sequence_length = int(sequence_length)
        super().__init__(
            policy, env, learning_rate, int(n_steps), int(batch_size), n_epochs, gamma, gae_lambda,
            clip_range, clip_range_vf, normalize_advantage, ent_coef, vf_coef, max_grad_norm,
            use_sde, **ppo_kwargs,
        )  # fmt: skip

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str = "MemoryPPO",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
        use_masking: bool | None = None,
    ) -> Self:
        """As SB3's, with action masks (``rmt_rl.masking``).

        :param use_masking: whether to choose from what the environment's ``action_masks()`` allows; None for
            yes if it has that method
        :raises ValueError: if it has not, or its actions cannot be masked
        """
        self._masking_wish = use_masking
        return super().learn(
            total_timesteps, callback, log_interval, tb_log_name, reset_num_timesteps, progress_bar
        )
