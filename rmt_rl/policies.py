"""Actor-critic policies with a memory: features -> memory core -> heads.

The core stands between SB3's features extractor and its ``net_arch`` heads; everything else is SB3's own
``ActorCriticPolicy``. With ``share_memory=False`` the actor and the critic have a core each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.distributions import Distribution
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    MlpExtractor,
    NatureCNN,
)
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import Tensor

from rmt_rl.checks import check_finite, check_numbers
from rmt_rl.copying import without_graph
from rmt_rl.cores import MemoryCore, find_core, make_core, map_state, plain_options
from rmt_rl.evaluating import (
    Evaluation,
    Step,
    as_actions,
    as_masks,
    as_sequences,
    as_starts,
    as_step,
    require_batch,
)
from rmt_rl.forgetting import OMITTED, note_call, warn_user
from rmt_rl.masking import check_action_masks, masked_distribution
from rmt_rl.reconstruction import Reconstruction, make_reconstruction
from rmt_rl.spaces import (
    Encoding,
    ShiftedDistribution,
    check_action_space,
    check_observation_space,
    make_extractor,
    start_of,
)
from rmt_rl.states import CoreStates, MemoryState, SequenceBatch
from rmt_rl.usage import check_policy_kwargs

Observation = np.ndarray[Any, Any] | dict[str, np.ndarray[Any, Any]]
States = MemoryState | CoreStates | None
"""what ``predict`` returned, the cores' states as they are, or None for an empty memory"""
Starts = Tensor | np.ndarray[Any, Any] | None
Masks = Tensor | np.ndarray[Any, Any] | None


