from __future__ import annotations

import numpy as np
import pytest

from training_app.engine.data.examples import Agent
from training_app.engine.data.metrics import jaccard
from training_app.engine.measures import GOALS
from training_app.engine.routing.env import RoutingEnv
from training_app.engine.routing.goals import JACCARD, Goal, goal_of


def bits(*rows: str) -> np.ndarray:
    return np.array([[c == "1" for c in row] for row in rows])


def test_jaccard_and_its_edges() -> None:
    selected, required = bits("1100", "0000", "0000", "1000"), bits("0110", "0000", "0100", "0000")
    assert jaccard(selected, required).tolist() == pytest.approx([1 / 3, 1, 0, 0])


@pytest.mark.parametrize("name", GOALS)
def test_what_one_agent_more_is_worth_is_the_worth_of_the_larger_set(name: str) -> None:
    rng = np.random.default_rng(0)
    selected, required = rng.random((60, 5)) < 0.3, rng.random((60, 5)) < 0.4
    goal = Goal(name, rng.random(5).astype(np.float32) if name == "value" else None)
    found = goal.after(selected, required)
    for a in range(5):
        larger = selected.copy()
        larger[:, a] = True
        np.testing.assert_allclose(found[:, a], goal.utility(larger, required), atol=1e-6)


def test_goals_of_a_hand_worked_example() -> None:
    selected, required = bits("1100", "0110", "0000", "1110"), bits("0110", "0110", "0000", "0110")
    assert Goal("f1").utility(selected, required).tolist() == pytest.approx([0.5, 1, 1, 0.8])
    assert Goal("exact").utility(selected, required).tolist() == [0, 1, 1, 0]
    costs = np.array([0.5, 0.2, 0.1, 0], np.float32)
    assert Goal("value", costs).utility(selected, required).tolist() == pytest.approx([-0.7, 0.7, 1, 0.2])


def test_the_policy_of_a_goal_that_moves_the_operating_point_learns_jaccard() -> None:
    agents = [Agent(1, "a", cost=0.5), Agent(2, "b", cost=2.0)]
    assert goal_of("recall", agents, 4.0) == goal_of("size", agents, 4.0) == JACCARD
    assert goal_of("value", agents, 4.0).costs.tolist() == [0.125, 0.5]


def test_shaped_rewards_add_up_to_the_change_of_jaccard() -> None:
    env = RoutingEnv(4)
    required = bits("0110")
    state, total = bits("0000"), 0.0
    for a in (1, 3, 2):
        total += float(env.selection_rewards(state, required)[0, a])
        state[0, a] = True
    assert total == pytest.approx(float(jaccard(state, required)[0]))
    assert env.stop_rewards(state, required, np.random.default_rng(0)).tolist() == [0]


def test_shaping_discounts_the_later_potential() -> None:
    env = RoutingEnv(3, gamma=0.5)
    assert env.selection_rewards(bits("000"), bits("100"))[0].tolist() == pytest.approx([0.5, 0.0, 0.0])
    assert env.selection_rewards(bits("100"), bits("100"))[0, 1] == pytest.approx(0.5 * 0.5 - 1)


@pytest.mark.parametrize("most", [0, 2])
def test_the_selection_that_ends_an_episode_pays_the_final_jaccard_undiscounted(most: int) -> None:
    env = RoutingEnv(2 if not most else 4, gamma=0.5, max_agents=most)
    state, required = bits("10" + "00" * (most > 0)), bits("11" + "00" * (most > 0))
    assert env.selection_rewards(state, required)[0, 1] == pytest.approx(1 - 0.5)
    # A third agent that was not asked about cannot follow either.
    asked = bits("110")
    assert RoutingEnv(3, gamma=0.5).selection_rewards(bits("100"), bits("110"), asked)[0, 1] == pytest.approx(1 - 0.5)


def test_flat_and_logarithmic_costs() -> None:
    state, required = bits("0000", "1100"), bits("1000", "1100")
    rng = np.random.default_rng(0)
    flat = RoutingEnv(4, "jaccard", step_cost=0.1)
    assert flat.selection_rewards(state, required).ravel().tolist() == pytest.approx([-0.1] * 8)
    assert flat.stop_rewards(state, required, rng).tolist() == [0, 1]
    log = RoutingEnv(4, "log", step_cost=0.1)
    costs = log.selection_rewards(state, required)[:, 3]
    assert costs.tolist() == pytest.approx([-0.1 * np.log(1 + 1 / 4), -0.1 * np.log(1 + 3 / 4)])


def test_stochastic_end_pays_as_often_as_the_share_selected() -> None:
    env = RoutingEnv(4, "stochastic")
    state, required = np.repeat(bits("1000"), 4000, axis=0), np.repeat(bits("1110"), 4000, axis=0)
    rng = np.random.default_rng(1)
    assert env.stop_rewards(state, required, rng).mean() == pytest.approx(1 / 3, abs=0.03)
    assert env.stop_rewards(state, np.zeros_like(required), rng).max() == 0


def test_masks() -> None:
    env = RoutingEnv(3, min_agents=1, max_agents=2)
    available = bits("110", "110", "111", "010")
    state = bits("000", "100", "110", "010")
    assert env.selectable(state, available).tolist() == bits("110", "010", "000", "000").tolist()
    # Below the minimum STOP is barred, unless nobody is left to select.
    assert env.stoppable(state, available).tolist() == [False, True, True, True]
    assert RoutingEnv(3, min_agents=2).stoppable(bits("010"), bits("010")).tolist() == [True]


def test_without_masking_an_agent_may_be_selected_again() -> None:
    env = RoutingEnv(2, action_masking=False, max_steps=7)
    assert env.selectable(bits("10"), bits("11")).all()
    assert env.horizon == 7
    assert RoutingEnv(5, max_agents=3).horizon == 3
