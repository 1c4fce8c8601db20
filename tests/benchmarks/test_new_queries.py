"""Queries that no cache knows: all differ, all have their words, and every word is one of the given texts."""

import pytest

from benchmarks.new_queries import new_queries

TEXTS = [
    f"please send the {thing} back to the shop {day}" for thing in ("lamp", "sofa", "rug") for day in ("today", "now")
]


def test_all_differ_and_have_nine_words_of_the_texts() -> None:
    made = new_queries(TEXTS, 100)
    assert len(set(made)) == 100
    assert {len(text.split()) for text in made} == {9}
    assert set(" ".join(made).split()) == set(" ".join(TEXTS).split())
    assert new_queries(TEXTS, 100) == made


def test_too_few_words_are_an_error() -> None:
    with pytest.raises(ValueError, match="2 different queries of 1 words, not 3"):
        new_queries(["one two"], 3, words=1)
    with pytest.raises(ValueError, match="No text has two words"):
        new_queries(["one", ""], 3)
