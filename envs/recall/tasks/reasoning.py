"""Reasoning: two facts tell the answer together, who holds a thing and where its holder is.

Description
    Facts come at random steps among `delay` distractors, each once and in any order: where each of the
    `holders` is, one of `places` drawn for each on its own, and which of them holds the thing. Then comes a
    query, at which the agent answers where the thing is. An episode has `holders` + `delay` + 2 steps. After
    the Reasoning task of the Recurrent Memory Transformer's scaling report (Bulatov et al. 2023, "Scaling
    Transformer to 1M tokens and beyond with RMT"), in which the two facts are sentences.

    Part of the way already pays, so that there is something to climb: an agent that keeps where one holder
    is, no matter which, and nothing else, is right in 1 / holders + (1 - 1 / holders) / places of the
    episodes: .625 by default, against a chance of .25. `RMT/ReasoningParity-v0` is the control without that
    slope.

Observation
    Box(0, 1, (holders + places + 1 + distractors + 1,), float32):

    | components | meaning |
    |---|---|
    | [0, holders) | one-hot: a holder |
    | the next `places` | one-hot: where that holder is, in a fact about a place |
    | the next one | 1 in the fact that tells the holder of the thing |
    | the next `distractors` | one-hot: a distractor, uniformly drawn at each step without a fact |
    | last | 1 at the query, which looks the same in all episodes |

    After the answer all components are 0.

Action
    Discrete(places). Has an effect at the query only, where it is the answer.

Reward
    At the query `reward_correct` or `reward_wrong`, at all other steps 0.

End
    Terminated by the answer. Never truncated. `info["is_success"]`: the answer was right.

Level
    `delay`, the number of distractors: at least 1, or a range (low, high).

Id
    `RMT/Reasoning-v0`. Chance 1 / places; best return `reward_correct`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from envs.recall.families.asking import DISTRACTORS, REWARDS, State
from envs.recall.families.facts import LAST_STREAM, FactsTask
from envs.recall.hashing import Ints, bits, integers
from envs.recall.parameters import LARGEST, Level, Parameter
from envs.recall.rendering import FLAG, QUESTION, Chip, Sight, key_chip, value_chip
from envs.recall.scripted import ScriptedPolicy

_HOLDER_STREAM = LAST_STREAM
_PLACE_STREAM = LAST_STREAM + 1
_ORDER_STREAM = LAST_STREAM + 2


class ReasoningPolicy(ScriptedPolicy["Reasoning"]):
    """Keeps all facts, answers where the thing's holder is; without memory, with place 0."""

    def __init__(self, task: Reasoning, remember: bool = True) -> None:
        super().__init__(task, remember)
        self.memory_size = task.holders + 1

    def write(self, memory: Ints, observations: NDArray[np.float32]) -> None:
        """Remember the place of each holder and, last, the holder of the thing."""
        holders, places = self.task.holders, self.task.places
        holder = observations[:, :holders].argmax(axis=1)
        where = observations[:, holders : holders + places]
        rows = np.flatnonzero(where.any(axis=1))
        memory[rows, holder[rows]] = where[rows].argmax(axis=1)
        rows = np.flatnonzero(observations[:, holders + places])
        memory[rows, -1] = holder[rows]

    def act(self, memory: Ints, observations: NDArray[np.float32]) -> Ints:
        """The place of the holder as far as both are known, at every step."""
        place = np.take_along_axis(memory, np.maximum(memory[:, -1:], 0), axis=1)[:, 0]
        return np.maximum(place, 0)


class Reasoning(FactsTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        holders: who can hold the thing, at least 2. Fixed: the spaces depend on it.
        places: where they can be, at least 2. Fixed.
        delay: number of distractors among the facts, at least 1, or a (low, high) range.
        distractors: number of distractor symbols, at least 1. Fixed.
        reward_correct: must be above `reward_wrong`.
        reward_wrong: reward of a wrong answer.

    Raises:
        ValueError: an argument outside its range.
    """

    PARAMETERS = (
        Parameter("holders", int, low=2, high=500, fixed=True),
        Parameter("places", int, low=2, high=5_000, fixed=True),
        DISTRACTORS,
        *REWARDS,
    )
    LEVEL = Parameter("delay", int, low=1, high=LARGEST)
    policy_class = ReasoningPolicy

    def __init__(
        self,
        n_envs: int = 1,
        *,
        holders: int = 2,
        places: int = 4,
        delay: Level = 30,
        distractors: int = 8,
        reward_correct: float = 1.0,
        reward_wrong: float = 0.0,
    ) -> None:
        super().__init__(
            n_envs,
            {
                "holders": holders,
                "places": places,
                "delay": delay,
                "distractors": distractors,
                "reward_correct": reward_correct,
                "reward_wrong": reward_wrong,
            },
        )
        self.holders, self.places = (int(self.settings.values[name][0]) for name in ("holders", "places"))
        self._lay_out(capacity=self.holders + 1, symbols=self.holders + self.places + 1)
        self.n_actions = self.places
        self._thing = self.holders + self.places  # the symbol of the fact who holds it
        self._holder: Ints = self._allocate("holder", np.int64)
        self._where: Ints = self._allocate("where", np.int64, (self.holders,))
        # Which fact comes as the first, second, ...: that about a holder, or `holders` for who has the thing.
        self._order: Ints = self._allocate("order", np.int64, (self.holders + 1,))

    def _start(self, rows: Ints) -> None:
        keys = self._keys[rows]
        self._holder[rows] = integers(keys, _HOLDER_STREAM, np.zeros_like(rows), self.holders)
        self._where[rows] = integers(keys[:, None], _PLACE_STREAM, np.arange(self.holders), self.places)
        self._order[rows] = bits(keys[:, None], _ORDER_STREAM, np.arange(self.holders + 1)).argsort(axis=1)
        self._scatter(rows, np.full_like(rows, self.holders + 1), self._size[rows])

    def _fact(self, rows: Ints | slice, slots: Ints) -> tuple[Ints, Ints]:
        fact = np.take_along_axis(self._order[rows], slots, axis=1)
        is_place = fact < self.holders
        about = np.where(is_place, fact, self._holder[rows][:, None])
        where = np.take_along_axis(self._where[rows], about, axis=1) + self.holders
        return about, np.where(is_place, where, self._thing)

    def _answer(self, state: State, number: Ints) -> Ints:
        answer: Ints = np.take_along_axis(state["where"], state["holder"][:, None], axis=1)[:, 0]
        return answer

    def _see_symbols(self, symbol: int, other: int) -> Sight:
        if symbol == self._query:
            return Sight(
                f"the query: which of {self.places} places has the thing?", [QUESTION], "WHERE IS IT"
            )
        holder = key_chip(f"H{symbol}")
        if other == self._thing:
            return Sight(f"holder {symbol} has the thing", [holder, Chip("", FLAG)], "HAS THE THING")
        place = other - self.holders
        chips = [holder, value_chip(place, self.places)]
        return Sight(f"holder {symbol} is at place {place}", chips, "IS AT")
