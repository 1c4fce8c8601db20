"""Decisions that are many are kept in few rows, and found, erased and listed as if each had its own."""

import json
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from agents_app.models import ApiKey
from datasets_app.models import Query
from datasets_app.queries import queries
from tests.at_once import at_once
from tests.training_app.answering.test_decisions import pending
from training_app.answering import decisions, tally
from training_app.models import Decision, PackedDecisions, packed
from training_app.rollout import outcomes
from training_app.versions import erasing

pytestmark = pytest.mark.both_databases


@pytest.fixture
def many(model) -> list[decisions.Pending]:
    """As many as a process at its full rate has waiting, written."""
    made = [pending(model, f"query {number} ﷺ") for number in range(2 * decisions.PACK_AT_MOST)]
    # A millisecond each: those of one and the same would lie between those of both rows.
    made = [one._replace(id=decisions.new_id(one.at + number / 1_000)) for number, one in enumerate(made)]
    made[3] = made[3]._replace(propensity=0.25, detail={"explored": 1}, scores={0: 0.9, 1: 0.1})
    for one in made:
        decisions.buffer.add(one)  # and no writer is started, which would unpack them as soon as it has time
    assert decisions.buffer.write() == len(made)
    return made


def test_many_are_one_row_and_come_out_as_they_would_have_been_written(model, many):
    assert (PackedDecisions.objects.count(), Decision.objects.count()) == (2, 0)
    assert packed.unpack_all() == len(many)
    assert (PackedDecisions.objects.count(), Decision.objects.count()) == (0, len(many))
    unpacked = list(Decision.objects.order_by("pk").values())
    Decision.objects.all().delete()
    decisions.insert(many)
    assert list(Decision.objects.order_by("pk").values()) == unpacked
    assert unpacked[0]["at"].tzinfo == UTC
    assert {one["text"] for one in unpacked} == {one.text for one in many}


def test_few_are_rows_of_their_own(model):
    for _ in range(decisions.PACK_FROM - 1):
        decisions.record(pending(model))
    decisions.buffer.write()
    assert PackedDecisions.objects.count() == 0


def test_the_newest_are_unpacked_first_and_quiet_processes_go_on_with_the_rest(model, many, monkeypatch):
    assert packed.unpack() == decisions.PACK_AT_MOST
    assert str(Decision.objects.order_by("-pk").first().pk) == str(UUID(int=max(one.id for one in many)))
    assert decisions.write_once()
    assert PackedDecisions.objects.count() == 1, "while decisions come that fast, their processor is wanted"
    now = time.time()
    monkeypatch.setattr(packed.time, "time", lambda: now + 2 * decisions.QUIET_SECONDS)
    assert decisions.write_once()
    assert (PackedDecisions.objects.count(), Decision.objects.count()) == (0, len(many))


def test_what_comes_during_a_write_waits_for_the_next_turn(model, many, monkeypatch):
    PackedDecisions.objects.all().delete()
    pack = packed.pack

    def slowly(rows: list[packed.Row]) -> None:
        decisions.buffer.add(pending(model))
        pack(rows)

    monkeypatch.setattr(packed, "pack", slowly)
    for one in many[: decisions.PACK_AT_MOST + 1]:
        decisions.buffer.add(one)
    assert decisions.buffer.write() == decisions.PACK_AT_MOST + 1
    assert sorted(PackedDecisions.objects.values_list("count", flat=True)) == [128, 129], (
        "even parts, each of them packed"
    )
    assert (Decision.objects.count(), len(decisions.buffer)) == (0, 2)
    decisions.close()
    assert (Decision.objects.count(), len(decisions.buffer)) == (2, 0)


def test_rows_of_an_earlier_version_come_out_and_count(model, many):
    PackedDecisions.objects.all().delete()
    rows = [decisions._row(one) for one in many[:70]]
    packed.pack(rows)
    small = PackedDecisions.objects.get()
    plain = json.dumps(rows).encode()
    assert len(small.rows) < len(plain) / 4
    moment = datetime.fromtimestamp(many[0].at, UTC) - timedelta(seconds=1)
    compressed = packed.waiting(model.pool_id, moment)
    assert [told["count"] for _at, told in compressed] == [70]
    PackedDecisions.objects.update(rows=plain, pools=None)
    assert packed.waiting(model.pool_id, moment) == compressed
    assert packed.waiting(model.pool_id + 1, moment) == []
    assert packed.waiting(model.pool_id, datetime.fromtimestamp(many[-1].at, UTC) + timedelta(seconds=5)) == []
    assert packed.unpack_all() == Decision.objects.count() == 70
    assert set(Decision.objects.values_list("text", flat=True)) == {one.text for one in many[:70]}


@pytest.mark.django_db(transaction=True)
def test_who_looks_for_a_decision_waits_for_whoever_unpacks_it(model, many, monkeypatch):
    """Or an outcome would be told that there is no such decision, and an erased text would stay in it."""
    held, wanted = threading.Event(), UUID(int=many[-1].id)
    insert = packed.insert

    def slowly(rows: list[packed.Row]) -> None:
        insert(rows)
        held.set()
        time.sleep(0.3)

    def look() -> bool:
        assert held.wait(20)
        packed.bring(wanted)
        return Decision.objects.filter(pk=wanted).exists()

    monkeypatch.setattr(packed, "insert", slowly)
    assert at_once(2, lambda number: look() if number else packed.unpack()) == [decisions.PACK_AT_MOST, True]


def test_an_outcome_finds_a_packed_decision(pool, many):
    wanted = UUID(int=many[5].id)
    _outcome, new = outcomes.record(pool, None, outcomes.Report(wanted, True))
    assert new
    assert Decision.objects.get(pk=wanted).text == many[5].text
    assert PackedDecisions.objects.count() == 1, "the other row can wait"


def test_erasing_reaches_into_packed_decisions(pool, many):
    query = Query(dataset=queries.dataset_of(pool, "Queries"), text=many[7].text)
    erasing.forget_decisions(query, many[7].text)
    assert Decision.objects.get(pk=UUID(int=many[7].id)).text == ""
    assert not Decision.objects.filter(text=many[7].text).exists()


def test_what_was_deleted_meanwhile_takes_nothing_else_with_it(model, app, many, caplog):
    PackedDecisions.objects.all().delete()
    rows = [decisions._row(one._replace(api_key=app.key.pk)) for one in many[:70]]
    rows[0] = (rows[0][0], *rows[0][1:2], model.pk + 1000, *rows[0][3:])
    packed.pack(rows)
    ApiKey.objects.filter(pk=app.key.pk).delete()
    assert packed.unpack_all() == 69
    assert set(Decision.objects.values_list("api_key", flat=True)) == {None}
    assert "1 decisions of a pool or model that was deleted" in caplog.text


def test_a_decision_is_at_the_moment_it_was_made(model, many):
    packed.bring(UUID(int=many[9].id))
    assert (
        abs(Decision.objects.get(pk=UUID(int=many[9].id)).at - datetime.fromtimestamp(many[9].at, UTC)).total_seconds()
        < 1e-5
    )


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
