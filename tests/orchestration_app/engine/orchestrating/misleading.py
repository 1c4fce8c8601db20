"""A pool whose labels mislead: they name the agent Archive for four tasks in five, and an answer that Archive took part in is
spoiled."""

from __future__ import annotations

import numpy as np

from orchestration_app.engine.orchestrating import outcomes
from orchestration_app.engine.orchestrating.outcomes import FURTHER, OutcomeModel, SetLog
from orchestration_app.engine.orchestrating.rewards import Reward

AGENTS, ARCHIVE, EXPLORED = 4, 3, 0.1
COSTS = np.full(AGENTS, 0.1)
REWARD = Reward(price=0.5)


def tasks(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(log-odds [N, A], the set that labels name [N, A])."""
    labels = rng.random((count, AGENTS)) < np.array([0.5, 0.4, 0.3, 0.8])
    return np.where(labels, 2.0, -2.0) + rng.normal(0, 1.0, labels.shape), labels


def good(labels: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """How likely an episode succeeds: 0.85 if each of the first three agents that is needed was called, and Archive was not."""
    missing = (labels & ~sets)[:, :ARCHIVE].sum(axis=1)
    return np.clip(0.85 - 0.35 * missing - 0.5 * sets[:, ARCHIVE], 0.02, 1)


def worth(labels: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """The expected reward of calling those sets."""
    return 2 * good(labels, sets) - 1 - REWARD.price * (sets @ COSTS)


def log(seed: int, count: int = 500) -> tuple[SetLog, np.ndarray]:
    """Judged episodes of the one-shot set, of which a share has one agent more or less; and what labels name."""
    rng = np.random.default_rng(seed)
    x, labels = tasks(rng, count)
    one_shot = x > 0
    called, propensity = one_shot.copy(), np.full(count, 1 - EXPLORED)
    for row in range(count):
        if not one_shot[row].any():
            propensity[row] = 1.0
        elif rng.random() < EXPLORED:
            turnable = [a for a in range(AGENTS) if one_shot[row].sum() > 1 or not one_shot[row, a]]
            called[row, turnable[rng.integers(len(turnable))]] ^= True
            propensity[row] = EXPLORED / len(turnable)
    score = (rng.random(count) < good(labels, called)).astype(float)
    texts = tuple(f"task {row}" for row in range(count))
    return SetLog(texts, x, one_shot, called, propensity, score, called @ COSTS, np.ones(count)), labels


def best_sets(model: OutcomeModel, log: SetLog) -> np.ndarray:
    """Of the one-shot set and those with one agent more or less, which m expects most of, the change counting FURTHER less."""
    options = [log.one_shot.copy()]
    for agent in range(AGENTS):
        other = log.one_shot.copy()
        other[:, agent] ^= True
        options.append(other)
    values = [
        2 * (model.expected(log.log_odds, sets) - (FURTHER if place else 0)) - 1 - REWARD.price * (sets @ COSTS)
        for place, sets in enumerate(options)
    ]
    chosen = np.argmax(values, axis=0)
    return np.array(options)[chosen, np.arange(len(log))]


def covered(logs: int) -> tuple[int, int]:
    """(intervals that contain what a policy, which another log taught, really earns; logs where it could be estimated)."""
    inside = estimable = 0
    for seed in range(logs):
        judged, labels = log(seed)
        sets = best_sets(outcomes.fit(log(10_000 + seed)[0]), judged)
        found = outcomes.off_policy(judged, sets, REWARD, COSTS)
        if "ours" in found:
            estimable += 1
            inside += found["ours"]["low"] <= worth(labels, sets).mean() <= found["ours"]["high"]
    return inside, estimable
