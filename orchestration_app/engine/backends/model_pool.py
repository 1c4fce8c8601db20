"""Simulator 1: a pool of models behind queues, to see what a way of choosing is worth before anybody pays for it. numpy only.

Queries arrive as a Poisson stream. Each has a category, and a complexity x in 0..1 that nobody sees: what is seen is the estimator's x̂
= clip(x + noise). A backend b serves with an M/M/1 queue: its time in it is exponential with mean 1 / (μ_b − λ_b) in a steady state,
and simulated as it is here, call by call: begin = max(arrival, when it is free), end = begin + Exp(1 / μ_b). Success is drawn with

    P(success | b, category k, x) = sigmoid(skill_bk − slope_b · x)

and a call costs its tokens at the backend's price. The interface is Gymnasium's (reset, step, spaces), without the package.
A pool is read from JSON; DEFAULT is made up.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: `skill` by category; `rate` is μ in calls a second; prices in dollars a million tokens.
DEFAULT: dict[str, Any] = {
    "categories": ["chat", "code", "maths", "search"],
    "shares": [0.4, 0.2, 0.15, 0.25],
    "complexity": [2.0, 3.0],
    "tokens": [400.0, 300.0],
    "backends": [
        {"name": "large", "skill": [5.2, 5.0, 5.0, 4.8], "slope": 1.6, "rate": 0.5, "price_in": 10.0, "price_out": 30.0},
        {"name": "medium", "skill": [4.9, 3.9, 3.4, 4.4], "slope": 3.6, "rate": 1.2, "price_in": 0.8, "price_out": 2.4},
        {"name": "coder", "skill": [2.5, 5.0, 3.0, 2.0], "slope": 1.9, "rate": 1.0, "price_in": 1.0, "price_out": 3.0},
        {"name": "solver", "skill": [2.0, 3.0, 5.0, 2.0], "slope": 2.0, "rate": 0.8, "price_in": 1.5, "price_out": 4.5},
        {"name": "small", "skill": [4.3, 2.6, 1.6, 4.0], "slope": 5.0, "rate": 4.0, "price_in": 0.1, "price_out": 0.3},
    ],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Pool:
    """What a file says of a pool: K categories, B backends."""

    names: tuple[str, ...]
    categories: tuple[str, ...]
    shares: Floats  # [K]
    complexity: tuple[float, float]  # of a Beta distribution
    tokens: tuple[float, float]  # mean tokens in and out of a query
    skill: Floats  # [B, K]
    slope: Floats  # [B]
    rate: Floats  # μ, [B]
    price: Floats  # dollars a token in and out, [B, 2]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Pool:
        """Raises KeyError and ValueError for what is missing or does not fit."""
        rows = content["backends"]
        shares = np.array(content["shares"], float)
        pool = cls(
            tuple(row["name"] for row in rows), tuple(content["categories"]), shares / shares.sum(), tuple(content["complexity"]),
            tuple(content["tokens"]), np.array([row["skill"] for row in rows], float), np.array([row["slope"] for row in rows], float),
            np.array([row["rate"] for row in rows], float), np.array([[row["price_in"], row["price_out"]] for row in rows]) / 1e6,
        )  # fmt: skip
        if pool.skill.shape != (len(rows), len(pool.categories)) or len(pool.shares) != len(pool.categories):
            raise ValueError("every backend needs a skill, and every category a share, for each category")
        return pool

    @classmethod
    def read(cls, path: str | Path | None) -> Pool:
        """From a JSON file; None is DEFAULT."""
        return cls.of(DEFAULT if path is None else json.loads(Path(path).read_text(encoding="utf-8")))

    def success(self, category: NDArray[np.int64], complexity: Floats) -> Floats:
        """P(success) of every backend, float64[N, B]."""
        return 1 / (1 + np.exp(-(self.skill[:, category].T - complexity[:, None] * self.slope)))

    def cost(self, tokens: Floats) -> Floats:
        """Dollars on every backend, float64[N, B]; tokens float64[N, 2]."""
        return tokens @ self.price.T


@dataclass(frozen=True, slots=True)
class Query:
    """One query: what may be seen of it (category, x̂, expected tokens) and what may not (x)."""

    at: float
    category: int
    complexity: float
    seen: float
    tokens: Floats


@dataclass
class Outcome:
    """What came of one call: dollars and seconds, waiting included."""

    success: float
    cost: float
    latency: float
    waited: float
    likely: float  # P(success), which nobody sees


@dataclass
class Box:
    """A space of numbers, as Gymnasium describes one."""

    low: float
    high: float
    shape: tuple[int, ...]


@dataclass
class Discrete:
    """A space of n choices."""

    n: int


@dataclass
class ModelPool:
    """The environment. An observation is category (one of K), x̂, and each backend's ρ and queue; the reward is a vector of
    (success, −cost / dearest, −latency / slowest), or with `weights` their sum."""

    pool: Pool
    load: float = 0.5  # λ, calls a second over all backends
    noise: float = 0.0
    weights: tuple[float, float, float] | None = None
    length: int = 256
    rng: np.random.Generator = field(default_factory=lambda: np.random.Generator(np.random.PCG64(0)))

    def __post_init__(self) -> None:
        self.count = len(self.pool.names)
        size = len(self.pool.categories) + 1 + 2 * self.count
        self.observation_space, self.action_space = Box(0.0, 1.0, (size,)), Discrete(self.count)
        mean_tokens = np.array(self.pool.tokens)
        self.dearest = float(self.pool.cost(mean_tokens[None]).max())
        self.slowest = float((1 / self.pool.rate).max())

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """A new stream of queries."""
        if seed is not None:
            self.rng = np.random.Generator(np.random.PCG64(seed))
        self.now, self.step_count = 0.0, 0
        self.free = np.zeros(self.count)
        self.ends: list[list[float]] = [[] for _ in range(self.count)]
        self.query = self._drawn()
        return self.observation(), {}

    def step(self, action: int) -> tuple[Floats, Any, bool, bool, dict[str, Any]]:
        """Serve the query on that backend, and let the next one come."""
        outcome = self.serve(int(action))
        vector = np.array([outcome.success, -outcome.cost / self.dearest, -outcome.latency / self.slowest])
        self.step_count += 1
        self.query = self._drawn()
        done = self.step_count >= self.length
        reward = vector if self.weights is None else float(vector @ np.array(self.weights))
        return self.observation(), reward, False, done, {"outcome": outcome}

    def serve(self, backend: int) -> Outcome:
        """What comes of the present query there."""
        query, pool = self.query, self.pool
        begin = max(query.at, self.free[backend])
        end = begin + self.rng.exponential(1 / pool.rate[backend])
        self.free[backend] = end
        self.ends[backend].append(end)
        likely = pool.success(np.array([query.category]), np.array([query.complexity]))[0, backend]
        cost = float(pool.cost(query.tokens[None])[0, backend])
        return Outcome(float(self.rng.random() < likely), cost, end - query.at, begin - query.at, float(likely))

    def waiting(self) -> NDArray[np.int64]:
        """Calls in each backend's queue now, the one that is served included, int64[B]."""
        self.ends = [[end for end in ends if end > self.query.at] for ends in self.ends]
        return np.array([len(ends) for ends in self.ends])

    def expected_latency(self) -> Floats:
        """Seconds until a call that is sent now would be back, float64[B]: (calls in the queue + 1) / μ."""
        return (self.waiting() + 1) / self.pool.rate

    def observation(self) -> Floats:
        """What may be seen, float64[K + 1 + 2 B], all in 0..1."""
        kind = np.eye(len(self.pool.categories))[self.query.category]
        queue = self.waiting()
        return np.concatenate([kind, [self.query.seen], np.minimum(queue / 10, 1), queue / (1 + queue)])

    def _drawn(self) -> Query:
        self.now += self.rng.exponential(1 / self.load)
        category = int(self.rng.choice(len(self.pool.shares), p=self.pool.shares))
        complexity = float(self.rng.beta(*self.pool.complexity))
        estimate = float(np.clip(complexity + self.noise * self.rng.standard_normal(), 0, 1))
        tokens = np.array(self.pool.tokens) * self.rng.gamma(4.0, 0.25, 2)
        return Query(self.now, category, complexity, estimate, tokens)
