from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from training_app.engine.measures import GOALS, expected_worth
from training_app.engine.routing.allowed import SetLimits
from training_app.engine.routing.bayes import FEW_AGENTS, BayesPolicy
from training_app.engine.routing.goals import Goal
from training_app.engine.routing.policy import load_policy
from training_app.engine.routing.walking import greedy


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("agents", [1, 2, 3, 6])
def test_expected_utilities_are_those_of_all_required_sets(goal: str, agents: int) -> None:
    rng = np.random.default_rng(agents)
    p = np.sort(rng.random((4, agents)), axis=1)[:, ::-1]
    costs = 0.3 * rng.random((4, agents))
    every = np.array(list(itertools.product([False, True], repeat=agents)))
    found = expected_worth(goal, p, costs)
    for row in range(4):
        chances = np.where(every, p[row], 1 - p[row]).prod(axis=1)
        worth = Goal(goal, costs[row].astype(np.float32) if goal == "value" else None)
        for size in range(agents + 1):
            prefix = np.broadcast_to(np.arange(agents) < size, every.shape)
            assert found[row, size] == pytest.approx(float(chances @ worth.utility(prefix, every)), abs=1e-6)


def chances_of_counts(p: np.ndarray) -> np.ndarray:
    """P(so many of the agents are needed), by adding one agent after the other."""
    chances = np.ones(1)
    for own in p.tolist():
        chances = np.append(chances * (1 - own), 0) + np.append(0, chances * own)
    return chances


