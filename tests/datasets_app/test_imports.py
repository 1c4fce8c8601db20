"""Importing: what goes in, every kind of bad row, and what an interruption or a second reading changes."""

import io
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents_app.models import Agent, Pool
from datasets_app import imports, labels, queries, snapshots
from datasets_app.models import Dataset, Gold, Import, ImportChunk, ImportProblem, Label, Query, SplitGroup
from training_app.engine.files import MAX_TEXT

ALL = [0, 1, 2, 3]


def jsonl(*rows: Any) -> bytes:
    return b"".join(row if isinstance(row, bytes) else json.dumps(row).encode() + b"\n" for row in rows)


def read(dataset: Dataset, content: bytes, format: str = "jsonl", **options: Any) -> Import:
    return imports.read_file(dataset, io.BytesIO(content), format, **options)


def counts(upload: Import) -> tuple[int, int, int, int, int]:
    return (upload.rows_read, upload.queries_added, upload.labels_added, upload.unchanged, upload.rejected)


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
    monkeypatch.setattr(imports, "BATCH_ROWS", 1)
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
    Agent.objects.create(pool=pool, number=4, code="SA", name="Sales")
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
    labels.record(query, source="human", author=person("ana"), required=[2], asked=ALL)
    read(dataset, jsonl({"text": query.text, "required_agents": [0]}))
    assert Gold.objects.get(query=query).required == [2]


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
    assert "in the split “val” already, and stays" in problem.reason
    assert SplitGroup.objects.get().split == "val"


def test_a_row_names_its_split_before_the_file_does(dataset: Dataset) -> None:
    read(dataset, jsonl({"text": "one"}, {"text": "two", "split": "validation"}), split="test")
    assert list(Query.objects.values_list("text", "group__split")) == [("one", "test"), ("two", "val")]


def test_deleted_and_erased_queries_do_not_come_back(dataset: Dataset, add_query: Callable[..., Query]) -> None:
    deleted, erased = add_query("delete me"), add_query("erase me")
    Query.objects.filter(pk=deleted.pk).update(deleted_at=timezone.now())
    snapshots.erase(erased)
    upload = read(dataset, jsonl({"text": "delete me", "required_agents": [0]}, {"text": "erase me"}))
    assert counts(upload) == (2, 0, 0, 0, 2)
    first, second = upload.problems.all()
    assert "restore it on the Queries page" in first.reason
    assert "erased for good" in second.reason


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


class BreaksOff(io.BytesIO):
    """A file that cannot be read any further after some bytes."""

    def __init__(self, content: bytes, after: int) -> None:
        super().__init__(content)
        self.after = after

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() >= self.after:
            raise OSError("the disk is gone")
        return super().read(min(size or 0, 400))


