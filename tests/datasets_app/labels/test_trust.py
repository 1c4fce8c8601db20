"""What is proposed where sources of suggestions differ: each by how far it has agreed with people, and None only where all say so."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from agents_app.models import Pool
from datasets_app.labels import labels, trust
from datasets_app.labels.suggestions import Offer, proposed
from datasets_app.models import Query, Suggestion

EVERY = frozenset(range(4))


def offer(source: str, required: tuple[int, ...], fallback: str = "", **scores: float) -> Offer:
    return Offer(source, "v", required, {int(n[1:]): p for n, p in scores.items()}, EVERY, fallback)


def test_an_average_below_one_half_is_not_none() -> None:
    sure, unsure = offer("llm", (0,), _0=0.90), offer("model", (), _0=0.09)
    assert proposed([sure, unsure], EVERY) == {0}
    assert proposed([unsure, offer("llm", (), _0=0.2)], EVERY) == frozenset(), "every source says none"
    assert proposed([sure], EVERY) == {0}
    assert proposed([], EVERY) == frozenset()


def test_the_more_trusted_source_decides() -> None:
    llm, model = offer("llm", (0,), _0=0.9, _1=0.2), offer("model", (1,), _0=0.2, _1=0.9)
    assert proposed([llm, model], EVERY, {"llm": 0.9, "model": 0.3}) == {0}
    assert proposed([llm, model], EVERY, {"llm": 0.3, "model": 0.9}) == {1}


def test_what_stood_in_for_an_answer_hardly_counts() -> None:
    stand_in, model = offer("llm", (0, 1, 2, 3), fallback="all"), offer("model", (2,), _0=0.1, _1=0.1, _2=0.9, _3=0.1)
    assert proposed([stand_in, model], EVERY) == {2}


@pytest.fixture
def told(add_query: Callable[..., Query], person: Callable[..., User]) -> Pool:
    """Eight queries that need agent 1: the LLM said so of six, the model of two."""
    ana = person("ana")
    query = None
    for n in range(8):
        query = add_query(f"query {n}")
        labels.record(labels.NewLabel(query.pk, source="llm", required=[1] if n < 6 else [2], asked=EVERY))
        Suggestion.objects.create(query=query, version="m", required=[1] if n < 2 else [], scores={"1": 0.5})
        labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[1], asked=EVERY))
    assert query is not None
    pool: Pool = query.dataset.pool
    return pool


def test_agreement_is_measured_with_people(told: Pool) -> None:
    assert trust.of_sources(told) == {"llm": (0.75, 8), "model": (0.25, 8)}
    weights = trust.weights(told)
    assert weights["llm"] == pytest.approx((6 + 2.5) / 13)
    assert weights["model"] == pytest.approx((2 + 2.5) / 13)


def test_each_llm_is_measured_alone(add_query: Callable[..., Query], person: Callable[..., User]) -> None:
    """What a file predicted is no merit of the LLM that is asked now."""
    ana, query = person("ana"), None
    for n in range(6):
        query, who = add_query(f"query {n}"), {"model": "v0"} if n < 4 else {"model": "gpt", "prompt": 2}
        labels.record(
            labels.NewLabel(query.pk, source="llm", required=[1 if n < 5 else 2], asked=EVERY, provenance=who)
        )
        labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[1], asked=EVERY))
    assert query is not None
    assert trust.of_versions(query.dataset.pool) == {("llm", "v0"): (1.0, 4), ("llm", "gpt · 2"): (0.5, 2)}
    assert trust.of_sources(query.dataset.pool) == {"llm": (5 / 6, 6)}


def test_nothing_measured_is_nothing_said(pool: Pool) -> None:
    assert trust.of_sources(pool) == {}
    assert trust.weights(pool) == {}
