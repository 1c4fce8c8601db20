"""Answers on their way to the database: a bounded buffer in memory that a thread writes in bulk, so that no request waits for it.

Every DECISION_SECONDS it writes what there is (`decision_rows`). While the database is away the buffer fills; beyond DECISION_BUFFER
the oldest are dropped and counted. What a process has in memory when it is killed is lost, and counted by the next one to start on
its machine.
"""

import logging
import os
import threading
from collections import deque
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.core.signals import setting_changed
from django.db import DataError, IntegrityError
from django.db import Error as DatabaseFault

from agents_app import privacy
from routerweb import state
from routerweb.background import Background
from training_app.answering import decision_partitions, decision_rows, metrics, tally
from training_app.answering.serving import drop_connection
from training_app.decision_archive import days as archive
from training_app.decision_archive import reconciling, storage
from training_app.engine.data.conversations import earlier_as_json
from training_app.engine.routing.routes import Route
from training_app.models import Decision, Outcome

logger = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS = 5.0
#: What a row raises that can never be written; the last is what SQLite's driver makes of a number that is too large.
UNWRITABLE = (IntegrityError, DataError, OverflowError)
#: Rows of one transaction. Another process waits for it, on SQLite, for some 20 ms.
ROWS_AT_ONCE = 500


class Pending(NamedTuple):
    """One answer that is not in the database yet; `scores` are the rounded ones it gave, `at` is in seconds since 1970.

    `propensity` and `detail` are there where more than the model made the set, see `answer.Answer`.
    """

    id: int
    pool: int
    model: int | None  # None where descriptions answered
    api_key: int | None
    text: str
    route: Route
    scores: dict[int, float]
    microseconds: int
    at: float
    propensity: float | None = None
    detail: dict[str, Any] | None = None


#: The system's randomness for so many ids is asked for at once.
NOISE_AT_ONCE = 256
_noise: list[bytes] = []
state.keep(__name__, "_noise", "Random parts of decision ids", NOISE_AT_ONCE)


def new_id(at: float) -> int:
    """A UUID of version 7 (RFC 9562) as a 128-bit number: milliseconds since 1970, then 74 random bits.

    Ids made one after another lie side by side in the database's index, which random ones do not.
    """
    try:
        noise = int.from_bytes(_noise.pop(), "big")
    except IndexError:
        random_bytes = os.urandom(10 * NOISE_AT_ONCE)
        _noise.extend([random_bytes[at : at + 10] for at in range(10, len(random_bytes), 10)])
        noise = int.from_bytes(random_bytes[:10], "big")
    return (
        (int(at * 1000) & 0xFFFFFFFFFFFF) << 80
        | 0x7000 << 64
        | (noise & 0xFFF) << 64
        | 0x2 << 62
        | (noise >> 12) & 0x3FFFFFFFFFFFFFFF
    )


def id_text(number: int) -> str:
    """The usual spelling of a UUID given as a number."""
    digits = f"{number:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


