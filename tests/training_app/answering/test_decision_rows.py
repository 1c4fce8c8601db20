"""Rows of decisions: written many at once, each as it was answered, whatever it holds and whatever was deleted meanwhile."""

import subprocess
import sys
from datetime import UTC, datetime
from uuid import UUID

import pytest

from agents_app.models import ApiKey
from tests.training_app.answering.test_decisions import pending
from training_app.answering import decision_rows, decisions, tally
from training_app.models import Decision

pytestmark = [pytest.mark.both_databases, pytest.mark.commits_for_others]
MANY = 2 * decisions.ROWS_AT_ONCE + 1
#: What COPY's text format has a meaning for, and what no codec may lose.
TEXTS = ("a\tb", "a\nb\r\n", "\\N", "\\.", "C:\\new\\text", "ﷺ 🙂 \u2028", "", "''\"", "{1,2}", "%s ?")


def record(*made: decisions.Pending) -> None:
    """To the buffer, without a writer."""
    for one in made:
        decisions.buffer.add(one)


def test_many_are_there_after_one_turn(model):
    record(*(pending(model, f"query {number}") for number in range(MANY)))
    assert decisions.buffer.write() == MANY == Decision.objects.count()
    assert (len(decisions.buffer), decisions.buffer.dropped) == (0, 0)


def test_each_is_as_it_was_answered(model, app):
    made = [pending(model, text) for text in TEXTS]
    made[3] = made[3]._replace(
        propensity=0.25, detail={"explored": 1, "why": "a\tb\\"}, scores={0: 0.9, 1: 0.1}, api_key=app.key.pk
    )
    record(*made)
    decisions.buffer.write()
    rows = {row.pk: row for row in Decision.objects.all()}
    for one in made:
        row = rows[UUID(int=one.id)]
        assert (row.text, row.messages, row.propensity, row.detail, row.api_key_id) == (
            one.text,
            None,
            one.propensity,
            one.detail,
            one.api_key,
        )
        assert (row.agents, row.scores) == (
            list(one.route.agents),
            {str(agent): score for agent, score in one.scores.items()},
        )
        assert (row.steps, row.stop_reason, row.abstained, row.confidence) == (
            one.route.steps, one.route.stop_reason, one.route.abstained, one.route.confidence,
        )  # fmt: skip
        assert abs((row.at - datetime.fromtimestamp(one.at, UTC)).total_seconds()) < 1e-5


def test_what_comes_during_a_write_waits_for_the_next_turn(model, monkeypatch):
    insert = decisions.insert

    def meanwhile(rows) -> None:
        record(pending(model, "meanwhile"))
        insert(rows)

    monkeypatch.setattr(decisions, "insert", meanwhile)
    record(*(pending(model) for _ in range(MANY)))
    assert decisions.buffer.write() == MANY
    assert not Decision.objects.filter(text="meanwhile").exists()
    monkeypatch.setattr(decisions, "insert", insert)
    decisions.close()
    assert Decision.objects.filter(text="meanwhile").count() == 3
    assert len(decisions.buffer) == 0


@pytest.mark.django_db(transaction=True)
def test_what_was_deleted_meanwhile_takes_nothing_else_with_it(model, app, caplog):
    made = [pending(model, str(number))._replace(api_key=app.key.pk) for number in range(20)]
    made[0] = made[0]._replace(model=model.pk + 1000)
    ApiKey.objects.filter(pk=app.key.pk).delete()
    record(*made)
    assert decisions.buffer.write() == 19
    assert set(Decision.objects.values_list("api_key", flat=True)) == {None}
    assert decisions.buffer.dropped == 1
    assert "its pool or its model was deleted" in caplog.text


def test_a_value_that_the_database_cannot_hold_takes_nothing_else_with_it(model):
    record(pending(model), pending(model)._replace(microseconds=1 << 70), pending(model))
    assert decisions.buffer.write() == 2


def test_a_row_that_stands_is_not_written_again(model):
    row = decisions._row(pending(model, "first"))
    decision_rows.add([row])
    decision_rows.add([(*row[:4], "second", *row[5:])])
    assert Decision.objects.get().text == "first"


KILLED = """
import os, signal, sys
from pathlib import Path
from training_app.answering.tally import Tally
counts = Tally()
counts.add(made=3)
counts.keep_in(Path(sys.argv[1]))
counts.add(made=300)
counts.add(settled=35)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.process
@pytest.mark.any_database
def test_what_a_killed_process_had_in_memory_is_counted_once(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    assert tally.lost_in(tmp_path) == 0, "it lives"
    child.kill()
    child.wait(10)
    assert tally.lost_in(tmp_path) == 268
    assert tally.lost_in(tmp_path) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.any_database
def test_a_process_that_ends_in_order_leaves_nothing_to_count(tmp_path):
    counts = tally.Tally()
    counts.keep_in(tmp_path)
    counts.add(made=5)
    counts.end()
    assert (counts.made, list(tmp_path.iterdir())) == (5, [])


@pytest.mark.any_database
def test_where_no_file_can_be_written_it_counts_in_memory(tmp_path):
    (tmp_path / "file").write_text("")
    counts = tally.Tally()
    counts.keep_in(tmp_path / "file" / "folder")
    counts.add(made=2, settled=1)
    assert (counts.made, counts.settled) == (2, 1)
    counts.end()


def test_every_drop_is_settled(model, settings):
    settings.DECISION_BUFFER = 3
    for number in range(5):
        decisions.record(pending(model, str(number)))
    assert (decisions.buffer.tally.made, decisions.buffer.tally.settled) == (5, 2)
    decisions.buffer.write()
    assert (decisions.buffer.tally.made, decisions.buffer.tally.settled) == (5, 5)
