"""Learners that follow from a log of calls: whom they hope for, how likely they take each, and the published table over the log."""

import numpy as np
import pytest

from orchestration_app.engine.backends import online
from orchestration_app.engine.backends.bandits import LinUCB
from orchestration_app.engine.backends.online import Arm, Hopes, Past, Table

ARMS = [Arm(10, 0, "large", 0.8), Arm(11, 0, "small", 0.8), Arm(12, 1, "large", 0.8), Arm(13, 1, "small", 0.8)]


def rng() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(3))


def calls(backend: int, good: int, bad: int, cost: float = 0.001) -> list[Past]:
    agent = next(arm.agent for arm in ARMS if arm.backend == backend)
    return [Past(agent, backend, n < good, cost, 1.0) for n in range(good + bad)]


@pytest.mark.parametrize("name", online.LEARNERS[:3])
def test_a_learner_comes_to_prefer_who_succeeds(name: str) -> None:
    hopes = online.learnt(name, ARMS, calls(10, 20, 180) + calls(11, 190, 10), rng())
    large, small = hopes[0].chances([10, 11], [0.0, 0.0])
    assert small > 0.9
    assert large + small == pytest.approx(1.0)
    dear = hopes[0].chances([10, 11], [0.0, 5.0])
    assert dear[0] > 0.9, "what it costs is taken off its worth"
    assert hopes[0].chances([10], [0.0]) == [pytest.approx(1.0)]


def test_draws_leave_nobody_impossible() -> None:
    hopes = online.learnt("thompson", ARMS, calls(10, 0, 400) + calls(11, 400, 0), rng())
    assert 0 < hopes[0].chances([10, 11], [0.0, 0.0])[0] < 0.05


def test_ties_share_and_a_share_is_drawn_evenly() -> None:
    assert Hopes({1: 0, 2: 1}, np.zeros((1, 2))).chances([1, 2], [0, 0]) == [0.5, 0.5]
    found = Hopes({1: 0, 2: 1, 3: 2, 4: 3}, np.array([[0, 0, 1.0, 0]]), epsilon=0.4).chances([1, 2, 3, 4], [0] * 4)
    assert found == pytest.approx([0.1, 0.1, 0.7, 0.1])


def test_linucb_believes_of_a_model_elsewhere_what_one_agent_showed() -> None:
    found = online.means(ARMS, calls(10, 5, 95) + calls(11, 95, 5))
    assert found[12] < found[13]
    assert found[10] < 0.2 < 0.8 < found[11]
    assert online.means(ARMS, []) == {arm.backend: pytest.approx(0.8) for arm in ARMS}


def test_sums_teach_linucb_what_single_calls_do() -> None:
    x = online.features(ARMS)[None]
    one, many = (LinUCB(x, rng(), noise=0.5, prior=0.0) for _ in range(2))
    for arm, reward in ((0, 1.0), (0, 0.0), (3, 0.5)):
        one.learn(0, arm, reward)
    many.learn_sums(0, np.array([2.0, 0, 0, 1.0]), np.array([1.0, 0, 0, 0.5]))
    assert np.allclose(one.inverse, many.inverse)
    assert np.allclose(one.target, many.target)


def test_the_table_over_a_log_is_the_published_one() -> None:
    table = Table(ARMS)
    table.learn([Past(0, 10, True, 0.002, 5.0), Past(0, 11, False, 0.0, 0.0)])
    (_none, cells, taken), *_rest = table.states(0)
    value = 0.15 * (1 - 0.10 - 0.05)
    assert cells[0] == (10, pytest.approx(value), 1)
    assert taken == 10
    # Of the second call nothing came but what its next state promises.
    assert cells[1] == (11, pytest.approx(0.15 * 0.95 * value), 1)
    assert table.table.epsilon == pytest.approx(0.98**2)


def test_the_table_knows_who_is_hot() -> None:
    table = Table(ARMS)
    table.learn(calls(10, 6, 0))
    by_state = {hot: cells for hot, cells, _taken in table.states(0)}
    assert by_state[None][0][2] == 3, "three calls before anybody is hot"
    assert by_state[10][0][2] == 3
    assert table.hopes(0, 10).whole


def test_an_unknown_learner_says_who_is_known() -> None:
    with pytest.raises(ValueError, match="ucb1"):
        online.learnt("exp3", ARMS, [], rng())


def test_money_has_a_price_while_it_is_spent_too_fast() -> None:
    assert online.price_of_money(1.0, [0.01] * 5, 100) == 0
    assert online.price_of_money(1.0, [0.05] * 5, 100) > 0
