"""Trained and cold agents in one decision."""

from training_app.engine.data import conversations
from training_app.engine.reading.cold import ColdScores
from training_app.engine.reading.conversing.continuing import DEFAULT
from training_app.engine.routing.joint import Joining, Turn, decided, log_odds, together

FREE = Joining(0.1)


def test_without_a_likely_cold_agent_the_models_answer_stays() -> None:
    scores = ColdScores({7: 0.05}, {0: 0.9, 1: 0.1})
    assert decided({0: 0.9, 1: 0.1}, scores, Joining()) is None
    assert together((0, 1), {0: 0.9, 1: 0.1}, scores, Joining())[:2] == ((0, 1), ())


def test_a_cold_agent_that_fits_clearly_better_takes_a_trained_ones_place() -> None:
    scores = ColdScores({7: 0.97}, {0: 0.1, 1: 0.02})
    assert together((0,), {0: 0.9, 1: 0.05}, scores, FREE)[:2] == ((7,), (7,))


def test_both_stay_where_both_are_described() -> None:
    scores = ColdScores({7: 0.9}, {0: 0.9, 1: 0.02})
    assert together((0,), {0: 0.97, 1: 0.05}, scores, FREE)[:2] == ((0, 7), (7,))


def test_an_agent_that_changed_sides_by_lot_stays() -> None:
    scores = ColdScores({7: 0.97}, {0: 0.1, 1: 0.02})
    assert together((0, 1), {0: 0.9, 1: 0.05}, scores, FREE, keep=1)[:2] == ((1, 7), (7,))


def test_the_threshold_and_the_largest_set_hold() -> None:
    scores = ColdScores({7: 0.9}, {0: 0.9})
    assert decided({0: 0.99}, scores, Joining(0.95)) is None
    assert decided({0: 0.99}, scores, Joining(0.1, (0, 1))) is None
    assert decided({0: 0.99}, scores, Joining(0.1, (0, 2))) == (0, 7)


def test_a_set_that_is_not_permitted_is_not_given() -> None:
    scores = ColdScores({7: 0.97, 8: 0.96}, {0: 0.9})
    assert together((0,), {0: 0.97}, scores, FREE)[:2] == ((0, 7, 8), (7, 8))
    two = Joining(0.1, permits=lambda agents: len(agents) <= 2)
    assert together((0,), {0: 0.97}, scores, two)[:2] == ((0, 7), (7,))
    none = Joining(0.1, permits=lambda agents: 7 not in agents and 8 not in agents)
    assert together((0,), {0: 0.97}, scores, none)[:2] == ((0,), ())


def test_log_odds_of_certain_probabilities_are_finite() -> None:
    answer = log_odds({0: 1.0, 1: 0.0}, {2: 0.5}, {})
    assert answer[2] == 0.0
    assert -8.0 < answer[1] < answer[2] < answer[0] < 8.0


def test_the_models_word_and_the_description_count_together() -> None:
    alone = log_odds({0: 0.9}, {2: 0.5}, {0: 0.5})[0]
    assert log_odds({0: 0.9}, {2: 0.5}, {0: 0.9})[0] > alone > log_odds({0: 0.9}, {2: 0.5}, {0: 0.1})[0]
    assert log_odds({0: 0.9}, {2: 0.95}, {0: 0.5})[0] < alone


def test_a_reply_stays_with_the_cold_agent_that_asked() -> None:
    text = conversations.read([
        {"role": "user", "content": "my bicycle squeaks"},
        {"role": "assistant", "content": "Which wheel is it?", "agents": [7]},
        {"role": "user", "content": "the front one"},
    ])  # fmt: skip
    scores, trained = ColdScores({7: 0.05}, {0: 0.1, 1: 0.05}), {0: 0.6, 1: 0.05}
    assert together((0,), trained, scores, FREE).agents == (0,)
    answer = together((0,), trained, scores, FREE, turn=Turn(text, (7,), DEFAULT))
    assert (answer.agents, answer.joined) == ((7,), (7,))
    assert answer.continued is not None
    assert answer.continued.held
    never = together((0,), trained, scores, FREE, turn=Turn(text, (7,), DEFAULT, sticky=0.0))
    assert (never.agents, never.continued and never.continued.continues) == ((0,), False)
    # An agent that changed sides by lot is answered, and what is not permitted is not.
    assert together((0,), trained, scores, FREE, keep=0, turn=Turn(text, (7,), DEFAULT)).agents == (0,)
    barred = Joining(0.1, permits=lambda agents: 7 not in agents)
    assert together((0,), trained, scores, barred, turn=Turn(text, (7,), DEFAULT)).agents == (0,)


def test_a_change_of_subject_leaves_a_cold_agent() -> None:
    text = conversations.read([
        {"role": "user", "content": "my bicycle squeaks"},
        {"role": "assistant", "content": "It is repaired.", "agents": [7]},
        {"role": "user", "content": "now send me the invoice"},
    ])  # fmt: skip
    answer = together((0,), {0: 0.97, 1: 0.01}, ColdScores({7: 0.02}, {0: 0.9}), FREE, turn=Turn(text, (7,), DEFAULT))
    assert (answer.agents, answer.continued and answer.continued.held) == ((0,), False)


def test_among_trained_agents_alone_the_models_answer_stays() -> None:
    answer = together((0,), {0: 0.9, 1: 0.1}, ColdScores({7: 0.05}, {0: 0.9}), FREE, turn=Turn("yes", (1,), DEFAULT))
    assert (answer.agents, answer.continued) == ((0,), None)


def test_an_agent_before_that_can_no_longer_be_chosen_does_not_go_on() -> None:
    answer = together((0,), {0: 0.9}, ColdScores({7: 0.9}, {0: 0.1}), FREE, turn=Turn("yes", (7, 9), DEFAULT))
    assert answer.continued is not None
    assert not answer.continued.continues


def test_a_pool_whose_queries_need_one_agent_answers_one() -> None:
    scores, single = ColdScores({7: 0.9}, {0: 0.9, 1: 0.02}), Joining(0.1, single=True)
    assert together((0,), {0: 0.97, 1: 0.05}, scores, single).agents == (0,)
    assert together((0,), {0: 0.6, 1: 0.05}, ColdScores({7: 0.97}, {0: 0.5, 1: 0.02}), single).agents == (7,)
    assert together((0,), {0: 0.97, 1: 0.05}, scores, Joining(0.1, (2, 0), single=True)).agents == (0, 7)
