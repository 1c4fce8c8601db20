"""Old days leave the database for the archive: written once, read back, and only then deleted."""

import hashlib
import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pyarrow import parquet

from agents_app import archive as put_away
from agents_app.audit import Actor
from agents_app.models import Pool, Privacy
from tests.training_app.decision_archive.conftest import NOON, Answered
from training_app.answering import decision_partitions, decisions
from training_app.decision_archive import days, storage
from training_app.decision_archive.storage import ArchiveError
from training_app.models import ArchivedDay, Decision, Outcome

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def kept() -> dict[Any, int]:
    return dict(ArchivedDay.objects.kept().values_list("day", "rows"))


def day(ago: int) -> Any:
    return (NOON - timedelta(days=ago)).date()


def files(archive: Path) -> list[Path]:
    return sorted(archive.rglob("*.parquet"))


def test_a_day_goes_to_a_file_with_its_outcomes_and_then_from_the_database(
    answered: Answered, pool: Pool, archive: Path
) -> None:
    said = [{"role": "user", "content": "hé"}]
    first = answered("größte “billing”\n", 40, messages=said, detail={"canary": True}, propensity=0.5, microseconds=7)
    second, new = answered("late parcel", 40, 1), answered("new", 3)
    Outcome.objects.create(decision_id=first, pool=pool, success=False, rating=2.5, comment="", agents_used=[0])
    Outcome.objects.create(decision_id=new, pool=pool, success=True)
    assert decisions.prune() == 2
    assert list(Decision.objects.values_list("pk", flat=True)) == [new]
    assert list(Outcome.objects.values_list("decision_id", flat=True)) == [new]
    (file,) = files(archive)
    rows = parquet.read_table(file).to_pylist()
    assert [row["id"] for row in rows] == [str(first), str(second)]
    assert (rows[0]["text"], json.loads(rows[0]["messages"]), rows[0]["agents"]) == ("größte “billing”\n", said, [0])
    assert (rows[0]["success"], rows[0]["rating"], rows[0]["comment"], rows[0]["agents_used"]) == (
        False,
        2.5,
        "",
        "[0]",
    )
    assert (rows[1]["messages"], rows[1]["success"], rows[1]["model"]) == (None, None, "support-1")
    content = file.read_bytes()
    row = ArchivedDay.objects.get()
    assert (row.pool, row.day, row.rows, row.state) == (pool, day(40), 2, "kept")
    assert (row.bytes, row.sha256) == (len(content), hashlib.sha256(content).hexdigest())
    assert (row.first_id, row.last_id) == (first, second)
    said_beside = json.loads((file.parent / "manifest.json").read_text())
    assert said_beside["files"] == [
        {
            "day": str(day(40)), "file": file.name, "path": row.path, "written": row.at.isoformat(), "rows": 2,
            "bytes": len(content), "sha256": row.sha256,
        }
    ]  # fmt: skip
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_without_the_setting_nothing_is_archived(answered: Answered, settings: Any, archive: Path) -> None:
    settings.DECISION_ARCHIVE = ""
    answered("old", 40)
    assert decisions.prune() == 1
    assert not ArchivedDay.objects.exists()
    assert not archive.exists()


def test_a_day_goes_when_all_of_it_is_old_enough(
    answered: Answered, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timezone, "now", lambda: NOON)  # no midnight comes between
    answered("of the day on which it ends", 30, -43_200)  # its first second
    assert decisions.prune() == 0
    Privacy.objects.create(pool=pool, decision_days=29)
    assert decisions.prune() == 1
    assert kept() == {day(30): 1}


