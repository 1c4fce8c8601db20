"""Importing: what goes in, every kind of bad row, and what a second reading changes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.utils import timezone

from agents_app.models import Agent, Pool
from datasets_app.files import imports, storing, undoing
from datasets_app.labeling import adjudication, queue, sending
from datasets_app.labels import erased_queries, labels
from datasets_app.models import Dataset, Gold, Import, Label, Query, QueueItem, SplitGroup
from datasets_app.queries import adding
from tests.datasets_app.files.reading import ALL, counts, jsonl, read
from training_app.engine.data.file_rows import MAX_TEXT

pytestmark = pytest.mark.both_databases


def stored() -> dict[str, list[Any]]:
    """All that an import could change."""
    return {
        "queries": list(Query.objects.values_list("pk", "text", "external_id", "state", "extra", "updated_at")),
        "labels": list(Label.objects.values_list("pk", "required", "asked", "superseded_at")),
        "gold": list(Gold.objects.values_list("pk", "required", "asked", "composed_at")),
        "groups": list(SplitGroup.objects.values_list("pk", "split")),
    }


def test_labeled_unlabeled_and_none_are_three_things(dataset: Dataset) -> None:
    upload = read(
        dataset,
        jsonl(
            {"id": "a", "text": "refund and login", "required_agents": [0, "account"]},
            {"id": 7, "text": "nothing for us", "required_agents": []},
            {"text": "not labeled yet"},
            {"text": "null is not labeled either", "required_agents": None},
        ),
    )
    assert counts(upload) == (4, 4, 2, 0, 0)
    assert upload.status == "done"
    assert upload.finished_at is not None
    assert list(Query.objects.values_list("external_id", "state")) == [
        ("a", "gold"),
        ("7", "gold"),
        ("", "unlabeled"),
        ("", "unlabeled"),
    ]
    assert list(Label.objects.values_list("required", "asked")) == [([0, 1], ALL), ([], ALL)]
    assert list(Gold.objects.values_list("required", flat=True)) == [[0, 1], []]


def test_asked_agents_are_those_of_the_row_or_all_that_are_active_now(dataset: Dataset) -> None:
    Agent.objects.filter(number=3).update(state="retired")
    read(
        dataset,
        jsonl(
            {"text": "one", "required_agents": [0], "asked_agents": [0, 2]},
            {"text": "two", "required_agents": [0]},
            {"text": "three", "required_agents": [3]},
        ),
    )
    assert list(Label.objects.values_list("asked", flat=True)) == [[0, 2], [0, 1, 2], ALL]


def test_the_label_says_where_it_came_from(dataset: Dataset, person: Callable[..., User]) -> None:
    ana = person("ana", "reviewer")
    upload = read(dataset, jsonl({"text": "x"}, {"text": "y", "required_agents": [0]}), author=ana)
    label = Label.objects.get()
    assert label.provenance == {"import": upload.pk, "line": 2}
    assert (label.source, label.author) == ("import", ana)


BAD_ROWS: list[tuple[str, bytes, str, str]] = [
    ("unknown agent", jsonl({"text": "x", "required_agents": [9]}), "required_agents", "unknown agent 9"),
    ("unknown name", jsonl({"text": "x", "required_agents": ["Sales"]}), "required_agents", "unknown agent Sales"),
    ("unknown asked", jsonl({"text": "x", "asked_agents": [9]}), "asked_agents", "unknown agent 9"),
    ("empty text", jsonl({"text": "  "}), "text", "the text is empty"),
    ("no text", jsonl({"id": 1}), "text", "the text is missing"),
    ("too long", jsonl({"text": "x" * (MAX_TEXT + 1)}), "text", "at most"),
    ("not UTF-8", b'{"text": "caf\xe9"}\n', "", "not UTF-8"),
    ("not JSON", b"{text}\n", "", "not JSON"),
    ("not an object", b"[1]\n", "", "must be a JSON object"),
    (
        "required, not asked",
        jsonl({"text": "x", "required_agents": [1], "asked_agents": [0]}),
        "required_agents",
        "not among",
    ),
    ("no list", jsonl({"text": "x", "required_agents": 3}), "required_agents", "must be a list"),
    ("no split", jsonl({"text": "x", "split": "dev2"}), "split", "train, val, test"),
    ("no id", jsonl({"text": "x", "id": [1]}), "id", "must be"),
]


@pytest.mark.parametrize(("bad", "field", "reason"), [c[1:] for c in BAD_ROWS], ids=[c[0] for c in BAD_ROWS])
def test_a_bad_row_is_reported_and_the_good_ones_go_in(dataset: Dataset, bad: bytes, field: str, reason: str) -> None:
    upload = read(dataset, jsonl({"text": "before", "required_agents": [0]}, bad, {"text": "after"}))
    assert counts(upload) == (3, 2, 1, 0, 1)
    problem = upload.problems.get()
    assert (problem.line, problem.field, problem.rejected) == (2, field, True)
    assert reason in problem.reason
    assert list(Query.objects.values_list("text", flat=True)) == ["before", "after"]


def test_a_duplicate_with_another_label_names_the_line_that_was_kept(dataset: Dataset) -> None:
    upload = read(
        dataset,
        jsonl(
            {"text": "Where is my parcel?", "required_agents": [3]},
            {"text": "where is  my PARCEL?", "required_agents": [3]},
            {"text": "where is my parcel?", "required_agents": []},
        ),
    )
    assert counts(upload) == (3, 1, 1, 1, 1)
    problem = upload.problems.get()
    assert problem.line == 3
    assert problem.reason == ("duplicate with another label: line 1 of this file says “Shipping”, which was kept")
    assert Query.objects.get().text == "Where is my parcel?"


def test_duplicates_are_also_found_across_batches(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "BATCH_ROWS", 1)
    row = {"text": "x", "required_agents": [1]}
    upload = read(dataset, jsonl(row, {"text": "y"}, row, row | {"required_agents": [2]}))
    assert counts(upload) == (4, 2, 1, 1, 1)
    assert "line 1 of this file says “Account”" in upload.problems.get().reason


def test_a_conflict_with_an_earlier_import_leaves_the_stored_label(dataset: Dataset) -> None:
    first = read(dataset, jsonl({"text": "x", "required_agents": [1]}))
    second = read(dataset, jsonl({"text": "x", "required_agents": []}))
    assert counts(second) == (1, 0, 0, 0, 1)
    assert second.problems.get().reason == (
        f"duplicate with another label: an earlier import ({first.pk}, line 1) says “Account”, and that label stays"
    )
    assert Label.objects.get().required == [1]


def test_other_asked_agents_are_a_conflict_only_where_the_row_names_them(dataset: Dataset, pool: Pool) -> None:
    read(dataset, jsonl({"text": "x", "required_agents": [1]}))
    Agent.objects.create(pool=pool, number=4, code="SA", key="sales", name="Sales")
    assert counts(read(dataset, jsonl({"text": "x", "required_agents": [1]}))) == (1, 0, 0, 1, 0)
    upload = read(dataset, jsonl({"text": "x", "required_agents": [1], "asked_agents": [1]}))
    assert "other asked_agents" in upload.problems.get().reason
    assert Label.objects.get().asked == ALL


def test_a_label_for_a_query_that_had_none_is_added(dataset: Dataset) -> None:
    read(dataset, jsonl({"text": "x"}))
    upload = read(dataset, jsonl({"text": "x", "required_agents": [1]}))
    assert counts(upload) == (1, 0, 1, 0, 0)
    assert Query.objects.get().state == "gold"


def test_an_unlabeled_row_takes_no_label_away(dataset: Dataset) -> None:
    read(dataset, jsonl({"text": "x", "required_agents": [1]}))
    assert counts(read(dataset, jsonl({"text": "x"}))) == (1, 0, 0, 1, 0)
    assert Gold.objects.get().required == [1]


def test_people_are_not_overruled_by_an_import(dataset: Dataset, query: Query, person: Callable[..., User]) -> None:
    labels.record(labels.NewLabel(query.pk, source="human", author=person("ana"), required=[2], asked=ALL))
    read(dataset, jsonl({"text": query.text, "required_agents": [0]}))
    assert Gold.objects.get(query=query).required == [2]


def test_what_an_import_says_against_the_llm_is_asked_first_where_the_queue_asks_that_first(
    dataset: Dataset, add_query: Callable[..., Query]
) -> None:
    settings = queue.stored_settings(dataset.pool)
    settings.order = settings.Order.DISAGREEMENT
    settings.save()
    said = [add_query(f"query {n}") for n in range(6)]
    labels.record(labels.NewLabel(said[3].pk, source="llm", required=[2], asked=ALL))
    queue.fill(dataset.pool)
    read(dataset, jsonl(*({"text": f"query {n}", "required_agents": [0]} for n in range(6))))
    sending.send(Query.objects.all(), dataset.pool)
    first = QueueItem.objects.order_by("rank").first()
    assert first is not None
    assert (first.query_id, first.llm_disagreement) == (said[3].pk, 1.0)


def test_what_was_said_before_the_queue_knew_of_a_query_counts_too(dataset: Dataset) -> None:
    read(dataset, jsonl({"text": "query", "required_agents": [0]}))
    labels.record(labels.NewLabel(Query.objects.get().pk, source="llm", required=[2], asked=ALL))
    queue.fill(dataset.pool)
    assert QueueItem.objects.get().llm_disagreement == 1.0


def test_other_keys_of_the_row_are_kept(dataset: Dataset) -> None:
    read(dataset, jsonl({"text": "x", "trajectory": [{"agent": 1}], "note": "é"}))
    assert Query.objects.get().extra == {"trajectory": [{"agent": 1}], "note": "é"}


def test_the_splits_of_a_file_win_over_none_and_are_kept_for_ever(dataset: Dataset) -> None:
    read(dataset, jsonl({"text": "Hello!"}))
    assert SplitGroup.objects.get().split == ""
    read(dataset, jsonl({"text": "Hello!", "split": "val"}))
    assert SplitGroup.objects.get().split == "val"
    upload = read(dataset, jsonl({"text": "hello", "required_agents": [1], "split": "test"}))
    assert counts(upload) == (1, 1, 1, 0, 0)
    problem = upload.problems.get()
    assert (problem.field, problem.rejected) == ("split", False)
    assert "already in the split “val” and stays there" in problem.reason
    assert SplitGroup.objects.get().split == "val"


def test_a_row_names_its_split_before_the_file_does(dataset: Dataset) -> None:
    read(dataset, jsonl({"text": "one"}, {"text": "two", "split": "validation"}), split="test")
    assert list(Query.objects.values_list("text", "group__split")) == [("one", "test"), ("two", "val")]


def test_deleted_and_erased_queries_do_not_come_back(dataset: Dataset, add_query: Callable[..., Query]) -> None:
    deleted, erased = add_query("delete me"), add_query("erase me")
    Query.objects.filter(pk=deleted.pk).update(deleted_at=timezone.now())
    erased_queries.erase(erased)
    upload = read(dataset, jsonl({"text": "delete me", "required_agents": [0]}, {"text": "erase me"}))
    assert counts(upload) == (2, 0, 0, 0, 2)
    first, second = upload.problems.all()
    assert "restore it on the Queries page" in first.reason
    assert "erased permanently" in second.reason


def test_a_pool_without_agents_takes_texts_and_reports_the_labels(db: None) -> None:
    dataset = Dataset.objects.create(pool=Pool.objects.create(slug="empty", name="Empty"), name="x")
    upload = read(dataset, jsonl({"text": "x", "required_agents": []}, {"text": "y"}))
    assert counts(upload) == (2, 2, 0, 0, 0)
    assert "no active agent" in upload.problems.get().reason


@pytest.mark.parametrize("format", ["jsonl", "csv", "txt"])
def test_the_same_file_again_changes_nothing(dataset: Dataset, format: str) -> None:
    content = {
        "jsonl": jsonl(*({"text": f"row {n}", "required_agents": [n % 4], "split": "train"} for n in range(30))),
        "csv": b"text,required_agents\r\n" + b"".join(b"row %d,%d\r\n" % (n, n % 4) for n in range(30)),
        "txt": b"".join(b"row %d\n" % n for n in range(30)),
    }[format]
    read(dataset, content, format)
    before = stored()
    assert len(before["queries"]) == 30
    assert counts(read(dataset, content, format)) == (30, 0, 0, 30, 0)
    assert stored() == before


@pytest.mark.parametrize(
    ("name", "head", "format"),
    [
        ("a.jsonl", b"", "jsonl"),
        ("a.NDJSON", b"", "jsonl"),
        ("a.csv", b"", "csv"),
        ("a.tsv", b"", "csv"),
        ("a.txt", b"{", "txt"),
        ("a.txt", b'\n{"text": "x"}\n', "jsonl"),
        ("a.txt", b'{"id": 1, "text": "' + b"x" * 4_000, "jsonl"),
        ("a.txt", b'{"note": 1}\n', "txt"),
        ("a", b'\xef\xbb\xbf {"text": 1}', "jsonl"),
        ("a", b"id;Text\n1;x", "csv"),
        ("a", b"text\nx", "txt"),
        ("a", b"hello, world", "txt"),
    ],
)
def test_the_format_is_guessed(name: str, head: bytes, format: str) -> None:
    assert imports.guess_format(name, head) == format


def test_an_unknown_format_is_refused_before_anything_is_stored(dataset: Dataset) -> None:
    with pytest.raises(ValueError, match="one of jsonl, csv, txt"):
        read(dataset, b"", "xlsx")
    assert not Import.objects.exists()


def test_a_folder_gives_each_file_its_split(pool: Pool, tmp_path: Path) -> None:
    for name in ("train", "val", "unassigned"):
        (tmp_path / f"{name}.jsonl").write_bytes(jsonl({"text": f"a query of {name}"}, {"text": "in all of them"}))
    done = imports.load_folder(pool, tmp_path)
    assert [upload.file_name for upload in done] == ["train.jsonl", "val.jsonl", "unassigned.jsonl"]
    assert dict(Query.objects.values_list("text", "group__split")) == {
        "a query of train": "train",
        "in all of them": "train",
        "a query of val": "val",
        "a query of unassigned": "",
    }
    assert [upload.problems.count() for upload in done] == [0, 1, 0]
    assert Dataset.objects.get().name == "Queries"
    with pytest.raises(imports.UnreadableFile, match=r"holds no train\.jsonl"):
        imports.load_folder(pool, tmp_path / "nothing")


@pytest.mark.parametrize("count", [5, 60])
def test_a_batch_takes_the_same_number_of_database_queries(
    dataset: Dataset, django_assert_num_queries: Any, count: int
) -> None:
    content = jsonl(*({"text": f"row {n}", "required_agents": [1], "split": "val"} for n in range(count)))
    read(dataset, content)
    room = 6 if connection.vendor == "sqlite" else 0  # SQLite is given memory, and its own settings back
    with django_assert_num_queries(23 + room):
        read(dataset, content)


def test_adding_queries_finds_those_that_are_there(dataset: Dataset) -> None:
    first, new = adding.find_or_add(dataset, [adding.NewQuery("One"), adding.NewQuery("one ")], "test")
    assert first[0] == first[1]
    assert new == {first[0].pk}
    second, new = adding.find_or_add(dataset, [adding.NewQuery("ONE", split="val"), adding.NewQuery("two")], "test")
    assert second[0].pk == first[0].pk
    assert new == {second[1].pk}
    assert second[0].split == "val"
    assert Query.objects.get(pk=first[0].pk).group.split == "val"


def test_the_first_split_that_a_file_names_for_a_group_is_taken(dataset: Dataset) -> None:
    upload = read(dataset, jsonl({"text": "Hello"}, {"text": "hello!", "split": "val"}, {"text": "hello?"}))
    assert SplitGroup.objects.get().split == "val"
    assert upload.problems.count() == 0


def in_the_queue() -> list[Any]:
    """How every query stands, and whether people are asked about it."""
    columns = ("query__text", "query__state", "wanted", "decided", "needed", "extra", "taken")
    return list(QueueItem.objects.order_by("query").values_list(*columns))


def test_labels_for_queries_that_wait_spare_labelers_the_question(dataset: Dataset, pool: Pool, ana: User) -> None:
    waiting = read(dataset, jsonl({"text": "one"}, {"text": "two"}, {"text": "three"}, {"text": "four"}))
    queue.fill(pool)
    held = queue.take(pool, ana)[0].item.query.text
    before = in_the_queue()
    brought = [{"text": text, "required_agents": [0]} for text in ("one", "two", "three")]
    upload = read(dataset, jsonl(*brought, {"text": "four", "suggested_agents": [1]}))
    assert (waiting.queries_added, upload.labels_added) == (4, 3)
    spared = {"one", "two", "three"} - {held}
    assert queue.still_open(pool) == len({"one", "two", "three", "four"} - spared - {held}), (
        "suggestions decide nothing"
    )
    assert {item.query.text for item in QueueItem.objects.filter(decided=True)} == spared
    queue.fill(pool, everything=True)
    assert QueueItem.objects.filter(decided=True).count() == len(spared)
    undoing.undo(upload, None)
    assert in_the_queue() == before


def test_an_import_taken_back_leaves_closed_what_a_reviewer_decided_since(
    dataset: Dataset, pool: Pool, rita: User
) -> None:
    read(dataset, jsonl({"text": "one"}))
    queue.fill(pool)
    before = in_the_queue()
    upload = read(dataset, jsonl({"text": "one", "required_agents": [0]}))
    ruling = adjudication.Ruling(required=frozenset({1}), took="edit", reason="mistake")
    decision = adjudication.decide(pool, Query.objects.get(), ruling, author=rita)
    undoing.undo(upload, None)
    assert queue.still_open(pool) == 0
    adjudication.take_back(decision, rita)
    assert in_the_queue() == before
