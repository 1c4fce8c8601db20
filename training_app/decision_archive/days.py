"""Days of decisions that go from the database to the archive: one Parquet file for each pool and day, written once.

`write_due` writes the finished days that retention is about to delete, with their outcomes, and reads each file back before it
counts. `delete_written` deletes from the database only what a file holds. A file is replaced as a whole, by another name: of a late
row, and where texts are erased (`erasing`). Whoever is interrupted anywhere goes on at the next turn: nothing is lost or there twice.
"""

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import connection, models, transaction
from django.db.models.functions import Cast
from django.utils import timezone

from agents_app import privacy
from agents_app.background_work import unhurried
from agents_app.models import Pool
from training_app.decision_archive import storage
from training_app.decision_archive.storage import ArchiveError
from training_app.models import ArchivedDay, Decision, Outcome

if TYPE_CHECKING:
    import pyarrow

State = ArchivedDay.State
#: Rows of a row group, which is the least that a search reads, and what is in memory at once.
GROUP = 10_000
#: How often a file is written anew where somebody erased from the same day meanwhile.
TRIES = 5
#: A file that is still being written after so long belongs to a process that is gone.
DEAD = timedelta(hours=1)
#: Columns of the database that a file holds as they are, and those that it holds as JSON.
PLAIN = (
    "id", "at", "text", "confidence", "steps", "stop_reason", "abstained", "microseconds", "propensity", "model_id", "api_key_id"
)  # fmt: skip
AS_JSON = ("messages", "scores", "detail", "agents")

Tables = Iterable["pyarrow.Table"]


def schema() -> "pyarrow.Schema":
    """The columns of a file. JSON is text; `agents` are numbers; what an application reported is null where it reported nothing."""
    import pyarrow as pa

    moment, text, number = pa.timestamp("us", "UTC"), pa.string(), pa.float64()
    return pa.schema([
        ("id", text), ("at", moment), ("text", text), ("messages", text), ("agents", pa.list_(pa.int32())), ("scores", text),
        ("confidence", number), ("steps", pa.int32()), ("stop_reason", text), ("abstained", pa.bool_()),
        ("microseconds", pa.int64()), ("propensity", number), ("detail", text), ("model_id", pa.int64()), ("model", text),
        ("api_key_id", pa.int64()), ("success", pa.bool_()), ("rating", number), ("comment", text), ("agents_used", text),
        ("reported_at", moment),
    ])  # fmt: skip


def bounds(day: date) -> tuple[datetime, datetime]:
    """When a day begins and ends, in UTC."""
    begin = datetime.combine(day, time(), UTC)
    return begin, begin + timedelta(days=1)


# --- What a job does once a day -----------------------------------------------------------------------------------


def write_due(default: int) -> int:
    """Write the days that are over and older than their pool keeps decisions, else `default` days; how many. Raises ArchiveError."""
    clean()
    count = 0
    for pool, day in _due(default):
        _write(pool, day)
        count += 1
    return count


def delete_written(default: int, rows_at_once: int = 2_000) -> int:
    """Delete from the database those decisions of the same days that are in their file, with their outcomes; how many."""
    deleted = 0
    for pool, day in _due(default):
        for archived in ArchivedDay.objects.kept().filter(pool=pool, day=day):
            ids = ids_of(archived.path)
            for first in unhurried.each(range(0, len(ids), rows_at_once), unhurried.NIGHTLY):
                some = ids[first : first + rows_at_once]
                deleted += Decision.objects.filter(pk__in=some).delete()[0]
                Outcome.objects.filter(decision_id__in=some).delete()
    return deleted


def holds_all_of(table: str) -> bool:
    """Whether everything in a part of the table of decisions is in the archive. The name is one of the database's own."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT pool_id, (at AT TIME ZONE 'UTC')::date, count(*) FROM {table} GROUP BY 1, 2")  # noqa: S608
        stored = cursor.fetchall()
    archived = {(row.pool_id, row.day): row.rows for row in ArchivedDay.objects.kept()}
    return all(archived.get((pool, day), 0) >= count for pool, day, count in stored)


def clean() -> int:
    """Delete the files that are older than their pool keeps archived decisions, of pools that are gone, and what was left by whoever
    broke off; how many. Raises ArchiveError."""
    for pool, days in _kept_for("archive_days", settings.ARCHIVE_DAYS):
        if days:
            old = ArchivedDay.objects.filter(pool=pool, day__lt=(timezone.now() - timedelta(days=days)).date())
            if old.update(state=State.LEAVING):
                describe(pool)
    dead = models.Q(state=State.WRITING, at__lt=timezone.now() - DEAD)
    return remove(ArchivedDay.objects.filter(dead | models.Q(state=State.LEAVING) | models.Q(pool=None)))


def _due(default: int) -> Iterator[tuple[Pool, date]]:
    for pool, days in _kept_for("decision_days", default):
        end = bounds((timezone.now() - timedelta(days=days)).astimezone(UTC).date())[0]
        rows = Decision.objects.filter(pool=pool, at__lt=end).order_by("at").values_list("at", flat=True)
        at = rows.first()
        while at is not None:
            day = at.astimezone(UTC).date()
            yield pool, day
            at = rows.filter(at__gte=bounds(day)[1]).first()


def _kept_for(column: str, default: int) -> list[tuple[Pool, int]]:
    """Each pool, and the number of days that this column of its privacy says, else the site's."""
    own = privacy.days_of(column)
    return [(pool, own.get(pool.pk, default)) for pool in Pool.objects.order_by("pk")]


