"""What routers with a goal are judged by."""

import numpy as np
import pytest

from training_app.engine.data.examples import Agent
from training_app.engine.judging.standard import SIZE, Judged, Standard, interval, priced, standard_of
from training_app.engine.measures import GOAL_MEASURES, NEEDED_RECALL, VALUE

AGENTS = [Agent(0, "a", cost=0.25), Agent(1, "b", cost=0.5)]
REQUIRED = np.array([[True, False], [True, True], [False, False], [False, True]])
CHOSEN = np.array([[True, False], [True, False], [True, False], [True, True]])


@pytest.mark.parametrize("goal", GOAL_MEASURES)
def test_a_goal_that_is_a_measure_is_judged_by_it(goal: str) -> None:
    assert standard_of({"goal": goal}) == Standard(goal, goal)


def test_recall_comes_first_and_then_fewer_agents() -> None:
    standard = standard_of({"goal": "recall", "recall_floor": 0.9})
    assert (standard.measure, standard.fewer, standard.limited, standard.limit) == (SIZE, True, NEEDED_RECALL, 0.9)
    rows = {
        "all": {SIZE: 2.0, NEEDED_RECALL: 1.0},
        "few": {SIZE: 1.2, NEEDED_RECALL: 0.9},
        "fewest": {SIZE: 0.8, NEEDED_RECALL: 0.7},
    }
    assert standard.best(rows) == "few"
    assert standard.best({"fewest": rows["fewest"]}) == ""
    assert standard.misses(0.7, 0.89)
    assert not standard.misses(0.7, 0.91)


def test_size_comes_first_and_then_jaccard() -> None:
    standard = standard_of({"goal": "size", "average_agents": 1.5})
    rows = {
        "large": {SIZE: 1.6, "jaccard": 0.9},
        "small": {SIZE: 1.5, "jaccard": 0.7},
        "worse": {SIZE: 1.0, "jaccard": 0.6},
    }
    assert standard.best(rows) == "small"
    assert standard.misses(1.6, 1.9)
    assert not standard.misses(1.4, 1.9)


def test_value_counts_what_the_chosen_agents_cost() -> None:
    goal = priced({"goal": VALUE, "query_value": 2.0}, AGENTS)
    values = Judged.of(CHOSEN, REQUIRED, goal).values
    assert values[VALUE].tolist() == [1 - 0.125, 0 - 0.125, 1 - 0.125, 1 - 0.375]
    assert priced({"goal": "f1"}, AGENTS) is None


def test_recall_is_that_of_queries_that_need_somebody() -> None:
    assert Judged.of(CHOSEN, REQUIRED, None).values[NEEDED_RECALL].tolist() == [1.0, 0.5, 1.0]


def test_a_lead_is_of_each_figure_that_both_have() -> None:
    ours, theirs = Judged.of(REQUIRED, REQUIRED, None), Judged.of(CHOSEN, REQUIRED, None)
    lead = ours.lead(theirs)
    assert lead[NEEDED_RECALL]["mean"] == pytest.approx(0.5 / 3)
    assert lead[SIZE]["mean"] == pytest.approx(4 / 4 - 5 / 4)
    assert VALUE not in lead


@pytest.mark.parametrize("over", [[0] * 34 + [1], [0] * 10, [3, 1, 0, 2], [2]])
def test_agents_that_are_counted_are_never_fewer_than_none(over):
    told = interval(np.array(over, np.float64), "over")
    assert 0 <= told["low"] <= told["mean"] <= told["high"] <= max(1, *over)
    if len(over) > 10:
        assert told["low"] > 0, "one was seen"
