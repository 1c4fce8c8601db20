"""Learning while serving: what a learner makes of the calls that were reported, and how likely it takes each backend now. numpy only.

A learner is a function of the log of calls and of nothing else. Processes that have read the same log have the same learner, so there
is nothing to merge between them, and nothing to lose. A context is an agent, an arm one of its backends. The reward is whether the
call succeeded (σ ≤ ½); cost, latency and load are taken off an arm's worth where a choice is made, in units of success:

    less_b = (w_c · cost_b / C + w_l · latency_b / L + load_b) / w_q + price · cost_b

with the caller's preference w and the price of money that a budget's pace asks for (`bandits.Knapsack`). What staff
expect of a backend counts as PRIOR_CALLS calls, so that none is taken only because nothing is known of it. The published table has a
reward of its own, which holds cost, latency and load already; nothing is taken off it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.backends import q_table
from orchestration_app.engine.backends.bandits import UCB1, Knapsack, LinUCB, Thompson
from orchestration_app.engine.backends.load import WINDOW, LoadTracker
from orchestration_app.engine.backends.q_table import LEAST_EPSILON, QTable

Floats = NDArray[np.float64]

LEARNERS = ("ucb1", "thompson", "linucb", "table")
NOISE = 0.5  # the largest standard deviation of what is 0 or 1
PRIOR_CALLS = 2.0
HALF = 0.5  # features of agent and model beside the arm's own: what all backends share is believed sooner than one's exception


class Arm(NamedTuple):
    """One backend of an agent; `model` names what it runs, the same on other agents; `prior` is the expected success."""

    backend: int
    agent: int
    model: str
    prior: float


class Past(NamedTuple):
    """One judged call, `cost` in the pool's currency and `latency` in seconds."""

    agent: int
    backend: int
    success: bool
    cost: float
    latency: float


@dataclass(frozen=True, slots=True)
class Hopes:
    """What a learner hopes of an agent's backends: `rows` float64[D, K], each row a way to see them. The best of one row is taken.

    `place` is a backend's column. `epsilon` is a share that is drawn evenly; `whole` rewards hold cost and load already.
    """

    place: Mapping[int, int]
    rows: Floats
    epsilon: float = 0.0
    whole: bool = False
    _only: list[float] | None = field(init=False, default=None)  # the row, where there is one

    def __post_init__(self) -> None:
        if len(self.rows) == 1:
            object.__setattr__(self, "_only", self.rows[0].tolist())

    def chances(self, free: Sequence[int], less: Sequence[float]) -> list[float]:
        """How likely each of the free backends is taken, in their order; `less` is taken off each one's worth.

        Draws are counted with one draw more, spread evenly, so that a backend is never impossible for having lost them all.
        """
        count, row, place = len(free), self._only, self.place
        if row is not None:  # plain Python over a handful: numpy would take longer to begin
            worth = [row[place[backend]] for backend in free]
            if not self.whole:
                worth = [value - penalty for value, penalty in zip(worth, less, strict=True)]
            top = max(worth) - 1e-12
            best = [at for at, value in enumerate(worth) if value >= top]
            each = [0.0] * count
            for at in best:
                each[at] = 1.0 / len(best)  # ties share
        else:
            drawn = self.rows[:, [place[backend] for backend in free]] - np.asarray(less, float)
            won = np.bincount(drawn.argmax(axis=1), minlength=count)
            each = ((won + 1.0 / count) / (len(drawn) + 1)).tolist()
        if not self.epsilon:
            return each
        return [(1 - self.epsilon) * chance + self.epsilon / count for chance in each]


def learnt(
    name: str, arms: Sequence[Arm], past: Sequence[Past], rng: np.random.Generator, hot: Mapping[int, int | None] | None = None
) -> dict[int, Hopes]:  # fmt: skip
    """What the learner of that name hopes of each agent's backends, by agent. `past` is oldest first; the table alone reads `hot`.

    Raises ValueError for a name that is none of LEARNERS.
    """
    by_agent: dict[int, list[int]] = {}
    for at, arm in enumerate(arms):
        by_agent.setdefault(arm.agent, []).append(at)
    if name == "table":
        table = Table(arms)
        table.learn(past)
        return {agent: table.hopes(agent, (hot or {}).get(agent)) for agent in by_agent}
    count, total = _sums(arms, past)
    prior = np.array([arm.prior for arm in arms])
    if name == "linucb":
        linear = LinUCB(features(arms)[None], rng, noise=NOISE, prior=0.0)
        linear.learn_sums(0, count, total - count * prior)  # what is learnt is the difference from what was expected
        every = linear.hopes(0) + prior
        return {agent: _hopes(arms, some, every[:, some]) for agent, some in by_agent.items()}
    if name not in LEARNERS:
        raise ValueError(f"{name} is no learner; there is: {', '.join(LEARNERS)}")
    values = {}
    for agent, some in by_agent.items():
        bandit = (UCB1 if name == "ucb1" else Thompson)(1, len(some), rng, NOISE)
        bandit.count[0] = count[some] + PRIOR_CALLS
        bandit.total[0] = total[some] + PRIOR_CALLS * prior[some]
        values[agent] = _hopes(arms, some, bandit.hopes(0))
    return values


