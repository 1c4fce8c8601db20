"""Decisions on their way: many of them in one row, until somebody unpacks them into rows of their own.

A process at its full rate keeps each decision for a hundredth of the processor time that a row of its own takes. The rows are made
later: by a job cluster beside it, by web processes once all of them are quiet, or by whoever looks for one of them.
"""

import json
import logging
import time
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connection, models, transaction

from agents_app.models import ApiKey, Pool
from training_app.models.decisions import Decision
from training_app.models.versions import RouterModel

logger = logging.getLogger(__name__)

COLUMNS = (
    "id", "pool_id", "model_id", "api_key_id", "text", "agents", "scores", "confidence", "steps", "stop_reason", "abstained",
    "microseconds", "at", "propensity", "detail", "messages",
)  # fmt: skip
ID, POOL, MODEL, KEY, AGENTS, SCORES, CONFIDENCE, STOP_REASON, ABSTAINED, AT, DETAIL, MESSAGES = (
    COLUMNS.index(name)
    for name in (
        "id", "pool_id", "model_id", "api_key_id", "agents", "scores", "confidence", "stop_reason", "abstained", "at", "detail",
        "messages",
    )
)  # fmt: skip
INSERT = f"INSERT INTO {Decision._meta.db_table} ({', '.join(COLUMNS)}) VALUES "  # noqa: S608
VALUES = f"({', '.join(['%s'] * len(COLUMNS))})"

#: Packed rows that a list of decisions unpacks first: some thousands of the newest decisions, in well under a second.
NEWEST = 8

#: A decision as its columns' values, all of them such that JSON holds them: the id in hexadecimal, `at` in seconds since 1970.
Row = Sequence[Any]

encode: Callable[[Any], str] = json.JSONEncoder(separators=(",", ":")).encode


class PackedDecisions(models.Model):
    """Up to some hundred decisions in one row: a JSON list of `Row`s, compressed.

    `pools` has the `counts` of each pool's, so that pages can count without reading them; None in a row of an earlier version.
    """

    first = models.UUIDField()
    last = models.UUIDField()
    count = models.PositiveIntegerField()
    rows = models.BinaryField()
    pools = models.JSONField(null=True)

    class Meta:
        indexes = (models.Index(fields=("last",)),)

    def __str__(self) -> str:
        return f"{self.count} decisions from {self.first}"

    def read(self) -> list[list[Any]]:
        """The decisions, as `Row`s. Earlier versions did not compress them."""
        body = bytes(self.rows)
        return list(json.loads(body if body.startswith(b"[") else zlib.decompress(body)))


def pack(rows: Sequence[Row]) -> None:
    """Keep decisions in one row; they are in the order in which their ids were made."""
    body = "[" + ",".join([encode(row) for row in rows]) + "]"
    ids = [row[ID] for row in rows]
    PackedDecisions.objects.create(
        first=uuid.UUID(hex=min(ids)),
        last=uuid.UUID(hex=max(ids)),
        count=len(rows),
        # Beside requests a millisecond that leaves other threads the interpreter, where PostgreSQL would take four to compress it.
        rows=zlib.compress(body.encode(), 1),
        pools=counts(rows),
    )


