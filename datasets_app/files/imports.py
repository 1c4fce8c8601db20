"""Reading files of queries into a dataset, in batches that each stand or fall alone.

A batch is one transaction: its queries, labels, problems and the place up to which the file has been read. What is killed between
two batches goes on behind the last one, and a file that is read again changes nothing.
"""

import contextlib
import io
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _
from django_q.tasks import async_task

from agents_app import audit, jobs, pools
from agents_app.audit import Who, actor_of
from agents_app.models import Pool
from datasets_app.files import tables
from datasets_app.files.tables import Reading
from datasets_app.labels import disagreement, labels
from datasets_app.models import Dataset, Import, ImportProblem, Label, Query, inserting
from datasets_app.queries import queries
from training_app.engine.data.examples import Row, RowError
from training_app.engine.data.files import FORMATS, holds_json, read_rows

BATCH_ROWS = 1_000
BATCH_BYTES = 8 << 20
MAX_ATTEMPTS = 3
#: A queued import that no worker began is handed to the queue again after so long.
LOST_AFTER_SECONDS = 60
CLUSTER = "default"
SUFFIXES = {
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "json": "jsonl",
    "csv": "csv",
    "tsv": "csv",
    "txt": "txt",
    "text": "txt",
}

#: What an import's format is called, by how its file is built.
FORMAT_OF = {"table": "csv", "xlsx": "xlsx", "objects": "jsonl", "array": "json", "lines": "txt"}

Progress = Callable[[Import], None]


class UnreadableFile(Exception):
    """A file that cannot be read in; the message says why and what to do."""


class _Stopped(Exception):
    """This attempt no longer owns its import: it was cancelled, or another attempt has taken over."""


def guess_format(file_name: str, head: bytes = b"") -> str:
    """ "jsonl", "csv" or "txt", from the file's name or else its first bytes. A `.txt` whose lines are JSON objects is "jsonl"."""
    found = SUFFIXES.get(Path(file_name).suffix.lower().lstrip("."))
    if found == "txt" and holds_json(head):
        return "jsonl"
    if found:
        return found
    first = head.lstrip(b"\xef\xbb\xbf \t\r\n").split(b"\n", 1)[0].lower()
    if first.startswith(b"{"):
        return "jsonl"
    cells = {cell.strip(b' "\r') for cell in first.replace(b";", b",").replace(b"\t", b",").split(b",")}
    return "csv" if cells & {b"text", b"messages"} and len(cells) > 1 else "txt"


def read_file(
    dataset: Dataset,
    stream: BinaryIO,
    format: str,
    *,
    split: str = "",
    author: Who = None,
    progress: Progress | None = None,
    file_name: str = "",
    reading: Reading | None = None,
) -> Import:
    """Read a file into a dataset here and now; returns the import with its counts, its problems stored beside it.

    `format` is one of our own; a file of another form is read by its `reading`. `split` is for rows that name none; `author` is the
    person, or the command, that reads. `progress` is called after every batch of at most 1,000 rows. A bad row becomes an
    `ImportProblem` and the good ones go in. Raises what reading the stream or the database raises; the import is then marked
    failed, and what was stored stays.
    """
    if format not in FORMATS and reading is None:
        raise ValueError(f"unknown format {format!r}: one of {', '.join(FORMATS)}")
    name = (file_name or Path(str(getattr(stream, "name", "") or "stream")).name)[-255:]
    with transaction.atomic():
        upload = Import.objects.create(
            dataset=dataset,
            file_name=name,
            format=FORMAT_OF[reading.kind] if reading else format,
            reading=reading.as_json() if reading else {},
            split=split,
            author=actor_of(author).user,
            attempts=1,
            **jobs.begun(uuid.uuid4()),
            bytes_total=_size(stream),
        )
        detail = {"import": upload.pk}
        audit.record("import.started", actor=author, target=name, pool=dataset.pool, detail=detail)
    return run(upload, stream, progress)


def load_folder(
    pool: Pool,
    directory: str | Path,
    *,
    dataset: Dataset | None = None,
    author: Who = None,
    progress: Progress | None = None,
) -> list[Import]:
    """Read the `train.jsonl`, `val.jsonl`, `test.jsonl` of a folder, each into its split, and `unassigned.jsonl` into none.

    The pool's agents must be there already. A text that stands in two files keeps the split of the first. Returns one import
    a file that is there; raises UnreadableFile where none is.
    """
    directory = Path(directory)
    target = dataset or queries.dataset_of(pool)
    done: list[Import] = []
    for name, split in (("train", "train"), ("val", "val"), ("test", "test"), ("unassigned", "")):
        path = directory / f"{name}.jsonl"
        if path.is_file():
            with path.open("rb") as stream:
                done.append(read_file(target, stream, "jsonl", split=split, author=author, progress=progress))
    if not done:
        raise UnreadableFile(_("%(folder)s holds no train.jsonl, val.jsonl or test.jsonl.") % {"folder": directory})
    return done


