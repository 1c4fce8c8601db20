"""What the database leaves out holds nothing of what is looked for: a pattern matches whatever `matching` finds."""

import html
import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agents_app.models import Pool
from agents_app.texts import columns, narrowing
from agents_app.texts.matching import Phrase, Phrases, Terms
from datasets_app.models import Dataset, Query
from datasets_app.queries import adding
from tests.thorough import many

FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
WAYS: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    str.lower,
    str.swapcase,
    str.title,
    json.dumps,
    html.escape,
    quote,
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: unicodedata.normalize("NFKD", text),
    lambda text: text.translate(FULL_WIDTH),
    lambda text: "\u200b".join(text),
    lambda text: text.replace(" ", " \n\u00a0 "),
    lambda text: text.replace("s", "ſ").replace("k", "\u212a").replace("i", "ı"),
)
letters = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=3, max_size=30)


def matches(pattern: narrowing.Pattern | None, text: str) -> bool:
    """As an engine would: without one every text is read."""
    return pattern is None or bool(re.search(pattern.written(lambda code: re.escape(chr(code))), text))


@settings(deadline=None, max_examples=many(300, 15))
@given(letters.filter(str.strip), st.sampled_from(WAYS), st.sampled_from(WAYS), st.sampled_from(("", "\u00fc ", "a ")))
@example("straße 12", str.upper, str, "")
@example("Γιώργος", str.upper, str, "")
@example("각하세요 여러분", WAYS[8], str, "")
@example("K-12345", str.lower, json.dumps, "")
def test_a_pattern_matches_whatever_is_found(words: str, way: Any, then: Any, before: str) -> None:
    text = before + then(way(words))
    for lookup in (
        Phrase(words),
        Phrases([words, "where is my parcel"]),
        *([Terms([words])] if _may_be_sought(words) else ()),
    ):
        if lookup.found_in(text):
            assert matches(narrowing.of(lookup), text), (type(lookup), text)


def _may_be_sought(words: str) -> bool:
    return 3 <= len(unicodedata.normalize("NFKC", words).strip()) <= 200


def test_a_pattern_leaves_out_what_does_not_hold_it() -> None:
    pattern = narrowing.of(Terms(["Zoë Müller", "zoe@example.com"]))
    assert matches(pattern, "ask ZOE@EXAMPLE.COM")
    assert matches(pattern, "Frau MÜLLER ruft an")
    assert not matches(pattern, "where is my parcel, and может быть die Größe?")


@pytest.mark.django_db
def test_rows_are_found_as_if_each_was_read(pool: Pool) -> None:
    term = "Jürgen Kraus-12"
    dataset: Dataset = adding.dataset_of(pool, "Import")
    said = [f"please call {way(term)} {n}" for n, way in enumerate(WAYS)] + ["please call Jürgen Krause-12", "nobody"]
    adding.find_or_add(dataset, [adding.NewQuery(text) for text in said], "test")
    column = [Query._meta.get_field("text")]
    stored = dict(Query.objects.values_list("pk", "text"))
    for lookup in (Terms([term]), Phrase(said[0]), Phrases(said[:3])):
        expected = {key for key, text in stored.items() if lookup.found_in(text)}
        assert {key for key, _held in columns.holding(Query, column, lookup)} == expected  # type: ignore[arg-type]
        assert expected


@pytest.mark.django_db
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite's patterns are Python's own.")
def test_postgresql_leaves_rows_out(pool: Pool) -> None:
    adding.find_or_add(adding.dataset_of(pool, "Import"), [adding.NewQuery(f"plain {n}") for n in range(20)], "test")
    adding.find_or_add(adding.dataset_of(pool, "Import"), [adding.NewQuery("ask ana@example.com")], "test")
    rows = narrowing.narrowed(
        Query.objects.all(), [Query._meta.get_field("text")], narrowing.of(Terms(["ANA@example.com"]))
    )  # type: ignore[list-item]
    assert [query.text for query in rows] == ["ask ana@example.com"]