def means(arms: Sequence[Arm], past: Sequence[Past]) -> dict[int, float]:
    """p(success) of each backend as LinUCB's linear model has it, nothing to be learnt any more: what a frozen learner says."""
    rng = np.random.Generator(np.random.PCG64(0))
    linear = LinUCB(features(arms)[None], rng, noise=NOISE, alpha=0.0, prior=0.0)
    count, total = _sums(arms, past)
    prior = np.array([arm.prior for arm in arms])
    linear.learn_sums(0, count, total - count * prior)
    each = np.clip(linear.hopes(0)[0] + prior, 0.01, 0.99)
    return {arm.backend: float(p) for arm, p in zip(arms, each, strict=True)}


def features(arms: Sequence[Arm]) -> Floats:
    """1, agent, model and the arm itself, float64[arms, D]."""
    agents = sorted({arm.agent for arm in arms})
    models = sorted({arm.model for arm in arms})
    identity = np.eye(len(arms))
    shared = [
        [1.0, *(HALF * (arm.agent == agent) for agent in agents), *(HALF * (arm.model == model) for model in models)]
        for arm in arms
    ]
    return np.concatenate([np.array(shared), identity], axis=1)


def price_of_money(budget: float, spent: Sequence[float], tasks: int) -> float:
    """Success that one unit of money is worth now: `spent` are the day's calls, oldest first, `tasks` how many a day has."""
    purse = Knapsack(budget, max(tasks, len(spent), 1))
    for cost in spent:
        purse.record(cost)
    return purse.price


def _sums(arms: Sequence[Arm], past: Sequence[Past]) -> tuple[Floats, Floats]:
    """Judged calls and successes of each arm, float64[arms] each."""
    place = {arm.backend: at for at, arm in enumerate(arms)}
    count, total = np.zeros((2, len(arms)))
    for call in past:
        at = place.get(call.backend)
        if at is not None:
            count[at] += 1
            total[at] += call.success
    return count, total


def _hopes(arms: Sequence[Arm], some: Sequence[int], rows: Floats) -> Hopes:
    return Hopes({arms[at].backend: column for column, at in enumerate(some)}, rows)


@dataclass
class Table:
    """The published Q-table over a pool's log: a task's type is its agent, members and actions are the backends.

    Who was hot, and the penalty, follow from the agent's calls before. A call that succeeded has 1 in all that the judge looks at, one
    that did not 0.
    """

    arms: Sequence[Arm]
    table: QTable = field(init=False)

    def __post_init__(self) -> None:
        self.agents = sorted({arm.agent for arm in self.arms})
        self.place = {arm.backend: at for at, arm in enumerate(self.arms)}
        self.own = {agent: [at for at, arm in enumerate(self.arms) if arm.agent == agent] for agent in self.agents}
        size = len(self.arms)
        self.table = QTable(max(len(self.agents), 1), size, size, np.random.Generator(np.random.PCG64(0)))

    def learn(self, past: Sequence[Past]) -> None:
        """The calls, oldest first."""
        loads = {agent: LoadTracker(WINDOW) for agent in self.agents}
        before: tuple[int, int, int, float] | None = None
        for call in past:
            arm = self.place.get(call.backend)
            if arm is None:
                continue
            arms, load = self.own[call.agent], loads[call.agent]
            here = self.agents.index(call.agent), QTable.load_state(load.hot(arms))
            if before is not None:  # now its next state is known
                self.table.learn(*before, *here)
            judged = dict.fromkeys(q_table.ASPECTS, float(call.success))
            reward = q_table.reward(judged, call.cost, call.latency, load.penalty(arm, arms))
            assert reward is not None
            before = (*here, arm, reward)
            load.record(arm)
        if before is not None:
            self.table.learn(*before, before[0], before[1])

    def hopes(self, agent: int, hot: int | None) -> Hopes:
        """Its values in that load state; `hot` is a backend."""
        arms = self.own[agent]
        state = QTable.load_state(None if hot is None else self.place.get(hot))
        values = self.table.values[self.agents.index(agent), state, arms]
        place = {self.arms[at].backend: column for column, at in enumerate(arms)}
        return Hopes(place, values[None], max(self.table.epsilon, LEAST_EPSILON), whole=True)

    def states(self, agent: int) -> list[tuple[int | None, list[tuple[int, float, int]], int]]:
        """As a table that one can read: (who is hot, [(backend, value, visits)], whom it takes) of each load state of an agent."""
        arms, kind = self.own[agent], self.agents.index(agent)
        rows = []
        for hot in [None, *arms]:
            state = QTable.load_state(hot)
            cells = [
                (self.arms[at].backend, float(self.table.values[kind, state, at]), int(self.table.visits[kind, state, at]))
                for at in arms
            ]  # fmt: skip
            chosen = self.arms[self.table.greedy(kind, state, arms)].backend
            rows.append((None if hot is None else self.arms[hot].backend, cells, chosen))
        return rows
