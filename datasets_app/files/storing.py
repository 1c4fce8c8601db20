"""The rows of a file on their way into a dataset, in batches that each stand or fall alone.

A batch is one transaction: its queries, labels, problems and the place up to which the file has been read. What is killed between
two batches goes on behind the last one, and a file that is read again changes nothing.
"""

import contextlib
import io
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, BinaryIO

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from agents_app import pools, privacy
from agents_app.background_work import jobs, unhurried
from agents_app.files.formats import Reading
from agents_app.files.limited import Position
from datasets_app.files import tables
from datasets_app.files.annotators import Annotators
from datasets_app.files.tables import FileRow
from datasets_app.labeling import sending
from datasets_app.labels import disagreement, labels
from datasets_app.models import (
    Import,
    ImportProblem,
    Label,
    Query,
    QueueSettings,
    SplitGroup,
    TracedTurn,
    hashes_of,
    inserting,
)
from datasets_app.queries import adding, query_columns
from datasets_app.traces import storing as traces
from training_app.engine.data.examples import Row, RowError

BATCH_ROWS = 1_000
BATCH_BYTES = 8 << 20

Progress = Callable[[Import], None]


class _Stopped(Exception):
    """This attempt no longer owns its import: it was cancelled, or another attempt has taken over."""


def _turn_key(row: Row) -> tuple[str, str] | None:
    """The trace and the place of a row's turn, as `traces.record` returns them."""
    return (row.turn[0].trace, row.turn[1]) if isinstance(row, FileRow) and row.turn is not None else None


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
    job = jobs.owned(Import, upload.pk, upload.attempt)
    read = Position()
    if "filled_to" not in upload.undo:
        filled = QueueSettings.objects.filter(pool=upload.dataset.pool_id).values_list("filled_to", flat=True).first()
        upload.undo |= {} if filled is None else {"filled_to": filled}
        job.update(undo=upload.undo)
    reader = Reader(upload)
    try:
        with inserting.many_batches():
            for batch in unhurried.each(_batches(stream, upload, reader.roster, read)):
                reader.store(batch, read.bytes_read)
                if progress is not None:
                    progress(upload)
        ended = job.update(
            status=Import.Status.DONE, bytes_read=upload.bytes_total or read.bytes_read, finished_at=Now()
        )
        if ended:
            upload.chunks.all().delete()
    except _Stopped:
        if job.filter(cancel_requested=True).update(status=Import.Status.CANCELLED, finished_at=Now()):
            upload.chunks.all().delete()
    except jobs.Stopped:
        raise  # the worker is asked to end; another goes on
    except BaseException as error:
        jobs.raise_if_stopped()
        reason = str(error) or type(error).__name__
        job.update(status=Import.Status.FAILED, error=reason[:2_000], finished_at=Now())
        raise
    upload.refresh_from_db()
    return upload


def _batches(stream: BinaryIO, upload: Import, roster: Sequence[Any], read: Position) -> Iterator[list[Row | RowError]]:
    """What the file holds behind the last stored line, in lists that are bounded in rows and in bytes."""
    batch: list[Row | RowError] = []
    begin = read.bytes_read
    behind = upload.last_line
    alive = time.monotonic()
    rows: Iterator[Row | RowError]
    if upload.reading:
        rows = tables.rows(stream, Reading.of(upload.reading), roster, position=read)
    else:
        rows = tables.own_rows(stream, upload.format, roster, position=read)
    for item in rows:
        if item.line <= behind:
            # Skipping a long way takes longer than a dead process is waited for.
            if time.monotonic() - alive > settings.HEARTBEAT_SECONDS:
                with contextlib.suppress(jobs.AttemptLost):  # the next batch is not stored then
                    jobs.beat(Import, upload.pk, upload.attempt)
                alive = time.monotonic()
            continue
        batch.append(item)
        if len(batch) >= BATCH_ROWS or read.bytes_read - begin >= BATCH_BYTES:
            yield batch
            batch, begin = [], read.bytes_read
    if batch:
        yield batch


#: What only one current label may fill: query, source and, of people, the author; and what it says: agents, agents asked about,
#: import, line, model.
Slot = tuple[int, str, int | None]
Before = tuple[list[int], list[int], Any, Any, Any]


