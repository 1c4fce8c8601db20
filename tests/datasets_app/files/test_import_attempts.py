"""Importing: what an interruption, a second attempt, a cancellation and a dead process change."""

import io
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from agents_app.background_work import jobs, reaper
from datasets_app.files import imports, storing
from datasets_app.models import Dataset, Gold, Import, ImportChunk, ImportProblem, Label, Query
from tests.datasets_app.files.reading import counts, jsonl, read
from tests.silence import silence


def test_what_was_read_before_an_interruption_stays_and_the_rest_comes_with_the_next_reading(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "BATCH_ROWS", 10)
    content = jsonl(*({"text": f"row {n}", "required_agents": [n % 4]} for n in range(100)))
    store = storing.Reader.store

    def breaks_off(reader: storing.Reader, batch: Any, bytes_read: int) -> None:
        if reader.upload.rows_read >= 50:
            raise OSError("the disk is gone")
        store(reader, batch, bytes_read)

    with monkeypatch.context() as broken_off:
        broken_off.setattr(storing.Reader, "store", breaks_off)
        with pytest.raises(OSError, match="the disk is gone"):
            imports.read_file(dataset, io.BytesIO(content), "jsonl")
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
    monkeypatch.setattr(storing, "BATCH_ROWS", 10)
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
        storing.run(first, io.BytesIO(content), stop)
    Import.objects.update(status="queued", attempt=None)
    second = imports.claim(upload.pk)
    assert second is not None
    assert (second.last_line, second.attempts) == (20, 2)
    done = storing.run(second, io.BytesIO(content))
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
    ended = storing.run(first, io.BytesIO(content))
    assert not Query.objects.exists()
    assert (ended.status, ended.attempt) == ("running", second.attempt)
    assert storing.run(second, io.BytesIO(content)).status == "done"
    assert Query.objects.count() == 1


def test_cancelling_stops_after_the_present_batch(dataset: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storing, "BATCH_ROWS", 10)
    content = jsonl(*({"text": f"row {n}"} for n in range(50)))
    upload = imports.claim(queued(dataset, content).pk)
    assert upload is not None
    ended = storing.run(upload, io.BytesIO(content), lambda so_far: imports.cancel(so_far) and None)
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
    silence(Import.objects.filter(pk=upload.pk))
    return upload


@pytest.fixture
def handed_on(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(jobs, "send", lambda _kind, key: found.append(key))
    monkeypatch.setattr("agents_app.background_work.jobs.transaction.on_commit", lambda act: act())
    return found


def test_a_dead_import_is_handed_to_another_worker(dataset: Dataset, handed_on: list[int]) -> None:
    upload = dead(dataset)
    assert reaper.end_dead() == 1
    upload.refresh_from_db()
    assert (upload.status, handed_on) == ("queued", [upload.pk])
    assert reaper.end_dead() == 0


def test_one_that_dies_again_and_again_is_failed(dataset: Dataset, handed_on: list[int]) -> None:
    upload = dead(dataset, losses=settings.RUN_RETRIES)
    assert reaper.end_dead() == 1
    upload.refresh_from_db()
    assert (upload.status, handed_on) == ("failed", [])
    assert "import the file again" in upload.error
    assert imports.retry(upload)
    assert handed_on == [upload.pk]


def test_one_whose_message_was_lost_is_handed_over_again(dataset: Dataset, handed_on: list[int]) -> None:
    upload = queued(dataset, b"")
    assert reaper.deliver_again() == 0
    Import.objects.update(created_at=timezone.now() - timedelta(minutes=2))
    assert reaper.deliver_again() == 1
    assert handed_on == [upload.pk]
    assert reaper.deliver_again() == 0, "it has another minute"
    assert imports.claim(upload.pk) is not None
    Import.objects.update(delivered_at=timezone.now() - timedelta(minutes=2))
    assert reaper.deliver_again() == 0


def test_a_dead_command_is_failed_as_its_file_is_not_in_the_database(dataset: Dataset, handed_on: list[int]) -> None:
    upload = dead(dataset)
    ImportChunk.objects.all().delete()
    assert reaper.end_dead() == 1
    upload.refresh_from_db()
    assert (upload.status, handed_on) == ("failed", [])
    assert not imports.retry(upload)


def test_a_dead_import_that_was_to_be_cancelled_is(dataset: Dataset, handed_on: list[int]) -> None:
    upload = dead(dataset, cancel_requested=True)
    assert reaper.end_dead() == 1
    upload.refresh_from_db()
    assert (upload.status, handed_on) == ("cancelled", [])


def test_a_living_import_is_left_alone(dataset: Dataset) -> None:
    assert imports.claim(queued(dataset, b"").pk) is not None
    assert reaper.end_dead() == 0
