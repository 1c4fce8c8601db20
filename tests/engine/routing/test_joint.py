"""Trained and cold agents in one decision."""

from training_app.engine.reading.cold import ColdScores
from training_app.engine.routing.joint import Joining, decided, log_odds, together

FREE = Joining(0.1)


def test_without_a_likely_cold_agent_the_models_answer_stays() -> None:
    scores = ColdScores({7: 0.05}, {0: 0.9, 1: 0.1})
    assert decided({0: 0.9, 1: 0.1}, scores, Joining()) is None
    assert together((0, 1), {0: 0.9, 1: 0.1}, scores, Joining()) == ((0, 1), ())


def test_a_cold_agent_that_fits_clearly_better_takes_a_trained_ones_place() -> None:
    scores = ColdScores({7: 0.97}, {0: 0.1, 1: 0.02})
    assert together((0,), {0: 0.9, 1: 0.05}, scores, FREE) == ((7,), (7,))


def test_both_stay_where_both_are_described() -> None:
    scores = ColdScores({7: 0.9}, {0: 0.9, 1: 0.02})
    assert together((0,), {0: 0.97, 1: 0.05}, scores, FREE) == ((0, 7), (7,))


def test_an_agent_that_changed_sides_by_lot_stays() -> None:
    scores = ColdScores({7: 0.97}, {0: 0.1, 1: 0.02})
    assert together((0, 1), {0: 0.9, 1: 0.05}, scores, FREE, keep=1) == ((1, 7), (7,))


def test_the_threshold_and_the_largest_set_hold() -> None:
    scores = ColdScores({7: 0.9}, {0: 0.9})
    assert decided({0: 0.99}, scores, Joining(0.95)) is None
    assert decided({0: 0.99}, scores, Joining(0.1, (0, 1))) is None
    assert decided({0: 0.99}, scores, Joining(0.1, (0, 2))) == (0, 7)


def test_a_set_that_is_not_permitted_is_not_given() -> None:
    scores = ColdScores({7: 0.97, 8: 0.96}, {0: 0.9})
    assert together((0,), {0: 0.97}, scores, FREE) == ((0, 7, 8), (7, 8))
    two = Joining(0.1, permits=lambda agents: len(agents) <= 2)
    assert together((0,), {0: 0.97}, scores, two) == ((0, 7), (7,))
    none = Joining(0.1, permits=lambda agents: 7 not in agents and 8 not in agents)
    assert together((0,), {0: 0.97}, scores, none) == ((0,), ())


def test_log_odds_of_certain_probabilities_are_finite() -> None:
    assert log_odds({0: 1.0, 1: 0.0}, {2: 0.5}, {}) == {0: 8.0, 1: -8.0, 2: 0.0}
