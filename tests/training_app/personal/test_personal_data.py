"""Somebody whose words came in: found wherever they stand, given out whole, erased so that labels and counts stay."""

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection

from agents_app import audit, pools
from agents_app.models import AuditEntry, Pool
from agents_app.texts import personal_data
from agents_app.texts.matching import PersonalDataError, Terms
from agents_app.texts.personal_data import Place
from datasets_app.labels import labels, snapshots
from datasets_app.models import Dataset, Import, Label, Query, SnapshotContent
from datasets_app.queries.adding import NewQuery, send
from routerweb.erasing import Fate
from tests import orchestration
from tests.clients import signed_in
from tests.training_app.served import Application
from training_app.answering import decisions
from training_app.engine.data.conversations import from_json
from training_app.models import Decision, Outcome, RouterModel

pytestmark = [pytest.mark.usefixtures("fresh_process"), pytest.mark.both_databases]
MAIL, NUMBER = "ana.luz@mail.example", "K-100233"
OTHERS = ("diana.luz@mail.example", "x.ana.luz@mail.example", "ana.luz@mail.example.org", "K-1002334")


@pytest.fixture
def ana(pool: Pool, model: RouterModel, app: Application) -> Terms:
    """A customer who has left a trace in every place, and others with names like hers."""
    texts = [f"where is my parcel, says {MAIL.upper()}", *(f"billing for {other}" for other in OTHERS)]
    _dataset, places = send(pool, [NewQuery(text) for text in texts], actor=None)
    query = Query.objects.get(pk=places[0].pk)
    first = labels.record(labels.NewLabel(query.pk, source="import", required=[1], asked=[0, 1, 2]))
    elsewhere = Query.objects.get(pk=places[1].pk)
    remark = labels.record(labels.NewLabel(elsewhere.pk, source="import", required=[0], asked=[0, 1, 2]))
    Label.objects.filter(pk=remark.pk).update(note=f"like that of {MAIL}")
    assert first.pk != remark.pk
    turn = from_json("and now?", [{"role": "user", "content": f"I am customer {NUMBER}"}])
    send(pool, [NewQuery(turn, {"conversation": "c-1"})], actor=None)
    send(pool, [NewQuery("parcel without a name", extra={"customer": NUMBER})], actor=None)
    snapshots.take(pool)
    for _time in range(64):
        assert app.post("/api/route/", {"query": f"billing of {MAIL}"}).status_code == 200
    decisions.buffer.write()
    hers = app.post("/api/route/", {"query": f"billing for {NUMBER}"}).json()["decision_id"]
    Outcome.objects.create(decision_id=hers, pool=pool, success=True, comment="she lives in Bath")
    other = app.post("/api/route/", {"query": "billing of nobody"}).json()["decision_id"]
    decisions.buffer.write()
    Outcome.objects.create(decision_id=other, pool=pool, success=False, comment=f"{NUMBER} called again")
    if orchestration.INSTALLED:
        _episodes(pool)
    audit.record("query.sent", actor=None, target=MAIL, detail={"who": [f"for {MAIL}"]})
    pools.set_guidelines(pool, f"Ask {MAIL}.", actor=None)
    failed = Import.objects.create(dataset=Dataset.objects.get(pk=query.dataset_id), format="jsonl", status="failed")
    failed.chunks.create(position=0, content=json.dumps({"text": f"tell {MAIL}"}).encode())
    return Terms([MAIL, NUMBER])


def _episodes(pool: Pool) -> None:
    from orchestration_app.models import Episode, Step

    for status, task in (("done", "say something"), ("running", f"write to {MAIL}")):
        episode = Episode.objects.create(pool=pool, task=task, policy="all", status=status)
        Step.objects.create(episode=episode, turn=1, number=1, output=f"sent to {MAIL}")


def told(places: list[Place]) -> dict[tuple[str, str], int]:
    return {(place.label.partition(".")[2], place.fate.value): len(place.keys) for place in places}


