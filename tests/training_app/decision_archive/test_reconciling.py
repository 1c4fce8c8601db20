"""After a backup that is older than the archive was restored, the list of archived days and the files fit again."""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from agents_app import backups
from agents_app.models import AuditEntry, Pool
from routerweb.erasing import ErasedQuery
from tests.training_app.decision_archive.conftest import Answered
from training_app.answering import decisions
from training_app.decision_archive import erasing, reading, reconciling
from training_app.decision_archive.storage import ArchiveError
from training_app.models import ArchivedDay, Decision

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def rows() -> list[dict[str, Any]]:
    return list(ArchivedDay.objects.values())


def put_back(before: list[dict[str, Any]]) -> None:
    """The list as it was, as a restored backup has it."""
    ArchivedDay.objects.all().delete()
    for row in before:
        ArchivedDay.objects.create(**row)
        ArchivedDay.objects.filter(pk=row["id"]).update(at=row["at"])


def erase(text: str) -> None:
    erasing.forget([ErasedQuery(1, 1, text)])


def archived(pool: Pool) -> list[str]:
    """The texts that a search finds, newest first."""
    return [row.decision.text for row in reading.part(pool, reading.Search(), "", 10).rows]


@pytest.mark.django_db(transaction=True)
def test_restoring_a_backup_older_than_an_erasure_brings_nothing_erased_back(
    answered: Answered, pool: Pool, archive: Path, tmp_path: Path, client: Client
) -> None:
    secret, other = answered("secret billing", 40), answered("parcel", 40, 1)
    decisions.prune()
    file, said = tmp_path / "all.zip", io.StringIO()
    backups.write(file)
    erase("secret billing")
    assert reading.one(secret).decision.text == ""  # type: ignore[union-attr]
    call_command("restore", str(file), "--replace", stdout=said)
    assert "the list of archived days has the file" in said.getvalue()
    pool = Pool.objects.get(slug="support")
    assert archived(pool) == ["parcel", ""]
    assert reading.one(secret).decision.text == ""  # type: ignore[union-attr]
    assert reading.one(other).decision.text == "parcel"  # type: ignore[union-attr]
    assert ArchivedDay.objects.count() == len(list(archive.rglob("*.parquet"))) == 1
    assert reconciling.reconcile() == [], "and once is enough"


def test_a_day_archived_after_the_backup_is_taken_and_goes_from_the_database_again(
    answered: Answered, pool: Pool, archive: Path
) -> None:
    key = answered("old", 40)
    row = Decision.objects.filter(pk=key).values().get()
    decisions.prune()
    put_back([])
    Decision.objects.create(**row)
    (line,) = reconciling.after_restore()
    assert "has the file" in line
    assert decisions.prune() == 1
    assert (archived(pool), Decision.objects.count()) == (["old"], 0)
    assert len(list(archive.rglob("*.parquet"))) == 1


def test_a_file_that_was_deleted_for_its_age_is_left_out(
    answered: Answered, pool: Pool, archive: Path, settings: Any
) -> None:
    answered("older", 400)
    answered("old", 40)
    decisions.prune()
    before = rows()
    settings.ARCHIVE_DAYS = 100
    decisions.prune()
    put_back(before)
    (line,) = reconciling.after_restore()
    assert "no longer in the archive" in line
    assert archived(pool) == ["old"]
    assert ArchivedDay.objects.count() == 1


def test_an_archive_older_than_the_list_changes_nothing_and_says_what_is_missing(
    answered: Answered, pool: Pool, archive: Path, tmp_path: Path
) -> None:
    answered("secret", 40)
    decisions.prune()
    shutil.copytree(archive, tmp_path / "copy")
    erase("secret")
    before = rows()
    shutil.rmtree(archive)
    shutil.copytree(tmp_path / "copy", archive)
    (line,) = reconciling.after_restore()
    assert f"{before[0]['path']} is missing" in line
    assert rows() == before
    with pytest.raises(ArchiveError):
        archived(pool)


def test_what_was_being_written_is_in_use_where_the_manifest_says_so(
    answered: Answered, pool: Pool, archive: Path
) -> None:
    answered("old", 40)
    decisions.prune()
    before = rows()
    ArchivedDay.objects.update(state="writing", rows=0, first_id=None, last_id=None)
    reconciling.reconcile()
    assert [{**row, "at": None} for row in rows()] == [{**row, "at": None} for row in before]


def test_without_a_manifest_or_with_another_file_nothing_is_changed(
    answered: Answered, pool: Pool, archive: Path, settings: Any
) -> None:
    answered("old", 40)
    decisions.prune()
    before, manifest = rows(), next(archive.rglob("manifest.json"))
    said = json.loads(manifest.read_text())
    manifest.unlink()
    assert reconciling.after_restore() == []
    manifest.write_text("{")
    assert "is damaged" in reconciling.after_restore()[0]
    said["files"][0] |= {"sha256": "0" * 64, "written": timezone.now().isoformat()}
    other = next(archive.rglob("*.parquet"))
    shutil.copy(other, other.with_name("other.parquet"))
    said["files"][0]["path"] = str(other.with_name("other.parquet").relative_to(archive))
    manifest.write_text(json.dumps(said))
    assert "is not the file that its manifest names" in reconciling.after_restore()[0]
    settings.DECISION_ARCHIVE = ""
    assert "DECISION_ARCHIVE is not set" in reconciling.after_restore()[0]
    assert rows() == before


def test_an_installation_without_an_archive_says_nothing(pool: Pool, settings: Any) -> None:
    settings.DECISION_ARCHIVE = ""
    assert reconciling.after_restore() == []


@pytest.mark.parametrize("lost", [True, False])
def test_a_day_whose_file_nobody_has_is_given_up_and_erasing_goes_on(
    lost: bool, answered: Answered, pool: Pool, archive: Path
) -> None:
    answered("secret", 40)
    answered("secret", 41)
    decisions.prune()
    older, newer = ArchivedDay.objects.order_by("day")
    file = archive / older.path
    with pytest.raises(CommandError, match="is whole"):
        call_command("give_up_archived_day", pool.slug, str(older.day))
    if lost:
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ArchiveError):
        erase("secret")
    said = io.StringIO()
    call_command("give_up_archived_day", pool.slug, str(older.day), stdout=said)
    assert older.path in said.getvalue()
    assert not file.exists()
    assert AuditEntry.objects.get(action="archive.given_up").target == older.path
    erase("secret")
    assert archived(pool) == [""]
    assert reconciling.reconcile() == []
    for words in ((pool.slug, str(older.day)), ("nowhere", str(newer.day)), (pool.slug, "yesterday")):
        with pytest.raises(CommandError, match=r"has no file|There is no pool|is not a day"):
            call_command("give_up_archived_day", *words)