def counts(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    """Pool → how many of its decisions there are, by the names that home counts them by."""
    found: dict[str, Counter[str]] = {}
    for row in rows:
        told = found.setdefault(str(row[POOL]), Counter())
        told["count"] += 1
        told["abstained"] += row[ABSTAINED]
        told["none"] += row[STOP_REASON] == "none"
        told["unsure"] += row[CONFIDENCE] < Decision.UNSURE
    return {pool: dict(told) for pool, told in found.items()}


def waiting(pool: int, since: datetime) -> list[tuple[datetime, dict[str, int]]]:
    """The (moment, `counts`) of a pool's packed decisions since then: those that no row of their own tells of yet."""
    found = []
    for packed in PackedDecisions.objects.filter(last__gte=_first_id(since)).defer("rows").iterator(chunk_size=500):
        told = packed.pools if packed.pools is not None else counts(packed.read())
        if str(pool) in told:
            found.append((_made_at(packed.last), told[str(pool)]))
    return found


def _made_at(decision: uuid.UUID) -> datetime:
    """The moment in an id, which is a UUID of version 7."""
    return datetime.fromtimestamp((decision.int >> 80) / 1000, UTC)


def _first_id(at: datetime) -> uuid.UUID:
    return uuid.UUID(int=int(at.timestamp() * 1000) << 80)


def insert(rows: Sequence[Row]) -> None:
    """Write some hundred rows of their own; a row whose id stands already is skipped, so that a write may be repeated.

    Plain SQL, because this runs beside requests on their processor: `bulk_create` took three times as long a row. And one statement,
    because with a row each the thread has to wait for its turn to run Python between any two of them, on a busy process for seconds,
    and the database for it.
    """
    statement = INSERT + ", ".join([VALUES] * len(rows)) + " ON CONFLICT DO NOTHING"
    if rows:
        with connection.cursor() as cursor:
            cursor.execute(statement, [value for row in rows for value in _values(row)])


def _values(row: Row) -> list[Any]:
    # Rows that were packed before there were conversations end with `detail`.
    values = [*row, None] if len(row) == MESSAGES else list(row)
    values[AGENTS], values[SCORES] = encode(row[AGENTS]), encode(row[SCORES])
    values[DETAIL] = None if row[DETAIL] is None else encode(row[DETAIL])
    values[MESSAGES] = None if values[MESSAGES] is None else encode(values[MESSAGES])
    values[AT] = connection.ops.adapt_datetimefield_value(datetime.fromtimestamp(row[AT], UTC))
    return values


def unpack(most: int = 1, quiet: float = 0.0) -> int:
    """Make rows of the newest `most` packed ones that nobody else is at; how many decisions. Raises django.db.Error.

    None, where decisions were packed within the last `quiet` seconds: some process is at its full rate, and wants the processor.
    """
    newest = list(PackedDecisions.objects.order_by("-last").values_list("pk", "last")[:most])
    if not newest or (quiet and time.time() - _made_at(newest[0][1]).timestamp() < quiet):
        return 0
    return sum(_unpacked(pk, skip_locked=True) for pk, _last in newest)


def unpack_all() -> int:
    """Make rows of all that are packed now; how many decisions. What somebody else is unpacking is waited for."""
    return sum(map(_unpacked, list(PackedDecisions.objects.values_list("pk", flat=True))))


def bring(decision: uuid.UUID) -> None:
    """Make a row of this decision, where it is packed; its neighbours come along. What somebody else is unpacking is waited for."""
    holding = PackedDecisions.objects.filter(first__lte=decision, last__gte=decision)
    for pk in holding.values_list("pk", flat=True):
        _unpacked(pk)


def _unpacked(pk: int, skip_locked: bool = False) -> int:
    """Rows instead of a packed one, or neither is changed."""
    with transaction.atomic():
        packed = PackedDecisions.objects.select_for_update(skip_locked=skip_locked).filter(pk=pk).first()
        if packed is None:
            return 0
        rows = _with_those_that_are_left(packed.read())
        insert(rows)
        packed.delete()
    if len(rows) < packed.count:
        logger.warning("%d decisions of a pool or model that was deleted are gone with it.", packed.count - len(rows))
    return len(rows)


def _with_those_that_are_left(rows: list[list[Any]]) -> list[list[Any]]:
    """The rows whose pool and model still stand; a key that is gone is left empty, as in rows that were written before."""
    pools = set(Pool.objects.filter(pk__in={row[POOL] for row in rows}).values_list("pk", flat=True))
    versions = set(RouterModel.objects.filter(pk__in={row[MODEL] for row in rows}).values_list("pk", flat=True))
    keys = set(ApiKey.objects.filter(pk__in={row[KEY] for row in rows} - {None}).values_list("pk", flat=True))
    kept = [row for row in rows if row[POOL] in pools and row[MODEL] in versions]
    for row in kept:
        row[KEY] = row[KEY] if row[KEY] in keys else None
    return kept
