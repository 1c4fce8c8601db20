from __future__ import annotations

import numpy as np
import pytest

from training_app.engine.env import RoutingEnv, jaccard, jaccard_after


def bits(*rows: str) -> np.ndarray:
    return np.array([[c == "1" for c in row] for row in rows])


def test_jaccard_and_its_edges() -> None:
    selected, required = bits("1100", "0000", "0000", "1000"), bits("0110", "0000", "0100", "0000")
    assert jaccard(selected, required).tolist() == pytest.approx([1 / 3, 1, 0, 0])


def test_jaccard_after_is_the_jaccard_of_each_larger_set() -> None:
    rng = np.random.default_rng(0)
    selected, required = rng.random((30, 5)) < 0.3, rng.random((30, 5)) < 0.4
    found = jaccard_after(selected, required)
    for a in range(5):
        larger = selected.copy()
        larger[:, a] = True
        np.testing.assert_allclose(found[:, a], jaccard(larger, required))


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
    env = RoutingEnv(2, gamma=0.5)
    assert env.selection_rewards(bits("00"), bits("10"))[0].tolist() == pytest.approx([0.5, 0.0])
    assert env.selection_rewards(bits("10"), bits("10"))[0, 1] == pytest.approx(0.5 * 0.5 - 1)


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