# --- One day ------------------------------------------------------------------------------------------------------


def _write(pool: Pool, day: date) -> None:
    """Have a file that holds all decisions of a day. Raises ArchiveError."""
    for _n in range(TRIES):
        archived = ArchivedDay.objects.kept().filter(pool=pool, day=day).first()
        rows = Decision.objects.filter(pool=pool, at__gte=bounds(day)[0], at__lt=bounds(day)[1])
        late = set(rows.values_list("pk", flat=True)).difference(ids_of(archived.path)) if archived else set()
        if archived and not late:
            return
        if replaced(archived, pool, day, partial(_merged, archived, rows, late)):
            return
    raise ArchiveError(f"{pool.slug}, {day}: others changed the archive all the time.")


def replaced(old: ArchivedDay | None, pool: Pool, day: date, rows: Callable[[], Tables]) -> bool:
    """Write a file in place of `old`; False where somebody else replaced that one meanwhile, or erased texts. `rows` reads what goes
    into it: after the manifest says that it is written, so that whoever erases meanwhile can break it off. Raises ArchiveError."""
    of_day = ArchivedDay.objects.filter(pool=pool, day=day)
    of_day.filter(state=State.WRITING).update(state=State.LEAVING)
    path = f"{pool.slug}-{pool.pk}/{day}-{secrets.token_hex(4)}.parquet"
    new = of_day.filter(pk=ArchivedDay.objects.create(pool=pool, day=day, path=path).pk)
    try:
        done = _swapped(old, new, _checked(path, rows()))
    except ArchiveError:
        if old is None or ArchivedDay.objects.kept().filter(pk=old.pk).exists():
            raise
        done = False  # the old file is gone: it was replaced
    if done:
        describe(pool)
    else:
        new.update(state=State.LEAVING)
    remove(of_day.filter(state=State.LEAVING))
    return done


def _swapped(old: ArchivedDay | None, new: "models.QuerySet[ArchivedDay]", facts: dict[str, Any]) -> bool:
    """Take a new file into use in place of an old one, both as they were expected; whether that was done."""
    with transaction.atomic():
        unchanged = old is None or ArchivedDay.objects.kept().filter(pk=old.pk).update(state=State.LEAVING)
        done = bool(unchanged and new.filter(state=State.WRITING).update(state=State.KEPT, **facts))
        if not done:
            transaction.set_rollback(True)
    return done


def _checked(path: str, tables: Tables) -> dict[str, Any]:
    """Write a file and read it back: what its row in the manifest says. Raises ArchiveError where it is not what was written."""
    from pyarrow import parquet

    count, first, last = 0, "", ""
    with TemporaryDirectory() as scratch:
        file = Path(scratch) / "day.parquet"
        # With a sum of each page, which readers compare: what a disk altered is no decision.
        with parquet.ParquetWriter(file, schema(), compression="zstd", write_page_checksum=True) as writer:
            for table in tables:
                ids = table.column("id")
                count, first, last = count + len(ids), first or ids[0].as_py(), ids[-1].as_py()
                writer.write_table(table)
        storage.put(file, path)
        with file.open("rb") as stream:
            written = hashlib.file_digest(stream, "sha256").hexdigest()
    stored, size = storage.digest(path)
    with storage.opened() as (system, root):
        rows = parquet.read_metadata(f"{root}/{path}", filesystem=system).num_rows
    if (stored, rows) != (written, count):
        raise ArchiveError(f"{path} was not stored as it was written: {rows} of {count} rows.")
    return {"rows": count, "bytes": size, "sha256": stored, "first_id": UUID(first), "last_id": UUID(last)}


def remove(rows: "models.QuerySet[ArchivedDay]") -> int:
    """Delete files, then their rows."""
    count = 0
    for archived in rows:
        storage.remove(archived.path)
        archived.delete()
        count += 1
    return count