# ---------------------------------------------------------------------------------------------------- attempts


def claim(import_id: int) -> Import | None:
    """Take a queued import for this process; None where another has it or it has ended."""
    taken = jobs.claim(Import, import_id)
    return Import.objects.select_related("dataset__pool", "author").get(pk=import_id) if taken else None


def enqueue(upload: Import) -> None:
    """Hand a queued import to the workers once the transaction is through."""
    jobs.deliver(Import, upload.pk, _send)


def _send(import_id: int) -> None:
    async_task("datasets_app.tasks.read_upload", import_id, q_options={"cluster": CLUSTER})


def begin(upload: Import, reading: Reading, split: str = "") -> bool:
    """Queue an import whose columns have been chosen now; False where it was begun or stopped already."""
    with transaction.atomic():
        waiting = Import.objects.filter(pk=upload.pk, status=Import.Status.CHOOSING)
        begun = waiting.update(status=Import.Status.QUEUED, reading=reading.as_json(), split=split)
        if begun:
            enqueue(upload)
    return bool(begun)


def forget_unchosen() -> int:
    """Drop files whose columns nobody has chosen for a day; returns how many."""
    old = Import.objects.filter(status=Import.Status.CHOOSING, created_at__lt=timezone.now() - timedelta(days=1))
    return sum(cancel(upload) for upload in old)


def cancel(upload: Import) -> bool:
    """Stop an import after its present batch; what has been stored stays. Returns whether there was something to stop."""
    with transaction.atomic():
        idle = (Import.Status.CHOOSING, Import.Status.QUEUED)
        queued = Import.objects.filter(pk=upload.pk, status__in=idle).update(
            status=Import.Status.CANCELLED, cancel_requested=True, finished_at=Now()
        )
        if queued:
            upload.chunks.all().delete()
        return bool(
            queued or Import.objects.filter(pk=upload.pk, status=Import.Status.RUNNING).update(cancel_requested=True)
        )


def retry(upload: Import) -> bool:
    """Queue a failed import of the browser again; it goes on behind its last stored row. Returns whether it could."""
    with transaction.atomic():
        again = Import.objects.filter(pk=upload.pk, status=Import.Status.FAILED, chunks__isnull=False).distinct()
        taken = Import.objects.filter(pk__in=list(again.values_list("pk", flat=True)), status="failed").update(
            status=Import.Status.QUEUED,
            attempt=None,
            attempts=0,
            losses=0,
            deliveries=0,
            error="",
            cancel_requested=False,
            finished_at=None,
        )
        if taken:
            enqueue(upload)
    return bool(taken)


def fail_dead_imports() -> int:
    """Take imports away from processes that died: to another worker where the file is in the database, at most three times, and
    failed otherwise. Returns how many were found."""
    return jobs.end_dead(Import, _end_attempt)


def _end_attempt(upload: Import, still: "QuerySet[Import]") -> bool:
    if upload.cancel_requested:
        return bool(still.update(status=Import.Status.CANCELLED, finished_at=Now()))
    if upload.attempts < MAX_ATTEMPTS and upload.chunks.exists():
        with transaction.atomic():
            again = still.update(status=Import.Status.QUEUED, attempt=None, losses=F("losses") + 1, deliveries=0)
            if again:
                enqueue(upload)
        return bool(again)
    error = _("The process that read this file has died. What it stored stays; read the file again to add the rest.")
    return bool(still.update(status=Import.Status.FAILED, error=error, finished_at=Now(), losses=F("losses") + 1))


def enqueue_lost_imports() -> int:
    """Hand imports to the workers again whose messages may be lost; returns how many."""
    return jobs.deliver_again(Import, _send, CLUSTER, LOST_AFTER_SECONDS)


# ---------------------------------------------------------------------------------------------------- reading


