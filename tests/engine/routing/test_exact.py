"""The exact rule against brute force: random pools, goals and rules."""

from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest

from tests.thorough import many
from training_app.engine.data.examples import Agent
from training_app.engine.measures import as_needed, worth
from training_app.engine.routing import exact
from training_app.engine.routing.allowed import Allowed, Rules, SetLimits, allowed_for
from training_app.engine.routing.bayes import BayesPolicy, Pairwise
from training_app.engine.routing.exact import Task, best_allowed, best_joint

GOALS = ("jaccard", "f1", "exact", "value")


def roster(costs: Any) -> tuple[Agent, ...]:
    return tuple(Agent(10 + a, f"agent {a}", cost=float(cost)) for a, cost in enumerate(costs))


def random_rules(rng: np.random.Generator, agents: int) -> Rules:
    """Rules of every kind, some of them none."""
    pairs = [(10 + a, 10 + b) for a, b in combinations(range(agents), 2)]

    def some(most: int) -> tuple[tuple[int, int], ...]:
        drawn = rng.permutation(len(pairs))[: rng.integers(0, most + 1)]
        return tuple(pairs[i] if rng.random() < 0.5 else pairs[i][::-1] for i in drawn)

    groups = []
    for g in range(rng.integers(0, 3)):
        groups.append((f"group {g}", tuple(10 + int(a) for a in rng.permutation(agents)[: rng.integers(2, 4)])))
    budget = float(rng.uniform(0, agents / 2)) if rng.random() < 0.4 else None
    return Rules(some(3), some(3), tuple(groups), int(rng.integers(0, 4)), budget)


def sets_of(agents: int) -> np.ndarray:
    every = chain.from_iterable(combinations(range(agents), k) for k in range(agents + 1))
    found = np.zeros((1 << agents, agents), np.bool_)
    for row, members in enumerate(every):
        found[row, list(members)] = True
    return found


