"""Memory cores without reinforcement learning: trained by cross-entropy to give answers when they are due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from agents.micro_tasks import MicroTask
from rmt_rl import make_core


class Episodes(NamedTuple):
    """B episodes of T steps, played by one that knows the answers."""

    observations: np.ndarray[Any, Any]
    """(B, T, D) float32"""
    answers: np.ndarray[Any, Any]
    """(B, T) int64, the right actions"""
    due: np.ndarray[Any, Any]
    """(B, T) bool, where an answer is asked for"""


Source = Callable[[int, int], Episodes]
"""From a difficulty and a number of episodes to new ones."""


class Answerer(nn.Module):
    """A memory core with a linear head.

    :param input_dim: D
    :param answers: how many there are to choose from
    """

    def __init__(self, core: str, input_dim: int, answers: int, **core_kwargs: Any) -> None:
        super().__init__()
        self.core = make_core(core, input_dim, **core_kwargs)
        self.head = nn.Linear(self.core.output_dim, answers)

    def forward(self, observations: Tensor) -> Tensor:
        """Whole episodes (B, T, D) -> logits (B, T, answers)."""
        starts = torch.zeros(observations.shape[:2], dtype=torch.bool, device=observations.device)
        starts[:, 0] = True
        outputs = self.core.replay(observations, self.core.initial_state(len(observations)), starts)
        return self.head(outputs)  # type: ignore[no-any-return]


class Stage(NamedTuple):
    """A part of a curriculum: episodes of a range of difficulties."""

    source: Source
    low: int
    high: int


@dataclass(frozen=True)
class Fitting:
    """How to train."""

    stages: Sequence[Stage]
    """the curriculum"""
    updates: int = 3000
    """at most"""
    batch: int = 64
    """episodes of an update"""
    learning_rate: float = 1e-3
    """after a warm-up of 50 updates, until it settles"""
    settling: int = 300
    """updates at the end, over which the learning rate falls to 0"""
    solved: float = 0.995
    """share of right answers, over the last 20 updates, at which a stage counts as solved"""
    seed: int = 0


@dataclass(frozen=True)
class Fitted:
    """What came of a training."""

    model: Answerer
    updates: int
    solved: bool
    """whether the last stage was"""


def fit(model: Answerer, fitting: Fitting) -> Fitted:
    """Train until the last stage is solved, or for as many updates as there are, and settle.

    A stage lasts until it is solved or has had its share of the updates. Each update's episodes are of one
    difficulty, drawn from the present stage's range; a quarter of the updates is drawn from the stages before
    it.
    """
    rng = np.random.default_rng(fitting.seed)
    optimizer = torch.optim.AdamW(model.parameters(), fitting.learning_rate, weight_decay=0.01, fused=True)
    number, began, recent, solved = 0, 0, [], False
    most = fitting.updates // len(fitting.stages)
    end = fitting.updates
    update = 0
    model.train()
    while update < end:
        left = min(1.0, (end - update) / max(1, fitting.settling))
        optimizer.param_groups[0]["lr"] = fitting.learning_rate * min(left, (update + 1) / 50)
        easier = number and rng.random() < 0.25
        stage = fitting.stages[int(rng.integers(number)) if easier else number]
        level = int(rng.integers(stage.low, stage.high + 1))
        logits, answers = ask(model, stage.source(level, fitting.batch))
        loss = F.cross_entropy(logits, answers)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        update += 1
        if not easier:
            recent.append((logits.argmax(-1) == answers).float().mean().item())
        right = len(recent) >= 20 and np.mean(recent[-20:]) >= fitting.solved
        if number + 1 < len(fitting.stages):
            if right or update - began >= most:
                number, began, recent = number + 1, update, []
        elif right and not solved:
            solved, end = True, min(end, update + fitting.settling)
    return Fitted(model, update, solved)


def ask(model: Answerer, episodes: Episodes) -> tuple[Tensor, Tensor]:
    """Logits (N, answers) where an answer is due, and the right ones (N,)."""
    logits = model(torch.from_numpy(episodes.observations))
    due = torch.from_numpy(episodes.due)
    return logits[due], torch.from_numpy(episodes.answers)[due]


@torch.no_grad()
def accuracy(model: Answerer, source: Source, level: int, episodes: int, batch: int = 128) -> list[float]:
    """The share of right answers in each of so many new episodes."""
    model.eval()
    shares: list[float] = []
    while len(shares) < episodes:
        played = source(level, min(batch, episodes - len(shares)))
        right = model(torch.from_numpy(played.observations)).argmax(-1).numpy() == played.answers
        shares += ((right & played.due).sum(1) / played.due.sum(1)).tolist()
    return shares


class Learnt(NamedTuple):
    """How long a core took for a micro-task."""

    updates: int
    """until it was solved, or as many as there were"""
    solved: bool
    right: float
    """share of the judged answers that were right over the last updates"""


def learn_micro_task(
    model: Answerer,
    task: MicroTask,
    seed: int,
    *,
    updates: int | None = None,
    batch: int = 32,
    learning_rate: float = 1e-3,
    max_grad_norm: float = 0.5,
    solved: float = 0.97,
    window: int = 10,
) -> Learnt:
    """Train on new episodes with Adam until enough of the judged answers are right.

    :param updates: at most; by default the task's own number
    :param batch: episodes of an update
    :param max_grad_norm: gradients are clipped at it, by default where PPO does
    :param solved: share of right answers, among those judged in the last ``window`` updates together
    """
    rng = np.random.default_rng(seed)
    optimizer = torch.optim.Adam(model.parameters(), learning_rate, fused=True)
    most = task.updates if updates is None else updates
    counts: list[tuple[int, int]] = []
    share = 0.0
    model.train()
    for update in range(1, most + 1):
        episodes = task.draw(rng, batch)
        logits = model(torch.from_numpy(episodes.observations))
        due, answers = torch.from_numpy(episodes.due), torch.from_numpy(episodes.answers)
        loss = F.cross_entropy(logits[due], answers[due])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
        optimizer.step()
        right = logits.detach().argmax(-1).numpy() == episodes.answers
        counts.append((int((right & episodes.judged).sum()), int(episodes.judged.sum())))
        hits, judged = np.sum(counts[-window:], axis=0)
        share = float(hits / judged)
        if update >= window and share >= solved:
            return Learnt(update, True, share)
    return Learnt(most, False, share)
