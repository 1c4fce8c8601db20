"""Bandits that learn which backend to take from outcomes: UCB1, Thompson sampling, LinUCB; and a budget over time.

An arm is an agent-backend pair, a context the type of the task. All three keep sums alone, so that they go to a database and back, and
each says how likely its choice was, so that a later policy can be judged from the log. Where an arm's reward is noisy by σ:

    UCB1      mean + σ · sqrt(2 ln t / n), every arm once first              (Auer, Cesa-Bianchi and Fischer 2002)
    Thompson  a draw of N(mean, σ² / n), from a prior N(m0, σ0²)             (Thompson 1933; Agrawal and Goyal 2012)
    LinUCB    θ'x + α σ sqrt(x' A⁻¹ x), A = Σ x x' + ridge, one θ over all   (Li et al. 2010)

The features of LinUCB say agent, backend, agent with type, and the arm itself with type, so that what is learnt of an agent on one
backend counts on the others, and less than what is learnt on that one.
The budget is a knapsack's: the value of an arm is its reward less the price of money, reward / dollar, times its cost; the price
rises while more is spent than the budget's pace and falls while less is (Badanidiyuru, Kleinberg and Slivkins 2013; primal-dual).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
OF_TYPE, EXCEPTION = 1.4, 1.0
DRAWS = 64  # of a Thompson sampler, to say how likely its choice was


class Bandit(Protocol):
    """What chooses an arm in a context and learns from its reward."""

    def choose(self, context: int, less: Floats | None = None) -> tuple[int, float]:
        """An arm and how likely it was; `less` float64[arms] is taken from each arm's worth: cost, load, -inf where it may not be."""

    def best(self, context: int) -> int:
        """The arm of the highest expected reward, no more to be learnt."""

    def learn(self, context: int, arm: int, reward: float) -> None:
        """One outcome."""


@dataclass
class _Sums:
    """Rewards by context and arm, float64[contexts, arms] each."""

    contexts: int
    arms: int
    rng: np.random.Generator
    noise: float = 0.1
    prior: float = 0.5
    count: Floats = field(init=False)
    total: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.count, self.total = np.zeros((2, self.contexts, self.arms))

    def learn(self, context: int, arm: int, reward: float) -> None:
        self.count[context, arm] += 1
        self.total[context, arm] += reward

    def best(self, context: int) -> int:
        count = self.count[context]
        return int(np.argmax(np.where(count > 0, self.total[context] / np.maximum(count, 1), -np.inf)))

    def _first_of(self, worth: Floats) -> int:
        """One of the largest, drawn."""
        return int(self.rng.choice(np.flatnonzero(worth >= worth.max() - 1e-12)))


class UCB1(_Sums):
    """Optimism: every arm once, then the highest that it may well be."""

    def hopes(self, context: int) -> Floats:
        """How good each arm may well be, float64[1, arms]."""
        count = self.count[context]
        bonus = self.noise * np.sqrt(2 * np.log(max(count.sum(), 1)) / np.maximum(count, 1))
        hoped: Floats = np.where(count > 0, self.total[context] / np.maximum(count, 1) + bonus, 1e6)[None]
        return hoped

    def choose(self, context: int, less: Floats | None = None) -> tuple[int, float]:
        worth = self.hopes(context)[0] - (0.0 if less is None else less)
        ties = worth >= worth.max() - 1e-12
        return self._first_of(worth), 1.0 / int(ties.sum())


class Thompson(_Sums):
    """Each arm by a draw of what its mean may be."""

    prior_sd: float = 0.3

    def hopes(self, context: int) -> Floats:
        """Draws of what each arm's mean may be, float64[DRAWS, arms]."""
        mean, sd = self.posterior(context)
        hoped: Floats = mean + sd * self.rng.standard_normal((DRAWS, self.arms))
        return hoped

    def choose(self, context: int, less: Floats | None = None) -> tuple[int, float]:
        chosen = np.argmax(self.hopes(context) - (0.0 if less is None else less), axis=1)
        # The first draw decides. How often the others agree says how likely that was; never 0.
        return int(chosen[0]), float((chosen == chosen[0]).mean())

    def posterior(self, context: int) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each arm's expected reward, float64[arms] each."""
        precision = 1 / self.prior_sd**2 + self.count[context] / self.noise**2
        mean = (self.prior / self.prior_sd**2 + self.total[context] / self.noise**2) / precision
        return mean, 1 / np.sqrt(precision)

    def best(self, context: int) -> int:
        return int(np.argmax(self.posterior(context)[0]))


