"""Whether the agents of the turn before go on: what is looked at, and what is learnt from labeled conversations."""

import numpy as np
import pytest

from training_app.engine.data.conversations import Message, text_of
from training_app.engine.reading.conversing import continuing
from training_app.engine.reading.conversing.continuing import DEFAULT, Continuing, asks, last_turn, successive

USER, ANSWER = "user", "assistant"


def turn(*said: str, agents: tuple[int, ...] = ()) -> str:
    """A turn of words that the user and the assistant said by turns, the last answer by these agents."""
    messages = [Message((USER, ANSWER)[i % 2], words) for i, words in enumerate(said)]
    if agents:
        messages[-2] = Message(ANSWER, said[-2], agents)
    return text_of(said[-1], messages[:-1])


@pytest.mark.parametrize(
    ("answer", "question"),
    [("For when?", True), ("Wann? ", True), ("几点？", True), ('"Shall I?"', True), ("It is done.", False)],
)
def test_an_answer_that_asks(answer: str, question: bool) -> None:
    assert asks(turn("a table", answer, "seven")) == question
    assert not asks("a plain text?")


def test_the_last_turn_of_a_conversation() -> None:
    assert last_turn("a text") == (None, None)
    assert last_turn(turn("a table", "when?", "at seven")) == (None, "a table")
    agents, question = last_turn(turn("a table", "when?", "at seven", "where?", "here", agents=(4,)))
    assert (agents, question) == ((4,), turn("a table", "when?", "at seven"))


def test_turns_find_the_turn_before_whatever_their_order() -> None:
    texts = ["a table", turn("a table", "when?", "yes"), turn("a table", "when?", "yes", "where?", "yes"), "a table"]
    assert successive(texts, ["c", "c", "c", "d"]).tolist() == [-1, 0, 1, -1]
    assert successive(texts[::-1], ["d", "c", "c", "c"]).tolist() == [-1, 2, 3, -1]


def test_what_is_unsure_of_a_reply_stays_and_what_is_sure_of_another_does_not() -> None:
    last, other = np.array([[True, False]]), np.array([[False, True]])
    reply, wish = (
        turn("a table", "for when?", "seven"),
        turn("a table", "it is booked.", "find me a film with elephants"),
    )
    stays = float(DEFAULT.probabilities(np.array([[0.3, 0.35]]), last, other, [reply])[0])
    leaves = float(DEFAULT.probabilities(np.array([[0.01, 0.99]]), last, other, [wish])[0])
    assert stays > 0.5 > leaves


def test_labeled_conversations_teach_it() -> None:
    """In this pool a question is never answered: whoever was asked is left."""
    texts, required = [], []
    for i in range(80):
        texts += [f"a table {i}", turn(f"a table {i}", "for when?", f"seven {i}")]
        required += [[True, False], [False, True]]
    p, sets = np.full((160, 2), 0.5), np.zeros((160, 2), np.bool_)
    groups = [f"c{i // 2}" for i in range(160)]
    learnt = continuing.fit(p, sets, np.array(required), texts, groups)
    assert learnt is not None
    assert learnt.turns == 80
    likely = learnt.probabilities(p[:1], np.array([[True, False]]), sets[:1], texts[1:2])[0]
    assert likely < 0.1 < DEFAULT.probabilities(p[:1], np.array([[True, False]]), sets[:1], texts[1:2])[0]
    assert continuing.fit(p[:20], sets[:20], np.array(required[:20]), texts[:20], groups[:20]) is None
    again = Continuing.from_config(learnt.config())
    assert (again.weights == learnt.weights).all()
    with pytest.raises(ValueError, match="weights"):
        Continuing.from_config({"weights": [1.0], "turns": 3})
