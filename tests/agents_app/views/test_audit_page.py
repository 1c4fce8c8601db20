"""The audit page: filtered by who, what, where and when; exported as it is filtered; details in words."""

import json
from collections.abc import Callable

import pytest
from django.test import Client

from agents_app import audit
from agents_app.audit import Actor
from agents_app.models import Pool
from agents_app.views import people


@pytest.fixture
def trail(pool: Pool) -> None:
    audit.record(
        "model.promoted",
        actor=Actor("ann"),
        target="support-2",
        pool=pool,
        detail={"previous": None, "kind": "first"},
    )
    audit.record(
        "model.rolled_back",
        actor=Actor("ben"),
        target="support-1",
        pool=pool,
        detail={"agents": [1, 2], "all": True},
    )
    audit.record("key.created", actor=Actor("ann"), target="webshop")
    audit.record(
        "snapshot.taken", actor=None, target="support-s1", pool=pool, detail={"digest": "0123456789abcdef" * 4}
    )


def lines(browser: Client, query: str) -> list[dict]:
    answer = browser.get(f"/audit/?format=jsonl{query}")
    assert answer["Content-Disposition"] == 'attachment; filename="audit.jsonl"'
    return [json.loads(line) for line in b"".join(answer.streaming_content).splitlines()]


@pytest.mark.parametrize(
    ("query", "targets"),
    [
        ("&action=model.", ["support-1", "support-2"]),
        ("&action=model.promoted", ["support-2"]),
        ("&actor=ann", ["webshop", "support-2"]),
        ("&in=support&action=model.&actor=ben", ["support-1"]),
        ("&action=model.&from=2999-01-01", []),
    ],
)
def test_an_export_holds_what_the_filters_leave(
    trail: None, client_of: Callable[[str], Client], query: str, targets: list[str]
) -> None:
    assert [line["target"] for line in lines(client_of("ops"), query)] == targets


def test_an_export_of_many_pages_is_whole_and_in_order(
    trail: None, client_of: Callable[[str], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = lines(client_of("ops"), "")
    monkeypatch.setattr(people, "EXPORTED_AT_ONCE", 2)
    assert lines(client_of("ops"), "") == whole
    assert len(whole) >= 4


def test_details_are_said_in_words(trail: None, client_of: Callable[[str], Client]) -> None:
    page = client_of("ops").get("/audit/?in=support&action=model.").text
    assert "<b>kind</b> first" in page
    assert "<b>agents</b> 1, 2" in page
    assert "<b>all</b> yes" in page
    assert "previous" not in page
    assert "0123456789ab…" in client_of("ops").get("/audit/?action=snapshot.taken").text


def test_a_day_that_is_none_is_told_and_not_exported(trail: None, client_of: Callable[[str], Client]) -> None:
    answer = client_of("ops").get("/audit/?from=yesterday&format=jsonl")
    assert "is not a date" in answer.text
