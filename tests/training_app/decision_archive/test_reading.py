"""Archived decisions by their id, by a search in parts, and by period; as their rows were."""

import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.forms.models import model_to_dict

from agents_app.models import ApiKey, Pool
from tests.training_app.decision_archive.conftest import NOON, Answered, texts
from training_app.answering import decisions
from training_app.decision_archive import reading
from training_app.decision_archive.reading import Search
from training_app.decision_archive.storage import ArchiveError
from training_app.models import Decision, Outcome, RouterModel

pytestmark = pytest.mark.django_db


def test_a_decision_is_as_its_row_was(answered: Answered, pool: Pool) -> None:
    key = ApiKey.objects.create(name="app", digest="d")
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "“Yes?”", "agents": [1]}]
    columns: dict[str, Any] = {"messages": said, "detail": {"cold": {"scores": {"2": 0.25}}}, "propensity": 0.125}
    keys = [answered("plain", 40), answered("all", 40, 1, api_key=key, model=None, agents=[], scores={}, **columns)]
    rows = {row.pk: model_to_dict(row) | {"at": row.at} for row in Decision.objects.all()}
    outcome = Outcome.objects.create(decision_id=keys[1], pool=pool, success=True, agents_used=[1, 2], comment="fine")
    decisions.prune()
    for one in keys:
        archived = reading.one(one)
        assert archived is not None
        assert model_to_dict(archived.decision) | {"at": archived.decision.at} == rows[one]
        assert archived.decision.pk == one
    assert archived is not None
    assert archived.outcome is not None
    assert (archived.outcome.success, archived.outcome.agents_used, archived.outcome.comment) == (True, [1, 2], "fine")
    assert archived.outcome.at == outcome.at
    assert archived.decision.answered_by == "descriptions"
    assert reading.one(uuid.uuid4()) is None
    assert reading.one(keys[0], Pool.objects.exclude(pk=pool.pk)) is None


def test_a_late_report_stands_before_the_archived_one(answered: Answered, pool: Pool) -> None:
    key = answered("one", 40)
    decisions.prune()
    Outcome.objects.create(decision_id=key, pool=pool, success=False)
    archived = reading.one(key)
    assert archived is not None
    assert archived.outcome is not None
    assert archived.outcome.success is False


def test_a_search_wants_all_of_what_it_says(answered: Answered, pool: Pool, model: RouterModel) -> None:
    keys = [
        answered("Größe of parcel", 50),
        answered("parcel", 45, agents=[1, 2]),
        answered("parcel", 40, stop_reason="abstained"),
        answered("'; DROP TABLE day; --", 40, 1, model=None),
    ]
    Outcome.objects.create(decision_id=keys[1], pool=pool, success=True)
    decisions.prune()

    def of(**wanted: Any) -> list[uuid.UUID]:
        return [row.decision.pk for row in reading.part(pool, Search(**wanted), "", 10).rows]

    assert of() == keys[::-1]
    assert of(words="GRÖßE") == [keys[0]]
    assert of(words="PARCEL") == keys[2::-1]
    assert of(words="'; drop") == [keys[3]]
    assert of(words="%") == []
    assert of(agent=2) == [keys[1]]
    assert of(reason="abstained") == [keys[2]]
    assert of(success=True) == [keys[1]]
    assert of(success=False) == []
    assert of(model=model.pk) == keys[2::-1]
    begin = NOON - timedelta(days=45)
    assert of(since=begin) == keys[:0:-1]
    assert of(until=begin) == keys[:1]
    assert of(words="parcel", since=begin, until=begin + timedelta(days=1)) == [keys[1]]


def test_parts_follow_each_other_without_a_gap(answered: Answered, pool: Pool) -> None:
    keys = [answered(f"parcel {n}", 40 + n // 3, n) for n in range(8)]
    keys = sorted(keys, reverse=True)
    decisions.prune()
    seen, after, parts = [], "", 0
    while True:
        part = reading.part(pool, Search(words="parcel"), after, 3)
        seen += [row.decision.pk for row in part.rows]
        after, parts = part.next, parts + 1
        if not after:
            break
        assert len(part.rows) == 3
    assert seen == keys
    assert parts == 3
    assert texts(reading.part(pool, Search(), "rubbish", 1).rows) == texts(reading.part(pool, Search(), "", 1).rows)


def test_a_search_ends_where_it_has_read_much(answered: Answered, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    for ago in (42, 41, 40):
        answered(f"day {ago}", ago)
    decisions.prune()
    monkeypatch.setattr(reading, "ROWS_OF_A_SEARCH", 2)
    part = reading.part(pool, Search(words="day 42"), "", 10)
    assert (part.rows, part.reached) == ([], (NOON - timedelta(days=42)).date())
    on = reading.part(pool, Search(words="day 42"), part.next, 10)
    assert (texts(on.rows), on.reached, on.next) == (["day 42"], None, "")


def test_a_period_is_read_from_the_oldest_on(answered: Answered, pool: Pool) -> None:
    for ago in (40, 41):
        for n in range(3):
            answered(f"{ago} {n}", ago, n)
    decisions.prune()
    assert texts(list(reading.period(pool, Search(), at_once=2))) == ["41 0", "41 1", "41 2", "40 0", "40 1", "40 2"]
    assert texts(list(reading.period(pool, Search(since=NOON - timedelta(days=40, seconds=-1)), 2))) == ["40 1", "40 2"]


def test_duckdb_reads_nothing_but_what_it_is_given(answered: Answered, archive: Path) -> None:
    import duckdb

    answered("one", 40)
    decisions.prune()
    from training_app.models import ArchivedDay

    with reading._opened(ArchivedDay.objects.get()) as engine:
        assert engine.sql("SELECT count(*) FROM day").fetchall() == [(1,)]
        for statement in (
            "SELECT * FROM read_text('/etc/hostname')",
            "COPY day TO '/tmp/stolen.csv'",
            "INSTALL httpfs",
            "SET enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                engine.execute(statement)


def test_a_file_that_is_gone_is_named(answered: Answered, pool: Pool, archive: Path) -> None:
    key = answered("one", 40)
    decisions.prune()
    next(archive.rglob("*.parquet")).unlink()
    with pytest.raises(ArchiveError, match=r"support-\d+/.*parquet cannot be read"):
        reading.one(key)
