"""Training that can be cut short: what is called between two rollouts, and when a training fails."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from stable_baselines3.common.callbacks import BaseCallback, CallbackList, ConvertCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.type_aliases import MaybeCallback
from stable_baselines3.common.vec_env import VecEnv

from rmt_rl.forgetting import warn_user
from rmt_rl.resuming.interrupts import HeldInterrupts
from rmt_rl.resuming.resets import note_left, were_left_alone
from rmt_rl.threads import advise_threads
from rmt_rl.workers import name_the_dead, watched


class BetweenRollouts(BaseCallback):
    """A callback of ``ResumableAlgorithm`` that is also called between an update and the next rollout.

    There, and nowhere else, the state of a training is whole: the model has learnt from all that it has seen,
    nothing lies in the rollout buffer, and the memories are those of the next step. Wherever it stands among
    the callbacks, it is called there before all others' ``on_rollout_start`` (``on_training_end`` after the
    last update), so that none of them is half done.
    """

    order: ClassVar[int] = 0
    """those with lower numbers come first"""

    def on_ready(self) -> None:
        """All callbacks are initialised; none has been told that training starts."""

    def between_rollouts(self) -> bool:
        """An update is over, or training has just started.

        :return: whether the state is in order; if it is not, those that come later are not called
        """
        return True

    def on_failure(self, error: BaseException) -> None:
        """``error`` is ending the training, Ctrl-C included."""

    def _on_step(self) -> bool:
        return True


class Pauses(BaseCallback):
    """First among the callbacks: tells those of the pauses between rollouts."""

    def __init__(self, watchers: list[BetweenRollouts]) -> None:
        super().__init__()
        self.watchers = watchers
        self.in_rollout = False

    def _pause(self) -> None:
        all(watcher.between_rollouts() for watcher in self.watchers)

    def _on_rollout_start(self) -> None:
        self._pause()
        self.in_rollout = True

    def _on_rollout_end(self) -> None:
        self.in_rollout = False

    def _on_training_end(self) -> None:
        if not self.in_rollout:  # unless a callback has ended the training in the middle of one
            self._pause()

    def _on_step(self) -> bool:
        return True


class ResumableAlgorithm(OnPolicyAlgorithm):
    """To be put in front of SB3's PPO or A2C: calls ``BetweenRollouts``, counts iterations on if resumed."""

    _callbacks: list[BaseCallback] = []
    """of the present training, in their order"""
    _watchers: list[BetweenRollouts] = []
    _iteration = 0
    """rollouts of the present training, those before it was resumed included"""
    _log_interval: int | None = 1
    _interrupts: ClassVar[HeldInterrupts] = HeldInterrupts()
    """of the process, as signals are"""

    def learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        log_interval: int = 1,
        tb_log_name: str = "OnPolicyAlgorithm",
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """As SB3's. With ``reset_num_timesteps=False``, it warns and begins new episodes if the environments
        were reset or played since the last call.

        :raises DeadEnvironmentError: if the worker process of an environment has died
        """
        advise_threads(self.policy, self.device)
        self._iteration, self._log_interval = 0, log_interval
        envs = [] if self.env is None else [self.env]
        envs += envs_of(callback)
        has_ended = False
        try:
            with watched(envs), self._interrupts.listening():
                super().learn(total_timesteps, callback, 1, tb_log_name, reset_num_timesteps, progress_bar)
            has_ended = True
            return self
        except BaseException as error:
            named = name_the_dead(envs, error)
            for watcher in self._watchers:
                watcher.on_failure(named)
            if named is error:
                raise
            raise named from error
        finally:
            self._callbacks, self._watchers = [], []
            note_left(self, asks=has_ended)

    def _setup_learn(
        self,
        total_timesteps: int,
        callback: MaybeCallback = None,
        reset_num_timesteps: bool = True,
        tb_log_name: str = "run",
        progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:
        if not (reset_num_timesteps or self._last_obs is None or were_left_alone(self)):
            warn_user(
                "the training environments were reset or played since the last call of learn (by "
                "env.reset(), evaluate_policy, another model): the episodes that it left are gone, so new "
                "ones begin, with an empty memory. To go on with the old ones, evaluate in other environments"
            )
            self._last_obs = None  # SB3 resets then, and every row is an episode's first
        return super()._setup_learn(total_timesteps, callback, reset_num_timesteps, tb_log_name, progress_bar)

    def _init_callback(self, callback: MaybeCallback, progress_bar: bool = False) -> BaseCallback:
        if isinstance(callback, list):
            callback = CallbackList(callback)
        if not isinstance(callback, BaseCallback):
            callback = ConvertCallback(callback)
        self._callbacks = every_callback(callback)
        watchers = [one for one in self._callbacks if isinstance(one, BetweenRollouts)]
        self._watchers = sorted(watchers, key=lambda watcher: watcher.order)
        if not watchers:
            return super()._init_callback(callback, progress_bar)
        both = super()._init_callback([Pauses(self._watchers), callback], progress_bar)
        for watcher in self._watchers:
            watcher.on_ready()
        return both

    def dump_logs(self, iteration: int = 0) -> None:
        if iteration:  # from learn, which counts from its own beginning and is told to ask every time
            self._iteration += 1
            if self._log_interval is None or self._iteration % self._log_interval:
                return
            iteration = self._iteration
        super().dump_logs(iteration)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_callbacks", "_watchers", "_log_interval"]


def envs_of(callback: MaybeCallback) -> list[VecEnv]:
    """The environments that callbacks hold, such as those that ``EvalCallback`` plays."""
    found = every_callback(callback) if isinstance(callback, BaseCallback | list) else []
    return [value for one in found for value in vars(one).values() if isinstance(value, VecEnv)]


def every_callback(root: BaseCallback | list[BaseCallback]) -> list[BaseCallback]:
    """The callback ``root``, or those of a list, and all callbacks that they hold, in their order."""
    found: list[BaseCallback] = []

    def look(value: Any) -> None:
        if isinstance(value, list | tuple):
            for part in value:
                look(part)
        elif isinstance(value, BaseCallback) and all(value is not one for one in found):
            found.append(value)
            for name, held in vars(value).items():
                if name != "parent":
                    look(held)

    look(root)
    return found