class Buffer:
    """Pending answers, at most DECISION_BUFFER of them. `dropped` counts those that were lost since the process started;
    `stuck` tells whether the last write failed."""

    def __init__(self) -> None:
        self.dropped = 0
        self.stuck = False
        self.tally = tally.Tally()
        self._pending: deque[Pending] = deque()
        self._lock = threading.Lock()
        self._writing = threading.Lock()

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, pending: Pending) -> None:
        """Keep one answer; when the buffer is full its oldest one is dropped."""
        bound = _kept()[0]
        if not bound:
            return
        with self._lock:
            self._pending.append(pending)
            self.tally.add(made=1)
            self._trim(bound)

    def pending(self, number: int) -> Pending | None:
        """The answer of that number, where it is not written yet."""
        with self._lock:
            return next((pending for pending in reversed(self._pending) if pending.id == number), None)

    def count_on_disk(self) -> None:
        """Keep count where the next process finds it, and count as dropped what one that was killed had in memory."""
        folder = Path(settings.DATA_DIR) / "decisions"
        lost = tally.lost_in(folder)
        with self._lock:
            self.tally.keep_in(folder)
            self.dropped += lost
        metrics.dropped(lost)
        if lost:
            logger.warning("%d decisions are lost: a process that had them in memory was killed.", lost)

    def write(self) -> int:
        """Write all that is pending now; returns how many decisions were written. What fails for want of a database stays pending.

        What comes meanwhile waits for the next turn, so that few transactions write many rows each. Raises django.db.Error where the
        database cannot be reached.
        """
        written = 0
        with self._writing:
            for first in range(0, waiting := len(self._pending), ROWS_AT_ONCE):
                rows = self._take(min(ROWS_AT_ONCE, waiting - first))
                try:
                    written += self._insert(rows)
                except DatabaseFault:
                    self._put_back(rows)
                    self.stuck = True
                    raise
                except Exception:  # what cannot be written is counted, and raised
                    self._drop(len(rows))
                    raise
        self.stuck = False
        return written

    def _take(self, count: int) -> list[Pending]:
        with self._lock:
            return [self._pending.popleft() for _ in range(min(count, len(self._pending)))]

    def _put_back(self, rows: list[Pending]) -> None:
        with self._lock:
            self._pending.extendleft(reversed(rows))
            self._trim(_kept()[0])

    def _drop(self, count: int) -> None:
        with self._lock:
            self.dropped += count
            self.tally.add(settled=count)
        metrics.dropped(count)

    def _trim(self, bound: int) -> None:
        while len(self._pending) > bound:
            self._pending.popleft()
            self.dropped += 1
            self.tally.add(settled=1)
            metrics.dropped(1)

    def _insert(self, rows: Sequence[Pending]) -> int:
        rows = redacted(rows)
        try:
            insert(rows)
        except UNWRITABLE:
            # What was deleted meanwhile must not hold up every other decision.
            rows = [row for row in rows if self._insert_alone(row)]
        with self._lock:
            self.tally.add(settled=len(rows))
        metrics.count(rows)
        return len(rows)

    def _insert_alone(self, pending: Pending) -> bool:
        """Write one answer, and tell whether it could be; what cannot be written is counted as dropped."""
        try:
            row = decision_rows.still_valid(_row(pending))
            if row is not None:
                decision_rows.add([row])
                return True
            reason = "its pool or its model was deleted"
        except UNWRITABLE as error:
            reason = str(error)
        self._drop(1)
        logger.warning("A decision of model %s cannot be written: %s", pending.model, reason)
        return False


def insert(rows: Sequence[Pending]) -> None:
    """Write answers past the buffer."""
    decision_rows.write([_row(row) for row in rows])


def redacted(rows: Sequence[Pending]) -> Sequence[Pending]:
    """The same answers, without what their pools take out of texts; requests were answered by the real ones. One database query."""
    redactors = privacy.redactors()
    if not redactors:
        return rows
    return [
        row._replace(text=redactors[row.pool].conversation(row.text)) if row.pool in redactors else row for row in rows
    ]


def _row(kept: Pending) -> decision_rows.Row:
    """A decision as its row has it, for `decision_rows.COLUMNS`."""
    route = kept.route
    return (
        f"{kept.id:032x}", kept.pool, kept.model, kept.api_key, str(kept.text), route.agents, kept.scores, route.confidence,
        route.steps, route.stop_reason, route.abstained, kept.microseconds, kept.at, kept.propensity, kept.detail,
        earlier_as_json(kept.text),
    )  # fmt: skip


# --- The writer ---------------------------------------------------------------------------------------------------

buffer = Buffer()
state.keep(__name__, "buffer", "Decisions, not yet written", settings.DECISION_BUFFER)


def record(pending: Pending) -> None:
    """Hand an answer to the writer. Of many answers a share of DECISION_SHARE is kept, chosen by the random part of the id."""
    share = _kept()[1]
    if share < 1.0 and (pending.id & 0xFFFFFF) >= share * 0x1000000:
        return
    buffer.add(pending)
    if not writer.started:
        begin()


