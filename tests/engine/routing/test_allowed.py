"""Rules in walks, in the network's learning, in artifacts and in explanations."""

import numpy as np
import pytest

from tests.engine.routing.test_exact import obeys, random_rules, roster, sets_of
from training_app.engine.config import Config
from training_app.engine.data.examples import Agent
from training_app.engine.reading.descriptions import Descriptions
from training_app.engine.rivals import within
from training_app.engine.routing import decision, exploring
from training_app.engine.routing.allowed import BadRules, Rules, SetLimits, allowed_for, walk
from training_app.engine.routing.bayes import BayesPolicy
from training_app.engine.routing.ddqn import Queries, learn
from training_app.engine.routing.decision import environment, selected
from training_app.engine.routing.policy import load_policy
from training_app.engine.routing.router import Router
from training_app.engine.routing.threshold import ThresholdPolicy
from training_app.engine.routing.walking import greedy


@pytest.mark.parametrize("seed", range(20))
def test_permits_holds_and_broken_say_the_same(seed: int) -> None:
    rng = np.random.default_rng(seed)
    agents = roster(rng.uniform(0, 1, 5))
    rules = random_rules(rng, 5).priced({agent.id: agent.cost for agent in agents})
    allowed = allowed_for(rules, agents)
    cost = {agent.id: agent.cost for agent in agents}
    for row in sets_of(5):
        fine = obeys(rules, {10 + int(a) for a in np.flatnonzero(row)}, cost)
        assert rules.permits([10 + int(a) for a in np.flatnonzero(row)]) == fine
        assert bool(allowed.holds(row[None])[0]) == fine
        assert (allowed.broken(row) is None) == fine


@pytest.mark.parametrize("seed", range(20))
def test_every_walk_ends_in_an_allowed_set(seed: int) -> None:
    rng = np.random.default_rng(seed)
    agents = roster(rng.uniform(0, 1, 6))
    allowed = allowed_for(random_rules(rng, 6), agents)
    x = rng.normal(scale=3, size=(10, 6)).astype(np.float32)
    available = rng.random((10, 6)) < 0.9
    for policy in (ThresholdPolicy(np.zeros(6, np.float32)), BayesPolicy(1.0, 0.0)):
        sets, order, _steps = greedy(policy, x, None, available, SetLimits(allowed=allowed))
        assert allowed.holds(sets).all()
        assert not (sets & ~available).any()
        alone = [greedy(policy, x[[i]], None, available[[i]], SetLimits(allowed=allowed))[1][0] for i in range(10)]
        assert (np.stack(alone) == order).all()


@pytest.mark.parametrize("seed", range(20))
def test_baselines_answer_allowed_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    allowed = allowed_for(random_rules(rng, 5), roster(rng.uniform(0, 1, 5)))
    sets = sets_of(5)
    answered = within(sets, allowed, rng.random(5))
    assert allowed.holds(answered).all()
    assert (answered == sets)[allowed.holds(sets)].all()
    assert not (answered & ~(sets.astype(float) @ allowed.needs > 0)).any(), "nobody joins but who is required"


def test_of_agents_that_may_not_be_together_a_baseline_keeps_the_more_needed() -> None:
    allowed = allowed_for(Rules(requires=((10, 12),), excludes=((10, 11),)), roster([0, 0, 0]))
    both = np.array([[True, True, False]])
    assert within(both, allowed, np.array([0.5, 0.3, 0.1])).tolist() == [[True, False, True]]
    assert within(both, allowed, np.array([0.3, 0.5, 0.9])).tolist() == [[False, True, False]]


def test_who_is_required_comes_along() -> None:
    allowed = allowed_for(Rules(requires=((10, 12),)), roster([0, 0, 0]))
    values = np.array([2.0, -1.0, -1.0])
    order, steps, _full = walk(lambda _: (values, 0.0), np.ones(3, np.bool_), allowed, SetLimits())
    assert (order, steps) == ([0, 2], 3)


def pool(rules: Rules | None, rows: int = 300) -> tuple[Queries, Config]:
    rng = np.random.default_rng(1)
    x = rng.normal(scale=2, size=(rows, 4)).astype(np.float32)
    required = rng.random(x.shape) < 1 / (1 + np.exp(-x))
    return Queries(x, required, np.ones(x.shape, np.bool_)), Config(total_steps=60, val_eval_freq=60, patience=0)