def pair_features(types: int, agents: int, backends: int) -> Floats:
    """Features of each arm in each type, float64[types, agents · backends, D]; arm = agent · backends + backend.

    They say 1, agent, backend, agent with type, and the very arm with type. How large a feature is says how far its weight may stand
    from 0: what holds for an agent on all backends is believed sooner than an exception of one.
    """
    kind, agent, backend, arm = np.eye(types), np.eye(agents), np.eye(backends), np.eye(agents * backends)
    rows = [
        np.concatenate([
            [1.0], 0.5 * agent[a], 0.5 * backend[b], OF_TYPE * np.outer(kind[t], agent[a]).ravel(),
            EXCEPTION * np.outer(kind[t], arm[a * backends + b]).ravel(),
        ])
        for t in range(types) for a in range(agents) for b in range(backends)
    ]  # fmt: skip
    return np.array(rows).reshape(types, agents * backends, -1)


@dataclass
class LinUCB:
    """One linear model of the reward over all arms; `features` float64[contexts, arms, D]."""

    features: Floats
    rng: np.random.Generator
    noise: float = 0.1
    alpha: float = 1.0
    prior: float = 0.5
    spread: float = 0.15  # of a weight around 0, before any outcome
    inverse: Floats = field(init=False)  # A⁻¹, [D, D], in units of noise²
    target: Floats = field(init=False)  # Σ x r, [D]

    def __post_init__(self) -> None:
        size = self.features.shape[2]
        self.inverse = np.eye(size) * (self.spread / self.noise) ** 2
        self.target = np.zeros(size)

    def hopes(self, context: int) -> Floats:
        """How good each arm may well be, float64[1, arms]."""
        x = self.features[context]  # [arms, D]
        width = self.noise * np.sqrt(np.einsum("ad,de,ae->a", x, self.inverse, x))
        hoped: Floats = (x @ (self.inverse @ self.target) + self.alpha * width)[None]
        return hoped

    def choose(self, context: int, less: Floats | None = None) -> tuple[int, float]:
        worth = self.hopes(context)[0] - (0.0 if less is None else less)
        ties = np.flatnonzero(worth >= worth.max() - 1e-9)
        return int(self.rng.choice(ties)), 1.0 / len(ties)

    def best(self, context: int) -> int:
        return int(np.argmax(self.features[context] @ (self.inverse @ self.target)))

    def learn(self, context: int, arm: int, reward: float) -> None:
        x = self.features[context, arm]
        gain = self.inverse @ x
        self.inverse -= np.outer(gain, gain) / (1 + x @ gain)  # Sherman and Morrison 1950
        self.target += (reward - self.prior) * x

    def learn_sums(self, context: int, counts: Floats, totals: Floats) -> None:
        """Many outcomes at once: how many each arm had and the sum of their rewards, float64[arms] each."""
        x = self.features[context]
        self.inverse = np.linalg.inv(np.linalg.inv(self.inverse) + (x * counts[:, None]).T @ x)
        self.target += (totals - self.prior * counts) @ x


@dataclass
class Knapsack:
    """A budget in dollars for a number of tasks: the price of a dollar in reward, which follows the pace of what is spent."""

    budget: float
    tasks: int
    rate: float = 0.05
    max_price: float = 1e4
    price: float = 0.0  # reward / dollar
    spent: float = 0.0
    done: int = 0

    def less(self, costs: Sequence[float] | Floats) -> Floats:
        """What each arm's cost takes from its worth now, float64[arms]; -> inf for what the rest of the budget cannot pay.

        Where it can pay none, the cheapest is left: a used-up budget degrades before it refuses.
        """
        cost = np.asarray(costs, float)
        too_dear = cost > self.budget - self.spent
        if too_dear.all():
            too_dear = cost > cost.min()
        return np.where(too_dear, np.inf, self.price * cost)

    def record(self, cost: float) -> None:
        """One task was paid; the price moves by the share of a task's pace that it is over or under (mirror descent)."""
        self.spent += cost
        self.done += 1
        pace = self.budget / max(self.tasks, 1)
        unit = 1.0 / pace  # reward of a whole task for one task's pace of dollars
        self.price = float(np.clip(self.price + self.rate * unit * (cost / pace - 1), 0.0, self.max_price * unit))
