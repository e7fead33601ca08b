"""What each environment of the gyms asks of a memory, and the scores to hold a result against, as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from envs.catalogue import Kind
from envs.gyms.popgym import DIFFICULTIES
from envs.gyms.registration import MINIGRID_SIZES, NAMESPACE

Scores = tuple[float | None, float | None, float | None]
Chances = tuple[float, float, float]


@dataclass(frozen=True)
class Row:
    """One environment. Scores are mean returns, or success rates if `metric` says so; None where unknown."""

    id: str
    """as registered"""
    kind: Kind
    """of memory that it needs"""
    chance: float
    """of uniformly random actions"""
    exact: bool
    """whether `chance` follows from the rules; else `envs.gyms.measure` measured it over 400 episodes"""
    ceiling: float | None = None
    """the most that an agent with a perfect memory can reach"""
    oracle: float | None = None
    """of a player who knows all that is hidden"""
    reference: float | None = None
    """a published score"""
    source: str = ""
    """where `reference` is from"""
    metric: Literal["return", "success"] = "return"
    """what the scores are"""
    note: str = ""
    """what to know before reading anything into a score"""
    about: str = ""
    """what the task is, in a few words"""


POPGYM_PAPER = "POPGym paper (2023): best of 13 memories, best mean return within 15M steps"
MEMORY_GYM_PAPER = "CleanRL's PPO with Transformer-XL, after 100M to 350M steps"
MINIGRID_PAPER = "recurrent PPO (GRU) after 1.54M steps: mean return with a 3x3 view"
MEMORYLESS = "a policy without memory does as well"
GUESS = "chance is that of a guess at the fork"

NONE: Scores = (None, None, None)
ONE: Scores = (1.0, 1.0, 1.0)
# There are as many cards of any suit as of another: a guess is right one time in four.
SUITS: Chances = (-0.5, -0.5, -0.5)
# An answer is one of 0 to 26, 26 and 16, the cards there are of a kind.
COUNTS: Chances = (2 / 27 - 1, 2 / 27 - 1, 2 / 17 - 1)
# The best of 10, 20 and 30 chances, each uniform from 0 to 1.
BEST_ARM: Scores = (9 / 11, 19 / 21, 29 / 31)
ZERO: Chances = (0.0, 0.0, 0.0)

EXACT = {"Autoencode", "CountRecall", "HigherLower", "MultiarmedBandit", "RepeatFirst", "RepeatPrevious"}

# Name: kind; chance, ceiling, oracle and reference, each for Easy, Medium and Hard; note.
POPGYM: dict[str, tuple[Kind, Chances, Scores, Scores, Scores, str]] = {
    "Autoencode": ("sequential", SUITS, ONE, ONE, (-0.283, -0.420, -0.448), ""),
    "Battleship": ("spatial", (-0.46, -0.42, -0.39), NONE, ONE, NONE, ""),
    "Concentration": ("capacity", (-0.18, -0.19, -0.83), NONE, ONE, NONE, ""),
    "CountRecall": ("counting", COUNTS, ONE, ONE, (0.509, -0.519, -0.470), ""),
    "HigherLower": (
        "counting",
        ZERO,
        (0.528, 0.517, 0.511),  # counting cards: the odds of what is left; over 20,000 deals, to .001
        (12 / 13, 12 / 13, 12 / 13),  # nothing is to be had where the next card is of the same rank
        (0.529, 0.513, 0.509),
        "no evidence: .497 (84/169) needs no memory, only calling higher below a seven",
    ),
    "LabyrinthEscape": ("none", (-0.43, -0.85, -0.96), NONE, NONE, NONE, MEMORYLESS),
    "LabyrinthExplore": ("none", (-0.35, -0.60, -0.74), NONE, NONE, NONE, MEMORYLESS),
    "MineSweeper": ("spatial", (-0.24, -0.39, -0.43), NONE, ONE, NONE, ""),
    "MultiarmedBandit": ("counting", ZERO, NONE, BEST_ARM, (0.631, 0.598, 0.574), ""),
    "NoisyPositionOnlyCartPole": ("velocity", (0.11, 0.11, 0.11), NONE, ONE, (0.995, 0.659, 0.404), ""),
    "NoisyPositionOnlyPendulum": ("velocity", (0.24, 0.24, 0.24), NONE, NONE, NONE, ""),
    "PositionOnlyCartPole": ("velocity", (0.11, 0.06, 0.04), ONE, ONE, (1.0, None, None), ""),
    "PositionOnlyPendulum": ("velocity", (0.24, 0.24, 0.24), NONE, NONE, NONE, ""),
    "RepeatFirst": ("object", SUITS, ONE, ONE, (None, None, 0.969), ""),
    "RepeatPrevious": ("sequential", SUITS, ONE, ONE, (1.0, 0.789, 0.191), "lags: 3, 31, 63 steps"),
    "VelocityOnlyCartpole": (
        "velocity",
        (0.11, 0.06, 0.04),
        NONE,
        ONE,
        NONE,
        "an episode's first observation shows positions, not velocities",
    ),
}

POPGYM_ABOUT = {
    "Autoencode": "a deck of cards is shown, then to be said again in reverse",
    "Battleship": "ships are to be hit on a board that shows the last shot alone",
    "Concentration": "pairs of cards are to be found among those that lie face down",
    "CountRecall": "cards are shown one by one; how often has the one asked for come?",
    "HigherLower": "is the next card of the deck higher or lower?",
    "LabyrinthEscape": "the way out of a maze, of which the near cells are seen",
    "LabyrinthExplore": "all cells of a maze are to be visited, of which the near ones are seen",
    "MineSweeper": "mines are to be avoided on a board that shows the last cell alone",
    "MultiarmedBandit": "the best of many arms is to be found and pulled",
    "NoisyPositionOnlyCartPole": "a pole is to be balanced, positions alone are seen, with noise",
    "NoisyPositionOnlyPendulum": "a pendulum is to be swung up, its angle alone is seen, with noise",
    "PositionOnlyCartPole": "a pole is to be balanced, positions alone are seen",
    "PositionOnlyPendulum": "a pendulum is to be swung up, its angle alone is seen",
    "RepeatFirst": "at every step the suit of the first card",
    "RepeatPrevious": "at every step the suit seen some steps ago",
    "VelocityOnlyCartpole": "a pole is to be balanced, velocities alone are seen",
}
"""What the tasks are."""

# Kind; chance, ceiling, oracle, reference; note. The endless environments have no best score.
MEMORY_GYM: dict[str, tuple[Kind, float, float | None, float | None, float | None, str]] = {
    "MortarMayhem-v0": ("sequential", 0.01, 1.0, 1.0, None, ""),
    "MortarMayhem-Grid-v0": ("sequential", 0.02, 1.0, 1.0, 0.99, ""),
    "MortarMayhemB-v0": ("none", 0.02, 1.0, 1.0, None, "the control: the commands are always seen"),
    "MortarMayhemB-Grid-v0": ("none", 0.02, 1.0, 1.0, None, "the control: the commands are always seen"),
    "Endless-MortarMayhem-v0": ("sequential", 0.01, None, None, 1.50, ""),
    "MysteryPath-v0": ("spatial", 0.22, None, 1.81, None, "1 and .1 for each tile of the way"),
    "MysteryPath-Grid-v0": ("spatial", 0.0, None, 1.0, 0.97, ""),
    "Endless-MysteryPath-v0": ("spatial", 0.1, None, None, 1.84, ""),
    "SearingSpotlights-v0": ("spatial", 0.01, None, 1.25, 1.11, ""),
    "Endless-SearingSpotlights-v0": ("spatial", 0.05, None, None, 1.60, ""),
}

MEMORY_GYM_ABOUT = {
    "MortarMayhem-v0": "commands are shown, then to be carried out in order",
    "MortarMayhem-Grid-v0": "commands are shown, then to be carried out in order, cell by cell",
    "MortarMayhemB-v0": "commands in view are to be carried out in order",
    "MortarMayhemB-Grid-v0": "commands in view are to be carried out in order, cell by cell",
    "Endless-MortarMayhem-v0": "a list of commands that grows is to be carried out from memory",
    "MysteryPath-v0": "an invisible path is to be found, and kept to after each fall",
    "MysteryPath-Grid-v0": "an invisible path is to be found, and kept to after each fall, cell by cell",
    "Endless-MysteryPath-v0": "an invisible path without an end is to be found, and kept to after each fall",
    "SearingSpotlights-v0": "coins and the exit are to be reached in the dark, out of the spotlights",
    "Endless-SearingSpotlights-v0": "coins are to be collected in the dark, out of the spotlights",
}
"""What the tasks are."""

# Those that show cue and answer in one view of 7x7: the default; none does with `view_size=3`.
SHOWN = {
    "S7": "always",
    "S9": "always",
    "S13Random": "in 7 of 30 layouts",
    "S17Random": "in 4 of 30 layouts",
}


def _popgym() -> Iterator[Row]:
    for name, (kind, chance, ceiling, oracle, reference, note) in POPGYM.items():
        for i, difficulty in enumerate(DIFFICULTIES):
            yield Row(
                id=f"{NAMESPACE}popgym-{name}{difficulty}-v0",
                kind=kind,
                chance=chance[i],
                exact=name in EXACT,
                ceiling=ceiling[i],
                oracle=oracle[i],
                reference=reference[i],
                source="" if reference[i] is None else POPGYM_PAPER,
                note=note,
                about=f"{POPGYM_ABOUT[name]} ({difficulty.lower()})",
            )


def _memory_gym() -> Iterator[Row]:
    for name, (kind, chance, ceiling, oracle, reference, note) in MEMORY_GYM.items():
        source = "" if reference is None else MEMORY_GYM_PAPER
        env_id = f"{NAMESPACE}MemoryGym-{name}"
        yield Row(
            env_id,
            kind,
            chance,
            False,
            ceiling,
            oracle,
            reference,
            source,
            note=note,
            about=MEMORY_GYM_ABOUT[name],
        )


def _minigrid() -> Iterator[Row]:
    for size in MINIGRID_SIZES:
        reference, source = (0.926, MINIGRID_PAPER) if size == "S9" else (None, "")
        shown = f"; with a 7x7 view cue and answer are seen at once {SHOWN[size]}" if size in SHOWN else ""
        yield Row(
            f"{NAMESPACE}MiniGrid-Memory{size}-v0",
            "object",
            0.5,
            True,
            1.0,
            1.0,
            reference,
            source,
            "success",
            GUESS + shown,
        )


CATALOGUE: dict[str, Row] = {row.id: row for row in (*_popgym(), *_memory_gym(), *_minigrid())}
"""The rows by id, in the order of `IDS`."""
