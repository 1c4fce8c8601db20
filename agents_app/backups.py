"""One file that holds the whole installation, from SQLite or PostgreSQL, for SQLite or PostgreSQL.

The file is a zip: a member `tables/NAME.jsonl` for each table, one JSON array of column values a line in the order of the primary key,
and `manifest.json` with the format's number, the migrations that the database had, and each table's columns, number of rows and
SHA-256. Nothing is pickled, so reading a file runs nothing that came with it. Everything is read in one snapshot of the database
while others go on writing, and is streamed both ways: memory holds one batch of rows.

Every value in a file can be stored in either database: a character or number that only SQLite would take is written as
`storable.mended` has it, and a file that holds one all the same is mended while it is restored.

Left out is what models declare with `backup=False`: sessions (everybody signs in again), the job queue and the results of its jobs
(they are pickled, and belong to processes that are gone), processes' signs of life, answers that wait for a call to be sent again,
and the admin's own short log of clicks. The counts of failed sign-ins are in a cache, which no model describes.
"""

import base64
import contextlib
import hashlib
import json
import logging
import os
import tempfile
import zipfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

from django.core.exceptions import ValidationError
from django.core.management.color import no_style
from django.db import DatabaseError, connection, models, transaction
from django.db.migrations.recorder import MigrationRecorder

from agents_app.files import backups as backup_files
from agents_app.files import limited
from agents_app.files.formats import Unreadable
from agents_app.files.limited import Limits
from agents_app.models import Stamp
from routerweb import holds
from training_app.engine.data import storable

FORMAT = 1
# What `migrate` itself fills: a database with rows in these alone is an empty one.
MADE_BY_MIGRATE = frozenset(
    {"auth_permission", "auth_group", "auth_group_permissions", "django_content_type", "django_q_schedule"}
)
BATCH = 500
BATCH_CHARACTERS = 8_000_000

log = logging.getLogger(__name__)
#: Bytes of memory that reading a backup may take at least, and for each byte of the file, where a model's row is held several times.
LEAST_MEMORY, MEMORY_FOR_EACH_BYTE = 500_000_000, 8

Tick = Callable[[str, int, int], None]  # table, rows done, rows in all


class BackupError(Exception):
    """A file that cannot be written or restored; the message says why, in one line."""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of the database and its columns, in the order in which the file has them."""

    model: type[models.Model]
    columns: tuple["models.Field[Any, Any]", ...]

    @property
    def name(self) -> str:
        return self.model._meta.db_table


def tables() -> list[Table]:
    """Every table that a backup holds, in the order of the apps."""
    return [Table(model, tuple(model._meta.concrete_fields)) for model in holds.tables() if holds.in_backup(model)]


# ---------------------------------------------------------------------------------------------------- values as JSON


def _plain(field: "models.Field[Any, Any]", value: Any) -> Any:
    """A column's value as JSON can hold it."""
    if isinstance(value, str):
        return storable.mended_text(value)
    if isinstance(field, models.JSONField):
        return storable.mended(value)[0]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, (bytes, memoryview)):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return str(value)  # UUID, Decimal, date


def _value(field: "models.Field[Any, Any]", plain: Any) -> Any:
    """What `_plain` gave, back as the database driver wants it."""
    target = field
    while isinstance(target, models.ForeignKey):
        target = target.target_field
    if isinstance(target, models.JSONField):
        # A null in the file is SQL's where the column allows it, and JSON's where it does not.
        return None if plain is None and target.null else target.get_db_prep_save(storable.mended(plain)[0], connection)
    if isinstance(target, models.BinaryField):
        value = None if plain is None else base64.b64decode(plain, validate=True)
    else:
        value = _fitting(target, target.to_python(storable.mended_text(plain) if isinstance(plain, str) else plain))
    return target.get_db_prep_save(value, connection)


def _fitting(field: "models.Field[Any, Any]", value: Any) -> Any:
    """A value as PostgreSQL's column takes it: SQLite keeps longer texts and larger numbers than a column says."""
    fits = value
    if isinstance(value, str) and field.max_length is not None and isinstance(field, models.CharField):
        fits = value[: field.max_length]
    elif isinstance(value, int) and not isinstance(value, bool):
        lowest, highest = connection.ops.integer_field_range(field.get_internal_type())
        fits = min(max(value, value if lowest is None else lowest), value if highest is None else highest)
    if fits != value:
        log.warning("%s.%s: a value does not fit its column and was cut", field.model._meta.db_table, field.column)
    return fits


# ---------------------------------------------------------------------------------------------------- writing


