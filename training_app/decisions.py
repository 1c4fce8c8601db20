"""Answers on their way to the database: a bounded buffer in memory that a thread writes in bulk, so that no request waits for it.

While the database is away the buffer fills; beyond DECISION_BUFFER the oldest are dropped and counted.
"""

import json
import logging
import multiprocessing.util
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.conf import settings
from django.db import DataError, IntegrityError, connection, transaction
from django.db import Error as DatabaseFault
from django.utils import timezone

from training_app.engine.router import Explanation, Route, Router
from training_app.models import Decision
from training_app.serving import drop_connection

logger = logging.getLogger(__name__)

WRITE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 5.0
ROWS_AT_ONCE = 200
#: Rows that are written in one go; the writer then rests so many times as long as they took, but never long.
ROWS_BETWEEN_RESTS = 8
REST = 2.0
LONGEST_REST_SECONDS = 0.01

_json = json.JSONEncoder(separators=(",", ":")).encode


class Pending(NamedTuple):
    """One answer that is not in the database yet; `scores` are the rounded ones it gave, `at` is in seconds since 1970.

    `propensity` and `detail` are there where more than the model made the set, see `live.Finished`.
    """

    id: int
    pool: int
    model: int
    api_key: int | None
    text: str
    route: Route
    scores: dict[int, float]
    microseconds: int
    at: float
    propensity: float | None = None
    detail: dict[str, Any] | None = None


def new_id(at: float) -> int:
    """A UUID of version 7 (RFC 9562) as a 128-bit number: milliseconds since 1970, then 74 random bits.

    Ids made one after another lie side by side in the database's index, which random ones do not.
    """
    noise = int.from_bytes(os.urandom(10), "big")
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
        self._pending: deque[Pending] = deque()
        self._lock = threading.Lock()
        self._writing = threading.Lock()

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, pending: Pending) -> None:
        """Keep one answer; when the buffer is full its oldest one is dropped."""
        bound = settings.DECISION_BUFFER
        if not bound:
            return
        with self._lock:
            self._pending.append(pending)
            self._trim(bound)

    def write(self) -> int:
        """Write all that is pending; returns how many rows were written. What fails for want of a database stays pending.

        Raises django.db.Error where the database cannot be reached.
        """
        written = 0
        with self._writing:
            while taken := self._take():
                try:
                    written += self._insert(taken)
                except DatabaseFault:
                    self._put_back(taken)
                    self.stuck = True
                    raise
                except Exception:  # what cannot be written is counted, and raised
                    with self._lock:
                        self.dropped += len(taken)
                    raise
        self.stuck = False
        return written

    def _take(self) -> list[Pending]:
        with self._lock:
            return [self._pending.popleft() for _ in range(min(ROWS_AT_ONCE, len(self._pending)))]

    def _put_back(self, taken: list[Pending]) -> None:
        with self._lock:
            self._pending.extendleft(reversed(taken))
            self._trim(settings.DECISION_BUFFER)

    def _trim(self, bound: int) -> None:
        while len(self._pending) > bound:
            self._pending.popleft()
            self.dropped += 1

    def _insert(self, taken: Sequence[Pending]) -> int:
        try:
            insert(taken)
        except (IntegrityError, DataError) as error:
            # A pool or model that was deleted meanwhile must not hold up every other decision.
            if len(taken) == 1:
                with self._lock:
                    self.dropped += 1
                logger.warning("A decision of model %s cannot be written: %s", taken[0].model, error)
                return 0
            return sum(self._insert([one]) for one in taken)
        return len(taken)


COLUMNS = (
    "id", "pool_id", "model_id", "api_key_id", "text", "agents", "scores", "confidence", "steps", "stop_reason", "abstained",
    "microseconds", "at", "propensity", "detail",
)  # fmt: skip
INSERT = (
    f"INSERT INTO {Decision._meta.db_table} ({', '.join(COLUMNS)}) "  # noqa: S608
    f"VALUES ({', '.join(['%s'] * len(COLUMNS))}) ON CONFLICT DO NOTHING"
)


