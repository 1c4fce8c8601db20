"""The list of archived days compared with what lies in the archive, as after restoring a backup that is older than the archive.

`manifest.json` beside a pool's files says which file holds a day, and since when. Where the manifest is newer than a row, the row
follows it: an erasing has written that day anew, a day was archived after the backup, or was too old. A newer row stays.
"""

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from agents_app import audit
from agents_app.audit import Who
from agents_app.models import Pool
from training_app.decision_archive import days, storage
from training_app.decision_archive.days import State
from training_app.decision_archive.storage import ArchiveError
from training_app.models import ArchivedDay

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listed:
    """A file as the manifest has it."""

    day: date
    path: str
    sha256: str
    rows: int
    written: datetime


def after_restore() -> list[str]:
    """For the hook `backup_restored`: what was done, a line each. An archive that cannot be read is a line too."""
    if not storage.is_used():
        if not ArchivedDay.objects.exists():
            return []
        return ["DECISION_ARCHIVE is not set, so the list of archived days was not compared with the archive."]
    try:
        return reconcile()
    except ArchiveError as error:
        return [
            f"The list of archived days could not be compared with the archive: {error} The daily job that deletes old decisions does "
            "it once the archive can be read."
        ]


def reconcile() -> list[str]:
    """Have the list of archived days follow the archive; what was changed, or is missing, a line each. Raises ArchiveError."""
    lines = [line for pool in Pool.objects.order_by("pk") for line in _of_pool(pool)]
    for line in lines:
        logger.warning("%s", line)
    return lines


def give_up(pool: Pool, day: date, *, actor: Who) -> ArchivedDay:
    """Take a day off the list whose file is lost or damaged for good: while it stands there, nobody's data can be erased. What is left
    of the file is deleted. Raises ArchiveError where the list has no such day, the file is whole, or the archive cannot be reached."""
    row = ArchivedDay.objects.kept().filter(pool=pool, day=day).first()
    if row is None:
        raise ArchiveError(f"The archive of {pool.slug} has no file of {day}.")
    if storage.is_there(row.path) and storage.digest(row.path)[0] == row.sha256:
        raise ArchiveError(f"{row.path} is whole: there is nothing to give up.")
    with transaction.atomic():
        audit.record(
            "archive.given_up", actor=actor, target=row.path, pool=pool, detail={"day": str(day), "rows": row.rows}
        )
        ArchivedDay.objects.filter(pk=row.pk).update(state=State.LEAVING)
    days.remove(ArchivedDay.objects.filter(pk=row.pk))
    days.describe(pool)
    return row


def _of_pool(pool: Pool) -> Iterator[str]:
    listed, written = _manifest(pool)
    if written is None:
        return
    kept = {row.day: row for row in ArchivedDay.objects.kept().filter(pool=pool)}
    changed = False
    for day in sorted({*listed, *kept}):
        row, file = kept.get(day), listed.get(day)
        if row and file and row.path == file.path:
            continue
        name = f"{pool.slug}, {day}"
        if file and (row is None or file.written > row.at) and storage.is_there(file.path):
            _adopt(pool, file)
            changed = True
            yield f"{name}: the list of archived days has the file {file.path} of the archive now."
        elif row and not storage.is_there(row.path):
            if row.at <= written:
                ArchivedDay.objects.filter(pk=row.pk).update(state=State.LEAVING)
                changed = True
                yield f"{name}: its file is no longer in the archive, and the list of archived days left it out."
            else:
                yield f"{name}: {row.path} is missing, and the archive is older than the list. Copy the file there."
    if changed:
        days.remove(ArchivedDay.objects.filter(pool=pool, state=State.LEAVING))
        days.describe(pool)


def _manifest(pool: Pool) -> tuple[dict[date, Listed], datetime | None]:
    """What a pool's manifest lists by day, and when it was written; None without one. Raises ArchiveError."""
    path = days.manifest_of(pool)
    text = storage.text(path)
    if text is None:
        return {}, None
    try:
        said: dict[str, Any] = json.loads(text)
        listed = [
            Listed(
                date.fromisoformat(file["day"]), file["path"], file["sha256"], file["rows"], datetime.fromisoformat(file["written"])
            )
            for file in said["files"]
        ]  # fmt: skip
        return {file.day: file for file in listed}, datetime.fromisoformat(said["written"])
    except (ValueError, KeyError, TypeError) as error:
        raise ArchiveError(f"{path} is damaged ({type(error).__name__}: {error}).") from None


def _adopt(pool: Pool, file: Listed) -> None:
    """Take a file of the archive into use for its day. Raises ArchiveError where it is not what the manifest says."""
    sha256, size = storage.digest(file.path)
    ids = days.ids_of(file.path)
    if sha256 != file.sha256 or len(ids) != file.rows:
        raise ArchiveError(f"{file.path} is not the file that its manifest names.")
    facts = {
        "pool": pool, "day": file.day, "state": State.KEPT, "rows": file.rows, "bytes": size, "sha256": sha256,
        "first_id": UUID(int=min(key.int for key in ids)), "last_id": UUID(int=max(key.int for key in ids)),
    }  # fmt: skip
    with transaction.atomic():
        ArchivedDay.objects.kept().filter(pool=pool, day=file.day).update(state=State.LEAVING)
        row, _made = ArchivedDay.objects.update_or_create(path=file.path, defaults=facts)
        ArchivedDay.objects.filter(pk=row.pk).update(at=file.written)