def describe(pool: Pool) -> None:
    """Write the manifest beside the pool's files, so that they explain themselves without the database."""
    rows = ArchivedDay.objects.kept().filter(pool=pool).order_by("day")
    files = [
        {
            "day": str(archived.day),
            "file": archived.path.rpartition("/")[2],
            "path": archived.path,
            "written": archived.at.isoformat(),
            "rows": archived.rows,
            "bytes": archived.bytes,
            "sha256": archived.sha256,
        }
        for archived in rows
    ]
    manifest = {
        "what": "Decisions of a Routerweb pool, a Parquet file for each day in UTC",
        "pool": pool.slug,
        "written": timezone.now().isoformat(),
        "files": files,
    }
    with TemporaryDirectory() as scratch:
        file = Path(scratch) / "manifest.json"
        file.write_text(json.dumps(manifest, indent=1), "utf-8")
        storage.put(file, manifest_of(pool))


def manifest_of(pool: Pool) -> str:
    """The manifest's path."""
    return f"{pool.slug}-{pool.pk}/manifest.json"


def read_json(text: str | None) -> Any:
    """What a column that holds JSON says."""
    return None if text is None else json.loads(text)


# --- Rows as tables -----------------------------------------------------------------------------------------------


def tables_of(archived: ArchivedDay) -> "Iterator[pyarrow.Table]":
    """The rows of a file by their ids, GROUP at a time. Raises ArchiveError."""
    import pyarrow
    from pyarrow import parquet

    with storage.opened() as (system, root), system.open_input_file(f"{root}/{archived.path}") as file:
        for batch in parquet.ParquetFile(file, page_checksum_verification=True).iter_batches(GROUP):
            yield pyarrow.Table.from_batches([batch])


def ids_of(path: str) -> list[UUID]:
    """The ids of a file. Raises ArchiveError."""
    from pyarrow import parquet

    with storage.opened() as (system, root):
        stored = parquet.read_table(
            f"{root}/{path}", columns=["id"], filesystem=system, page_checksum_verification=True
        )
    return [UUID(key) for key in stored.column("id").to_pylist()]


def _merged(archived: ArchivedDay | None, rows: "models.QuerySet[Decision]", late: Collection[UUID]) -> Tables:
    """The rows of a file and those that came late, by their ids; without a file all rows."""
    import pyarrow

    if archived is None:
        return unhurried.each(_stored(rows), unhurried.NIGHTLY)
    whole = pyarrow.concat_tables([*tables_of(archived), *_stored(rows.filter(pk__in=late))]).sort_by("id")
    return [whole.slice(first, GROUP) for first in range(0, len(whole), GROUP)]


def _stored(rows: "models.QuerySet[Decision]") -> "Iterator[pyarrow.Table]":
    """Decisions by their ids, with what was reported of them."""
    import pyarrow

    texts = {f"{name}_json": Cast(name, models.TextField()) for name in AS_JSON}
    named = (
        rows.select_related(None)
        .order_by("pk")
        .annotate(**texts)
        .values_list(*PLAIN, *texts, "model__version", "pool__slug")
    )
    stored = named.iterator(chunk_size=GROUP)
    while part := list(islice(stored, GROUP)):
        columns: dict[str, Sequence[Any]] = dict(
            zip((*PLAIN, *AS_JSON, "version", "slug"), zip(*part, strict=True), strict=True)
        )
        columns |= _reported(columns["id"])
        columns["id"] = [str(key) for key in columns["id"]]
        columns["agents"] = [json.loads(agents) for agents in columns["agents"]]
        columns["model"] = [
            Decision.DESCRIPTIONS if version is None else f"{slug}-{version}"
            for slug, version in zip(columns["slug"], columns["version"], strict=True)
        ]
        yield pyarrow.table({name: columns[name] for name in schema().names}, schema())


def _reported(keys: Sequence[UUID]) -> dict[str, Sequence[Any]]:
    """The columns of what was reported of these decisions, whose ids are in order."""
    between = Outcome.objects.filter(decision_id__gte=keys[0], decision_id__lte=keys[-1])
    outcomes = {outcome.decision_id: outcome for outcome in between.iterator(chunk_size=2_000)}
    of_each = [outcomes.get(key) for key in keys]
    read: dict[str, Callable[[Outcome], Any]] = {
        "success": lambda outcome: outcome.success,
        "rating": lambda outcome: outcome.rating,
        "comment": lambda outcome: outcome.comment,
        "agents_used": lambda outcome: None if outcome.agents_used is None else json.dumps(outcome.agents_used),
        "reported_at": lambda outcome: outcome.at,
    }
    return {name: [outcome and value(outcome) for outcome in of_each] for name, value in read.items()}
