"""Recipes: for each task what it takes to train an agent on it, as rows of data.

A recipe says which environment, which memory and which settings of PPO. ``dataclasses.replace`` makes another
one of it, and ``scripts/train.py`` takes each field as an option.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from agents.cores import core_options, find_core
from agents.levels import Level, level_from_json
from rmt_rl.features import IdEmbeddingExtractor

Value = int | float | bool | str

CORE_DEFAULTS: dict[str, dict[str, Value]] = {
    "rmt": dict(width=64, layers=2, heads=4, memory_tokens=4),
    "rmt_xl": dict(width=64, layers=2, heads=4, memory_tokens=4, memory_length=16),
    "rmt_encoder": dict(width=64, layers=2, heads=4, memory_tokens=4),
    "armt": dict(width=64, layers=2, heads=4, memory_tokens=4),
    "xl": dict(width=64, layers=2, heads=4, memory_length=64),
    "gru": dict(width=128, layers=1),
    "lstm": dict(width=128, layers=1),
    "none": dict(width=64, layers=2),
}
"""Sizes at which the cores are alike in cost, for every recipe; ``core_kwargs`` go over them."""

OWN_GRIDS = "RMT/MiniGrid-"
"""How the ids of this project's MiniGrid tasks begin, which have ``view_size`` and ``max_steps``."""