@pytest.mark.at_length
def test_the_network_learns_under_the_rules() -> None:
    rules = Rules(requires=((10, 11),), excludes=((12, 13),), budget=2.5)
    queries, config = pool(rules)
    agents = roster([1, 1, 1, 1])
    env = environment(config, agents, rules)
    (*_, last) = learn(config, env, queries, queries.take(np.arange(50)))
    assert last.policy is not None
    assert allowed_for(rules, agents).holds(selected(env, last.policy, queries)).all()


def exact_rule(x: np.ndarray, required: np.ndarray) -> tuple[BayesPolicy, dict]:
    """The exact rule that a run fits to these queries, and what is reported of its pairs."""
    config, every = Config(), np.ones(x.shape, np.bool_)
    report: dict = {}
    queries = Queries(x, required, every)
    exact = decision._exact(config, environment(config, roster([1] * x.shape[1])), queries, report)
    return exact(BayesPolicy(1.0, 0.0)), report["exact_pairs"]


def test_pairs_are_kept_where_they_help_and_are_served() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(scale=2, size=(600, 4)).astype(np.float32)
    required = rng.random(x.shape) < 1 / (1 + np.exp(-x))
    x[:, 1] = rng.normal(size=600)  # what the text says of the second is noise; it comes with the first
    required[:, 1] = required[:, 0]
    policy, report = exact_rule(x, required)
    assert report["kept"]
    assert policy.pairs is not None
    assert policy.pairs.weights[0, 1] > 1
    assert abs(policy.pairs.weights[2, 3]) < 1
    again = load_policy(policy.config(), policy.tensors())
    every = np.ones(x.shape, np.bool_)
    sets, _order, _steps = greedy(again, x, None, every)
    assert (sets == greedy(policy, x, None, every)[0]).all()
    assert (sets[:, 0] == sets[:, 1]).mean() > 0.9
    alone, reported = exact_rule(x, rng.random(x.shape) < 1 / (1 + np.exp(-x)))
    assert alone.pairs is None
    assert not reported["kept"]


def test_pairs_that_are_likelier_but_choose_no_better_sets_are_not_kept() -> None:
    """One cause behind two agents, whose log-odds tell of it alike: both are chosen together without pairs."""
    rng = np.random.default_rng(0)
    x = rng.normal(scale=1, size=(600, 4)).astype(np.float32)
    lot = np.concatenate([rng.random((600, 1)).repeat(2, axis=1), rng.random((600, 2))], axis=1)
    x[:, 1] = x[:, 0]
    policy, report = exact_rule(x, lot < 1 / (1 + np.exp(-x)))
    assert report["low"] > 0
    assert report["worth"]["low"] <= 0
    assert not report["kept"]
    assert policy.pairs is None


def test_nobody_changes_sides_into_a_set_that_is_not_allowed() -> None:
    rules = Rules(excludes=((1, 2),))
    assert set(exploring.chances((1,), {1: 0.5, 2: 0.5, 3: 0.5}, permits=rules.permits)) == {1, 3}


@pytest.mark.parametrize("config", [{"requires": [1]}, {"most": -1}, {"budget": -1}, {"groups": [{"name": "x"}]}])
def test_bad_rules_are_refused(config: dict) -> None:
    with pytest.raises(BadRules):
        Rules.from_config(config)
    rules = Rules(((1, 2),), ((2, 3),), (("g", (1, 3)),), 2, 1.5, ((1, 2.0),))
    assert Rules.from_config(rules.config()) == rules


def test_of_a_set_the_agents_that_likelier_ones_require_are_settled() -> None:
    rules = Rules(requires=((1, 2), (2, 4)))
    assert rules.settled([1, 2, 4, 5]) == {2, 4}
    assert rules.settled([4, 5]) == frozenset()
    assert Rules(requires=((1, 2), (2, 1))).settled([2, 1]) == {1}


def test_an_agent_that_another_brings_along_does_not_make_a_set_unsure() -> None:
    agents = [
        Agent(0, "Refunds", "Money back: refunds of payments"),
        Agent(1, "Identity", "Checks passports and identity cards"),
        Agent(2, "Deliveries", "Where parcels are, and when they come"),
    ]
    router = Router.of_descriptions(Descriptions(agents, meaning=False))
    rules = Rules(requires=((0, 1),))
    text = "I want a refund of my payment"
    free, ruled = router.route(text), router.route(text, rules=rules)
    assert (free.agents, set(ruled.agents)) == ((0,), {0, 1})
    assert ruled.confidence >= free.confidence
    assert not ruled.abstained
    own = Router.of_descriptions(Descriptions(agents, meaning=False))
    own.rules = rules
    assert own.answers([text]).confidence[0] == pytest.approx(ruled.confidence, abs=1e-6)
    assert own.above(text, 0.5).confidence <= 1