@contextmanager
def _one_moment() -> Iterator[None]:
    """Everything read inside is of one moment, and nobody is kept from writing."""
    if connection.in_atomic_block:
        yield
        return
    if connection.vendor == "sqlite":
        # Django would begin a write transaction here; a plain one reads from its own snapshot of the write-ahead log.
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            try:
                yield
            finally:
                cursor.execute("ROLLBACK")
        return
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield


def write(path: Path, tick: Tick | None = None) -> int:
    """Write the whole installation to `path`, readable by its owner alone. Returns the number of rows.

    The file appears under its name only when it is whole. Raises BackupError where it cannot be written.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise BackupError(f"{path}: the folder {path.parent} does not exist. Make it, or name another file.")
    if path.is_dir():
        raise BackupError(f"{path} is a folder. Name a file in it.")
    total = 0
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
        try:
            with os.fdopen(handle, "wb") as stream:
                total = _write(stream, tick)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror or error}.") from None
    return total


def _write(stream: BinaryIO, tick: Tick | None) -> int:
    total = 0
    described: dict[str, Any] = {}
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive, _one_moment():
        migrations = sorted(MigrationRecorder(connection).applied_migrations())
        for table in tables():
            digest, rows = hashlib.sha256(), 0
            all_rows = table.model._base_manager.count() if tick else 0
            with archive.open(_member(table.name), "w", force_zip64=True) as member:
                for values in _rows(table):
                    line = json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
                    member.write(line)
                    digest.update(line)
                    rows += 1
                    if tick and rows % BATCH == 0:
                        tick(table.name, rows, all_rows)
            described[table.name] = {
                "columns": [field.column for field in table.columns],
                "rows": rows,
                "sha256": digest.hexdigest(),
            }
            total += rows
        manifest = {
            "format": FORMAT,
            "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "database": connection.vendor,
            "migrations": [list(key) for key in migrations],
            "tables": described,
        }
        archive.writestr("manifest.json", json.dumps(manifest, indent=1))
    return total


def _member(table: str) -> str:
    return f"tables/{table}.jsonl"


def _rows(table: Table) -> Iterator[list[Any]]:
    names = [field.attname for field in table.columns]
    heavy = any(isinstance(field, models.BinaryField) for field in table.columns)
    values = table.model._base_manager.order_by("pk").values_list(*names)
    for row in values.iterator(chunk_size=1 if heavy else BATCH):
        yield [_plain(field, value) for field, value in zip(table.columns, row, strict=True)]


# ---------------------------------------------------------------------------------------------------- restoring


def restore(path: Path, *, replace: bool = False, tick: Tick | None = None) -> int:
    """Put a backup in place of what the database holds. Returns the number of rows.

    The file is checked whole before the database is touched, and the change is one transaction: after a failure the old data
    stand as they did. Raises BackupError for a file that is damaged, newer, or of other migrations than this installation's, and for a
    database that is not empty unless `replace`.
    """
    path = Path(path)
    present = set(connection.introspection.table_names())
    if any(table.name not in present for table in tables()):
        raise BackupError("the database has no tables yet, or old ones. Run `python manage.py migrate` first.")
    try:
        with path.open("rb") as stream, contextlib.closing(_read(path, stream)) as records:
            _word, manifest = next(records)
            _check_manifest(path, manifest)
            for what, *rest in records:
                if what == "whole":
                    break
                if tick:
                    tick(f"checking {rest[0]}", rest[1], manifest["tables"][rest[0]]["rows"])
            if not replace and not is_empty():
                raise BackupError(
                    "the database is not empty. Restore into an empty one, or say --replace to give up what it holds."
                )
            return _put_in_place(((name, values) for _word, name, values in records), manifest, tick)
    except OSError as error:
        raise BackupError(f"{path} cannot be read: {error.strerror or error}.") from None


def _read(path: Path, stream: BinaryIO) -> Generator[Any, None, None]:
    """What the file holds, as a process with limits reads it. Raises BackupError."""
    # A backup holds models, whose rows are as large as they are: what its reader may use grows with the file, not with what it
    # says to unpack to.
    size = os.fstat(stream.fileno()).st_size
    limits = Limits(
        cpu_seconds=600 + size // 1_000_000, silent_seconds=600, memory_bytes=LEAST_MEMORY + MEMORY_FOR_EACH_BYTE * size
    )
    try:
        yield from limited.run(backup_files.rows, stream, limits=limits)
    except Unreadable as error:
        raise BackupError(
            {
                backup_files.DAMAGED: f"{path} is damaged or not a backup of Routerweb. Take another copy.",
                backup_files.NOT_A_BACKUP: f"{path} cannot be read: it is not a backup, or it is damaged.",
                backup_files.ENCRYPTED: f"{path} is encrypted. Decrypt it first, then restore the file that comes out.",
                backup_files.PACKED: f"{path} is packed in a way that this version cannot read. Take another copy.",
            }.get(error.message, f"{path} cannot be read: {error}")
        ) from None


def is_empty() -> bool:
    """Whether the database holds nothing that people or commands put there."""
    return not any(
        table.model._base_manager.exists()
        for table in tables()
        if table.name not in MADE_BY_MIGRATE and table.model is not Stamp
    )


def _named(migrations: Sequence[tuple[str, str]]) -> str:
    first = ".".join(migrations[0])
    return f"migration {first} is" if len(migrations) == 1 else f"migration {first} and {len(migrations) - 1} more are"


def _check_manifest(path: Path, manifest: dict[str, Any]) -> None:
    """Raises BackupError for a file of another format, of other migrations or of other tables than this installation's."""
    number = manifest["format"]
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise BackupError(f"{path} is damaged or not a backup of Routerweb. Take another copy.")
    if number > FORMAT:
        raise BackupError(f"{path} is of format {number}; this version reads up to {FORMAT}. Upgrade Routerweb first.")
    theirs = {(app, name) for app, name in manifest["migrations"]}
    ours = set(MigrationRecorder(connection).applied_migrations())
    if newer := sorted(theirs - ours):
        raise BackupError(
            f"{path} is of a newer Routerweb than this database ({_named(newer)} not applied "
            "here). Upgrade, run `python manage.py migrate`, and restore again."
        )
    if older := sorted(ours - theirs):
        raise BackupError(
            f"{path} is of an older Routerweb than this database ({_named(older)} not in it). "
            "Restore it with the version that made it, then upgrade and migrate."
        )
    columns = {table.name: [field.column for field in table.columns] for table in tables()}
    if {name: table["columns"] for name, table in manifest["tables"].items()} != columns:
        raise BackupError(
            f"{path} has other tables or columns than this version. Restore it with the version that made it."
        )


