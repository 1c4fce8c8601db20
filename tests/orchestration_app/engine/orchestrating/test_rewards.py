"""The reward's two forms, by hand."""

import numpy as np
import pytest

from orchestration_app.engine.orchestrating.rewards import Reward, reward_of
from orchestration_app.engine.orchestrating.state import Call
from orchestration_app.engine.orchestrator_config import OrchestratorConfig
from training_app.engine.settings import ConfigError

pytestmark = pytest.mark.any_database


def test_the_flat_form_counts_cost_once_and_pays_r_once() -> None:
    returns = Reward(price=0.1, gamma=1.0).returns([1.0, 2.0, 0.0], 1.0, 4)
    assert returns.tolist() == pytest.approx([1 - 0.3, 1 - 0.2, 1.0])
    assert Reward(price=0.1).total(3.0, 1.0) == pytest.approx(0.7)


def test_the_flat_form_discounts() -> None:
    assert Reward(price=0.1, gamma=0.5).returns([1.0, 0.0], 0.0, 4).tolist() == pytest.approx([-0.6, -1.0])


def test_the_papers_form() -> None:
    """R_T = r - λ C_T, R_t = γ R_{t+1} - λ C_t, C_t = F_t log(1 + t / φ)."""
    costs, most = [1.0, 2.0, 0.5], 4
    factors = [c * np.log(1 + t / most) for t, c in enumerate(costs, start=1)]
    last = 1 - 0.1 * factors[2]
    middle = 0.9 * last - 0.1 * factors[1]
    first = 0.9 * middle - 0.1 * factors[0]
    found = Reward(0.1, 0.9, form="paper").returns(costs, 1.0, most)
    assert found.tolist() == pytest.approx([first, middle, last])


def test_cost_is_money_or_thousands_of_tokens() -> None:
    calls = [Call(1, "a", cost=0.4, tokens=1500), Call(2, "b", cost=0.1, tokens=500)]
    assert Reward().cost(calls) == pytest.approx(0.5)
    assert Reward(costs="tokens").cost(calls) == pytest.approx(2.0)


def test_time_is_paid_for_as_cost_is_and_calls_beside_each_other_take_as_long_as_the_longest() -> None:
    calls = [Call(1, "a", cost=0.4, latency=2.0), Call(2, "b", cost=0.1, latency=5.0)]
    patient, hurried = Reward(second=0.0), Reward(second=0.02)
    assert patient.cost(calls) == pytest.approx(0.5)
    assert hurried.cost(calls) == pytest.approx(0.6)
    assert sum(hurried.cost([call]) for call in calls) == pytest.approx(0.64)
    assert hurried.cost([]) == 0.0
    assert hurried.total(hurried.cost(calls), 1.0) == pytest.approx(1.0 - 0.1 * 0.6)
    assert reward_of(OrchestratorConfig.from_mapping({"second": "0.5", "preset": "money"})) == Reward(
        0.5, 0.99, 1.0, -2.0, "flat", "money", 0.5
    )


def test_presets_and_settings_that_mean_nothing() -> None:
    assert OrchestratorConfig.from_mapping({}).pays == (0.1, 1.0, -1.0)
    assert OrchestratorConfig.from_mapping({"preset": "money"}).pays == (0.5, 1.0, -2.0)
    assert OrchestratorConfig.from_mapping({"preset": "success"}).pays == (0.05, 2.0, -1.0)
    with pytest.raises(ConfigError, match="success"):
        OrchestratorConfig.from_mapping({"success": "-2"})
    with pytest.raises(ConfigError, match="learner"):
        OrchestratorConfig.from_mapping({"learner": "magic"})