def all_that_is_stored() -> str:
    """Every value of every table, what is compressed unpacked."""
    found = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            found += [str(value) for row in cursor.fetchall() for value in row]
    found += [gzip.decompress(bytes(content.rows_gzip)).decode() for content in SnapshotContent.objects.all()]
    return "\n".join(found)


def test_somebody_is_found_wherever_they_stand(ana: Terms) -> None:
    assert told(personal_data.find(ana)) == {
        ("Query", "erased"): 3,
        ("Decision", "blanked"): 64 + 1,
        ("ImportChunk", "deleted"): 1,
        ("Label", "cut"): 1,
        ("Outcome", "cut"): 1,
        ("AuditEntry", "cut"): 1,
        ("Pool", "cut"): 1,
        ("SnapshotContent", "blanked"): 1,
        **({("Episode", "deleted"): 1, ("Episode", "stays"): 1} if orchestration.INSTALLED else {}),
    }


@pytest.mark.at_length
def test_erased_they_are_gone_and_labels_and_counts_stay(ana: Terms) -> None:
    before = (Query.objects.count(), Label.objects.count(), Decision.objects.count())
    left = personal_data.erase(ana, None)
    assert told(left) == ({("Episode", "stays"): 1} if orchestration.INSTALLED else {})
    assert Pool.objects.get().guidelines == "Ask […]."
    if orchestration.INSTALLED:
        apps.get_model("orchestration_app", "Episode").objects.filter(status="running").update(status="done")
    assert personal_data.erase(ana, None) == []
    stored = all_that_is_stored()
    for other in OTHERS:
        assert other in stored
        stored = stored.replace(other, "")
    assert MAIL.casefold() not in stored.casefold()
    assert NUMBER not in stored
    assert (Query.objects.count(), Label.objects.count(), Decision.objects.count()) == before
    assert Label.objects.get(note__startswith="like").note == "like that of […]"
    assert set(Outcome.objects.values_list("comment", flat=True)) == {"", "[…] called again"}
    assert list(Query.objects.filter(erased_at=None).values_list("text", flat=True).order_by("pk")) == [
        f"billing for {other}" for other in OTHERS
    ]


@pytest.mark.at_length
def test_the_trail_says_that_it_was_done_and_not_of_whom(ana: Terms) -> None:
    personal_data.export(ana, None)
    personal_data.erase(ana, None)
    found, erased = AuditEntry.objects.filter(action__startswith="personal_data.").order_by("pk")
    assert (found.action, erased.action) == ("personal_data.exported", "personal_data.erased")
    assert found.target == erased.target == Terms([NUMBER.lower(), MAIL]).digest
    assert erased.detail["rows"]["datasets_app.Query"] == 3


def test_what_is_found_is_given_out_whole(ana: Terms) -> None:
    with zipfile.ZipFile(io.BytesIO(personal_data.export(ana, None))) as archive:
        rows = [json.loads(line) for line in archive.read("found.jsonl").splitlines()]
        counts = json.loads(archive.read("README.json"))["rows"]
    by_place: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_place.setdefault(row["place"], []).append(row["row"])
    assert {place: len(found) for place, found in by_place.items()} == counts
    texts = {row["text"] for row in by_place["datasets_app.Query"]}
    assert f"where is my parcel, says {MAIL.upper()}" in texts
    assert by_place["datasets_app.Label"][0]["required"] == [1]
    assert by_place["agents_app.AuditEntry"][0].keys() == {"target", "detail"}
    assert len(by_place["training_app.Decision"]) == 64 + 1
    assert "she lives in Bath" in {row["comment"] for row in by_place["training_app.Outcome"]}
    if orchestration.INSTALLED:
        assert {row["output"] for row in by_place["orchestration_app.Step"]} == {f"sent to {MAIL}"}


