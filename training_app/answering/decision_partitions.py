"""The table of decisions in parts by time, on PostgreSQL: old days are dropped as whole tables, without a row that is deleted.

A part holds the ids of some days (`decisions.new_id` puts the milliseconds first), so the key stays the id, and nothing that names a
decision changes. `convert` makes the table that stands the first part, `make_ahead` those of the next days, and `drop_old` drops those
that nobody keeps. Ids of no known time, and what comes when no part was made ahead, go to the default part. SQLite has one table.
"""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import OperationalError, connection, transaction
from django.db.backends.utils import CursorWrapper

from agents_app.models import Pool, Privacy
from training_app.models import Decision, Outcome

TABLE = Decision._meta.db_table
DEFAULT = f"{TABLE}_rest"
BOUND = f"{TABLE}_bound"
#: Days for which parts are made ahead; a job does so once a day.
AHEAD_DAYS = 7
#: Parts at most: a statement that names no id plans with each of them, which takes about 50 µs.
MOST = 100
#: How long a change waits for the statements before it, as others wait behind it, and how often it is tried.
LOCK_MS, TRIES = 1_000, 10


class PartitionError(Exception):
    """The table cannot be parted. The message says why."""


@dataclass(frozen=True, slots=True, order=True)
class Part:
    """The table of the days from `first` on, before `end`; without a first day it holds all that stood before it."""

    end: date
    first: date | None

    @property
    def table(self) -> str:
        """Its name, which says what it holds."""
        return f"{TABLE}_{self.first:%Y%m%d}_{self.end:%Y%m%d}" if self.first else f"{TABLE}_until_{self.end:%Y%m%d}"

    @property
    def bounds(self) -> str:
        """As PostgreSQL writes them."""
        return f"FROM ({_quoted(self.first) if self.first else 'MINVALUE'}) TO ({_quoted(self.end)})"


def first_id(day: date) -> UUID:
    """The lowest id of a decision on that day, in UTC."""
    return UUID(int=int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp() * 1000) << 80)


def _quoted(day: date) -> str:
    return f"'{first_id(day)}'"


def are_used() -> bool:
    """Whether the table of decisions is in parts."""
    if connection.vendor != "postgresql":
        return False
    with connection.cursor() as cursor:
        cursor.execute("SELECT relkind FROM pg_class WHERE oid = to_regclass(%s)", [TABLE])
        return cursor.fetchone() == ("p",)


def parts() -> list[Part]:
    """The parts by their end, without the default one."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", [TABLE])
        names = [name for (name,) in cursor.fetchall()]
    dated = [re.fullmatch(rf"(?:.*\.)?{TABLE}_(until|\d{{8}})_(\d{{8}})", name) for name in names]
    return sorted(
        Part(_day(bounds[2]), None if bounds[1] == "until" else _day(bounds[1])) for bounds in dated if bounds
    )


def _day(digits: str) -> date:
    return datetime.strptime(digits, "%Y%m%d").replace(tzinfo=UTC).date()


# --- What a job does once a day -----------------------------------------------------------------------------------


def make_ahead(days: int) -> None:
    """Make the parts of the next AHEAD_DAYS. `days`: how long a pool keeps decisions that does not say. Raises OperationalError where
    somebody used the table all the time."""
    if not are_used():
        return
    today = datetime.now(UTC).date()
    length = timedelta(days=-(-_longest(days) // MOST) or 1)
    end = max((part.end for part in parts()), default=today)
    while end < today + timedelta(days=AHEAD_DAYS):
        part = Part(end + length, end)
        _at_a_quiet_moment(lambda part=part: _make(part))  # type: ignore[misc]
        end = part.end


def drop_old(days: int, may_go: Callable[[str], bool] = lambda _table: True) -> int:
    """Drop the parts that hold only what no pool keeps; how many. `days` as for `make_ahead`. `may_go` is called with the name of each
    part that would be dropped, and says whether it is. Raises OperationalError as `make_ahead` does."""
    if not are_used():
        return 0
    last = datetime.now(UTC).date() - timedelta(days=_longest(days))
    old = [part for part in parts() if part.end <= last and may_go(part.table)]
    for part in old:
        _delete_outcomes(part)
        _at_a_quiet_moment(lambda part=part: _run([f"DROP TABLE {part.table}"]))  # type: ignore[misc]
    return len(old)


def _longest(days: int) -> int:
    """For how many days any pool keeps decisions."""
    own: dict[int, int] = dict(Privacy.objects.exclude(decision_days=None).values_list("pool_id", "decision_days"))  # type: ignore[arg-type]
    return max((own.get(pool, days) for pool in Pool.objects.values_list("pk", flat=True)), default=days)


def _make(part: Part) -> None:
    """A part with what the default one holds of it."""
    inside = f"id >= {_quoted(part.first or part.end)} AND id < {_quoted(part.end)}"
    _run([
        f"CREATE TABLE {part.table} (LIKE {TABLE} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)",
        f"LOCK TABLE {DEFAULT} IN ACCESS EXCLUSIVE MODE",
        f"WITH moved AS (DELETE FROM {DEFAULT} WHERE {inside} RETURNING *) INSERT INTO {part.table} SELECT * FROM moved",  # noqa: S608
        "SET CONSTRAINTS ALL IMMEDIATE",
        f"ALTER TABLE {TABLE} ATTACH PARTITION {part.table} FOR VALUES {part.bounds}",
    ])  # fmt: skip


def _delete_outcomes(part: Part, rows_at_once: int = 10_000) -> None:
    """What was reported of a part's decisions, in small transactions."""
    rows = Outcome.objects.filter(decision_id__lt=first_id(part.end))
    if part.first:
        rows = rows.filter(decision_id__gte=first_id(part.first))
    while Outcome.objects.filter(pk__in=rows.values("pk")[:rows_at_once]).delete()[0]:
        pass