@pytest.mark.parametrize("goal", ["jaccard", "f1"])
@pytest.mark.parametrize("agents", [30, 100, 250])
@pytest.mark.parametrize("lowest", [0.0, 0.6])
def test_expected_utilities_of_many_likely_agents_are_exact(goal: str, agents: int, lowest: float) -> None:
    p = np.sort(np.random.default_rng(agents).uniform(lowest, 0.98, agents))[::-1]
    found = expected_worth(goal, p[None])[0]
    for size in [1, agents // 3, agents - 1, agents]:
        inside, beyond = chances_of_counts(p[:size]), chances_of_counts(p[size:])
        hits, others = np.arange(size + 1)[:, None], np.arange(agents - size + 1)
        each = hits / (size + others) if goal == "jaccard" else 2 * hits / (size + hits + others)
        assert found[size] == pytest.approx(float(inside @ each @ beyond), abs=1e-6)


def test_the_likeliest_set_of_many_unsure_agents_is_found() -> None:
    rng = np.random.default_rng(3)
    policy, every = BayesPolicy(1.0, 0.0, "exact"), np.ones(20, np.bool_)
    for _ in range(100):
        x = rng.uniform(-1.5, 1.5, 20).astype(np.float32)
        walk, _, _ = policy.walk(x, every)
        assert set(walk) == set(np.flatnonzero(x > 0).tolist())
        assert np.array_equal(policy.sets(x[None], every[None])[0][0], x > 0)


def test_no_set_at_all_is_worth_more_where_agents_are_independent() -> None:
    rng = np.random.default_rng(0)
    every = np.array(list(itertools.product([False, True], repeat=5)))
    for _ in range(20):
        x = rng.normal(scale=2, size=5).astype(np.float32)
        p = 1 / (1 + np.exp(-x.astype(np.float64)))
        chances = np.where(every, p, 1 - p).prod(axis=1)
        worth = [chances @ Goal().utility(np.broadcast_to(sets, every.shape), every) for sets in every]
        walk, _, _ = BayesPolicy(1.0, 0.0).walk(x, np.ones(5, np.bool_))
        mine = worth[every.tolist().index([a in walk for a in range(5)])]
        assert mine == pytest.approx(max(worth), abs=1 / 4096)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize(
    ("limits", "margin"), [((0, 0), 0.0), ((2, 0), 0.01), ((0, 2), -0.02), ((1, 3), 0.01), ((1, 3), 0.0)]
)
@pytest.mark.parametrize("by_needed", [False, True])
@pytest.mark.parametrize("agents", [7, FEW_AGENTS, FEW_AGENTS + 1])
def test_one_query_is_answered_as_in_a_batch_and_within_the_limits(
    goal: str, limits: tuple[int, int], margin: float, agents: int, by_needed: bool
) -> None:
    rng = np.random.default_rng(1)
    costs = (0.2 * rng.random(agents)).astype(np.float32) if goal == "value" else None
    rule = BayesPolicy(1.2, -0.1, goal, costs, by_needed=by_needed)
    policy = load_policy(rule.config(), rule.tensors())
    x = rng.normal(scale=3, size=(900, agents)).astype(np.float32)
    x[::3] = np.round(x[::3])  # agents that are alike stand in the same order
    available = rng.random(x.shape) < 0.8
    low, high = limits
    needed = rng.normal(scale=3, size=900)
    chosen, order, steps = greedy(policy, x, needed, available, SetLimits(low, high, margin))
    assert not (chosen & ~available).any()
    sizes = chosen.sum(axis=1)
    assert (sizes >= np.minimum(low, available.sum(axis=1))).all()
    assert not high or sizes.max() <= high
    for i in range(0, 900, 9):
        walk, count, full = policy.walk(x[i], available[i], SetLimits(low, high, margin), float(needed[i]))
        assert walk == [a for a in order[i].tolist() if a >= 0]
        assert (count, full) == (steps[i], bool(high) and len(walk) == high)


def test_a_witness_says_whether_anybody_is_needed() -> None:
    """It moves no agent of a set against another: only all of them against nobody."""
    rule, x, every = (
        BayesPolicy(1.0, 0.0, by_needed=True),
        np.array([[-0.5, -1.5, 0.3]], np.float32),
        np.ones((1, 3), bool),
    )
    nobody, anybody = (greedy(rule, x, np.array([needed]), every)[0][0].tolist() for needed in (-3.0, 3.0))
    assert nobody == [False] * 3
    assert anybody == greedy(rule, x, None, every, SetLimits(min_agents=1))[0][0].tolist()
    assert greedy(replace(rule, by_needed=False), x, np.array([-3.0]), every)[0].any()


def test_the_values_of_agents_are_positive_for_those_that_are_taken() -> None:
    x = np.random.default_rng(2).normal(scale=2, size=(50, 6)).astype(np.float32)
    policy, every = BayesPolicy(1.0, 0.0), np.ones(x.shape, np.bool_)
    values, stop = policy.values(x, None, ~every, every)
    assert np.array_equal(values > 0, greedy(policy, x, None, every)[0])
    assert not stop.any()


@pytest.mark.parametrize("damage", [{"goal": "other"}, {"goal": "value"}, {"scale": "much"}])
def test_a_damaged_rule_is_refused(damage: dict) -> None:
    with pytest.raises(ValueError, match=r"policy|much"):
        load_policy({**BayesPolicy(1.0, 0.0).config(), **damage}, {})


@pytest.mark.parametrize(("agents", "level"), [(300, -4.0), (1_000, -6.0), (3_000, -8.0), (300, 0.5)])
def test_in_a_large_pool_one_query_gets_the_set_of_a_batch(agents: int, level: float) -> None:
    rng = np.random.default_rng(agents)
    x = (rng.normal(size=(8, agents)) * 2 + level).astype(np.float32)
    available = rng.random(x.shape) < 0.9
    policy, needed = BayesPolicy(1.0, 0.0, by_needed=True), rng.normal(scale=3, size=len(x))
    selected, _order, steps = policy.sets(x, available, needed=needed)
    for row in range(len(x)):
        chosen, count, _full = policy.walk(x[row], available[row], needed=float(needed[row]))
        assert sorted(chosen) == np.flatnonzero(selected[row]).tolist()
        assert count == steps[row]
