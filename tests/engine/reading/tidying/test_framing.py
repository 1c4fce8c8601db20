"""The message without its frame: what goes and what stays."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from training_app.engine.reading.tidying import framing
from training_app.engine.reading.tidying.framing import COURTESIES, unframed


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("hi, quick question: where is my parcel", "where is my parcel"),
        ("Hello team, my camera is broken", "my camera is broken"),
        ("hey where is it", "where is it"),
        ("Dear Sir or Madam,\nI want a refund.\n\nKind regards,\nA. Novak\n+44 20 7946 0000", "I want a refund."),
        ("Guten Tag, eine kurze Frage: wo ist mein Paket?", "wo ist mein Paket?"),
        ("Добрый день! Где моя посылка?\nС уважением,\nАнна", "Где моя посылка?"),
        ("> old words\n> more\nWhere is it?", "Where is it?"),
        ("Where is it?\n\nOn Monday the shop wrote:\n> old words", "Where is it?"),
        ("MY CAMERA IS BROKEN", "my camera is broken"),
    ],
)
def test_greeting_sign_off_quoted_mail_and_capitals_go(text: str, left: str) -> None:
    assert unframed(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "",
        "...",
        "hi",
        "Good morning!",
        "VAT",
        "Please cancel my order, now",
        "my team, the good one, is late",
        "question about the invoice",
        "I want it - soon",
        "regards from Leeds, where is it",
    ],
)
def test_what_is_no_frame_or_all_there_is_stays(text: str) -> None:
    assert unframed(text) == text


class Everything(frozenset[str]):
    """Words of which each might open a message, so that nothing is known by the first."""

    def __contains__(self, word: object) -> bool:
        return True


@example([("İ", " "), ("hi", " "), ("team", ", "), ("book", "")], "")
@example([("hi", " "), ("", "\n")], "")
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["hi", "Hello", "DEAR", "team", "good", "morning", "İ", "İx", "it's", "'", "book", "Где"]),
            st.sampled_from([" ", ", ", ". ", "\n", " - ", "! ", ":", "  ", "–", "\n> ", "\nregards ", ""]),
        ),
        max_size=7,
    ),
    st.sampled_from(["", " ", "\n", "- "]),
)
def test_what_the_first_word_tells_is_what_all_of_the_opening_does(parts: list[tuple[str, str]], begin: str) -> None:
    text = begin + "".join(word + sign for word, sign in parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(framing, "COURTESIES", Everything())
        patch.setattr(framing, "_opens", lambda words: set(words) <= COURTESIES and framing_opens(words))
        whole = unframed(text)
    assert unframed(text) == whole


def framing_opens(words: list[str]) -> bool:
    """The opening's own test, by its own words."""
    return not words or not framing.ANCHORS.isdisjoint(words)