class Reader:
    """Stores the batches of one import; holds what stays the same from batch to batch."""

    def __init__(self, upload: Import) -> None:
        self.upload = upload
        pool = upload.dataset.pool
        self.roster = pools.roster(pool, retired=True)
        self.names = {agent.id: agent.name for agent in self.roster}
        self.active = frozenset(agent.id for agent in pools.roster(pool))
        self.redactor = privacy.redactor_of(pool.pk)
        self.annotators = Annotators(upload)
        self._in_order: dict[frozenset[int], list[int]] = {}

    @cached_property
    def oldest(self) -> float:
        """Since when the pool keeps traffic; asked for by exports of traces alone."""
        return traces.oldest(self.upload.dataset.pool)

    def store(self, batch: Sequence[Row | RowError], bytes_read: int) -> None:
        """One batch in one transaction, its counts and its place in the file included. Raises _Stopped."""
        upload = self.upload
        last_line = max(item.line for item in batch)
        with transaction.atomic():
            added, labeled, unchanged, problems, suggested = self._rows(batch)
            ImportProblem.objects.bulk_create(problems)
            counts = {
                "rows_read": upload.rows_read + len(batch),
                "queries_added": upload.queries_added + added,
                "labels_added": upload.labels_added + labeled,
                "suggestions_added": upload.suggestions_added + suggested,
                "unchanged": upload.unchanged + unchanged,
                "rejected": upload.rejected + sum(problem.rejected for problem in problems),
                "last_line": last_line,
                "bytes_read": bytes_read,
            }
            job = jobs.owned(Import, upload.pk, upload.attempt)
            if not job.filter(cancel_requested=False).update(heartbeat_at=Now(), **counts):
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

    def _rows(self, batch: Sequence[Row | RowError]) -> tuple[int, int, int, list[ImportProblem], int]:
        """(queries added, labels added, rows that changed nothing, problems, suggestions added) of one batch."""
        upload = self.upload
        problems = [self._problem(item, item.reason, item.field) for item in batch if isinstance(item, RowError)]
        rows = [item for item in batch if isinstance(item, Row)]
        old = [row for row in rows if isinstance(row, FileRow) and row.turn and 0 < row.turn[0].at < self.oldest]
        if old:
            problems += [self._problem(row, traces.TOO_OLD) for row in old]
            rows = [row for row in rows if row not in old]
        self._note_splits(rows)
        queries, new = adding.find_or_add(
            upload.dataset,
            [self._new(row) for row in rows],
            f"import {upload.pk}",
        )
        earlier = self._said_before({query.pk for query in queries} - new)
        statements: list[labels.NewLabel] = []
        same: list[Row] = []
        counted_new: set[int] = set()
        for row, query in zip(rows, queries, strict=True):
            is_new = query.pk in new and query.pk not in counted_new
            counted_new.add(query.pk)
            if query.erased or query.deleted:
                problem = self._problem(row, self._gone(query), "text")
                if query.erased:
                    problem.excerpt = ""  # what was erased does not come back as the example of a problem
                problems.append(problem)
                continue
            split = row.split or upload.split
            if split and query.split != split:
                reason = _(
                    "the same text, apart from case, punctuation and space, is already in the split “%(stays)s” and stays "
                    "there; “%(split)s” was ignored"
                )
                stays = {"stays": query.split, "split": split}
                problems.append(self._problem(row, reason % stays, "split", rejected=False))
            new_labels, wrong = self._statements(row, query.pk, earlier, is_new)
            statements += new_labels
            problems += wrong
            if not (new_labels or wrong or is_new):
                same.append(row)
        alone = Counter(statement.query_id for statement in statements)
        first = [
            statement
            for statement in statements
            if statement.query_id in new and alone[statement.query_id] == 1 and statement.source == Label.Source.IMPORT
        ]
        at_once = {label.query_id for label in first}
        later = [statement for statement in statements if statement.query_id not in at_once]
        labels.record_first(upload.dataset.pool, first, {query.pk: query.state for query in queries})
        recorded = labels.record_many(later)
        # Whoever brings the answer spares labelers the question, as with queries that come with their gold.
        sending.close_by([label for label in recorded if label.source != Label.Source.LLM], untaken=True)
        # An LLM or a person may have spoken of these queries before: the queue orders by how far apart they are.
        disagreement.measure(list(dict.fromkeys(label.query_id for label in later)))
        llm_said = sum(statement.source == Label.Source.LLM for statement in statements)
        new_turns = self._record_turns(rows, queries)
        suggested = llm_said + sum(bool(turn.agents) for turn in new_turns.values())
        unchanged = sum(_turn_key(row) not in new_turns for row in same)
        return len(new), len(statements) - llm_said, unchanged, problems, suggested

    def _record_turns(
        self, rows: Sequence[Row], queries: Sequence[adding.StoredQuery]
    ) -> dict[tuple[str, str], TracedTurn]:
        """Keep who answered the turns of an export of traces; returns those that are new."""
        pairs = []
        for row, query in zip(rows, queries, strict=True):
            if isinstance(row, FileRow) and row.turn is not None and not (query.erased or query.deleted):
                turn, place, alone = row.turn
                if self.redactor:
                    turn = traces.redacted_turn(turn, self.redactor)
                pairs.append(traces.Traced(turn, query.pk, place, alone))
        return traces.record(self.upload.dataset.pool, pairs, self.upload) if pairs else {}

    def _statements(
        self, row: Row, query: int, earlier: "dict[Slot, Before]", is_new: bool
    ) -> tuple[list[labels.NewLabel], list[ImportProblem]]:
        """The labels that a row makes for its query, and what of it was not taken. `said`: what was said before, in each slot; what
        this row says is added."""
        new_labels: list[labels.NewLabel] = []
        wrong: list[ImportProblem] = []
        spoken: list[tuple[str, User | None, frozenset[int], frozenset[int] | None, dict[str, Any], Any]] = []
        if row.required is not None:
            spoken.append((Label.Source.IMPORT, self.upload.author, row.required, row.asked, {}, None))
        if isinstance(row, FileRow):
            for answer in row.answers:
                author = self.annotators.account(answer.by) if answer.by else self.upload.author
                source: str = Label.Source.HUMAN if answer.by else Label.Source.IMPORT
                asked = row.asked if answer.asked is None else answer.asked
                spoken.append((source, author, answer.required, asked, {}, None))
            for guess in row.suggested:
                asked = frozenset(self.active | guess.required | set(guess.scores))
                spoken.append(
                    (Label.Source.LLM, None, guess.required, asked, {"model": guess.source[:120]}, guess.scores)
                )
            if row.remark:
                wrong.append(self._problem(row, row.remark, "required_agents", rejected=False))
        for source, author, needed, about, provenance, scores in spoken:
            required = self._sorted(needed)
            asked_of = self._sorted(about if about is not None else self.active | needed)
            slot = (query, source, author.pk if source == Label.Source.HUMAN and author else None)
            before = earlier.get(slot)
            if before is None and not asked_of:
                reason = _("the pool has no active agent that the label could be about")
                wrong.append(self._problem(row, reason, "required_agents", rejected=not is_new))
            elif before is None or (source == Label.Source.LLM and before[2] != self.upload.pk):
                if before is not None and before[0] == required and before[4] == provenance.get("model"):
                    continue
                earlier[slot] = (required, asked_of, self.upload.pk, row.line, provenance.get("model"))
                origin = {**provenance, "import": self.upload.pk, "line": row.line}
                new_labels.append(
                    labels.NewLabel(query, source, required, asked_of, author=author, scores=scores, provenance=origin)
                )
            elif before[0] != required or (about is not None and before[1] != asked_of):
                reason = self._conflict(needed, before, author if source == Label.Source.HUMAN else None)
                wrong.append(self._problem(row, reason, "required_agents", rejected=source != Label.Source.LLM))
        return new_labels, wrong

    def _note_splits(self, rows: Sequence[Row]) -> None:
        """Keep which groups without a split this batch gives one, for undoing it."""
        keys = {hashes_of(row.text, row.conversation)[1] for row in rows if row.split or self.upload.split}
        if keys:
            pool = self.upload.dataset.pool_id
            groups = SplitGroup.objects.filter(pool=pool, split="", key__in=inserting.among(list(keys)))
            if numbered := list(groups.values_list("pk", flat=True)):
                self.upload.undo.setdefault("splits", []).extend(numbered)
                Import.objects.filter(pk=self.upload.pk).update(undo=self.upload.undo)

    def _new(self, row: Row) -> adding.NewQuery:
        values, extra = query_columns.of_row(row)
        return adding.NewQuery(row.text, values, row.split or self.upload.split, extra, self._state(row))

    def _sorted(self, agents: frozenset[int]) -> list[int]:
        """Their ids in order, the same list for the same agents."""
        in_order = self._in_order.get(agents)
        if in_order is None:
            in_order = self._in_order[agents] = sorted(agents)
        return in_order

    def _state(self, row: Row) -> str:
        """The state that the row's query will most likely have, were it new."""
        asked = self.active if row.asked is None else row.asked
        return Query.State.GOLD if row.required is not None and (asked or row.required) else Query.State.UNLABELED

    def _said_before(self, query_ids: set[int]) -> "dict[Slot, Before]":
        """What is said of queries that were there: by an earlier import, by people, by an LLM."""
        if not query_ids:
            return {}
        stored = Label.objects.current().filter(query__in=query_ids, partial=False)
        sources = (Label.Source.IMPORT, Label.Source.HUMAN, Label.Source.LLM)
        return {
            (label.query_id, label.source, label.author_id if label.source == Label.Source.HUMAN else None): (
                label.required,
                label.asked,
                label.provenance.get("import"),
                label.provenance.get("line"),
                label.provenance.get("model"),
            )
            for label in stored.filter(source__in=sources)
        }

    def _gone(self, query: adding.StoredQuery) -> str:
        if query.erased:
            return _("this query was erased permanently and is not imported again")
        return _("this query was deleted; restore it on the Queries page before you import it again")

    def _conflict(self, needed: frozenset[int], before: "Before", person: User | None) -> str:
        required, _asked, upload, line, _model = before
        same = sorted(needed) == required
        theirs = _("the same agents, but other asked_agents") if same else self._said(required)
        if upload == self.upload.pk:
            reason = _("duplicate with another label: line %(line)s of this file says “%(told)s”, which was kept")
        elif person is not None:
            reason = _("%(person)s labeled this query “%(told)s” here, and that label stays")
        else:
            reason = _(
                "duplicate with another label: an earlier import (%(upload)s, line %(line)s) says “%(told)s”, and that "
                "label stays"
            )
        return reason % {"line": line, "told": theirs, "upload": upload, "person": person}