@pytest.mark.parametrize(
    ("term", "value", "stands"),
    [
        (MAIL, f"<{MAIL}>, please", True),
        (MAIL, "ANA.LUZ@MAIL.EXAMPLE.", True),
        (MAIL, "diana.luz@mail.example", False),
        (MAIL, "ana.luz@mail.example.org", False),
        ("100233", {"customer": [1, 100233]}, True),
        ("100233", {"customer": 1002334}, False),
        ("Ana Luz", "for ana\n  luz", True),
        ("Ana Luz", "banana luzon", False),
        ("Müller", "Herr mu\u0308ller", True),
        ("key", {"Key": 1}, True),
        ("True", True, False),
    ],
)
def test_a_term_is_found_whole_in_any_case_and_spacing(term: str, value: Any, stands: bool) -> None:
    terms = Terms([term])
    assert terms.found_in(value) is stands
    if stands:
        assert not terms.found_in(terms.taken_out(value))


@pytest.mark.parametrize("terms", [[], [" "], ["ab"], ["x" * 201], [f"term {n}" for n in range(21)]])
def test_what_cannot_be_looked_for_is_said(terms: list[str]) -> None:
    with pytest.raises(PersonalDataError):
        Terms(terms)


def test_the_page_finds_gives_out_and_erases(ana: Terms, person: Callable[[str], User], monkeypatch: Any) -> None:
    client = signed_in(person("ops"))
    sent = {"terms": f"{MAIL}\n{NUMBER}"}
    page = client.post("/personal-data/", {**sent, "do": "find"}).content.decode()
    assert "says ANA.LUZ@MAIL.EXAMPLE" in page
    assert AuditEntry.objects.filter(action="personal_data.found").count() == 1
    assert b"".join(client.post("/personal-data/", {**sent, "do": "export"}).streaming_content)[:2] == b"PK"
    client.post("/personal-data/", {**sent, "do": "erase"})
    assert Query.objects.filter(erased_at=None).count() == 7, "without saying that one is sure"
    monkeypatch.setattr("training_app.pages.personal.personal_views.QUERIES", 2)
    page = client.post("/personal-data/", {**sent, "do": "erase", "sure": "1"}).content.decode()
    assert "3 queries are too many to erase at once" in page
    assert "more queries than a page erases at once" in page
    assert 'value="erase"' not in page, "nothing is offered that would be refused"
    assert Query.objects.filter(erased_at=None).count() == 7
    monkeypatch.undo()
    page = client.post("/personal-data/", {**sent, "do": "erase", "sure": "1"}).content.decode()
    assert "Erased." in page
    # A setting of an executor that names them.
    assert [place.fate for place in personal_data.find(ana)] == [Fate.STAYS] * orchestration.INSTALLED
    assert "it must have 3 to 200 characters" in client.post("/personal-data/", {"terms": "a"}).content.decode()


@pytest.mark.at_length
def test_the_command_does_the_same(ana: Terms, capsys: Any, tmp_path: Any) -> None:
    call_command("personal_data", "find", MAIL, NUMBER)
    assert "3  queries: the text is erased everywhere" in capsys.readouterr().out
    call_command("personal_data", "export", MAIL, out=tmp_path / "ana.zip")
    assert zipfile.is_zipfile(tmp_path / "ana.zip")
    assert (tmp_path / "ana.zip").stat().st_mode & 0o77 == 0
    with pytest.raises(CommandError, match="Say --yes"):
        call_command("personal_data", "erase", MAIL)
    call_command("personal_data", "erase", MAIL, NUMBER, yes=True)
    said = capsys.readouterr().out
    assert "Existing backups still contain the data" in said
    assert said.count("episodes: stays") == (3 if orchestration.INSTALLED else 0)
    with pytest.raises(CommandError, match="--out"):
        call_command("personal_data", "export", MAIL)
    with pytest.raises(CommandError, match="no account"):
        call_command("personal_data", "erase", "nobody@example.com", member=True, yes=True)


def test_the_command_is_for_members_too(person: Callable[[str], User], capsys: Any, tmp_path: Any) -> None:
    lea = person("labeler")
    call_command("personal_data", "find", lea.username, member=True)
    assert "account" in capsys.readouterr().out
    call_command("personal_data", "export", lea.username, member=True, out=tmp_path / "lea.zip")
    call_command("personal_data", "erase", lea.username, member=True, yes=True)
    assert User.objects.get(pk=lea.pk).username == f"former member #{lea.pk}"
