"""Snapshots: equal data gives the equal snapshot, what is in one never changes, and erasing leaves the hashes."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents_app.models import Agent, Pool
from datasets_app.labels import erased_queries, labels, snapshots
from datasets_app.models import ImportProblem, Label, Query, Snapshot, SnapshotContent
from routerweb import hooks
from routerweb.erasing import ErasedQuery
from training_app.engine.data.examples import Example

pytestmark = pytest.mark.both_databases

ALL = [0, 1, 2, 3]


@pytest.fixture
def three(add_query: Callable[..., Query]) -> list[Query]:
    made = [add_query("one", "train"), add_query("two", "val"), add_query("three", "test")]
    labels.record_many([labels.NewLabel(query.pk, "import", [n], ALL) for n, query in enumerate(made)])
    return made


def taken(snapshot: Snapshot) -> dict[str, Example]:
    return {example.text: example for example in snapshots.examples(snapshot)}


def test_a_snapshot_holds_rows_splits_and_roster(pool: Pool, three: list[Query], person: Callable[..., User]) -> None:
    ana = person("ana", "ops")
    snapshot = snapshots.take(pool, author=ana, note="before the launch")
    assert (snapshot.number, snapshot.rows, snapshot.author, snapshot.note) == (1, 3, ana, "before the launch")
    assert snapshot.split_sizes == {"train": 1, "val": 1, "test": 1}
    assert list(snapshots.examples(snapshot)) == [
        Example(f"q{query.pk}", text, frozenset([n]), None, split)
        for n, (query, text, split) in enumerate(
            zip(three, ("one", "two", "three"), ("train", "val", "test"), strict=True)
        )
    ]
    assert [agent.name for agent in snapshots.agents(snapshot)] == ["Billing", "Account", "Technical", "Shipping"]
    assert snapshots.verify(snapshot)


def test_unchanged_data_gives_the_same_snapshot(pool: Pool, three: list[Query]) -> None:
    first = snapshots.take(pool)
    assert snapshots.take(pool, note="again") == first
    assert Snapshot.objects.count() == 1


def change_label(three: list[Query]) -> None:
    labels.record(labels.NewLabel(three[0].pk, source="adjudication", required=[3], asked=ALL))


def change_split(three: list[Query]) -> None:
    three[0].group.split = "test"
    three[0].group.save()


def change_text(three: list[Query]) -> None:
    Query.objects.filter(pk=three[0].pk).update(text="One!")


def change_agent(three: list[Query]) -> None:
    Agent.objects.filter(number=1).update(description="log-in and passwords")


def change_asked(three: list[Query]) -> None:
    labels.record(labels.NewLabel(three[0].pk, source="adjudication", required=[], asked=[0]))


def delete_one(three: list[Query]) -> None:
    Query.objects.filter(pk=three[0].pk).update(deleted_at=timezone.now())


@pytest.mark.parametrize("change", [change_label, change_split, change_text, change_agent, change_asked, delete_one])
def test_every_change_gives_another_and_leaves_the_first_as_it_was(
    pool: Pool, three: list[Query], change: Callable[[list[Query]], None]
) -> None:
    first = snapshots.take(pool)
    before = list(snapshots.rows(first))
    change(three)
    second = snapshots.take(pool)
    assert second.number == 2
    assert second.digest != first.digest
    first.refresh_from_db()
    assert list(snapshots.rows(first)) == before
    assert snapshots.verify(first)


def test_the_digest_is_of_the_data_alone(pool: Pool, three: list[Query]) -> None:
    first = snapshots.take(pool)
    digest = first.digest
    Snapshot.objects.all().delete()
    Query.objects.update(updated_at=timezone.now())
    assert snapshots.take(pool).digest == digest


def test_verify_notices_a_changed_row(pool: Pool, three: list[Query]) -> None:
    import gzip

    snapshot = snapshots.take(pool)
    stored = SnapshotContent.objects.get()
    altered = gzip.decompress(bytes(stored.rows_gzip)).replace(b'"text":"one"', b'"text":"eno"')
    SnapshotContent.objects.update(rows_gzip=gzip.compress(altered))
    assert not snapshots.verify(snapshot)


def test_partly_asked_rows_keep_who_was_asked(pool: Pool, add_query: Callable[..., Query]) -> None:
    labels.record(labels.NewLabel(add_query("partly").pk, source="import", required=[1], asked=[0, 1]))
    assert taken(snapshots.take(pool))["partly"].asked == {0, 1}


def test_rows_without_a_split_get_one(pool: Pool, query: Query) -> None:
    labels.record(labels.NewLabel(query.pk, source="import", required=[1], asked=ALL))
    snapshot = snapshots.take(pool)
    query.group.refresh_from_db()
    assert query.group.split in ("train", "val", "test")
    assert snapshot.split_sizes[query.group.split] == 1


def test_retired_agents_are_left_out(pool: Pool, add_query: Callable[..., Query]) -> None:
    labels.record(labels.NewLabel(add_query("both").pk, source="import", required=[0, 3], asked=ALL))
    labels.record(labels.NewLabel(add_query("only the retired one").pk, source="import", required=[3], asked=[3]))
    Agent.objects.filter(number=3).update(state="retired")
    snapshot = snapshots.take(pool)
    assert [agent.id for agent in snapshots.agents(snapshot)] == [0, 1, 2]
    found = taken(snapshot)
    assert set(found) == {"both"}
    assert (found["both"].required, found["both"].asked) == ({0}, None)


def test_llm_labels_count_where_they_are_let_and_nobody_else_has_labeled(
    pool: Pool, add_query: Callable[..., Query]
) -> None:
    for text, split in (("loose", ""), ("trained", "train"), ("judged", "test")):
        labels.record(labels.NewLabel(add_query(text, split).pk, source="llm", required=[0], asked=ALL))
    partly = add_query("partly", "train")
    labels.record(labels.NewLabel(partly.pk, source="import", required=[1], asked=[1]))
    labels.record(labels.NewLabel(partly.pk, source="llm", required=[0], asked=ALL))
    assert set(taken(snapshots.take(pool, include_llm=False))) == {"partly"}
    found = taken(snapshots.take(pool, include_llm=True))
    assert {text: example.split for text, example in found.items()} == {
        "loose": "train",
        "trained": "train",
        "judged": "test",
        "partly": "train",
    }
    assert (found["partly"].required, found["partly"].asked) == ({0, 1}, None)
    assert Query.objects.get(text="loose").group.split == "train", "a split that was used is for ever"


def test_nothing_to_copy_is_said(pool: Pool, query: Query) -> None:
    with pytest.raises(snapshots.SnapshotError, match="no gold labels yet"):
        snapshots.take(pool)
    assert not Snapshot.objects.exists()


def test_numbers_count_within_a_pool(pool: Pool, three: list[Query]) -> None:
    snapshots.take(pool)
    change_label(three)
    assert str(snapshots.take(pool)) == "support-s2"


def test_erasing_takes_the_text_everywhere_and_leaves_counts_and_hashes(
    pool: Pool, three: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = snapshots.take(pool)
    digest, hashes = first.digest, [row["sha256"] for row in snapshots.rows(first)]
    Query.objects.filter(pk=three[1].pk).update(external_id="ana@example.com", extra={"mail": "x"})
    upload = three[1].dataset.imports.create(file_name="x", format="csv")
    ImportProblem.objects.create(upload=upload, line=1, reason="r", excerpt="two")
    labels.record(labels.NewLabel(three[1].pk, source="llm", required=[0], asked=ALL, reason="mentions her name"))
    told: list[Any] = []
    monkeypatch.setattr(hooks.query_erased, "_implementations", [])
    hooks.query_erased.register(told.append)

    erased_queries.erase(three[1])
    erased_queries.erase(three[1])

    assert told == [ErasedQuery(three[1].pk, pool.pk, "two")]
    row = three[1]
    row.refresh_from_db()
    assert (row.text, row.external_id, row.extra) == ("", "", {})
    assert row.erased_at is not None
    assert row.deleted_at is not None
    assert Label.objects.filter(query=row).count() == 2
    assert not Label.objects.exclude(reason="").exists()
    assert ImportProblem.objects.get().excerpt == ""
    first.refresh_from_db()
    assert (first.digest, first.rows) == (digest, 3)
    assert [row["sha256"] for row in snapshots.rows(first)] == hashes
    assert snapshots.verify(first)
    assert set(taken(first)) == {"one", "three"}
    assert b"two" not in b"".join(snapshots.jsonl(first))


def test_the_database_holds_numbers_and_digests_apart(pool: Pool) -> None:
    values: dict[str, Any] = {"pool": pool, "roster": [], "rows": 1, "split_sizes": {}}
    Snapshot.objects.create(number=1, digest="a" * 64, **values)
    for number, digest in ((1, "b" * 64), (2, "a" * 64)):
        with pytest.raises(IntegrityError), transaction.atomic():
            Snapshot.objects.create(number=number, digest=digest, **values)


def test_texts_without_labels_are_those_of_a_moment(
    pool: Pool, three: list[Query], add_query: Callable[..., Query]
) -> None:
    """Never those of validation and test, nor what came later or has gone."""
    add_query("four", "train")
    add_query("five", "")
    add_query("six", "val")
    gone = add_query("seven", "")
    gone.deleted_at = timezone.now()
    gone.save()
    moment = timezone.now()
    add_query("eight", "")
    assert sorted(snapshots.unlabeled(pool, moment, 10)) == ["five", "four"]
    assert snapshots.unlabeled(pool, moment, 1) == ["five"]
