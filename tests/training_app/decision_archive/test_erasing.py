"""Erasing reaches archived decisions, and writes anew only the files that hold what is erased."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from agents_app.audit import Actor
from agents_app.models import Pool
from agents_app.texts import narrowing, personal_data
from agents_app.texts.matching import Terms
from routerweb import hooks
from routerweb.erasing import ErasedQuery, Fate
from tests.training_app.decision_archive.conftest import Answered, texts
from training_app.answering import decisions
from training_app.decision_archive import days, erasing, reading
from training_app.engine.data.conversations import Message, text_of
from training_app.models import ArchivedDay, Decision, Outcome

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
ANA, ACTOR = Terms(["ana@example.com", "K-12345"]), Actor("test")


def contents(archive: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in archive.rglob("*.parquet")}


def search(pool: Pool) -> list[reading.Archived]:
    return reading.part(pool, reading.Search(), "", 100).rows


def test_somebody_is_found_exported_and_erased_and_other_files_keep_their_bytes(
    answered: Answered, pool: Pool, archive: Path
) -> None:
    said = [{"role": "user", "content": "I am\nANA@example.com"}]
    keys = [
        answered("write to ana@example.com", 40, detail={"note": "K-12345", "canary": True}),
        answered("and then?", 40, 1, messages=said),
        answered("other", 40, 2),
        answered("by report", 40, 3),
        answered("nobody", 41),
        answered("diana@example.com, K-123456", 42),
    ]
    for key in (keys[0], keys[2]):
        Outcome.objects.create(decision_id=key, pool=pool, success=True, comment="thanks")
    Outcome.objects.create(decision_id=keys[3], pool=pool, success=False, comment="K-12345 is angry")
    decisions.prune()
    before = contents(archive)
    (place,) = [one for one in personal_data.find(ANA) if one.model is ArchivedDay]
    assert (len(place.keys), place.fate, place.erasable) == (1, Fate.BLANKED, True)
    with zipfile.ZipFile(io.BytesIO(personal_data.export(ANA, ACTOR))) as file:
        exported = [json.loads(line) for line in file.read("found.jsonl").splitlines()]
    assert {row["id"] for row in exported if row["place"] == "training_app.ArchivedDay"} == {
        str(key) for key in (keys[0], keys[1], keys[3])
    }
    assert [one for one in personal_data.erase(ANA, ACTOR) if one.model is ArchivedDay] == []
    after = contents(archive)
    assert len(after) == len(before) == ArchivedDay.objects.count() == 3
    assert len(before.items() & after.items()) == 2, "of three files two are what they were"
    assert b"to ana@example" not in b"".join(parquet_words(archive))
    blanked, turn, other, reported = [reading.one(key) for key in keys[:4]]
    assert blanked
    assert turn
    assert other
    assert reported
    assert (blanked.decision.text, blanked.decision.agents) == ("", [0])
    assert blanked.decision.detail == {"note": "[…]", "canary": True}
    assert blanked.outcome
    assert (blanked.outcome.success, blanked.outcome.comment) == (True, "")
    assert (turn.decision.text, turn.decision.messages) == ("", None)
    assert other.outcome
    assert (other.decision.text, other.outcome.comment) == ("other", "thanks")
    assert reported.outcome
    assert (reported.decision.text, reported.outcome.comment) == ("by report", "[…] is angry")


def parquet_words(archive: Path) -> list[bytes]:
    return [
        json.dumps(parquet.read_table(path).to_pylist(), default=str).encode() for path in archive.rglob("*.parquet")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "ＡＮＡ＠example.com",
        "ana\u200b@example.com",
        '"ana\\u0040example.com"',
        "ana&#64;example.com",
        "to=ana%40example.com",
        "AnA@EXAMPLE.COM",
    ],
)
def test_somebody_is_found_in_another_spelling(answered: Answered, text: str) -> None:
    assert ANA.found_in(text)
    answered(text, 40)
    decisions.prune()
    assert [len(one.keys) for one in personal_data.find(ANA) if one.model is ArchivedDay] == [1]


def test_a_query_is_erased_from_archived_decisions_on_it_and_its_conversation(
    answered: Answered, pool: Pool, archive: Path
) -> None:
    query = text_of("Where is my “Straße” parcel?", [Message("user", "Good morning, I have a question")])
    said = [{"role": "user", "content": "Good morning, I have a question"}]
    on_it = answered("WHERE is my strasse parcel", 40)
    answered("Where is my “Straße”  parcel?", 40, 1)
    answered("an earlier turn", 40, 2, messages=said)
    answered("where is my parcel", 41)
    Outcome.objects.create(decision_id=on_it, pool=pool, success=False, comment="Where is my “Straße” parcel?")
    was = {row.pk: row.routed_text for row in Decision.objects.all()}
    decisions.prune()
    before = contents(archive)
    hooks.texts_erased([ErasedQuery(1, pool.pk, query)])
    is_on_any = erasing.decisions.on_any([query])
    left = {row.decision.pk: row.decision.routed_text for row in search(pool)}
    assert left == {key: "" if is_on_any(text) else text for key, text in was.items()}
    assert sum(not text for text in left.values()) >= 1
    assert len(before.items() & contents(archive).items()) == 1


def test_a_day_that_is_written_while_its_text_is_erased_is_read_again(
    answered: Answered, pool: Pool, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = answered("Where is my parcel?", 40)
    erased = [ErasedQuery(1, pool.pk, "Where is my parcel?")]
    stored, times = days._stored, []

    def meanwhile(rows: Any) -> Any:
        tables = list(stored(rows))
        times.append(1)
        if len(times) == 1:
            hooks.texts_erased(erased)
        return tables

    monkeypatch.setattr(days, "_stored", meanwhile)
    decisions.prune()
    archived = reading.one(key)
    assert archived is not None
    assert archived.decision.text == ""
    assert len(contents(archive)) == ArchivedDay.objects.count() == 1


@pytest.mark.at_length
def test_two_who_erase_from_one_file_both_succeed(
    answered: Answered, pool: Pool, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered("write to ana@example.com", 40)
    answered("write to bob@example.com", 40, 1)
    decisions.prune()
    changed, times = erasing._changed, []

    def meanwhile(*words: Any) -> Any:
        times.append(1)
        if len(times) == 1:
            personal_data.erase(Terms(["bob@example.com"]), ACTOR)
        return changed(*words)

    monkeypatch.setattr(erasing, "_changed", meanwhile)
    personal_data.erase(ANA, ACTOR)
    assert texts(search(pool)) == ["", ""]
    assert len(contents(archive)) == ArchivedDay.objects.count() == 1


def test_what_breaks_off_while_erasing_leaves_no_old_file(
    answered: Answered, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered("write to ana@example.com", 40)
    decisions.prune()

    def killed(*_words: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        during.setattr(days, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            personal_data.erase(ANA, ACTOR)
    assert len(contents(archive)) == 2
    decisions.prune()
    assert len(contents(archive)) == 1
    assert b"ana@" not in b"".join(parquet_words(archive))


def test_an_archive_that_is_not_configured_is_reported_and_not_passed_over(answered: Answered, settings: Any) -> None:
    answered("write to ana@example.com", 40)
    decisions.prune()
    settings.DECISION_ARCHIVE = ""
    (place,) = [one for one in personal_data.erase(ANA, ACTOR) if one.model is ArchivedDay]
    assert (place.fate, place.erasable) == (Fate.STAYS, False)
    assert "DECISION_ARCHIVE" in place.what_happens


@pytest.mark.parametrize("texts_of", [[f"yes {n}" for n in range(201)], ["yes", " "], [""], []])
def test_where_a_pattern_would_not_help_every_row_is_read(texts_of: list[str]) -> None:
    assert narrowing.of_texts(texts_of) is None