@pytest.mark.parametrize("at", ["put", "digest", "remove_of_nothing", "describe"])
def test_what_breaks_off_loses_nothing_and_goes_on(
    answered: Answered, archive: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """Killed while the file is written, before it was read back, before the rows were deleted, before the manifest was."""
    answered("one", 40)
    answered("two", 41)

    def killed(*_words: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as during:
        if at == "remove_of_nothing":
            during.setattr(days, "delete_written", killed)
        else:
            during.setattr(storage if hasattr(storage, at) else days, at, killed)
        with pytest.raises(KeyboardInterrupt):
            decisions.prune()
    assert Decision.objects.count() == 2, "nothing goes before it is written"
    assert decisions.prune() == 2
    assert kept() == {day(40): 1, day(41): 1}
    assert len(files(archive)) == ArchivedDay.objects.count() == 2
    assert decisions.prune() == 0


def test_what_was_stored_otherwise_than_written_counts_as_nothing(
    answered: Answered, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered("one", 40)
    stored = storage.put

    def torn(source: Path, path: str) -> None:
        stored(source, path)
        if path.endswith(".parquet"):
            (archive / path).write_bytes((archive / path).read_bytes().replace(b"PAR1", b"PAR2", 1))

    monkeypatch.setattr(storage, "put", torn)
    with pytest.raises(ArchiveError, match="was not stored as it was written"):
        decisions.prune()
    assert Decision.objects.count() == 1
    assert kept() == {}


def test_an_archive_that_cannot_be_written_stops_retention(answered: Answered, archive: Path) -> None:
    answered("one", 40)
    archive.write_text("no folder")
    with pytest.raises(ArchiveError, match="The archive"):
        decisions.prune()
    assert Decision.objects.count() == 1


def test_what_comes_late_joins_the_file_of_its_day(answered: Answered, archive: Path) -> None:
    early = answered("early", 40)
    decisions.prune()
    (before,) = files(archive)
    late = answered("late", 40, -5)
    assert decisions.prune() == 1
    (after,) = files(archive)
    assert after != before
    assert [row["id"] for row in parquet.read_table(after).to_pylist()] == [str(late), str(early)]
    assert kept() == {day(40): 2}


def test_archived_days_go_when_their_pool_keeps_them_no_longer(
    answered: Answered, pool: Pool, archive: Path, settings: Any
) -> None:
    for ago in (40, 50, 60):
        answered("old", ago)
    decisions.prune()
    Privacy.objects.create(pool=pool, archive_days=55)
    decisions.prune()
    assert set(kept()) == {day(40), day(50)}
    Privacy.objects.update(archive_days=None)
    settings.ARCHIVE_DAYS = 45
    decisions.prune()
    assert set(kept()) == {day(40)}
    assert len(files(archive)) == 1
    assert len(json.loads(next(archive.rglob("manifest.json")).read_text())["files"]) == 1


def test_files_of_a_purged_pool_go(answered: Answered, pool: Pool, archive: Path) -> None:
    answered("old", 40)
    decisions.prune()
    put_away.delete(pool, "support", actor=Actor("test"))
    put_away.purge(pool)
    assert ArchivedDay.objects.get().pool is None
    decisions.prune()
    assert files(archive) == []
    assert not ArchivedDay.objects.exists()


def test_a_part_is_dropped_once_all_of_it_is_archived(
    answered: Answered, pool: Pool, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if connection.vendor != "postgresql":
        pytest.skip("SQLite has one table.")
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
    decision_partitions.convert()
    part = decision_partitions.Part(day(39), day(40))
    until = decision_partitions.parts()[0]
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {decision_partitions.TABLE} DETACH PARTITION {until.table}")
        cursor.execute(f"CREATE TABLE {part.table} PARTITION OF {decision_partitions.TABLE} FOR VALUES {part.bounds}")
    answered("old", 40)
    with monkeypatch.context() as nothing_written:
        nothing_written.setattr(days, "write_due", lambda _days: 0)
        nothing_written.setattr(days, "delete_written", lambda *_words: 0)
        decisions.prune()
    assert part in decision_partitions.parts()
    assert decisions.prune() == 0, "the part is dropped, no row is deleted"
    assert part not in decision_partitions.parts()
    assert kept() == {day(40): 1}


def test_a_decision_of_another_pool_is_in_another_file(answered: Answered, pool: Pool, archive: Path) -> None:
    other = Pool.objects.create(slug="sales", name="Sales")
    answered("mine", 40)
    answered("theirs", 40, pool=other, model=None)
    assert decisions.prune() == 2
    assert [file.parent.name for file in files(archive)] == sorted([f"sales-{other.pk}", f"support-{pool.pk}"])
    (theirs,) = parquet.read_table(files(archive)[0]).to_pylist()
    assert (theirs["text"], theirs["model"]) == ("theirs", "descriptions")
    assert uuid.UUID(theirs["id"]).version == 7
