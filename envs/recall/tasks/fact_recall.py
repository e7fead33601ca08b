"""Fact recall: facts about keys among distractors, then questions that take one, two or three of them.

Description
    `facts` facts come at random steps among `delay` distractors, in random order and each about a key of its
    own. They form chains of `hops` facts: the first names the key of the second, and so on, and the last
    names a value. What is left over forms one shorter chain, which is never asked about. Then come `queries`
    questions, a step each. Each shows the first key of another chain and asks for the value at its end. An
    episode has `facts` + `delay` + `queries` steps. After the tasks with one, two and three supporting facts
    of BABILong (Kuratov et al. 2024, "BABILong: Testing the Limits of LLMs with Long Context
    Reasoning-in-a-Haystack").

Observation
    Box(0, 1, (2 keys + values + distractors + 1,), float32):

    | components | meaning |
    |---|---|
    | [0, keys) | one-hot: the key that a fact or a question is about |
    | the next `keys` | one-hot: the key that a fact names |
    | the next `values` | one-hot: the value that a fact names |
    | the next `distractors` | one-hot: a distractor, uniformly drawn at each step without a fact |
    | last | 1 at a question |

    After the last answer all components are 0.

Action
    Discrete(values). Has an effect at questions only, where it is the answer.

Reward
    For each answer `reward_correct` or `reward_wrong`, divided by `queries`; at all other steps 0.

End
    Terminated by the last answer. Never truncated. `info["is_success"]`: all answers were right.

Level
    `facts`: a number of at least `hops` * `queries` and at most `keys`, or a range (low, high).

Id
    `RMT/FactRecall-v0`; `keys=320` for up to 320 facts. Chance values**-queries, as the values of different
    chains have nothing to do with each other; best return `reward_correct`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envs.recall.families.asking import DISTRACTORS, REWARDS, AskingTask, State
from envs.recall.families.facts import LAST_STREAM, FactsTask
from envs.recall.hashing import Ints, bits, integers
from envs.recall.parameters import LARGEST, Level, Parameter, check_levels_fit
from envs.recall.rendering import QUESTION, Sight, key_chip, value_chip
from envs.recall.scripted import ScriptedPolicy

_KEY_STREAM = LAST_STREAM
_VALUE_STREAM = LAST_STREAM + 1
_ORDER_STREAM = LAST_STREAM + 2

MOST_HOPS = 3


class FactRecallPolicy(ScriptedPolicy["FactRecall"]):
    """Keeps what each key leads to and follows the chain; without memory, answers 0."""

    def __init__(self, task: FactRecall, remember: bool = True) -> None:
        super().__init__(task, remember)
        self.memory_size = task.keys

    def write(self, memory: Ints, observations: NDArray[np.float32]) -> None:
        """Remember for the key of a fact what it names: a key, or a value as `keys` + value."""
        keys = self.task.keys
        named = observations[:, keys : 2 * keys + self.task.values]
        rows = np.flatnonzero(named.any(axis=1))
        memory[rows, observations[rows, :keys].argmax(axis=1)] = named[rows].argmax(axis=1)

    def act(self, memory: Ints, observations: NDArray[np.float32]) -> Ints:
        """The value that the key seen leads to, at every step; 0 where it leads to none."""
        keys = self.task.keys
        reached: Ints = observations[:, :keys].argmax(axis=1)
        for _ in range(MOST_HOPS):
            follows = (reached >= 0) & (reached < keys)
            named = np.take_along_axis(memory, np.where(follows, reached, 0)[:, None], axis=1)[:, 0]
            reached = np.where(follows, named, reached)
        return np.maximum(reached - keys, 0)


class FactRecall(FactsTask):
    """See the module's docstring.

    Args:
        n_envs: rows.
        keys: number of keys, at least 1. Fixed: the spaces depend on it.
        values: number of values, at least 2. Fixed.
        facts: number of facts, from `hops` * `queries` to `keys`, or a (low, high) range.
        hops: facts that an answer takes, 1 to 3.
        queries: number of questions, at least 1.
        delay: number of distractors among the facts, at least 1.
        distractors: number of distractor symbols, at least 1. Fixed.
        reward_correct: must be above `reward_wrong`.
        reward_wrong: reward if all answers are wrong.

    Raises:
        ValueError: an argument outside its range, more facts than keys, or too few for the questions.
    """

    PARAMETERS = (
        Parameter("keys", int, low=1, high=1_000, fixed=True),
        Parameter("values", int, low=2, high=5_000, fixed=True),
        Parameter("hops", int, low=1, high=MOST_HOPS),
        Parameter("queries", int, low=1, high=1_000),
        Parameter("delay", int, low=1, high=LARGEST),
        DISTRACTORS,
        *REWARDS,
    )
    LEVEL = Parameter("facts", int, low=1, high=1_000)
    COUNTED = "queries"
    policy_class = FactRecallPolicy

    def __init__(
        self,
        n_envs: int = 1,
        *,
        keys: int = 16,
        values: int = 4,
        facts: Level = 4,
        hops: int = 1,
        queries: int = 1,
        delay: int = 16,
        distractors: int = 8,
        reward_correct: float = 1.0,
        reward_wrong: float = 0.0,
    ) -> None:
        super().__init__(
            n_envs,
            {
                "keys": keys,
                "values": values,
                "facts": facts,
                "hops": hops,
                "queries": queries,
                "delay": delay,
                "distractors": distractors,
                "reward_correct": reward_correct,
                "reward_wrong": reward_wrong,
            },
        )
        self.keys, self.values = (int(self.settings.values[name][0]) for name in ("keys", "values"))
        self.n_actions = self.values
        self._lay_out(capacity=self.keys, symbols=2 * self.keys + self.values)
        # By number of the fact, chain after chain: the key it is about, and the symbol that it names.
        self._about: Ints = self._allocate("about", np.int64, (self.keys,))
        self._names: Ints = self._allocate("names", np.int64, (self.keys,))
        # Which fact comes as the first, second, ... of the episode.
        self._order: Ints = self._allocate("order", np.int64, (self.keys,))

    @staticmethod
    def check_parameters(values: Mapping[str, NDArray[Any]]) -> None:
        """There must be a key for each fact, and a chain of facts for each question."""
        AskingTask.check_parameters(values)
        needed = values["hops"] * values["queries"]
        allowed = "from hops * queries={} to keys={}"
        check_levels_fit("facts", values["facts"], needed, values["keys"], allowed)

    def _start(self, rows: Ints) -> None:
        keys, numbers = self._keys[rows][:, None], np.arange(self.keys)
        counts, hops = self._size[rows][:, None], self.now["hops"][rows][:, None]
        about = bits(keys, _KEY_STREAM, numbers).argsort(axis=1)
        named = integers(keys, _VALUE_STREAM, numbers, self.values) + 2 * self.keys
        ends = (numbers % hops == hops - 1) | (numbers >= counts - 1)
        self._about[rows] = about
        self._names[rows] = np.where(ends, named, np.roll(about, -1, axis=1) + self.keys)
        order = bits(keys, _ORDER_STREAM, numbers) >> np.uint64(1)
        order[numbers >= counts] = ~np.uint64(0)  # facts there are none of, after all others
        self._order[rows] = order.argsort(axis=1)
        self._scatter(rows, self._size[rows], self.now["delay"][rows], self.now["queries"][rows])

    def _fact(self, rows: Ints | slice, slots: Ints) -> tuple[Ints, Ints]:
        fact = np.take_along_axis(self._order[rows], slots, axis=1)
        about, names = (np.take_along_axis(array[rows], fact, axis=1) for array in (self._about, self._names))
        return about, names

    def _question(self, rows: Ints | slice, numbers: Ints) -> Ints:
        # Chains are alike, so that to ask for the first, the second, ... is as random as any other choice.
        first: Ints = np.take_along_axis(self._about[rows], numbers * self.now["hops"][rows][:, None], axis=1)
        return first

    def _answer(self, state: State, number: Ints) -> Ints:
        last = (number + 1) * state["hops"] - 1
        answer: Ints = np.take_along_axis(state["names"], last[:, None], axis=1)[:, 0] - 2 * self.keys
        return answer

    def _see_symbols(self, symbol: int, other: int) -> Sight:
        if symbol == self._query:
            words = f"a question: which value does key {other} lead to?"
            return Sight(words, [key_chip(f"K{other}"), QUESTION], "WHICH VALUE")
        key = key_chip(f"K{symbol}")
        if other < 2 * self.keys:
            target = other - self.keys
            return Sight(f"key {symbol} names key {target}", [key, key_chip(f"K{target}")], "NAMES")
        value = other - 2 * self.keys
        return Sight(f"key {symbol} names value {value}", [key, value_chip(value, self.values)], "NAMES")
