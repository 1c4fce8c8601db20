"""The published table, the bandits beside it, pairs of agents, and the budget."""

import numpy as np
import pytest

from orchestration_app.engine.backends import gap, q_table
from orchestration_app.engine.backends.bandits import UCB1, Knapsack, LinUCB, Thompson, pair_features
from orchestration_app.engine.backends.pair_table import PairTable
from orchestration_app.engine.backends.q_table import QTable


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(7))


def test_the_table_has_four_types_five_loads_and_eight_actions() -> None:
    table = QTable(4, 4, 8, rng())
    assert table.values.size == 160
    assert table.load_state(None) == 0
    assert table.load_state(3) == 4


def test_one_update_is_the_published_one() -> None:
    table = QTable(2, 2, 2, rng())
    table.values[1, 2, 1] = 0.4
    table.learn(0, 0, 1, 0.6, 1, 2)
    assert table.values[0, 0, 1] == pytest.approx(0.15 * (0.6 + 0.95 * 0.4))
    assert table.epsilon == pytest.approx(0.98)
    for _ in range(300):
        table.learn(0, 0, 0, 0.0, 0, 0)
    assert table.epsilon == pytest.approx(0.05)


def test_a_judge_that_fails_gives_no_reward() -> None:
    judged = dict.fromkeys(q_table.ASPECTS, 0.8)
    assert q_table.reward(None, 0.001, 1.0, 0.0) is None
    assert q_table.reward(judged, 0.001, 2.5, 0.075) == pytest.approx(0.8 - 0.05 - 0.025 - 0.075)
    assert q_table.reward(judged, 1.0, 60.0, 0.2) == pytest.approx(0.8 - 0.15 - 0.2)


def test_an_action_is_as_likely_as_it_says() -> None:
    table = QTable(1, 1, 4, rng(), epsilon=0.4)
    table.values[0, 0, 2] = 1
    drawn = [table.choose(0, 0) for _ in range(4000)]
    assert np.mean([action == 2 for action, _ in drawn]) == pytest.approx(0.7, abs=0.03)
    assert {round(likely, 3) for action, likely in drawn if action == 2} == {0.7}
    assert {round(likely, 3) for action, likely in drawn if action != 2} == {0.1}


def test_pairs_move_the_choice_and_stay_bounded() -> None:
    pairs = PairTable(3)
    assert pairs.choose(np.array([0.5, 0.51, 0.0]), None) == 1
    for _ in range(50):
        pairs.learn([2, 0], 1.0)
        pairs.learn([2, 1], 0.0)
    assert pairs.choose(np.array([0.5, 0.51, 0.0]), 2) == 0
    assert pairs.matrix().max() < 1.0
    assert pairs.matrix()[0, 1] == 0.5


@pytest.mark.at_length
def test_bandits_close_the_gap_that_the_published_table_leaves() -> None:
    """A tenth of the seeds of docs/backends.md, and floors well below its figures."""
    shares = {name: gap.closed(name, 30).share for name in gap.LEARNERS}
    assert shares["LinUCB"][30] > 0.75
    assert shares["LinUCB"][150] > 0.93
    assert shares["UCB1"][50] > 0.75
    assert shares["Thompson"][150] > 0.9
    assert shares["table as published"][300] < 0.4


def test_linucb_still_learns_an_exception_of_one_backend() -> None:
    bandit = LinUCB(pair_features(1, 2, 2), rng())
    for arm, reward in ((0, 0.2), (1, 0.9), (2, 0.5), (3, 0.5)) * 20:
        bandit.learn(0, arm, reward)
    assert bandit.best(0) == 1


@pytest.mark.parametrize("kind", [UCB1, Thompson])
def test_what_may_not_be_chosen_never_is(kind: type) -> None:
    bandit = kind(1, 3, rng())
    less = np.array([0.0, np.inf, 0.0])
    for _ in range(60):
        arm, likely = bandit.choose(0, less)
        assert arm != 1
        assert 0 < likely <= 1
        bandit.learn(0, arm, 0.5)


def test_a_budget_degrades_to_the_cheapest_and_never_to_nothing() -> None:
    purse = Knapsack(budget=1.0, tasks=10)
    for _ in range(5):
        purse.record(0.2)
    assert purse.less([0.5, 0.01, 0.2]).tolist()[1] < np.inf
    assert purse.less([0.5, 0.01, 0.2]).tolist()[::2] == [np.inf, np.inf]


def test_the_price_of_money_rises_over_the_pace_and_falls_under_it() -> None:
    purse = Knapsack(budget=1.0, tasks=10)
    purse.record(0.3)
    dear = purse.price
    assert dear > 0
    for _ in range(5):
        purse.record(0.0)
    assert purse.price < dear
