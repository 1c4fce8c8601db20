"""Decisions between the answer and the database: kept, bounded, written in bulk, pruned."""

import multiprocessing
import threading
import time
import uuid
from datetime import timedelta

import pytest
from django.db import OperationalError, connection
from django.utils import timezone

from training_app.answering import decisions
from training_app.engine.routing.routes import Route
from training_app.models import Decision

pytestmark = pytest.mark.both_databases

ROUTE = Route((0,), {0: 0.9}, 0.8, 2, "stop", False)


def pending(model, text: str = "text") -> decisions.Pending:
    at = time.time()
    return decisions.Pending(decisions.new_id(at), model.pool_id, model.pk, None, text, ROUTE, {0: 0.9}, 120, at)


def away(_rows: object) -> None:
    raise OperationalError("connection refused")


def test_ids_are_uuids_of_version_7_in_the_order_of_time():
    ids = [uuid.UUID(int=decisions.new_id(1_700_000_000 + second)) for second in range(3)]
    assert ids == sorted(ids)
    assert {(made.version, made.variant) for made in ids} == {(7, uuid.RFC_4122)}
    assert ids[2].int >> 80 == 1_700_000_002_000
    assert [decisions.id_text(made.int) for made in ids] == [str(made) for made in ids]


def test_ids_do_not_repeat_within_one_moment():
    made = {decisions.new_id(1_700_000_000.0) for _ in range(20_000)}
    assert len(made) == 20_000


@pytest.mark.both_databases
def test_many_are_written_in_few_statements(model, django_assert_max_num_queries):
    for number in range(450):
        decisions.record(pending(model, f"query {number}"))
    with django_assert_max_num_queries(5):  # what pools take out of texts, and a transaction of one statement
        assert decisions.buffer.write() == 450
    assert Decision.objects.count() == 450
    assert (len(decisions.buffer), decisions.buffer.dropped) == (0, 0)


@pytest.mark.both_databases
def test_a_doubtful_write_may_be_repeated(model):
    row = pending(model)
    decisions.insert([row])
    for one in (row, pending(model)):
        decisions.record(one)
    assert decisions.buffer.write() == 2
    assert (Decision.objects.count(), decisions.buffer.dropped) == (2, 0)


def test_the_oldest_are_dropped_and_counted(model, settings):
    settings.DECISION_BUFFER = 3
    for number in range(5):
        decisions.record(pending(model, str(number)))
    assert (len(decisions.buffer), decisions.buffer.dropped) == (3, 2)
    decisions.buffer.write()
    assert set(Decision.objects.values_list("text", flat=True)) == {"2", "3", "4"}


def test_without_a_database_they_wait_within_the_bound(model, settings, monkeypatch, caplog):
    settings.DECISION_BUFFER = 3
    decisions.record(pending(model, "0"))
    decisions.record(pending(model, "1"))
    with monkeypatch.context() as patch:
        patch.setattr(decisions, "insert", away)
        assert decisions.write_once() is False
        assert (len(decisions.buffer), decisions.buffer.dropped) == (2, 0)
        for number in range(2, 5):
            decisions.record(pending(model, str(number)))
        assert decisions.write_once() is False
    assert "Decisions wait in memory" in caplog.text
    assert (len(decisions.buffer), decisions.buffer.dropped) == (3, 2)
    assert decisions.write_once() is True
    assert set(Decision.objects.values_list("text", flat=True)) == {"2", "3", "4"}


def test_health_is_degraded_while_decisions_are_not_taken(model, app, client, monkeypatch):
    decisions.record(pending(model))
    with monkeypatch.context() as patch:
        patch.setattr(decisions, "insert", away)
        assert not decisions.write_once()
        assert client.get("/api/health/").json()["status"] == "degraded"
    assert decisions.write_once()
    assert client.get("/api/health/").json()["status"] == "ok"


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_a_row_that_cannot_be_written_does_not_hold_up_the_others(model, caplog):
    decisions.record(pending(model, "first"))
    decisions.record(pending(model, "of a deleted model")._replace(model=model.pk + 1000))
    decisions.record(pending(model, "last"))
    assert decisions.buffer.write() == 2
    assert set(Decision.objects.values_list("text", flat=True)) == {"first", "last"}
    assert (len(decisions.buffer), decisions.buffer.dropped) == (0, 1)


def test_a_share_is_kept(model, settings):
    settings.DECISION_SHARE = 0.25
    for _ in range(4000):
        decisions.record(pending(model))
    assert 800 < len(decisions.buffer) < 1200
    settings.DECISION_SHARE = 0.0
    decisions.buffer = decisions.Buffer()
    decisions.record(pending(model))
    assert len(decisions.buffer) == 0


def test_a_buffer_of_none_keeps_none(model, settings):
    settings.DECISION_BUFFER = 0
    decisions.record(pending(model))
    assert (len(decisions.buffer), decisions.buffer.dropped) == (0, 0)


def test_threads_lose_nothing_and_write_nothing_twice(model, monkeypatch, settings):
    settings.DECISION_BUFFER = 100_000
    written: list[int] = []
    monkeypatch.setattr(decisions, "insert", lambda rows: written.extend(row.id for row in rows))
    made = [[pending(model) for _ in range(500)] for _ in range(4)]

    def add(rows: list[decisions.Pending]) -> None:
        for row in rows:
            decisions.record(row)

    threads = [threading.Thread(target=add, args=(rows,)) for rows in made]
    threads += [threading.Thread(target=decisions.buffer.write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    decisions.buffer.write()
    assert sorted(written) == sorted(row.id for rows in made for row in rows)


def _answer_and_end(rows: list[decisions.Pending]) -> None:
    """What a server's worker does: it was forked, answers, and ends."""
    connection.close()
    for row in rows:
        decisions.record(row)


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_the_writer_of_a_forked_process_writes_what_is_left_at_its_end(model, settings):
    settings.BACKGROUND_THREADS = True
    rows = [pending(model, str(number)) for number in range(3)]
    decisions.buffer.add(pending(model, "of the parent"))
    connection.close()
    child = multiprocessing.get_context("fork").Process(target=_answer_and_end, args=(rows,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert set(Decision.objects.values_list("text", flat=True)) == {"0", "1", "2"}
    assert len(decisions.buffer) == 1


@pytest.mark.both_databases
def test_old_decisions_are_pruned(model, settings):
    settings.DECISION_DAYS = 30
    decisions.insert([pending(model, str(number)) for number in range(5)])
    Decision.objects.filter(text__in="012").update(at=timezone.now() - timedelta(days=31))
    assert decisions.prune(rows_at_once=2) == 3
    assert set(Decision.objects.values_list("text", flat=True)) == {"3", "4"}
