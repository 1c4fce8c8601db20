"""Outcomes against labels: a pool whose labels mislead, and a figure of the log whose interval holds the truth."""

from types import SimpleNamespace

import numpy as np
import pytest

from orchestration_app.engine.orchestrating import loop, outcomes
from orchestration_app.engine.orchestrating.environment import RecordedPath, RecordedWorld
from orchestration_app.engine.orchestrating.one_shot import OneShot
from orchestration_app.engine.orchestrating.rewards import Reward
from orchestration_app.engine.orchestrating.state import Call
from orchestration_app.engine.orchestrating.turns import Result
from tests.orchestration_app.engine.orchestrating import misleading
from training_app.engine.data.examples import Agent

pytestmark = pytest.mark.any_database


def test_outcomes_say_more_than_labels_and_teach_the_better_set() -> None:
    log, labels = misleading.log(0)
    by_labels = 1 - (log.called ^ labels).mean(axis=1)
    assert outcomes.say_more(log, by_labels)
    assert not outcomes.say_more(log, log.score), "labels that know the outcome leave nothing to say"
    sets = misleading.best_sets(outcomes.fit(log), log)
    lead = misleading.worth(labels, sets).mean() - misleading.worth(labels, log.one_shot).mean()
    assert lead > 0.3
    inside, estimable = misleading.covered(20)
    assert estimable >= 12
    assert inside >= estimable - 3


@pytest.mark.at_length
def test_the_interval_of_the_log_contains_the_truth() -> None:
    inside, estimable = misleading.covered(200)
    assert inside / estimable >= 0.93


def test_what_nobody_tried_is_not_estimable() -> None:
    log, _labels = misleading.log(1)
    certain = outcomes.SetLog(
        log.texts, log.log_odds, log.one_shot, log.one_shot, np.ones(len(log)), log.score, log.cost, log.weight
    )
    other = log.one_shot.copy()
    other[:, misleading.ARCHIVE] = False
    assert "difference" not in outcomes.off_policy(certain, other, misleading.REWARD, misleading.COSTS)
    same = outcomes.off_policy(certain, log.one_shot, misleading.REWARD, misleading.COSTS)
    assert same["difference"]["mean"] == 0


def test_a_slow_agent_that_helps_no_more_is_left_out_where_time_is_paid_for() -> None:
    """Both do as well with and without the second agent, which costs nothing and takes a minute."""
    agents = (Agent(0, "Quick", cost=0.0), Agent(1, "Slow", cost=0.0))
    usual = {0: Call(0, latency=1.0), 1: Call(1, latency=60.0)}
    model = outcomes.OutcomeModel(np.array([3.0, 0, 0.2, 0, 0, 0, 0]))
    world = outcomes.OutcomeWorld(
        RecordedWorld.of(agents, [RecordedPath("task", frozenset(), ())]),
        model,
        {"task": np.ones(2, np.float32)},
        {"task": np.array([True, True])},
        usual,
    )
    assert world.spent(Reward(second=0.01)).tolist() == pytest.approx([0.01, 0.6])
    assert world.call("task", (), 1).latency == 60.0
    patient, hurried = (world.paths(["task"], Reward(second=second))[0] for second in (0.0, 0.1))
    assert patient.required == {0, 1}
    assert hurried.required == {0}


def test_a_one_shot_episode_has_one_agent_more_or_less_and_says_how_likely_that_was() -> None:
    agents = tuple(Agent(number, name, cost=1.0) for number, name in enumerate("ABC"))
    router = SimpleNamespace(agents=agents, route=lambda _text: SimpleNamespace(agents=(0, 1)))
    seen: dict[frozenset[int], list[float]] = {}
    for seed in range(400):
        policy = OneShot(router, 0.3, seed, [0, 1, 2])
        turns = loop.episode(policy, "task")
        turn = next(turns)
        called = frozenset(request.agent for request in turn.requests)
        seen.setdefault(called, []).append(turn.decisions[0].propensity)
        after = turns.send({request.number: Result("done") for request in turn.requests})
        assert after.decisions[0].propensity == 1.0
    assert {one: {round(chance, 6) for chance in chances} for one, chances in seen.items()} == {
        frozenset({0, 1}): {0.7}, frozenset({1}): {0.1}, frozenset({0}): {0.1}, frozenset({0, 1, 2}): {0.1},
    }  # fmt: skip
    assert len(seen[frozenset({0, 1})]) == pytest.approx(280, abs=35)
