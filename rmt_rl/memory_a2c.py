"""A2C whose policy has a memory."""

from __future__ import annotations

from typing import Any, Self

from stable_baselines3 import A2C
from stable_baselines3.common.type_aliases import GymEnv, MaybeCallback, Schedule

from rmt_rl.lengths import check_lengths
from rmt_rl.on_policy import MemoryOnPolicyAlgorithm
from rmt_rl.policies import MemoryActorCriticPolicy
from rmt_rl.usage import check_algorithm_kwargs


class MemoryA2C(MemoryOnPolicyAlgorithm, A2C):
    """SB3's A2C (Mnih et al. 2016) on whole sequences, with gradients through the memory.

    Everything that SB3's ``A2C`` does and takes works as there, RMSprop by default included. Differences:
    ``predict`` returns the memory to pass to the next call; ``train/replay_error`` is logged with every
    update. An update is one step on the whole rollout, so ``n_steps`` bounds how far gradients reach back:
    its default is 32 in place of 5, two segments of the default core.

    :param policy: "MlpPolicy", "CnnPolicy", "MultiInputPolicy", or a subclass of ``MemoryActorCriticPolicy``
    :param env: environment or id
    :param learning_rate: a number or a function of the remaining progress
    :param n_steps: steps of a rollout per environment
    :param sequence_length: steps of a training sequence, a divisor of ``n_steps``: how far gradients reach
        back; by default ``n_steps``
    :param a2c_kwargs: every other argument of SB3's ``A2C``; those in the signature are in its order and
        have its defaults
    :raises ValueError: if the lengths do not fit each other, or an option of the core is out of range
    """

    def __init__(
        self,
        policy: str | type[MemoryActorCriticPolicy],
        env: GymEnv | str,
        learning_rate: float | Schedule = 7e-4,
        n_steps: int = 32,
        gamma: float = 0.99,
        gae_lambda: float = 1.0,
        ent_coef: float = 0.0,
        vf_coef: float = 0.5,
        max_grad_norm: float = 0.5,
        rms_prop_eps: float = 1e-5,
        use_rms_prop: bool = True,
        use_sde: bool = False,
        *,
        sequence_length: int | None = None,
        **a2c_kwargs: Any,
    ) -> None:
        check_algorithm_kwargs(A2C, a2c_kwargs)
        check_lengths(n_steps, n_steps if sequence_length is None else sequence_length)
        self.sequence_length = int(n_steps if sequence_length is None else sequence_length)
        super().__init__(
            policy, env, learning_rate, int(n_steps), gamma, gae_lambda, ent_coef, vf_coef, max_grad_norm,
            rms_prop_eps, use_rms_prop, use_sde, **a2c_kwargs,
        )  # fmt: skip

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 100,
        tb_log_name: str = "MemoryA2C",
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