def expected(goal: str, sets: np.ndarray, p_of_set: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """The expected worth of every set, by the definition."""
    hits = sets.astype(int) @ sets.astype(int).T
    size = sets.sum(axis=1)
    each = worth(goal, hits, size[:, None], size[None, :], (sets @ costs)[:, None])
    return np.asarray(each @ p_of_set)


def obeys(rules: Rules, chosen: set[int], cost: dict[int, float]) -> bool:
    """Whether a set of ids is allowed, written as people say it."""
    if any(a in chosen and b not in chosen for a, b in rules.requires):
        return False
    if any(a in chosen and b in chosen for a, b in rules.excludes):
        return False
    if any(len(chosen & set(members)) > 1 for _name, members in rules.groups):
        return False
    if rules.most and len(chosen) > rules.most:
        return False
    return rules.budget is None or sum(cost[a] for a in chosen) <= rules.budget + 1e-9


def drawn(seed: int) -> tuple[Task, Rules, tuple[Agent, ...]]:
    rng = np.random.default_rng(seed)
    agents = int(rng.integers(2, 8))
    p = rng.beta(0.6, 0.6, agents)
    costs = rng.uniform(0, 1, agents)
    rules = random_rules(rng, agents)
    most = int(rng.choice([0, 0, 2]))
    needed = float(rng.normal(scale=2)) if rng.random() < 0.5 else None
    task = Task(GOALS[seed % 4], p, costs / 3, margin=0.0, max_agents=most, needed=needed)
    return task, rules, roster(costs)


def with_witness(of_set: np.ndarray, needed: float | None) -> np.ndarray:
    """P of every set, the empty one first, where log-odds `needed` say how likely it is not the empty one."""
    if needed is None:
        return of_set
    somebody = 1 / (1 + np.exp(-needed))
    return np.concatenate([[1 - somebody], of_set[1:] * somebody / of_set[1:].sum()])


@pytest.mark.parametrize("block", range(many(10)))
def test_the_rule_is_equal_to_brute_force(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        task, rules, agents = drawn(seed)
        chosen = best_allowed(task, allowed_for(rules, agents))
        sets = sets_of(len(agents))
        of_set = with_witness(np.where(sets, task.p, 1 - task.p).prod(axis=1), task.needed)
        values = expected(task.goal, sets, of_set, task.costs if task.costs is not None else np.zeros(len(agents)))
        cost = {agent.id: agent.cost for agent in agents}
        fine = np.array(
            [
                obeys(rules, {10 + int(a) for a in np.flatnonzero(row)}, cost)
                and (not task.max_agents or row.sum() <= task.max_agents)
                for row in sets
            ]
        )
        mine = np.zeros(len(agents), np.bool_)
        mine[chosen] = True
        at = int((sets == mine).all(axis=1).argmax())
        assert fine[at], (seed, rules, chosen)
        assert values[at] == pytest.approx(values[fine].max(), abs=1e-7), (seed, task, rules, chosen)


@pytest.mark.parametrize("block", range(many(4)))
def test_with_pairs_too(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        task, rules, agents = drawn(seed)
        rng = np.random.default_rng(seed)
        count = len(agents)
        pairs = rng.normal(scale=1.5, size=(count, count))
        pairs = pairs + pairs.T
        np.fill_diagonal(pairs, 0)
        z = rng.normal(scale=2, size=count)
        chosen = best_joint(task, z, pairs, allowed_for(rules, agents))
        assert set(best_joint(task, z, pairs, allowed_for(rules, agents), exact.within(pairs))) == set(chosen)
        sets = sets_of(count)
        energy = sets @ z + 0.5 * ((sets @ pairs) * sets).sum(axis=1)
        of_set = with_witness(np.exp(energy) / np.exp(energy).sum(), task.needed)
        values = expected(task.goal, sets, of_set, task.costs if task.costs is not None else np.zeros(count))
        cost = {agent.id: agent.cost for agent in agents}
        fine = np.array(
            [
                obeys(rules, {10 + int(a) for a in np.flatnonzero(row)}, cost)
                and (not task.max_agents or row.sum() <= task.max_agents)
                for row in sets
            ]
        )
        mine = np.zeros(count, np.bool_)
        mine[chosen] = True
        at = int((sets == mine).all(axis=1).argmax())
        assert fine[at]
        assert values[at] == pytest.approx(values[fine].max(), abs=1e-7), (seed, task.goal)


def test_a_set_of_a_majority_is_the_best_of_all() -> None:
    rng = np.random.default_rng(3)
    task = Task("jaccard", np.full(4, 0.5))
    for share in [0.5 + 1e-6, 0.6, 0.9] * 500:
        table = rng.dirichlet(np.full(16, 0.2))
        chosen = int(rng.integers(16))
        table = table * (1 - share) / (1 - table[chosen])
        table[chosen] = share
        assert exact.expected_joint("jaccard", table, np.zeros(0)).argmax() == chosen
        assert set(exact._best(task, [0, 1, 2, 3], table, None)) == set(np.flatnonzero(exact.members(4)[chosen]))


def test_below_a_half_another_set_may_be_better() -> None:
    table = np.zeros(8)
    table[[0b110, 0b111, 0b011, 0b101]] = 0.49, 0.17, 0.17, 0.17
    assert set(exact._best(Task("jaccard", np.full(3, 0.5)), [0, 1, 2], table, None)) == {0, 1, 2}


def test_agents_beyond_the_list_count_in_what_is_expected() -> None:
    rng = np.random.default_rng(3)
    z = rng.normal(scale=2, size=6)
    p = 1 / (1 + np.exp(-z))
    none = np.zeros((6, 6))
    for goal in GOALS:
        table = exact.joint(z[:4], exact.within(none[:4, :4]))
        costs = rng.uniform(0, 0.3, 4)
        ours = exact.expected_joint(goal, table, p[4:], costs)
        sets = exact.members(4)
        whole = exact.members(6)
        of_set = np.where(whole, p, 1 - p).prod(axis=1)
        wide = np.concatenate([sets, np.zeros((16, 2), np.bool_)], axis=1)
        hits = wide.astype(int) @ whole.astype(int).T
        each = worth(goal, hits, wide.sum(axis=1)[:, None], whole.sum(axis=1)[None], (sets @ costs)[:, None])
        assert ours == pytest.approx(each @ of_set, abs=1e-7)
        told = as_needed(goal, ours[None], np.array([0.7]), (sets @ costs)[None] if goal == "value" else 0.0)
        assert told[0] == pytest.approx(each @ with_witness(of_set, 0.7), abs=1e-7)


def test_a_smallest_set_gives_way_to_the_rules() -> None:
    agents = roster([1, 1, 1])
    rules = Rules(groups=(("one of us", (10, 11, 12)),))
    chosen = best_allowed(Task("jaccard", np.array([0.2, 0.3, 0.1]), min_agents=2), allowed_for(rules, agents))
    assert chosen == [1]


@pytest.mark.parametrize("paired", [False, True])
def test_nobody_is_the_answer_where_rules_leave_the_unlikely_only(paired: bool) -> None:
    """Of a set that cannot be had, two strangers are worth a little more than nobody, and no caller wants them."""
    pairs = Pairwise(np.ones(4, np.float32), np.zeros(4, np.float32), np.zeros((4, 4), np.float32)) if paired else None
    policy, x, every = BayesPolicy(1.0, 0.0, pairs=pairs), np.array([8, -6, -7, -2], np.float32), np.ones(4, np.bool_)
    costs = roster([1, 0, 0, 0.5])

    def answer(budget: float, **limits: Any) -> list[int]:
        return policy.walk(x, every, SetLimits(allowed=allowed_for(Rules(budget=budget), costs), **limits))[0]

    assert (answer(1), answer(0.5), answer(0)) == ([0], [3], [])
    assert answer(0, min_agents=1) == [1]


def test_fifty_agents_are_searched_in_few_steps() -> None:
    rng = np.random.default_rng(5)
    p = rng.beta(0.3, 2, 50)
    rules = Rules(
        requires=tuple((10 + a, 11 + a) for a in range(0, 40, 4)),
        excludes=tuple((10 + a, 40 + a) for a in range(15)),
        budget=6.0,
    )
    allowed: Allowed = allowed_for(rules, roster(rng.uniform(0.5, 2, 50)))
    search = exact._Search(Task("jaccard", p), allowed, 0, 50)
    chosen = np.zeros(50, np.bool_)
    chosen[search.best()] = True
    assert allowed.holds(chosen[None])[0]
