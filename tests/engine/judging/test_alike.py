"""Whether tested queries say what was trained on: by words, numbers as one, and never a query beside its own group."""

from training_app.engine.data.examples import Example
from training_app.engine.judging import alike


def queries(*texts: str) -> list[Example]:
    return [Example(str(place), text, frozenset(), group=str(place)) for place, text in enumerate(texts)]


def test_the_same_sentence_with_another_name_and_number_is_near_and_other_words_are_not() -> None:
    learnt = queries("my suitcase did not arrive in Lisbon with flight 4711", "can I pay by card?")
    tested = [
        Example("a", "my suitcase did not arrive in Porto with flight 12", frozenset(), group="a"),
        Example("b", "they lost our luggage on the way to Porto", frozenset(), group="b"),
        Example("c", "Can I pay by CARD", frozenset(), group="c"),
    ]
    assert alike.figures(tested, learnt) == {"queries": 3, "near": 2}


def test_words_that_differ_in_their_vowel_signs_are_different_words() -> None:
    assert alike.figures(queries("की का कू के"), queries("को कि कु कै"))["near"] == 0


def test_a_query_is_not_held_against_its_own_group() -> None:
    some = queries("where is my parcel", "where is my parcel today", "reset my password")
    assert alike.figures(some, some)["near"] == 2


def test_none_to_test_or_to_learn_from() -> None:
    assert alike.figures([], queries("a b")) == {"queries": 0, "near": 0}
    assert alike.figures(queries("a b"), []) == {"queries": 1, "near": 0}