def insert(rows: Sequence[Pending]) -> None:
    """Write rows in one transaction; a row whose id stands already is skipped, so that a doubtful write may be repeated.

    Plain SQL, because this runs beside requests on their processor: `bulk_create` took three times as long a row. And a few
    rows at a time with a rest after them, or a request that comes meanwhile would wait for all of them.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        for first in range(0, len(rows), ROWS_BETWEEN_RESTS):
            began = time.perf_counter()
            cursor.executemany(INSERT, [_values(row) for row in rows[first : first + ROWS_BETWEEN_RESTS]])
            if first + ROWS_BETWEEN_RESTS < len(rows):
                _stop.wait(min(REST * (time.perf_counter() - began), LONGEST_REST_SECONDS))


def _values(row: Pending) -> tuple[Any, ...]:
    at = connection.ops.adapt_datetimefield_value(datetime.fromtimestamp(row.at, UTC))
    return (
        f"{row.id:032x}", row.pool, row.model, row.api_key, row.text, _json(row.route.agents), _json(row.scores),
        row.route.confidence, row.route.steps, row.route.stop_reason, row.route.abstained, row.microseconds, at, row.propensity,
        None if row.detail is None else _json(row.detail),
    )  # fmt: skip


# --- The writer ---------------------------------------------------------------------------------------------------

buffer = Buffer()
_writer: threading.Thread | None = None
_starting = threading.Lock()
_stop = threading.Event()


def record(pending: Pending) -> None:
    """Hand an answer to the writer. Of many answers a share of DECISION_SHARE is kept, chosen by the random part of the id."""
    share = settings.DECISION_SHARE
    if share < 1.0 and (pending.id & 0xFFFFFF) >= share * 0x1000000:
        return
    buffer.add(pending)
    if _writer is None and settings.BACKGROUND_THREADS:
        _start()


def close() -> None:
    """Stop the writer and write what is pending: for a process that is about to end. Without a database it is counted as lost."""
    global _writer
    _stop.set()
    if _writer is not None:
        _writer.join(timeout=LONGEST_PAUSE_SECONDS)
        _writer = None
    if len(buffer):
        try:
            buffer.write()
        except DatabaseFault as error:
            logger.warning("%d decisions are lost, the database cannot be reached: %s", len(buffer), error)


def _start() -> None:
    global _writer
    with _starting:
        if _writer is None:
            _stop.clear()
            _writer = threading.Thread(target=_write, name="decision-writer", daemon=True)
            _writer.start()
            # The end of this process, whether it was forked by multiprocessing, which passes `atexit` by, or not.
            multiprocessing.util.Finalize(None, close, exitpriority=10)


def _write() -> None:
    pause = WRITE_SECONDS
    while not _stop.wait(pause):
        pause = WRITE_SECONDS if write_once() else min(2 * pause, LONGEST_PAUSE_SECONDS)


def write_once() -> bool:
    """One turn of the writer; whether the database took what was pending."""
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


def _after_fork() -> None:
    # What the parent still has pending the parent writes.
    global buffer, _writer, _starting, _stop
    buffer, _writer, _starting, _stop = Buffer(), None, threading.Lock(), threading.Event()


os.register_at_fork(after_in_child=_after_fork)

# --- Replay -------------------------------------------------------------------------------------------------------


def replay(kept: Decision, router: Router) -> Explanation:
    """The decision again, on the router that made it, with the agents that were available then: those it gave scores."""
    return router.explain(kept.text, frozenset(int(agent) for agent in kept.scores))


def identical(kept: Decision, route: Route) -> bool:
    """Whether a route is the answer that the decision gave."""
    return (
        list(route.agents) == kept.agents
        and route.stop_reason == kept.stop_reason
        and {str(agent): round(score, 4) for agent, score in route.scores.items()} == kept.scores
    )


# --- Retention ----------------------------------------------------------------------------------------------------


def prune(days: int | None = None, *, rows_at_once: int = 2_000) -> int:
    """Delete decisions older than `days` (DECISION_DAYS), in small transactions; returns how many. Run once a day."""
    before = timezone.now() - timedelta(days=settings.DECISION_DAYS if days is None else days)
    deleted = 0
    while ids := list(
        Decision.objects.filter(at__lt=before).order_by("at").values_list("pk", flat=True)[:rows_at_once]
    ):
        deleted += Decision.objects.filter(pk__in=ids).delete()[0]
    return deleted