@dataclass(frozen=True)
class Recipe:
    """How to train an agent on one task."""

    env_id: str
    """environment, with the module that registers it in front"""
    levels: tuple[Level, ...] = ()
    """curriculum: difficulties, easiest first; the next one comes once the present one is solved. Empty for
    an environment without ``set_levels``"""
    evaluation_levels: tuple[Level, ...] = ()
    """difficulties beyond the last of the curriculum to measure success at"""
    env_kwargs: dict[str, Value] = field(default_factory=dict)
    """further arguments of the environment"""

    core: str = "rmt"
    """memory core: a name, or module:Class for a subclass of MemoryCore of your own"""
    segment_length: int = 16
    """steps of a segment, for cores that have segments"""
    memory_noise: float = 0.0
    """noise on what is written while training, for cores with memory tokens: makes memories last"""
    core_kwargs: dict[str, Value] = field(default_factory=dict)
    """options of the core that differ from this project's defaults for it"""
    share_memory: bool = True
    """one memory for actor and critic, or one each"""
    critic_shapes_memory: bool = True
    """whether the critic's loss trains a shared memory; False for acting far beyond the training length"""
    reconstruction: dict[str, Value] = field(default_factory=dict)
    """options of an auxiliary loss, such as ``coef 0.1 steps 4``; empty for none"""
    heads: tuple[int, ...] = (64,)
    """widths of the hidden layers behind the memory, for actor and critic each"""

    total_steps: int = 1_000_000
    """steps of training, all environments together"""
    n_envs: int = 64
    """environments side by side"""
    n_steps: int = 128
    """steps of each between two updates"""
    sequence_length: int = 128
    """steps of a training sequence: how far gradients reach back"""
    n_minibatches: int = 4
    """parts that the steps between two updates are cut into"""
    n_epochs: int = 4
    """times that each part is used"""
    learning_rate: float = 1e-3
    """step size of Adam at the beginning"""
    final_learning_rate: float = 0.0
    """and at the end; linear between"""
    hold: float = 0.0
    """share of the training over which learning rate and entropy bonus stay as at the beginning"""
    gamma: float = 0.99
    """discount"""
    gae_lambda: float = 0.95
    """lambda of generalised advantage estimation"""
    clip_range: float = 0.2
    """PPO's clipping of the ratio of probabilities"""
    ent_coef: float = 0.01
    """weight of the entropy bonus at the beginning"""
    final_ent_coef: float | None = None
    """and at the end, linear between; None keeps it as it is"""
    vf_coef: float = 0.5
    """weight of the critic's loss"""
    max_grad_norm: float = 0.5
    """bound of the gradient's norm"""
    normalize_advantage: bool = True
    """whether the advantages of each part are scaled to unit variance"""
    target_kl: float | None = None
    """ends an update early once the policy has moved this far"""

    threshold: float = 0.93
    """success rate at which a difficulty counts as solved"""
    window: int = 200
    """last episodes of it over which that rate is taken"""
    easier: float = 0.25
    """share of the episodes that are drawn from easier difficulties"""
    stop_when_solved: bool = False
    """end the training once the last difficulty is solved"""
    seed: int = 0
    """of the weights, the actions and the environments"""

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise ValueError(f"seed must be at least 0, got {self.seed}")
        for name in ("total_steps", "n_envs", "n_steps", "n_minibatches"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.n_envs * self.n_steps % self.n_minibatches:
            raise ValueError(
                f"n_minibatches={self.n_minibatches} does not divide the {self.n_envs * self.n_steps} steps "
                "between two updates (n_envs * n_steps)"
            )

    @property
    def batch_size(self) -> int:
        """Steps of a minibatch."""
        return self.n_envs * self.n_steps // self.n_minibatches

    def make_env_kwargs(self) -> dict[str, Any]:
        """Arguments of the environment."""
        return dict(self.env_kwargs)

    def make_core_kwargs(self) -> dict[str, Any]:
        """Options of the core: this project's defaults for it, with the recipe's own over them."""
        defaults = dict(CORE_DEFAULTS.get(self.core, {}))
        known = core_options(self.core)
        settings: dict[str, Value] = dict(segment_length=self.segment_length, memory_noise=self.memory_noise)
        return (
            defaults | {name: value for name, value in settings.items() if name in known} | self.core_kwargs
        )

    def make_policy_kwargs(self) -> dict[str, Any]:
        """Arguments of the policy.

        :raises ValueError: if the core is one of ``module:Class`` and cannot be found
        """
        return dict(
            core=find_core(self.core),
            core_kwargs=self.make_core_kwargs(),
            share_memory=self.share_memory,
            critic_shapes_memory=self.critic_shapes_memory,
            reconstruction=self.reconstruction or None,
            net_arch=dict(pi=list(self.heads), vf=list(self.heads)),
        )


@dataclass(frozen=True)
class MiniGridRecipe(Recipe):
    """How to train an agent on a MiniGrid task: ids are embedded."""

    view_size: int = 7
    """side of the agent's view, odd"""
    max_steps: int | None = None
    """time limit of an episode; None for the task's own"""

    def make_env_kwargs(self) -> dict[str, Any]:
        return dict(self.env_kwargs) | dict(view_size=self.view_size, max_steps=self.max_steps)

    def make_policy_kwargs(self) -> dict[str, Any]:
        return super().make_policy_kwargs() | dict(features_extractor_class=IdEmbeddingExtractor)


def spans(first: int, last: int, segment_length: int = 16) -> tuple[tuple[int, int], ...]:
    """Ranges of delays such that cue and query lie ``first``, ..., ``last`` segments apart, both counted.

    The cue is at step 0 and the query at step delay + 1.
    """
    return tuple(
        (max(1, segment_length * (count - 1) - 1), segment_length * count - 2)
        for count in range(first, last + 1)
    )


def longest(segments: int, segment_length: int = 16) -> int:
    """The longest delay at which cue and query lie that many segments apart, both counted."""
    return segment_length * segments - 2


def _minigrid(*levels: str, **settings: Any) -> MiniGridRecipe:
    """A row for MiniGrid's memory task up to a size: what those rows share."""
    shared = dict(
        env_id="envs.minigrid:RMT/MiniGrid-Memory-v0",
        segment_length=32,
        total_steps=800_000,
        n_envs=32,
        sequence_length=64,
        n_minibatches=8,
        learning_rate=3e-4,
        hold=0.6,
        # The cue has to be looked for: with less entropy the agent hurries to either end, is right half the
        # time, and stays there. Once it remembers, large late updates only cost it what it has: hence decays
        # and target_kl.
        ent_coef=0.05,
        final_ent_coef=0.005,
        target_kl=0.03,
    )
    return MiniGridRecipe(levels=levels, **{**shared, **settings})


def _recall(env_id: str, **settings: Any) -> Recipe:
    """A row for a task that asks for a cue after up to 7 segments, and then after many more."""
    shared = dict(
        levels=spans(1, 7),
        evaluation_levels=(longest(1), longest(7), longest(64), longest(512)),
        total_steps=500_000,
        n_envs=32,
        # Whole episodes, so that gradients reach from the query back to the cue.
        n_steps=256,
        sequence_length=256,
        # To last for hundreds of segments after training on seven, a memory needs: no critic that makes it
        # count steps, and noise that it has to withstand.
        critic_shapes_memory=False,
        memory_noise=1.0,
        final_ent_coef=0.0,
    )
    return Recipe(env_id=env_id, **{**shared, **settings})


RECIPES: dict[str, Recipe] = {
    "memorize": _recall("envs:RMT/Memorize-v0"),
    # To see the cue among its likes is learnt more slowly than to keep it; large updates cost both.
    "detect": _recall(
        "envs:RMT/DetectAndMemorize-v0",
        total_steps=1_000_000,
        learning_rate=5e-4,
        hold=0.6,
        target_kl=0.03,
    ),
    "tmaze": Recipe(
        env_id="envs:RMT/TMaze-v0",
        # With the paper's exact time limit one wrong step in a corridor longer than any before is a failure,
        # whatever is remembered; some slack and overlapping lengths keep the reward within reach.
        env_kwargs=dict(slack=8, penalty=0.3),
        levels=((1, 6), (4, 14), (8, 22), (12, 31), (16, 47), (24, 63), (32, 79), (48, 95), (64, 111)),
        evaluation_levels=(15, 111, 1023),
        total_steps=800_000,
        learning_rate=5e-4,
        n_envs=32,
        n_steps=256,
        sequence_length=256,
        critic_shapes_memory=False,
        memory_noise=0.3,
        # As in MiniGrid: an agent that is sure of its turn before it remembers stays wrong half the time.
        ent_coef=0.03,
        final_ent_coef=0.001,
        hold=0.5,
    ),
    "minigrid-memory-s9": _minigrid("S7", "S9", view_size=3, max_steps=96),
    "minigrid-memory-s11": _minigrid("S7", "S9", "S11"),
    "minigrid-memory-s13": _minigrid("S7", "S9", "S11", "S13"),
    "minigrid-memory-s17random": _minigrid("S7", "S9", "S11", "S13", "S17Random"),
}
"""By name, as ``scripts/train.py`` takes them."""


def recipe_for(env_id: str) -> Recipe:
    """A recipe for any environment, with defaults that suit many; ``with_levels`` adds what levels it has."""
    kind = MiniGridRecipe if OWN_GRIDS in env_id else Recipe
    return kind(env_id=env_id, n_envs=16, n_steps=128, sequence_length=64, n_minibatches=8)


def get_recipe(name: str) -> Recipe:
    """Look a recipe up.

    :raises ValueError: for an unknown name, with the nearest ones
    """
    if name not in RECIPES:
        near = get_close_matches(name, RECIPES, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"unknown recipe {name!r}: there are {', '.join(RECIPES)}{hint}")
    return RECIPES[name]


def recipe_to_json(recipe: Recipe) -> dict[str, Any]:
    """Every field, and which kind of recipe it is, as JSON can keep them."""
    return {"kind": type(recipe).__name__, **dataclasses.asdict(recipe)}


def recipe_from_json(data: Any) -> Recipe:
    """Read what ``recipe_to_json`` gave.

    :raises ValueError: for anything else
    """
    kinds = {kind.__name__: kind for kind in (Recipe, MiniGridRecipe)}
    if not isinstance(data, dict) or data.get("kind") not in kinds:
        raise ValueError(
            f"a recipe must be an object whose kind is one of {', '.join(kinds)}, got {data!s:.80}"
        )
    kind = kinds[data["kind"]]
    values = {name: value for name, value in data.items() if name != "kind"}
    if unknown := values.keys() - {item.name for item in dataclasses.fields(kind)}:
        raise ValueError(f"a {kind.__name__} has no {', '.join(sorted(unknown))}")
    for name in ("levels", "evaluation_levels"):
        values[name] = tuple(level_from_json(level) for level in values.get(name, ()))
    if "heads" in values:
        values["heads"] = tuple(values["heads"])
    try:
        return kind(**values)
    except TypeError as error:
        raise ValueError(f"the recipe is not whole: {error}") from error