def _put_in_place(records: Iterator[tuple[str, list[Any]]], manifest: dict[str, Any], tick: Tick | None) -> int:
    total, name = 0, ""
    by_name = {table.name: table for table in tables()}
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            before = Stamp.current()
            # What a backup leaves out belongs to the installation that the restored data replace.
            for old in [model._meta.db_table for model in holds.tables()]:
                # Foreign keys are checked when the transaction ends, so the order of the tables does not matter.
                cursor.execute(f"DELETE FROM {connection.ops.quote_name(old)}")  # noqa: S608  (our own table's name)
            for name, rows in groupby(records, key=lambda pair: pair[0]):
                values = (row for _name, row in rows)
                total += _insert(cursor, by_name[name], values, manifest["tables"][name]["rows"], tick)
            # Now, not at the commit: PostgreSQL does not take a sequence back, and after a failure it must suit the old rows.
            connection.check_constraints()
            for statement in connection.ops.sequence_reset_sql(no_style(), [table.model for table in tables()]):
                cursor.execute(statement)
            # Every running process must notice, whatever the stamp of the backup was.
            now = max(before, Stamp.current()) + 1
            Stamp.objects.update_or_create(pk=1, defaults={"value": now})
    except (DatabaseError, ValidationError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise BackupError(
            f"the table {name} could not be restored: {' '.join(str(error).split())[:300]}. Nothing was changed."
        ) from None
    return total


def _insert(cursor: Any, table: Table, values: Iterator[list[Any]], rows: int, tick: Tick | None) -> int:
    quote = connection.ops.quote_name
    columns = ", ".join(quote(str(field.column)) for field in table.columns)
    marks = ", ".join(["%s"] * len(table.columns))
    statement = f"INSERT INTO {quote(table.name)} ({columns}) VALUES ({marks})"  # noqa: S608  (our own names)
    done = 0
    for batch in _batches(values):
        cursor.executemany(statement, [_values(table.columns, row) for row in batch])
        done += len(batch)
        if tick:
            tick(table.name, done, rows)
    return done


def _batches(rows: Iterator[list[Any]]) -> Iterator[list[list[Any]]]:
    batch: list[list[Any]] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, str))
        if len(batch) >= BATCH or size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _values(columns: Sequence["models.Field[Any, Any]"], row: list[Any]) -> list[Any]:
    return [_value(field, plain) for field, plain in zip(columns, row, strict=True)]
