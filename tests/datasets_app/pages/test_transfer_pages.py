"""The import, export and snapshot pages: who may open them, what they do, and how much they ask of the database."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agents_app.background_work import jobs
from agents_app.models import AuditEntry, Pool
from datasets_app import tasks
from datasets_app.files import imports, storing, uploads
from datasets_app.labels import labels
from datasets_app.models import Dataset, Import, ImportChunk, ImportProblem, Query, QueueItem, Snapshot

ALL = [0, 1, 2, 3]


@pytest.fixture
def queued_jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(jobs, "send", lambda kind, key: found.append((kind.name, key)))
    return found


def a_file(content: bytes, name: str = "tickets.jsonl") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


def an_import(dataset: Dataset, **values: Any) -> Import:
    return Import.objects.create(
        **({"dataset": dataset, "file_name": "x.jsonl", "format": "jsonl", "status": "done"} | values)
    )


ADDRESSES = ["import", "export", "export_download", "snapshots"]


@pytest.mark.parametrize("way", ["file", "pasted"])
def test_lines_of_json_are_not_imported_as_text(
    reviewer: Client, dataset: Dataset, queued_jobs: list[tuple[Any, ...]], way: str
) -> None:
    lines = '{"text": "where is it"}\n'
    given = {"file": a_file(lines.encode(), "tickets.txt")} if way == "file" else {"pasted": lines}
    asked = {"dataset": dataset.name, "format": "txt", **given}
    html = reviewer.post(reverse("import", args=["support"]), asked).content.decode()
    assert "Its lines are JSON objects" in html
    assert not Import.objects.exists()
    assert queued_jobs == []


@pytest.mark.parametrize("name", ADDRESSES)
@pytest.mark.parametrize(
    ("role", "status"), [("labeler", 403), ("reviewer", 200), ("ops", 200), ("admin", 200), (None, 302)]
)
def test_who_may_open_the_pages(
    client: Client, person: Callable[..., User], dataset: Dataset, name: str, role: str | None, status: int
) -> None:
    if role is not None:
        client.force_login(person("somebody", role))
    address = reverse(name, args=["support"]) + ("?format=csv" if name == "export_download" else "")
    assert client.get(address).status_code == status


@pytest.mark.parametrize("name", ["import_detail", "import_problems", "import_cancel", "import_retry"])
def test_who_may_see_and_change_an_import(
    client: Client, person: Callable[..., User], dataset: Dataset, name: str
) -> None:
    upload = an_import(dataset)
    method = client.post if name in ("import_cancel", "import_retry") else client.get
    assert method(reverse(name, args=["support", upload.pk])).status_code == 302
    client.force_login(person("lea", "labeler"))
    assert method(reverse(name, args=["support", upload.pk])).status_code == 403
    client.force_login(person("rita", "reviewer"))
    assert method(reverse(name, args=["support", upload.pk])).status_code == (302 if method == client.post else 200)
    Pool.objects.create(slug="other", name="Other")
    assert method(reverse(name, args=["other", upload.pk])).status_code == 404
    assert method(reverse(name, args=["nowhere", upload.pk])).status_code == 404


@pytest.mark.parametrize("name", ["import_cancel", "import_retry"])
def test_a_link_changes_nothing(reviewer: Client, dataset: Dataset, name: str) -> None:
    assert reviewer.get(reverse(name, args=["support", an_import(dataset).pk])).status_code == 405


def test_a_file_walks_from_the_form_to_the_report(
    reviewer: Client,
    dataset: Dataset,
    queued_jobs: list[Any],
    django_capture_on_commit_callbacks: Any,
) -> None:
    content = b'{"text": "refund", "required_agents": ["Billing"], "split": "test"}\n{"text": ""}\n'
    with django_capture_on_commit_callbacks(execute=True):
        answer = reviewer.post(
            reverse("import", args=["support"]),
            {"file": a_file(content), "dataset": "tickets", "format": "", "split": ""},
        )
    upload = Import.objects.get()
    assert answer.status_code == 302
    assert answer["Location"] == reverse("import_detail", args=["support", upload.pk])
    assert (upload.dataset, upload.format, upload.status, upload.bytes_total) == (
        dataset,
        "jsonl",
        "queued",
        len(content),
    )
    assert upload.author is not None
    assert upload.author.username == "rita"
    assert ImportChunk.objects.exists()
    assert queued_jobs == [("import", upload.pk)]
    assert AuditEntry.objects.filter(action="import.started", actor=upload.author).exists()

    page = reviewer.get(answer["Location"]).content.decode()
    assert 'hx-trigger="every' in page
    assert tasks.read_upload(upload.pk) == "done"
    assert tasks.read_upload(upload.pk) == "not queued"
    assert not ImportChunk.objects.exists()
    assert QueueItem.objects.count() == Query.objects.count() > 0, "no labeler waits for the queue to be filled"
    query = Query.objects.get()
    assert (query.text, query.group.split, query.gold.required) == ("refund", "test", [0])

    page = reviewer.get(answer["Location"]).content.decode()
    assert 'hx-trigger="every' not in page
    assert "the text is empty" in page
    rows = list(
        csv.DictReader(
            io.StringIO(
                reviewer.get(reverse("import_problems", args=["support", upload.pk])).getvalue().decode("utf-8-sig")  # type: ignore[attr-defined]
            )
        )
    )
    assert [(row["line"], row["field"], row["left out"]) for row in rows] == [("2", "text", "yes")]


def test_the_counts_of_rows_add_up(reviewer: Client, dataset: Dataset) -> None:
    before = [{"text": "refund"}, {"text": "lost parcel", "required_agents": ["Billing"]}]
    after = [
        *before, {"text": "refund", "required_agents": ["Billing"]}, {"text": "new", "required_agents": []}, {"text": ""},
    ]  # fmt: skip
    for rows in (before, after):
        content = "\n".join(map(json.dumps, rows)).encode()
        upload = imports.read_file(dataset, io.BytesIO(content), "jsonl")
    assert (upload.rows_read, upload.queries_added, upload.unchanged, upload.rejected) == (5, 1, 2, 1)
    page = reviewer.get(reverse("import_detail", args=["support", upload.pk])).content.decode()
    assert "<dt>Added to known queries</dt><dd>1</dd>" in page


def test_an_upload_is_read_across_its_pieces(dataset: Dataset) -> None:
    content = '{"text": "naïve 😀 refund"}\n{"text": "second"}\n'.encode()
    upload = an_import(dataset, status="queued")
    for position, begin in enumerate(range(0, len(content), 7)):
        ImportChunk.objects.create(upload=upload, position=position, content=content[begin : begin + 7])
    assert uploads.content(upload).read() == content
    assert tasks.read_upload(upload.pk) == "done"
    assert list(Query.objects.values_list("text", flat=True)) == ["naïve 😀 refund", "second"]


def test_the_live_part_alone_answers_htmx_and_reloads_the_page_at_the_end(reviewer: Client, dataset: Dataset) -> None:
    running = an_import(dataset, status="running", attempt="0" * 32, bytes_total=10, bytes_read=5)
    answer = reviewer.get(reverse("import_detail", args=["support", running.pk]), headers={"HX-Request": "true"})
    assert b"<html" not in answer.content
    assert b'value="5"' in answer.content
    assert "HX-Refresh" not in answer
    Import.objects.update(status="done")
    answer = reviewer.get(reverse("import_detail", args=["support", running.pk]), headers={"HX-Request": "true"})
    assert answer["HX-Refresh"] == "true"


def test_queries_without_labels_are_offered_to_an_llm_first(
    client: Client, person: Callable[..., User], dataset: Dataset, settings: Any
) -> None:
    settings.LLM_BASE_URL, settings.LLM_MODEL = "https://api.example/v1", ""
    upload = an_import(dataset, rows_read=3, queries_added=3)
    address, offer = reverse("import_detail", args=["support", upload.pk]), "Have an LLM label them"
    client.force_login(person("ada", "admin"))
    html = client.get(address).content.decode()
    assert f'rw-button-primary" href="{reverse("settings_llm")}?pool=support">{offer}' in html
    settings.LLM_MODEL = "gpt-5"
    html = client.get(address).content.decode()
    assert f'rw-button-primary" href="{reverse("prelabel", args=["support"])}">{offer}' in html
    assert "Label them by hand" in html
    settings.LLM_MODEL = ""
    client.force_login(person("rita", "reviewer"))
    html = client.get(address).content.decode()
    assert f'href="{reverse("prelabel", args=["support"])}">{offer}' in html, "only admins connect an LLM"
    assert "An admin connects one" in client.get(reverse("prelabel", args=["support"])).content.decode()
    Import.objects.update(labels_added=1)
    assert offer not in client.get(address).content.decode()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "Choose a file, or paste some lines."),
        ({"file": b""}, "The file is empty."),
        ({"file": b"x", "dataset": "  "}, "This field is required."),
        ({"file": b"x" * (2 << 20)}, "at most 1."),
    ],
)
def test_a_form_that_cannot_be_used_says_why(
    reviewer: Client, dataset: Dataset, settings: Any, values: dict[str, Any], message: str
) -> None:
    settings.MAX_UPLOAD_MB = 1
    sent = {"dataset": "Tickets"} | {k: a_file(v) if isinstance(v, bytes) else v for k, v in values.items()}
    answer = reviewer.post(reverse("import", args=["support"]), sent)
    assert answer.status_code == 422
    assert message in answer.content.decode()
    assert not Import.objects.exists()


def test_a_file_that_is_not_imported_after_all_stores_nothing_and_says_so(reviewer: Client, dataset: Dataset) -> None:
    chosen = an_import(dataset, status="choosing")
    page = reviewer.post(reverse("import_cancel", args=["support", chosen.pk]), follow=True)
    assert page.redirect_chain[-1][0] == reverse("import", args=["support"])
    assert "Nothing of it was stored" in page.content.decode()
    detail = reviewer.get(reverse("import_detail", args=["support", chosen.pk])).content.decode()
    assert "Nothing of it was stored" in detail
    assert "What was read so far stays" not in detail


def test_stopping_and_going_on(reviewer: Client, dataset: Dataset, queued_jobs: list[Any]) -> None:
    failed = an_import(dataset, status="failed", error="the disk is gone")
    ImportChunk.objects.create(upload=failed, position=0, content=b"")
    assert "Resume" in reviewer.get(reverse("import_detail", args=["support", failed.pk])).content.decode()
    reviewer.post(reverse("import_retry", args=["support", failed.pk]))
    failed.refresh_from_db()
    assert failed.status == "queued"
    reviewer.post(reverse("import_cancel", args=["support", failed.pk]))
    failed.refresh_from_db()
    assert failed.status == "cancelled"
    page = reviewer.post(reverse("import_retry", args=["support", failed.pk]), follow=True).content.decode()
    assert "Upload it again" in page


def test_a_job_that_breaks_leaves_a_failed_import(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    upload = an_import(dataset, status="queued")
    ImportChunk.objects.create(upload=upload, position=0, content=b'{"text": "x"}\n')

    def broken(*args: Any) -> None:
        raise RuntimeError("no more room on the disk")

    monkeypatch.setattr(storing.labels, "record_many", broken)
    assert tasks.read_upload(upload.pk) == "failed"
    upload.refresh_from_db()
    assert (upload.status, upload.error) == ("failed", "no more room on the disk")
    assert ImportChunk.objects.exists()
    assert not Query.objects.exists()


def test_the_problems_table_filters_and_pages(reviewer: Client, dataset: Dataset) -> None:
    upload = an_import(dataset)
    ImportProblem.objects.bulk_create(
        [ImportProblem(upload=upload, line=n, reason=f"reason {n}.", rejected=n % 2 == 0) for n in range(1, 121)]
    )
    address = reverse("import_detail", args=["support", upload.pk])
    assert "reason 50." in (page := reviewer.get(address).content.decode())
    assert "reason 51." not in page
    assert "reason 51." in reviewer.get(address, {"page": 2}).content.decode()
    kept = reviewer.get(address, {"kind": "kept"}).content.decode()
    assert "reason 1." in kept
    assert "reason 2." not in kept


def test_a_problem_cannot_run_as_a_formula(reviewer: Client, dataset: Dataset) -> None:
    upload = an_import(dataset)
    ImportProblem.objects.create(upload=upload, line=1, reason="x", excerpt='=HYPERLINK("evil")')
    content = reviewer.get(reverse("import_problems", args=["support", upload.pk])).getvalue().decode("utf-8-sig")  # type: ignore[attr-defined]
    assert "'=HYPERLINK" in content


def test_text_from_a_file_is_shown_as_text(reviewer: Client, dataset: Dataset) -> None:
    upload = an_import(dataset, file_name="<b>x</b>.csv", error="<i>bad</i>", status="failed")
    ImportProblem.objects.create(upload=upload, line=1, reason="<s>why</s>", excerpt="<script>alert(1)</script>")
    for address in (reverse("import_detail", args=["support", upload.pk]), reverse("import", args=["support"])):
        page = reviewer.get(address).content.decode()
        assert not any(tag in page for tag in ("<b>x", "<i>bad", "<s>why", "<script>alert"))


@pytest.mark.parametrize("format", ["jsonl", "csv", "txt", "folder"])
def test_downloads(reviewer: Client, query: Query, format: str) -> None:
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=ALL))
    answer = reviewer.get(reverse("export_download", args=["support"]), {"format": format})
    suffix = "zip" if format == "folder" else format
    assert answer["Content-Disposition"] == f'attachment; filename="support.{suffix}"'
    content = answer.getvalue()  # type: ignore[attr-defined]
    assert content.startswith(b"PK") if format == "folder" else query.text.encode() in content


def test_a_download_of_one_dataset_and_of_unlabeled_queries(
    reviewer: Client, pool: Pool, dataset: Dataset, add_query: Callable[..., Query]
) -> None:
    other = Dataset.objects.create(pool=pool, name="Chat")
    add_query("from the tickets")
    add_query("from the chat", in_dataset=other)
    address = reverse("export_download", args=["support"])
    assert reviewer.get(address, {"format": "txt"}).getvalue() == b""  # type: ignore[attr-defined]
    chosen = {"format": "txt", "dataset": other.pk, "include_unlabeled": "on"}
    assert reviewer.get(address, chosen).getvalue() == b"from the chat\n"  # type: ignore[attr-defined]


def test_a_dataset_of_another_pool_is_no_choice(reviewer: Client, dataset: Dataset) -> None:
    foreign = Dataset.objects.create(pool=Pool.objects.create(slug="other", name="Other"), name="Secret")
    answer = reviewer.get(reverse("export_download", args=["support"]), {"format": "txt", "dataset": foreign.pk})
    assert answer.status_code == 422
    assert "Secret" not in reviewer.get(reverse("export", args=["support"])).content.decode()


def test_snapshots_are_taken_once_and_downloaded(reviewer: Client, query: Query) -> None:
    address = reverse("snapshots", args=["support"])
    assert "no gold labels yet" in reviewer.post(address, follow=True).content.decode()
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=ALL))
    assert "support-s1 holds 1 queries" in reviewer.post(address, {"note": "first"}, follow=True).content.decode()
    assert "Nothing has changed since support-s1" in reviewer.post(address, follow=True).content.decode()
    snapshot = Snapshot.objects.get()
    assert snapshot.note == "first"
    assert snapshot.author is not None
    content = reviewer.get(reverse("snapshot_download", args=["support", 1])).getvalue()  # type: ignore[attr-defined]
    assert [json.loads(line)["text"] for line in content.splitlines()] == [query.text]
    assert reviewer.get(reverse("snapshot_download", args=["support", 2])).status_code == 404


@pytest.mark.parametrize("name", ["import", "snapshots"])
def test_lists_take_no_database_query_per_row(reviewer: Client, dataset: Dataset, query: Query, name: str) -> None:
    user = User.objects.get(username="rita")
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=ALL))

    def add(numbers: range) -> None:
        for number in numbers:
            values = {
                "digest": f"{number:064}",
                "roster": [],
                "rows": 1,
                "split_sizes": {"train": 1, "val": 0, "test": 0},
            }
            Snapshot.objects.create(pool=dataset.pool, number=number, author=user, **values)
            an_import(dataset, author=user)

    def asked() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert reviewer.get(reverse(name, args=["support"])).status_code == 200
        return len(captured)

    add(range(1, 2))
    asked()
    few = asked()
    add(range(2, 21))
    assert asked() == few


def test_a_text_file_of_json_objects_is_not_taken_for_texts(
    reviewer: Client, dataset: Dataset, queued_jobs: list[tuple[Any, ...]]
) -> None:
    content = b'{"text": "one", "required_agents": []}\n{"text": "two"}\n'
    address = reverse("import", args=["support"])
    refused = reviewer.post(address, {"file": a_file(content, "t.txt"), "dataset": "Tickets", "format": "txt"})
    assert refused.status_code == 422
    assert "Choose JSONL" in refused.content.decode()
    assert not Import.objects.exists()
    reviewer.post(address, {"file": a_file(content, "t.txt"), "dataset": "Tickets", "format": ""})
    assert Import.objects.get().format == "jsonl"


def test_a_csv_for_people_says_that_it_is_utf_8(reviewer: Client, pool: Pool, add_query: Callable[..., Query]) -> None:
    """Excel in Japan or Turkey reads a CSV without the mark in that country's encoding."""
    query = add_query("荷物がまだ届きません")
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=range(4)))
    client = reviewer
    for address in (reverse("export_download", args=[pool.slug]), reverse("queries_export", args=[pool.slug])):
        content = client.get(address, {"format": "csv"}).getvalue()
        assert content.startswith(b"\xef\xbb\xbfid,")
        assert content.count(b"\xef\xbb\xbf") == 1
        assert query.text in content.decode()
        assert not client.get(address, {"format": "jsonl"}).getvalue().startswith(b"\xef")