@cache
def _kept() -> tuple[int, float]:
    """How many answers wait in memory at most, and the share that is kept."""
    return settings.DECISION_BUFFER, settings.DECISION_SHARE


setting_changed.connect(lambda **_signal: _kept.cache_clear(), weak=False)


def begin() -> None:
    """Start the writer, where this process has none and may have threads."""
    if writer.start(settings.DECISION_SECONDS):
        buffer.count_on_disk()


def close() -> None:
    """Stop the writer and write what is pending: for a process that is about to end. Without a database it is counted as lost."""
    writer.stop(LONGEST_PAUSE_SECONDS)
    if len(buffer):
        try:
            while len(buffer):
                buffer.write()
        except DatabaseFault as error:
            logger.warning("%d decisions are lost, the database cannot be reached: %s", len(buffer), error)
            return
    buffer.tally.end()


def _turn() -> float:
    """One turn of the writer; the seconds until the next."""
    global _pause
    usual = settings.DECISION_SECONDS
    _pause = usual if write_once() else min(2 * max(_pause, usual), LONGEST_PAUSE_SECONDS)
    return _pause


def write_once() -> bool:
    """Write what is pending; whether the database took it."""
    try:
        buffer.write()
    except DatabaseFault as error:
        logger.warning("Decisions wait in memory (%d), the database does not take them: %s", len(buffer), error)
        drop_connection()
        return False
    except Exception:  # the writer outlives whatever one batch met
        logger.exception("Decisions could not be written.")
        return False
    return True


def _in_child() -> None:
    # What the parent still has pending the parent writes.
    global buffer
    buffer = Buffer()
    _noise.clear()  # or both would make the same ids


_pause = 0.0
writer = Background("decision-writer", _turn, at_end=close, in_child=_in_child)


def agents_of(pool: int, decision: str) -> frozenset[int] | None:
    """The agents that a decision of the pool chose, wherever it is on its way to the database; None where there is none."""
    try:
        number = UUID(decision).int
    except ValueError:
        return None
    waiting = buffer.pending(number)
    if waiting is not None:
        return frozenset(waiting.route.agents) if waiting.pool == pool else None
    agents = Decision.objects.filter(pk=UUID(int=number), pool_id=pool).values_list("agents", flat=True).first()
    return None if agents is None else frozenset(agents)


# --- Replay -------------------------------------------------------------------------------------------------------


def identical(kept: Decision, route: Route) -> bool:
    """Whether a route is the answer that the decision gave."""
    return (
        list(route.agents) == kept.agents
        and route.stop_reason == kept.stop_reason
        and {str(agent): round(score, 4) for agent, score in route.scores.items()} == kept.scores
    )


# --- Retention ----------------------------------------------------------------------------------------------------


def prune(days: int | None = None, *, rows_at_once: int = 2_000) -> int:
    """Delete decisions older than their pool's days, else `days` (DECISION_DAYS), what was reported of them, and reports of that age
    that came without a decision; returns how many decisions. Where the table is in parts, those that nobody keeps are dropped before,
    uncounted. With DECISION_ARCHIVE, decisions go by whole days, and only what is in the archive; its list of days is compared with
    its files first. Run once a day. Raises ArchiveError, and deletes nothing, where the archive cannot be written."""
    default = settings.DECISION_DAYS if days is None else days
    archived = storage.is_used()
    decision_partitions.make_ahead(default)
    if archived:
        reconciling.reconcile()
        archive.write_due(default)
        decision_partitions.drop_old(default, archive.holds_all_of)
        deleted = archive.delete_written(default, rows_at_once)
    else:
        decision_partitions.drop_old(default)
    # A part holds whole days, and so does a file.
    whole_days = archived or decision_partitions.are_used()
    privacy.delete_old(Outcome.objects.all(), "at", default=default, rows_at_once=rows_at_once, whole_days=whole_days)
    if archived:
        return deleted
    return privacy.delete_old(
        Decision.objects.all(),
        "at",
        default=default,
        rows_at_once=rows_at_once,
        whole_days=whole_days,
        beside=lambda keys: Outcome.objects.filter(decision_id__in=keys).delete(),
    )
