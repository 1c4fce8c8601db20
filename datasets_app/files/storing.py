"""The rows of a file on their way into a dataset, in batches that each stand or fall alone.

A batch is one transaction: its queries, labels, problems and the place up to which the file has been read. What is killed between
two batches goes on behind the last one, and a file that is read again changes nothing.
"""

import contextlib
import io
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from agents_app import jobs, pools, privacy
from datasets_app.files import tables
from datasets_app.files.tables import Reading
from datasets_app.labels import disagreement, labels
from datasets_app.models import Import, ImportProblem, Label, Query, inserting
from datasets_app.queries import queries
from training_app.engine.data.examples import Row, RowError
from training_app.engine.data.files import read_rows

BATCH_ROWS = 1_000
BATCH_BYTES = 8 << 20

Progress = Callable[[Import], None]


class _Stopped(Exception):
    """This attempt no longer owns its import: it was cancelled, or another attempt has taken over."""


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


def size(stream: BinaryIO) -> int:
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
    reader = Reader(upload)
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


class Reader:
    """Stores the batches of one import; holds what stays the same from batch to batch."""

    def __init__(self, upload: Import) -> None:
        self.upload = upload
        pool = upload.dataset.pool
        self.roster = pools.roster(pool, retired=True)
        self.names = {agent.id: agent.name for agent in self.roster}
        self.active = frozenset(agent.id for agent in pools.roster(pool))
        self.redactor = privacy.redactor_of(pool.pk)
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
        shown = row.excerpt if isinstance(row, RowError) else row.text
        shown = " ".join((self.redactor.text(str(shown)) if self.redactor else str(shown))[:200].split())
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
