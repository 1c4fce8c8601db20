"""Decisions in parts by day on PostgreSQL: the table goes on as it was, and old days go as a whole."""

import uuid
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from agents_app.models import Privacy
from tests.training_app.answering.test_decisions import pending
from training_app.answering import decision_partitions, decisions
from training_app.answering.decision_partitions import DEFAULT, TABLE, Part, parts
from training_app.models import Decision, Outcome

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture(autouse=True)
def on_postgresql():
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one table.")
    with (
        connection.cursor() as cursor
    ):  # in a test's one transaction, checks that wait for its end hold up changes of tables
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def answered(model, text, days=0):
    """A decision that was made some days ago."""
    at = timezone.now() - timedelta(days=days)
    row = pending(model, text)._replace(id=decisions.new_id(at.timestamp()), at=at.timestamp())
    decisions.insert([row])
    return uuid.UUID(int=row.id)


def table_of(key):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT tableoid::regclass::text FROM {TABLE} WHERE id = %s", [key])
        return cursor.fetchone()[0]


def described():
    """Names and meanings of what a migration may touch."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass ORDER BY 1",
            [TABLE],
        )
        constraints = cursor.fetchall()
        cursor.execute(
            "SELECT indexname, replace(indexdef, ' ON ONLY ', ' ON ') FROM pg_indexes WHERE tablename = %s", [TABLE]
        )
        indexes = sorted(cursor.fetchall())
        cursor.execute(
            "SELECT attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid) FROM pg_attribute "
            "LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum WHERE attrelid = %s::regclass AND attnum > 0 ORDER BY 1",
            [TABLE],
        )
        return constraints, indexes, cursor.fetchall()


def test_what_is_there_stays_and_the_table_is_as_migrations_know_it(model):
    before, now = answered(model, "before", days=3), answered(model, "now")
    random = uuid.UUID("ffffffff-0000-4000-8000-000000000000")
    decisions.insert([pending(model, "of no time")._replace(id=random.int)])
    meaning = described()
    call_command("partition_decisions")
    assert described() == meaning
    first = parts()[0]
    assert [table_of(before), table_of(now), table_of(random)] == [first.table, first.table, DEFAULT]
    assert set(Decision.objects.values_list("text", flat=True)) == {"before", "now", "of no time"}
    with pytest.raises(CommandError, match="in parts already"):
        call_command("partition_decisions")


def test_an_answer_goes_to_the_part_of_its_day_and_is_written_once(model):
    decision_partitions.convert()
    later = answered(model, "in three days", days=-3)
    day = (datetime.now(UTC) + timedelta(days=3)).date()
    assert table_of(later) == Part(day + timedelta(days=1), day).table
    again = pending(model, "again")._replace(id=later.int, at=timezone.now().timestamp())
    decisions.decision_rows.add([decisions._row(again)])
    assert Decision.objects.get(pk=later).text == "in three days"


def test_parts_are_made_ahead_and_take_what_came_before_they_were(model, monkeypatch):
    decision_partitions.convert()
    ends = [part.end for part in parts()]
    assert ends == sorted({ends[0] + timedelta(days=n) for n in range(len(ends))})
    assert ends[-1] == datetime.now(UTC).date() + timedelta(days=decision_partitions.AHEAD_DAYS)
    late = answered(model, "no job ran", days=-8)
    assert table_of(late) == DEFAULT
    monkeypatch.setattr(decision_partitions, "AHEAD_DAYS", 10)
    decisions.prune(30)
    assert table_of(late) != DEFAULT
    assert Decision.objects.get(pk=late).text == "no job ran"


def test_days_that_no_pool_keeps_are_dropped_with_what_was_reported(model, pool):
    old, kept = answered(model, "old", days=40), answered(model, "kept", days=5)
    for key in (old, kept):
        Outcome.objects.create(decision_id=key, pool=pool, success=True)
    decision_partitions.convert()
    today = datetime.now(UTC).date()
    ancient = Part(today - timedelta(days=31), None)
    with connection.cursor() as cursor:  # as if the table had been parted 33 days ago
        first = parts()[0]
        cursor.execute(f"ALTER TABLE {TABLE} DETACH PARTITION {first.table}")
        cursor.execute(f"CREATE TABLE {ancient.table} PARTITION OF {TABLE} FOR VALUES {ancient.bounds}")
        rest = Part(first.end, ancient.end)
        cursor.execute(f"CREATE TABLE {rest.table} PARTITION OF {TABLE} FOR VALUES {rest.bounds}")
        cursor.execute(f"INSERT INTO {TABLE} SELECT * FROM {first.table}")
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    Privacy.objects.create(pool=pool, decision_days=60)
    assert decisions.prune(30) == 0
    Privacy.objects.update(decision_days=None)
    assert decisions.prune(30) == 0, "no row is deleted"
    assert ancient not in parts()
    assert set(Decision.objects.values_list("text", flat=True)) == {"kept"}
    assert set(Outcome.objects.values_list("decision_id", flat=True)) == {kept}


def test_a_pool_that_keeps_fewer_days_loses_rows(model, pool):
    answered(model, "old", days=10)
    answered(model, "new")
    decision_partitions.convert()
    Privacy.objects.create(pool=pool, decision_days=7)
    assert decisions.prune(30) == 1
    assert set(Decision.objects.values_list("text", flat=True)) == {"new"}


@pytest.mark.parametrize(("days", "length"), [(90, 1), (100, 1), (101, 2), (3650, 37)])
def test_there_are_never_too_many_parts(model, settings, days, length):
    settings.DECISION_DAYS = days
    decision_partitions.convert()
    assert {part.end - part.first for part in parts()[1:]} == {timedelta(days=length)}