class _Counted(io.RawIOBase):
    """A stream that knows how many bytes have been taken from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.taken = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(len(buffer))
        buffer[: len(piece)] = piece
        self.taken += len(piece)
        return len(piece)


def _size(stream: BinaryIO) -> int:
    """How many bytes there are to read, 0 where the stream cannot say."""
    try:
        here = stream.tell()
        end = stream.seek(0, io.SEEK_END)
        stream.seek(here)
    except (AttributeError, OSError):
        return 0
    return end - here


def run(upload: Import, stream: BinaryIO, progress: Progress | None = None) -> Import:
    """Read a claimed import's file from its beginning, skipping what an earlier attempt stored; returns the import as it ended.

    Whatever goes wrong, the import does not stay "running": it is marked failed and the error raised again.
    """
    own = jobs.owned(Import, upload.pk, upload.attempt)
    counted = _Counted(stream)
    reader = _Reader(upload)
    try:
        with inserting.many_batches():
            # A quarter of a megabyte at a time: small enough for a moving progress bar, large enough to be quick.
            for batch in _batches(io.BufferedReader(counted, 1 << 18), upload, reader.roster, counted):
                reader.store(batch, counted.taken)
                if progress is not None:
                    progress(upload)
        ended = own.update(status=Import.Status.DONE, bytes_read=counted.taken, finished_at=Now())
        if ended:
            upload.chunks.all().delete()
    except _Stopped:
        if own.filter(cancel_requested=True).update(status=Import.Status.CANCELLED, finished_at=Now()):
            upload.chunks.all().delete()
    except BaseException as error:
        reason = str(error) or type(error).__name__
        own.update(status=Import.Status.FAILED, error=reason[:2_000], finished_at=Now())
        raise
    upload.refresh_from_db()
    return upload


def _batches(
    stream: BinaryIO, upload: Import, roster: Sequence[Any], counted: _Counted
) -> Iterator[list[Row | RowError]]:
    """What the file holds behind the last stored line, in lists that are bounded in rows and in bytes."""
    batch: list[Row | RowError] = []
    begin = counted.taken
    behind = upload.last_line
    alive = time.monotonic()
    found = tables.rows(stream, Reading.of(upload.reading), roster) if upload.reading else None
    for item in found or read_rows(stream, upload.format, roster):
        if item.line <= behind:
            # Skipping a long way takes longer than a dead process is waited for.
            if time.monotonic() - alive > settings.HEARTBEAT_SECONDS:
                with contextlib.suppress(jobs.AttemptLost):  # the next batch is not stored then
                    jobs.beat(Import, upload.pk, upload.attempt)
                alive = time.monotonic()
            continue
        batch.append(item)
        if len(batch) >= BATCH_ROWS or counted.taken - begin >= BATCH_BYTES:
            yield batch
            batch, begin = [], counted.taken
    if batch:
        yield batch


class _Reader:
    """Stores the batches of one import; holds what stays the same from batch to batch."""

    def __init__(self, upload: Import) -> None:
        self.upload = upload
        pool = upload.dataset.pool
        self.roster = pools.roster(pool, retired=True)
        self.names = {agent.id: agent.name for agent in self.roster}
        self.active = frozenset(agent.id for agent in pools.roster(pool))
        self._in_order: dict[frozenset[int], list[int]] = {}

    def store(self, batch: Sequence[Row | RowError], bytes_read: int) -> None:
        """One batch in one transaction, its counts and its place in the file included. Raises _Stopped."""
        upload = self.upload
        last_line = max(item.line for item in batch)
        with transaction.atomic():
            added, labeled, unchanged, problems = self._rows(batch)
            ImportProblem.objects.bulk_create(problems)
            counts = {
                "rows_read": upload.rows_read + len(batch),
                "queries_added": upload.queries_added + added,
                "labels_added": upload.labels_added + labeled,
                "unchanged": upload.unchanged + unchanged,
                "rejected": upload.rejected + sum(problem.rejected for problem in problems),
                "last_line": last_line,
                "bytes_read": bytes_read,
            }
            own = jobs.owned(Import, upload.pk, upload.attempt)
            if not own.filter(cancel_requested=False).update(heartbeat_at=Now(), **counts):
                raise _Stopped
        for name, value in counts.items():
            setattr(upload, name, value)

    def _problem(self, row: Row | RowError, reason: str, field: str = "", rejected: bool = True) -> ImportProblem:
        shown = row.excerpt if isinstance(row, RowError) else " ".join(row.text[:200].split())
        return ImportProblem(
            upload=self.upload,
            line=row.line,
            field=field[:60],
            reason=reason[:400],
            excerpt=shown[:120],
            rejected=rejected,
        )

    def _said(self, required: Sequence[int]) -> str:
        return ", ".join(self.names.get(agent, str(agent)) for agent in required) or _("none of these")

    def _rows(self, batch: Sequence[Row | RowError]) -> tuple[int, int, int, list[ImportProblem]]:
        """(queries added, labels added, rows that changed nothing, problems) of one batch."""
        upload, key = self.upload, self.upload.pk
        problems = [self._problem(item, item.reason, item.field) for item in batch if isinstance(item, RowError)]
        rows = [item for item in batch if isinstance(item, Row)]
        found, new = queries.find_or_add(
            upload.dataset,
            [
                queries.NewQuery(
                    row.text, row.id, row.split or upload.split, row.extra, self._state(row), row.conversation
                )
                for row in rows
            ],
            f"import {upload.pk}",
        )
        known = {query.pk for query in found} - new
        said = self._said_before(known)
        first: list[labels.NewLabel] = []  # of queries that this batch added
        statements: list[labels.NewLabel] = []
        unchanged = 0
        counted_new: set[int] = set()
        for row, query in zip(rows, found, strict=True):
            is_new = query.pk in new and query.pk not in counted_new
            counted_new.add(query.pk)
            if query.erased or query.deleted:
                problems.append(self._problem(row, self._gone(query), "text"))
                continue
            split = row.split or upload.split
            if split and query.split != split:
                reason = _(
                    "the same text but for case, punctuation and space is in the split “%(stays)s” already, and stays "
                    "there; “%(split)s” was not taken"
                )
                stays = {"stays": query.split, "split": split}
                problems.append(self._problem(row, reason % stays, "split", rejected=False))
            if row.required is None:
                unchanged += not is_new
                continue
            required = self._sorted(row.required)
            asked = self._sorted(row.asked if row.asked is not None else self.active | row.required)
            before = said.get(query.pk)
            if before is None and not asked:
                reason = _("the pool has no active agent that the label could speak of")
                problems.append(self._problem(row, reason, "required_agents", rejected=not is_new))
            elif before is None:
                said[query.pk] = (required, asked, key, row.line)
                statement = labels.NewLabel(
                    query.pk,
                    Label.Source.IMPORT,
                    required,
                    asked,
                    author=upload.author,
                    provenance={"import": key, "line": row.line},
                )
                (first if query.pk in new else statements).append(statement)
            elif before[0] == required and (row.asked is None or before[1] == asked):
                unchanged += not is_new
            else:
                problems.append(self._problem(row, self._conflict(row, *before), "required_agents"))
        labels.record_first(upload.dataset.pool, first, {query.pk: query.state for query in found})
        labels.record_many(statements)
        # An LLM or a person may have spoken of these queries before: the queue orders by how far apart they are.
        disagreement.measure([statement.query_id for statement in statements])
        return len(new), len(first) + len(statements), unchanged, problems

    def _sorted(self, agents: frozenset[int]) -> list[int]:
        """Their ids in order, the same list for the same agents."""
        found = self._in_order.get(agents)
        if found is None:
            found = self._in_order[agents] = sorted(agents)
        return found

    def _state(self, row: Row) -> str:
        """The state that the row's query will most likely have, were it new."""
        asked = self.active if row.asked is None else row.asked
        return Query.State.GOLD if row.required is not None and (asked or row.required) else Query.State.UNLABELED

    def _said_before(self, known: set[int]) -> dict[int, tuple[list[int], list[int], Any, Any]]:
        """Query key → (required, asked, import, line) of the label that an earlier import gave it."""
        if not known:
            return {}
        stored = Label.objects.current().filter(query__in=known, source=Label.Source.IMPORT)
        return {
            label.query_id: (label.required, label.asked, label.provenance.get("import"), label.provenance.get("line"))
            for label in stored
        }

    def _gone(self, query: queries.Place) -> str:
        if query.erased:
            return _("this query was erased for good; it is not read in again")
        return _("this query was deleted; restore it on the Queries page before reading it in again")

    def _conflict(self, row: Row, required: list[int], asked: list[int], upload: Any, line: Any) -> str:
        same = sorted(row.required or ()) == required
        told = _("the same agents, but other asked_agents") if same else self._said(required)
        if upload == self.upload.pk:
            reason = _("duplicate with another label: line %(line)s of this file says “%(told)s”, which was kept")
        else:
            reason = _(
                "duplicate with another label: an earlier import (%(upload)s, line %(line)s) says “%(told)s”, and that "
                "label stays"
            )
        return reason % {"line": line, "told": told, "upload": upload}
