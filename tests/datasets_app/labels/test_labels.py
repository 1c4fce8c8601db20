"""Labels: superseding, undoing, what is refused, and what the database itself holds."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from datasets_app.labels import labels
from datasets_app.models import Gold, Label, Query

ALL = [0, 1, 2, 3]


def test_a_label_is_stored_sorted_with_all_that_was_said(query: Query, person: Callable[..., User]) -> None:
    label = labels.record(
        labels.NewLabel(
            query.pk,
            source="human",
            author=person("ana"),
            required={3, 0},
            asked=[3, 2, 1, 0],
            scores={2: 0.25, 0: 1},
            reason="two needs",
            provenance={"kept": [0]},
        )
    )
    label.refresh_from_db()
    assert (label.required, label.asked, label.scores) == ([0, 3], ALL, {"0": 1.0, "2": 0.25})
    assert (label.reason, label.provenance, label.superseded_at) == ("two needs", {"kept": [0]}, None)


def test_a_later_label_supersedes_and_keeps_the_earlier(query: Query, person: Callable[..., User]) -> None:
    ana, ben = person("ana"), person("ben")
    first = labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0], asked=ALL))
    other = labels.record(labels.NewLabel(query.pk, source="human", author=ben, required=[0], asked=ALL))
    second = labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[1], asked=ALL))
    first.refresh_from_db()
    assert first.required == [0]
    assert first.superseded_by == second
    assert first.superseded_at is not None
    assert set(Label.objects.current()) == {other, second}
    query.refresh_from_db()
    assert query.state == "disagreement"


def test_sources_do_not_supersede_each_other(query: Query, person: Callable[..., User]) -> None:
    for source in ("import", "llm", "adjudication"):
        labels.record(labels.NewLabel(query.pk, source=source, required=[0], asked=ALL))
    labels.record(labels.NewLabel(query.pk, source="human", author=person("ana"), required=[0], asked=ALL))
    assert Label.objects.current().count() == 4
    labels.record(labels.NewLabel(query.pk, source="llm", required=[1], asked=ALL))
    assert Label.objects.current().count() == 4
    assert Label.objects.count() == 5


def test_a_partial_label_stands_beside_what_was_said(query: Query, person: Callable[..., User]) -> None:
    ana = person("ana")
    whole = labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0, 1], asked=[0, 1, 2]))
    label = labels.record(
        labels.NewLabel(query.pk, source="human", author=ana, required=[3], asked=[1, 3], partial=True)
    )
    assert (label.required, label.asked) == ([3], [1, 3])
    assert list(Label.objects.current()) == [whole, label]
    gold = Gold.objects.get(query=query)
    assert (gold.required, gold.asked) == ([0, 3], ALL), "for each agent the latest speaks"
    again = labels.record(
        labels.NewLabel(query.pk, source="human", author=ana, required=[1], asked=[1, 3], partial=True)
    )
    assert list(Label.objects.current()) == [whole, again], "what it repeats it supersedes"
    last = labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[], asked=[2]))
    assert list(Label.objects.current()) == [last], "a whole one supersedes everything"


def test_withdrawing_restores_what_was_superseded(query: Query, person: Callable[..., User]) -> None:
    ana = person("ana")
    first = labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[0], asked=ALL))
    second = labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[1], asked=ALL))
    assert labels.withdraw(second, ana) == first
    second.refresh_from_db()
    assert list(Label.objects.current()) == [first]
    assert Gold.objects.get(query=query).required == [0]
    assert second.superseded_at is not None
    assert second.superseded_by is None
    assert second.provenance == {"withdrawn_by": "ana", "restored": first.pk}
    with pytest.raises(labels.LabelError, match="already withdrawn"):
        labels.withdraw(second, ana)


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"required": [9]}, "required", "Agent 9 is not in this pool"),
        ({"asked": [0, 9]}, "asked", "Agent 9 is not in this pool"),
        ({"required": [1], "asked": [0]}, "required", "Agent 1 is required but not among the agents"),
        ({"required": [], "asked": []}, "asked", "at least one agent"),
        ({"source": "oracle"}, "source", "not a source"),
        ({"source": "human"}, "author", "needs its author"),
        ({"reason": "x" * 201}, "reason", "longer than 200"),
    ],
)
def test_what_is_refused(query: Query, change: dict[str, Any], field: str, message: str) -> None:
    said: dict[str, Any] = {"source": "import", "required": [0], "asked": ALL}
    with pytest.raises(labels.LabelError, match=message) as caught:
        labels.record(labels.NewLabel(query.pk, **(said | change)))
    assert caught.value.field == field
    assert not Label.objects.exists()


def test_two_labels_of_one_slot_need_two_calls(query: Query) -> None:
    one = labels.NewLabel(query.pk, "import", [0], ALL)
    with pytest.raises(labels.LabelError, match="Two labels"):
        labels.record_many([one, one])


def test_an_unknown_query_is_named(query: Query) -> None:
    with pytest.raises(labels.LabelError, match=f"query {query.pk + 1} does not exist"):
        labels.record_many([labels.NewLabel(query.pk + 1, "import", [0], ALL)])


@pytest.mark.parametrize("count", [2, 40])
def test_recording_many_takes_the_same_number_of_database_queries(
    add_query: Callable[..., Query], django_assert_num_queries: Any, count: int
) -> None:
    keys = [add_query(f"query number {n}").pk for n in range(count)]
    labels.record_many([labels.NewLabel(key, "llm", [0], ALL) for key in keys])
    with django_assert_num_queries(10):
        made = labels.record_many([labels.NewLabel(key, "llm", [1], ALL) for key in keys])
    assert [label.query_id for label in made] == keys


def rows(**change: Any) -> dict[str, Any]:
    return {"source": "import", "required": [], "asked": [0]} | change


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (None, rows(source="oracle")),
        (None, rows(source="human")),
        (rows(), rows()),
        (rows(source="llm"), rows(source="llm")),
        (rows(source="adjudication"), rows(source="adjudication")),
    ],
    ids=["unknown source", "human without author", "two imports", "two LLM labels", "two adjudications"],
)
def test_the_database_refuses(query: Query, first: dict[str, Any] | None, second: dict[str, Any]) -> None:
    if first is not None:
        Label.objects.create(query=query, **first)
    with pytest.raises(IntegrityError), transaction.atomic():
        Label.objects.create(query=query, **second)


def test_the_database_refuses_two_current_labels_of_one_person(query: Query, person: Callable[..., User]) -> None:
    ana, ben = person("ana"), person("ben")
    Label.objects.create(query=query, author=ana, **rows(source="human"))
    Label.objects.create(query=query, author=ben, **rows(source="human"))
    with pytest.raises(IntegrityError), transaction.atomic():
        Label.objects.create(query=query, author=ana, **rows(source="human"))