class MemoryActorCriticPolicy(ActorCriticPolicy):
    """An actor-critic policy that remembers ("MlpPolicy").

    :param observation_space: Box, Discrete, MultiDiscrete (of one dimension) or MultiBinary
    :param action_space: Discrete, MultiDiscrete or MultiBinary (of one dimension), or a bounded Box of floats
    :param lr_schedule: learning rate as a function of the remaining progress
    :param core: name of a memory core (``rmt_rl.cores.CORES``) or a subclass of ``MemoryCore``
    :param core_kwargs: the core's options: ``width``, ``layers``, ``segment_length``, ...
    :param share_memory: one core for actor and critic, or one each
    :param critic_shapes_memory: whether the critic's loss trains a shared core, or only reads it. A critic
        wants to know how long an
        episode has lasted, for that says how much reward is left; a memory that counts leaves what it was
        trained on in longer
        episodes. For an actor that is to act far beyond its training length, say False (or
        share_memory=False).
    :param reconstruction: an auxiliary loss, None for none: options of
        ``rmt_rl.reconstruction.Reconstruction``, such as ``dict(coef=0.1)``
    :param kwargs: what SB3's ``ActorCriticPolicy`` takes; ``net_arch`` are the heads behind the memory
    :raises ValueError: if a space, the core's name or one of its options will not do
    """

    core: MemoryCore[Any]
    critic_core: MemoryCore[Any] | None
    reconstruction: Reconstruction | None
    """the auxiliary loss, if there is one"""
    action_start: Tensor | None
    """the first value of every component of an action, if one is not counted from 0"""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        lr_schedule: Schedule,
        *args: Any,
        core: str | type[MemoryCore[Any]] = "rmt",
        core_kwargs: dict[str, Any] | None = None,
        share_memory: bool = True,
        critic_shapes_memory: bool = True,
        reconstruction: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        check_observation_space(observation_space)
        check_action_space(action_space)
        find_core(core)  # or torch would complain of an instance in its own words
        check_policy_kwargs(kwargs, core)
        if share_memory and not kwargs.get("share_features_extractor", True):
            raise ValueError(
                "share_features_extractor=False gives actor and critic different features, which one shared "
                "memory cannot take: pass share_memory=False as well"
            )
        self.core_name, self.core_kwargs = core, plain_options(core_kwargs or {})
        # Not ``share_memory``: torch's modules have a method of that name.
        self.shares_memory, self.critic_shapes_memory = share_memory, critic_shapes_memory
        self.reconstruction_options = None if reconstruction is None else plain_options(reconstruction)
        is_adam = kwargs.get("optimizer_class", th.optim.Adam) is th.optim.Adam
        if is_adam and kwargs.get("optimizer_kwargs") is None:
            # SB3's default, in one call for all parameters: a core has many small ones.
            kwargs["optimizer_kwargs"] = dict(eps=1e-5, fused=True)
        super().__init__(observation_space, action_space, lr_schedule, *args, **kwargs)
        self.encoding = Encoding(observation_space)
        self.register_buffer("action_start", start_of(action_space), persistent=False)
        # Asked several times a step: plain attributes cost less than what torch's modules look up.
        self._encodes, self._shifts = self.encoding.is_needed, self.action_start is not None

    def make_features_extractor(self) -> BaseFeaturesExtractor:
        return make_extractor(
            self.features_extractor_class, self.observation_space, self.features_extractor_kwargs
        )

    def extract_features(  # type: ignore[override]
        self, obs: PyTorchObs, features_extractor: BaseFeaturesExtractor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """As SB3's, for observations as the environment gives them.

        :raises ValueError: if a Discrete or MultiDiscrete observation is none of its space
        """
        try:
            return super().extract_features(self.encoding(obs) if self._encodes else obs, features_extractor)
        except RuntimeError as error:
            if "Class values must be" not in str(error):  # torch's, from one-hots
                raise
            raise ValueError(
                f"an observation is none of {self.observation_space}: its values are outside the space "
                "(does its start fit?)"
            ) from error

    def _build_mlp_extractor(self) -> None:
        """SB3's hook for what lies between features and heads; the core goes here."""
        self.core = make_core(self.core_name, self.features_dim, **self.core_kwargs)
        self.critic_core = None
        if not self.shares_memory:
            self.critic_core = make_core(self.core_name, self.features_dim, **self.core_kwargs)
        self.reconstruction = None
        if self.reconstruction_options is not None:
            self.reconstruction = make_reconstruction(
                self.observation_space, self.core.output_dim, self.features_dim, self.reconstruction_options
            )
        self.mlp_extractor = MlpExtractor(
            self.core.output_dim, net_arch=self.net_arch, activation_fn=self.activation_fn, device=self.device
        )

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        return data | dict(
            core=self.core_name,
            core_kwargs=self.core_kwargs,
            share_memory=self.shares_memory,
            critic_shapes_memory=self.critic_shapes_memory,
            reconstruction=self.reconstruction_options,
            share_features_extractor=self.share_features_extractor,
        )

    def load_state_dict(self, state_dict: Any, strict: bool = True, assign: bool = False) -> Any:
        """As torch's, after checking that the weights are of this core.

        :raises ValueError: if they are of another; nothing has been loaded then
        """
        for name in ("core", "critic_core"):
            core = getattr(self, name)
            if core is not None:
                core.check_description(state_dict.get(f"{name}._extra_state"))
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

    @property
    def device(self) -> th.device:
        """As SB3's, which goes through all parameters, several times a step."""
        weight = getattr(self._modules.get("value_net"), "weight", None)
        # A value net of the user's own may have no such weight, a quantized one has a method in its place.
        return weight.device if isinstance(weight, Tensor) else super().device

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and pickled: all but the last distribution, which holds an update's graph."""
        return {**vars(self), "action_dist": without_graph(self.action_dist)}

    # -- the memory
    # ----------------------------------------------------------------------------------------------------

    def initial_states(self, batch_size: int) -> CoreStates:
        """The cores' states of ``batch_size`` environments that have seen nothing."""
        with th.no_grad():
            return tuple(
                core.initial_state(batch_size) for core in (self.core, self.critic_core) if core is not None
            )

    def rollout_states(self, batch_size: int) -> CoreStates:
        """As ``initial_states``, for environments whose experience is trained on."""
        with th.no_grad():
            return tuple(
                core.rollout_state(batch_size) for core in (self.core, self.critic_core) if core is not None
            )

    def _remember(
        self,
        observations: PyTorchObs,
        states: CoreStates,
        episode_starts: Tensor,
        run: Callable[..., tuple[Tensor, Any]] = MemoryCore.__call__,
    ) -> tuple[Tensor, Tensor, CoreStates]:
        """Run T steps of B rows through the memory.

        :param observations: (B * T, ...)
        :param episode_starts: (B, T) bool
        :param run: what to call of the cores
        :return: what the actor's and the critic's heads see, each (B * T, D), and the states after the last
            step
        """
        shape = episode_starts.shape
        pi_features, vf_features = self._features(observations, shape)
        pi, state = run(self.core, pi_features, states[0], episode_starts)
        if self.critic_core is None:
            return *self._seen_by_heads(pi, pi), (state,)
        vf, critic_state = run(self.critic_core, vf_features, states[1], episode_starts)
        return *self._seen_by_heads(pi, vf), (state, critic_state)

    def _features(self, observations: PyTorchObs, shape: th.Size) -> tuple[Tensor, Tensor]:
        """The actor's and the critic's features, (B, T, features_dim) each."""
        features = self.extract_features(observations)
        pi, vf = features if isinstance(features, tuple) else (features, features)
        return pi.view(*shape, -1), vf.view(*shape, -1)

    def _seen_by_heads(self, pi: Tensor, vf: Tensor) -> tuple[Tensor, Tensor]:
        """The memory's outputs (B, T, D) as heads take them, (B * T, D)."""
        shields = self.critic_core is None and not self.critic_shapes_memory
        return pi.flatten(0, 1), vf.detach().flatten(0, 1) if shields else vf.flatten(0, 1)

    def _get_action_dist_from_latent(
        self, latent_pi: Tensor, action_masks: Tensor | None = None
    ) -> Distribution:
        """SB3's hook, for actions of which ``action_masks`` (B, A) says what is allowed, None for all."""
        try:
            if action_masks is None:
                distribution = super()._get_action_dist_from_latent(latent_pi)
            else:
                logits = self.action_net(latent_pi)
                distribution = masked_distribution(self.action_space, logits, action_masks)
        except ValueError:  # torch names the parameters of a distribution, which a user has never seen
            check_finite(latent_pi)
            raise
        if not self._shifts:
            return distribution
        assert self.action_start is not None
        return ShiftedDistribution(distribution, self.action_start)

    def bounded(self, actions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Actions as the environment takes them: of its space's type, those of a Box within its bounds."""
        space = self.action_space
        if isinstance(space, spaces.MultiBinary):
            return actions  # as SB3; floats of 0 and 1 are in the space
        if isinstance(space, spaces.Box):
            if self.squash_output:
                actions = self.unscale_action(actions)
            # Scaled ones too, which rounding may put beside the bounds.
            actions = np.clip(actions, space.low, space.high)
        return actions.astype(space.dtype, copy=False)

    # -- acting
    # --------------------------------------------------------------------------------------------------------

    def forward(  # type: ignore[override]
        self,
        obs: PyTorchObs | Observation,
        states: States = None,
        episode_starts: Starts = None,
        deterministic: bool = False,
        action_masks: Masks = None,
    ) -> tuple[Tensor, Tensor, Tensor, Any]:
        """One step of every environment.

        :param obs: (B, ...) tensors or arrays
        :param states: what the last call, or ``predict``, returned, or ``initial_states``; None for an empty
            memory, as at an episode's first step
        :param episode_starts: (B,) bool, true where an episode begins; None for nowhere
        :param action_masks: (B, A) bool, what is allowed (see ``rmt_rl.masking``); None if everything is
        :return: actions (B, ...), values (B, 1), log-probabilities (B,), the new states, of the kind that was
            given
        :raises ValueError: if shapes do not fit each other, or the state is of another policy
        :raises TypeError: if the state is nothing that ``predict`` or this method returned
        """
        step = as_step(self, obs, states, episode_starts, action_masks)
        pi, vf, after = self._remember(step.observations, step.states, step.episode_starts.unsqueeze(1))
        values = self.value_net(self.mlp_extractor.forward_critic(vf))
        latent = self.mlp_extractor.forward_actor(pi)
        distribution = self._get_action_dist_from_latent(latent, step.action_masks)
        actions = distribution.get_actions(deterministic=deterministic)
        log_prob = distribution.log_prob(actions)
        assert self.action_space.shape is not None
        actions = actions.reshape((-1, *self.action_space.shape))
        return actions, values, log_prob, self._handed_back(after, step)

    def get_distribution(  # type: ignore[override]
        self,
        obs: PyTorchObs | Observation,
        states: States = None,
        episode_starts: Starts = None,
        action_masks: Masks = None,
    ) -> tuple[Distribution, Any]:
        """The distribution of one step's actions and the new states; parameters as for ``forward``.

        Its ``log_prob`` takes the environment's values, which begin at the space's ``start``.

        :raises ValueError: if what the actor has worked out of them is no finite number
        """
        step = as_step(self, obs, states, episode_starts, action_masks)
        pi, _, after = self._remember(step.observations, step.states, step.episode_starts.unsqueeze(1))
        latent = self.mlp_extractor.forward_actor(pi)
        check_finite(latent)
        distribution = self._get_action_dist_from_latent(latent, step.action_masks)
        return distribution, self._handed_back(after, step)

    def predict_values(
        self, obs: PyTorchObs | Observation, states: States = None, episode_starts: Starts = None
    ) -> Tensor:
        """The values (B, 1) of one step; parameters and errors as for ``forward``."""
        step = as_step(self, obs, states, episode_starts, None)
        _, vf, _ = self._remember(step.observations, step.states, step.episode_starts.unsqueeze(1))
        return self.value_net(self.mlp_extractor.forward_critic(vf))  # type: ignore[no-any-return]

    def _handed_back(self, states: CoreStates, step: Step) -> CoreStates | MemoryState:
        """The cores' states after a step, in the form in which those before it were given."""
        if not step.is_opaque:
            return states
        return MemoryState(self.describe_memory(), len(step.episode_starts), states)

    def predict(  # type: ignore[override]
        self,
        observation: Observation,
        state: MemoryState | None = OMITTED,
        episode_start: np.ndarray[Any, Any] | None = None,
        deterministic: bool = False,
        action_masks: np.ndarray[Any, Any] | None = None,
    ) -> tuple[np.ndarray[Any, Any], MemoryState]:
        """SB3's ``predict``: actions for observations, and the memory to pass to the next call.

        :param observation: of one environment, or of several in a batch
        :param state: what the last call returned; None to begin with an empty memory
        :param episode_start: (B,) bool, true where the observation is the first of an episode: the memory
            begins afresh there
        :param action_masks: (B, A) or, of one environment, (A,) flags of what is allowed, as
            ``rmt_rl.masking.get_action_masks(env)`` returns; None if everything is
        :raises ValueError: if an observation holds a NaN, the state is of another core, device or number of
            environments, or masks do not fit or allow nothing
        :raises TypeError: if the state is nothing that ``predict`` returned

        It warns, once, where calls one after the other have neither state nor ``episode_start``.
        """
        omits = state is OMITTED
        if omits:
            state = None
        if self.training:  # to ask costs less than to tell every module again
            self.set_training_mode(False)
        if isinstance(observation, tuple):
            raise ValueError(
                "observation is a tuple: Gymnasium's reset returns (observation, info), "
                "pass the observation alone"
            )
        check_numbers("observation", observation)
        obs, vectorized = self.obs_to_tensor(observation)
        count = len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
        if state is None and episode_start is not None and not np.all(episode_start):
            warn_user(
                "predict was called without a state in the middle of an episode (episode_start is False): "
                "the memory begins afresh. Pass the state that the last call returned."
            )
        states = self.states_for(state, count)
        starts = (
            np.zeros(count, bool) if episode_start is None else np.asarray(episode_start, bool).reshape(-1)
        )
        if len(starts) != count:
            raise ValueError(f"episode_start has {len(starts)} entries for {count} observations")
        masks = None
        if action_masks is not None:
            allowed = check_action_masks(action_masks, self.action_space, count)
            masks = th.from_numpy(allowed).to(self.device)
        with th.no_grad():
            first = th.from_numpy(starts).to(self.device)
            distribution, states = self.get_distribution(obs, states, first, masks)
            actions = distribution.get_actions(deterministic=deterministic)
        array = actions.cpu().numpy().reshape((-1, *(self.action_space.shape or ())))
        array = self.bounded(array)
        if not vectorized:
            # A Box of a single number has arrays of shape (), a Discrete has numbers.
            array = array[0, ...] if isinstance(self.action_space, spaces.Box) else array[0]
        after = MemoryState(self.describe_memory(), count, states)
        if any(map(len, states)):  # a core without a memory has an empty state
            note_call(self, state is None and episode_start is None, omits, after)
        return array, after

    def warm_up(
        self,
        observations: Observation,
        state: MemoryState | None = None,
        episode_starts: np.ndarray[Any, Any] | None = None,
        block: int = 1024,
    ) -> MemoryState:
        """Run a prefix through the memory without acting; the state is that of having stepped through it.

        :param observations: (B, T, ...) the T observations of each of B environments
        :param state: the memory before, None for an empty one
        :param episode_starts: (B, T) bool; by default no episode starts within the prefix
        :param block: how many steps at a time
        :return: the state to pass to ``predict`` with the observation that follows
        :raises ValueError: if an observation holds a NaN or shapes do not fit
        """
        self.set_training_mode(False)
        require_batch(observations, self.observation_space)
        check_numbers("observations", observations)
        parts = observations if isinstance(observations, dict) else {"": observations}
        rows, steps = next(iter(parts.values())).shape[:2]
        states = self.states_for(state, rows)
        starts = np.zeros((rows, steps), bool) if episode_starts is None else np.asarray(episode_starts, bool)
        if starts.shape != (rows, steps):
            raise ValueError(f"episode_starts has shape {starts.shape} for observations of {(rows, steps)}")
        for begin in range(0, steps, block):
            piece = {key: part[:, begin : begin + block] for key, part in parts.items()}
            flat = {key: part.reshape(-1, *part.shape[2:]) for key, part in piece.items()}
            obs, _ = self.obs_to_tensor(flat if isinstance(observations, dict) else flat[""])
            with th.no_grad():
                here = th.from_numpy(starts[:, begin : begin + block]).to(self.device)
                _, _, states = self._remember(obs, states, here)
        return MemoryState(self.describe_memory(), rows, states)

    def describe_memory(self) -> str:
        """What a state must fit: the core, and whether actor and critic share it."""
        return self.core.describe() + ("" if self.shares_memory else " for actor and critic apart")

    def states_for(self, state: States, batch_size: int) -> CoreStates:
        """The cores' states in what ``predict`` returned; None for empty ones.

        :raises ValueError: if it is of another policy, device or number of environments
        :raises TypeError: if it is nothing that ``predict`` returned
        """
        if state is None:
            return self.initial_states(batch_size)
        if isinstance(state, MemoryState):
            state.check(self.describe_memory(), batch_size, self.device)
            return state.states
        given: Any = state
        if isinstance(given, tuple) and all(isinstance(part, tuple) for part in given):
            return given
        raise TypeError(
            f"state must be what predict returned, or None, got {type(state).__name__}; "
            "a memory core's state is not an array"
        )

    # -- training
    # ------------------------------------------------------------------------------------------------------

    def evaluate_actions(
        self,
        obs: SequenceBatch | PyTorchObs | Observation,
        actions: Tensor | np.ndarray[Any, Any],
        states: States = None,
        episode_starts: Starts = None,
        action_masks: Masks = None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Whole sequences, or one step, with gradients through the memory.

        :param obs: a ``SequenceBatch``, B sequences of T steps, which brings all else with it; or one step's
            observations (B, ...) with the parameters of ``forward``. Whole episodes as arrays are for
            ``evaluate_episode``
        :param actions: (B * T, ...), in the order of the observations; for one step (B, ...), as ``predict``
            returned them
        :return: values (B * T, 1), log-probabilities (B * T,), entropies (B * T,) or None
        :raises ValueError: if shapes do not fit each other or the spaces, or the state is of another policy
        :raises TypeError: if the state is nothing that ``predict`` returned
        """
        if not isinstance(obs, SequenceBatch):
            step = as_step(self, obs, states, episode_starts, action_masks)
            right = as_actions(self, actions, len(step.episode_starts))
            batch = SequenceBatch(
                step.observations, step.states, step.episode_starts.unsqueeze(1), step.action_masks
            )
        else:
            batch = obs
            right = actions if isinstance(actions, Tensor) else th.as_tensor(actions, device=self.device)
        observations, before, starts, masks = batch
        features, vf = self._features(observations, starts.shape)
        outputs = pi = self.core.replay(features, before[0], starts)
        vf = pi if self.critic_core is None else self.critic_core.replay(vf, before[1], starts)
        pi, vf = self._seen_by_heads(pi, vf)
        distribution = self._get_action_dist_from_latent(self.mlp_extractor.forward_actor(pi), masks)
        values = self.value_net(self.mlp_extractor.forward_critic(vf))
        is_update = batch is obs and self.training and th.is_grad_enabled()
        if self.reconstruction is not None and is_update:
            values = self.reconstruction.added_to(values, outputs, observations, features, starts)
        return values, distribution.log_prob(right), distribution.entropy()

    def evaluate_episode(
        self,
        observations: Observation,
        actions: np.ndarray[Any, Any] | Tensor,
        state: MemoryState | None = None,
        episode_starts: Starts = None,
        action_masks: Masks = None,
    ) -> Evaluation:
        """Values and log-probabilities along an episode, or along several at a time.

            with torch.no_grad():
                values, log_probs, entropies, state = model.evaluate_episode(observations, actions)

        They are those of ``predict`` stepping through it. Under ``torch.no_grad()`` dropout is off, as while
        acting; otherwise the policy stays in the mode in which it is, and gradients reach through the memory
        back to the first step. The state has none.

        :param observations: (T, ...) those of T steps of one environment, or (B, T, ...) of B side by side
        :param actions: (T, ...) or (B, T, ...) what was done after each, as ``predict`` returned it
        :param state: the memory before the first step; None for an empty one
        :param episode_starts: (T,) or (B, T) bool, true where another episode begins; by default nowhere
        :param action_masks: (T, A) or (B, T, A) what was allowed; None if everything was
        :return: values, log-probabilities, entropies, (T,) or (B, T) each, and the memory after the last step
        :raises ValueError: if shapes do not fit each other or the spaces, or the state is of another policy
        :raises TypeError: if the state is nothing that ``predict`` returned
        """
        if not th.is_grad_enabled():
            self.set_training_mode(False)
        obs, rows, steps, has_batch = as_sequences(self, observations)
        starts = as_starts(episode_starts, (rows, steps), self.device)
        right = as_actions(self, actions, rows * steps)
        masks = as_masks(self, action_masks, (rows, steps))
        pi, vf, after = self._remember(obs, self.states_for(state, rows), starts)
        distribution = self._get_action_dist_from_latent(self.mlp_extractor.forward_actor(pi), masks)
        values = self.value_net(self.mlp_extractor.forward_critic(vf))
        shape = (rows, steps) if has_batch else (steps,)
        entropy = distribution.entropy()
        return Evaluation(
            values.view(shape),
            distribution.log_prob(right).view(shape),
            None if entropy is None else entropy.view(shape),
            MemoryState(self.describe_memory(), rows, map_state(Tensor.detach, after)),
        )


class MemoryActorCriticCnnPolicy(MemoryActorCriticPolicy):
    """``MemoryActorCriticPolicy`` for pictures ("CnnPolicy"): SB3's NatureCNN in front of the memory."""

    def __init__(
        self, *args: Any, features_extractor_class: type[BaseFeaturesExtractor] = NatureCNN, **kwargs: Any
    ) -> None:
        super().__init__(*args, features_extractor_class=features_extractor_class, **kwargs)


class MemoryMultiInputActorCriticPolicy(MemoryActorCriticPolicy):
    """``MemoryActorCriticPolicy`` for Dicts ("MultiInputPolicy"): SB3's CombinedExtractor in front."""

    def __init__(
        self,
        *args: Any,
        features_extractor_class: type[BaseFeaturesExtractor] = CombinedExtractor,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, features_extractor_class=features_extractor_class, **kwargs)
