"""Which words of a text call for which agent, and where they are shown: never on a blind item."""

import re
from types import SimpleNamespace

import pytest

from training_app.answering import marks


def words(text: str, *weights: tuple[str, float]) -> list[tuple[str, int]]:
    found = marks.in_text(text, weights)
    units = text.encode("utf-16-le")
    return [(units[2 * start : 2 * end].decode("utf-16-le"), strength) for start, end, strength in found]


@pytest.mark.parametrize(
    ("text", "weights", "expected"),
    [
        ("My refund is late", [("refund", 2.0), ("late", 0.1)], [("refund", 3)]),
        (
            "charged, twice today",
            [("charged twice", 1.0), ("today", 0.3)],
            [("charged", 3), ("twice", 2), ("today", 2)],
        ),
        ("Refunds and more", [("·␣refu·", 1.0)], [("Refunds", 3)]),
        ("a prefund", [("·␣fund·", 1.0)], []),
        ("no parcel, a refund", [("refund", 1.0), ("parcel", -3.0)], [("refund", 3)]),
        ("only against", [("against", -1.0)], []),
        ("😀😀 the refund 🎉 came", [("refund", 1.0)], [("refund", 3)]),
        ("İstanbul refund", [("refund", 1.0)], [("refund", 3)]),
        ("C++ (crash)", [("c++", 3.0), ("crash", 0.5), ("(", 1.0)], [("C", 3), ("crash", 2)]),
        ("मेरी बिजली कट गई", [("बिजली", 1.0)], [("बिजली", 3)]),
        ("बंदी नहीं, लाइट बंद", [("बंद", 1.0)], [("बंद", 3)]),
        ("", [("refund", 1.0)], []),
    ],
)
def test_words_are_marked_by_what_their_n_grams_weigh(
    text: str, weights: list[tuple[str, float]], expected: list[tuple[str, int]]
) -> None:
    assert words(text, *weights) == expected


def test_places_count_as_a_browser_counts() -> None:
    assert marks.in_text("😀 refund", [("refund", 1.0)]) == [(3, 9, 3)]  # the face takes two units


def test_agents_without_a_word_and_scorers_without_words_mark_nothing() -> None:
    def router(weights: dict) -> SimpleNamespace:
        return SimpleNamespace(weights=lambda text, top: weights)

    assert marks.of_router(router({4: [("refund", 1.0)], 7: []}), "a refund") == {4: [(2, 8, 3)]}  # type: ignore[arg-type]
    assert marks.of_router(router({}), "a refund") == {}  # type: ignore[arg-type]


def test_the_names_that_scorers_give_can_be_read() -> None:
    """Every n-gram of a text, named as TF-IDF names it, is found in the text again."""
    from training_app.engine.reading.linear import fit_tfidf

    texts = ["Hi, I was charged twice!", "where is my parcel?", "don't log-in again"] * 3
    tfidf, _rows = fit_tfidf(texts, word_range=(1, 2), character_range=(2, 5))
    for text in texts[:3]:
        names = [tfidf.name(int(index)) for index in tfidf.features(text)[0]]
        assert names
        missing = [name for name in names if not re.search(marks._pattern(name), text.lower())]
        assert len(missing) < 0.1 * len(names), missing