def test_what_was_read_before_an_interruption_stays_and_the_rest_comes_with_the_next_reading(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "BATCH_ROWS", 10)
    content = jsonl(*({"text": f"row {n}", "required_agents": [n % 4]} for n in range(100)))
    with pytest.raises(OSError, match="the disk is gone"):
        imports.read_file(dataset, BreaksOff(content, len(content) // 2), "jsonl")
    broken = Import.objects.get()
    assert (broken.status, broken.error) == ("failed", "the disk is gone")
    half = Query.objects.count()
    assert 0 < half < 100
    assert half == broken.queries_added == broken.labels_added == Label.objects.count() == Gold.objects.count()
    again = read(dataset, content)
    assert counts(again) == (100, 100 - half, 100 - half, half, 0)
    assert Query.objects.count() == Gold.objects.count() == 100


def queued(dataset: Dataset, content: bytes, **options: Any) -> Import:
    upload = Import.objects.create(dataset=dataset, file_name="x.jsonl", format="jsonl", **options)
    ImportChunk.objects.create(upload=upload, position=0, content=content)
    return upload


def test_an_attempt_goes_on_behind_the_last_stored_row_and_counts_no_row_twice(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(imports, "BATCH_ROWS", 10)
    content = jsonl(*({"text": f"row {n}", "required_agents": [n % 5]} for n in range(50)))  # agent 4: unknown
    upload = queued(dataset, content)
    first = imports.claim(upload.pk)
    assert first is not None

    class Killed(BaseException):
        pass

    def stop(so_far: Import) -> None:
        if so_far.rows_read == 20:
            raise Killed

    with pytest.raises(Killed):
        imports.run(first, io.BytesIO(content), stop)
    Import.objects.update(status="queued", attempt=None)
    second = imports.claim(upload.pk)
    assert second is not None
    assert (second.last_line, second.attempts) == (20, 2)
    done = imports.run(second, io.BytesIO(content))
    assert counts(done) == (50, 40, 40, 0, 10)
    assert list(ImportProblem.objects.values_list("line", flat=True)) == list(range(5, 51, 5))


def test_only_one_process_claims_an_import(dataset: Dataset) -> None:
    upload = queued(dataset, b"")
    assert imports.claim(upload.pk) is not None
    assert imports.claim(upload.pk) is None


def test_an_attempt_that_was_taken_over_writes_nothing(dataset: Dataset) -> None:
    content = jsonl({"text": "x", "required_agents": [1]})
    first = imports.claim(queued(dataset, content).pk)
    assert first is not None
    Import.objects.update(status="queued", attempt=None)
    second = imports.claim(first.pk)
    assert second is not None
    ended = imports.run(first, io.BytesIO(content))
    assert not Query.objects.exists()
    assert (ended.status, ended.attempt) == ("running", second.attempt)
    assert imports.run(second, io.BytesIO(content)).status == "done"
    assert Query.objects.count() == 1


def test_cancelling_stops_after_the_present_batch(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "BATCH_ROWS", 10)
    content = jsonl(*({"text": f"row {n}"} for n in range(50)))
    upload = imports.claim(queued(dataset, content).pk)
    assert upload is not None
    ended = imports.run(upload, io.BytesIO(content), lambda so_far: imports.cancel(so_far) and None)
    assert (ended.status, ended.rows_read, Query.objects.count()) == ("cancelled", 10, 10)
    assert not ImportChunk.objects.exists()
    assert not imports.cancel(ended)


def test_a_queued_import_is_cancelled_at_once(dataset: Dataset) -> None:
    upload = queued(dataset, b"x")
    assert imports.cancel(upload)
    upload.refresh_from_db()
    assert upload.status == "cancelled"
    assert imports.claim(upload.pk) is None


def dead(dataset: Dataset, **options: Any) -> Import:
    upload = imports.claim(queued(dataset, b"", **options).pk)
    assert upload is not None
    Import.objects.filter(pk=upload.pk).update(heartbeat_at=timezone.now() - timedelta(hours=1))
    return upload


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(imports, "enqueue", lambda upload: found.append(upload.pk))
    return found


def test_a_dead_import_is_handed_to_another_worker(dataset: Dataset, handed_on: list[int]) -> None:
    upload = dead(dataset)
    assert imports.fail_dead_imports() == 1
    upload.refresh_from_db()
    assert (upload.status, handed_on) == ("queued", [upload.pk])
    assert imports.fail_dead_imports() == 0


def test_one_that_dies_again_and_again_is_failed(dataset: Dataset, handed_on: list[int]) -> None:
    upload = dead(dataset, attempts=imports.MAX_ATTEMPTS - 1)
    assert imports.fail_dead_imports() == 1
    upload.refresh_from_db()
    assert (upload.status, handed_on) == ("failed", [])
    assert "read the file again" in upload.error
    assert imports.retry(upload)
    assert handed_on == [upload.pk]


def test_one_whose_message_was_lost_is_handed_over_again(dataset: Dataset, handed_on: list[int]) -> None:
    upload = queued(dataset, b"")
    assert imports.enqueue_lost_imports() == 0
    Import.objects.update(created_at=timezone.now() - timedelta(minutes=2))
    assert imports.enqueue_lost_imports() == 1
    assert handed_on == [upload.pk]
    assert imports.enqueue_lost_imports() == 0, "it has another minute"
    assert imports.claim(upload.pk) is not None
    Import.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=2))
    assert imports.enqueue_lost_imports() == 0


def test_a_dead_command_is_failed_as_its_file_is_not_in_the_database(dataset: Dataset, handed_on: list[int]) -> None:
    upload = dead(dataset)
    ImportChunk.objects.all().delete()
    assert imports.fail_dead_imports() == 1
    upload.refresh_from_db()
    assert (upload.status, handed_on) == ("failed", [])
    assert not imports.retry(upload)


def test_a_dead_import_that_was_to_be_cancelled_is(dataset: Dataset, handed_on: list[int]) -> None:
    upload = dead(dataset, cancel_requested=True)
    assert imports.fail_dead_imports() == 1
    upload.refresh_from_db()
    assert (upload.status, handed_on) == ("cancelled", [])


def test_a_living_import_is_left_alone(dataset: Dataset) -> None:
    assert imports.claim(queued(dataset, b"").pk) is not None
    assert imports.fail_dead_imports() == 0


@pytest.mark.parametrize(
    ("name", "head", "format"),
    [
        ("a.jsonl", b"", "jsonl"),
        ("a.NDJSON", b"", "jsonl"),
        ("a.csv", b"", "csv"),
        ("a.tsv", b"", "csv"),
        ("a.txt", b"{", "txt"),
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
    with django_assert_num_queries(15):
        read(dataset, content)


def test_adding_queries_finds_those_that_are_there(dataset: Dataset) -> None:
    first, new = queries.find_or_add(dataset, [queries.NewQuery("One"), queries.NewQuery("one ")], "test")
    assert first[0] == first[1]
    assert new == {first[0].pk}
    second, new = queries.find_or_add(dataset, [queries.NewQuery("ONE", split="val"), queries.NewQuery("two")], "test")
    assert second[0] == first[0]
    assert new == {second[1].pk}
    assert second[0].group.split == "val"
    assert Query.objects.get(pk=first[0].pk).group.split == "val"


def test_the_first_split_that_a_file_names_for_a_group_is_taken(dataset: Dataset) -> None:
    upload = read(dataset, jsonl({"text": "Hello"}, {"text": "hello!", "split": "val"}, {"text": "hello?"}))
    assert SplitGroup.objects.get().split == "val"
    assert upload.problems.count() == 0