def _run(statements: Sequence[str]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_MS}ms"])
        for statement in statements:
            cursor.execute(statement)


def _at_a_quiet_moment(change: Callable[[], None]) -> None:
    """Make a change that waits for nobody for long. Raises OperationalError where the table is never free."""
    for _n in range(TRIES - 1):
        with suppress(OperationalError):
            return change()
        time.sleep(LOCK_MS / 1000)
    return change()


# --- From one table to parts --------------------------------------------------------------------------------------


def convert() -> Part:
    """Make the table that stands the first part, until the end of tomorrow, and those of the next days. While rows are checked, for as
    long as it takes to read them once, decisions are written and read; then the tables change names, in milliseconds.

    Raises PartitionError, and OperationalError where somebody used the table all the time.
    """
    if connection.vendor != "postgresql":
        raise PartitionError("Only PostgreSQL has tables in parts; retention on SQLite deletes rows.")
    if are_used():
        raise PartitionError("The table of decisions is in parts already.")
    first = Part(datetime.now(UTC).date() + timedelta(days=2), None)
    bound = f"id < {_quoted(first.end)}"
    _at_a_quiet_moment(lambda: _run([
        f"CREATE TABLE IF NOT EXISTS {DEFAULT} (LIKE {TABLE} INCLUDING DEFAULTS INCLUDING CONSTRAINTS)",
        f"WITH moved AS (DELETE FROM {TABLE} WHERE NOT ({bound}) RETURNING *) INSERT INTO {DEFAULT} SELECT * FROM moved",  # noqa: S608
        "SET CONSTRAINTS ALL IMMEDIATE",
        f"ALTER TABLE {TABLE} DROP CONSTRAINT IF EXISTS {BOUND}",
        f"ALTER TABLE {TABLE} ADD CONSTRAINT {BOUND} CHECK ({bound}) NOT VALID",
    ]))  # fmt: skip
    _run([f"ALTER TABLE {TABLE} VALIDATE CONSTRAINT {BOUND}"])  # others go on; then the table need not be read again
    _at_a_quiet_moment(lambda: _change_names(first))
    make_ahead(settings.DECISION_DAYS)
    return first


def _change_names(first: Part) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_MS}ms"])
        cursor.execute(f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")
        cursor.execute(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'f'",
            [TABLE],
        )
        links = cursor.fetchall()
        for statement in (
            f"ALTER TABLE {TABLE} RENAME TO {first.table}",
            f"CREATE TABLE {TABLE} (LIKE {first.table} INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES) "
            "PARTITION BY RANGE (id)",
            f"ALTER TABLE {TABLE} DROP CONSTRAINT {BOUND}",
            *(f'ALTER TABLE {TABLE} ADD CONSTRAINT "{name}" {meaning}' for name, meaning in links),
            f"ALTER TABLE {TABLE} ATTACH PARTITION {first.table} FOR VALUES {first.bounds}",
            f"ALTER TABLE {TABLE} ATTACH PARTITION {DEFAULT} DEFAULT",
            f"ALTER TABLE {first.table} DROP CONSTRAINT {BOUND}",
        ):
            cursor.execute(statement)
        _name_indexes(cursor, first)


def _name_indexes(cursor: CursorWrapper, first: Part) -> None:
    """The indexes of the whole have the names by which migrations know them."""
    cursor.execute(
        "SELECT child.relname, parent.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid "
        "JOIN pg_class parent ON parent.oid = inhparent JOIN pg_index ON indexrelid = child.oid WHERE indrelid = %s::regclass",
        [first.table],
    )
    for place, (of_part, of_whole) in enumerate(cursor.fetchall()):
        cursor.execute(f'ALTER INDEX "{of_part}" RENAME TO "{first.table}_{place}"')
        cursor.execute(f'ALTER INDEX "{of_whole}" RENAME TO "{of_part}"')
