"""Archived decisions read through DuckDB, a file at a time: one by its id, a search, a period, what may hold a text.

DuckDB gets a file as Arrow data. By itself it opens no file and no connection, loads no extension, and has THREADS and MEMORY.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Max, Min, Sum

from agents_app.models import ApiKey, Pool
from agents_app.texts.narrowing import Pattern
from training_app.decision_archive import days, storage
from training_app.decision_archive.storage import ArchiveError
from training_app.models import ArchivedDay, Decision, Outcome, RouterModel

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

logger = logging.getLogger(__name__)

THREADS, MEMORY = 2, "512MB"
#: Rows of the files that one page of a search reads at most, beside those of its first file: some seconds.
ROWS_OF_A_SEARCH = 2_000_000
#: How often a file is looked for again that others replace meanwhile.
TRIES = 3
NEWEST_FIRST = "id DESC"
OLDEST_FIRST = "id"


@dataclass(frozen=True, slots=True)
class Archived:
    """A decision as its row was, which is in no table, and what was reported of it."""

    decision: Decision
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Search:
    """What archived decisions are looked for by: words of the text in any case, an agent of the set, the key of the model, or that the
    agents' `descriptions` answered, why it ended, whether a success was reported, and the time from `since` to before `until`."""

    words: str = ""
    agent: int | None = None
    model: int | None = None
    descriptions: bool = False
    reason: str = ""
    success: bool | None = None
    since: datetime | None = None
    until: datetime | None = None

    def conditions(self) -> tuple[list[str], dict[str, Any]]:
        """SQL of each, and the values of its parameters."""
        every = {
            "words": ("contains(lower(text), lower($words))", self.words or None),
            "agent": ("list_contains(agents, $agent)", self.agent),
            "model": ("model_id = $model", self.model),
            "descriptions": ("(model_id IS NULL) = $descriptions", self.descriptions or None),
            "reason": ("stop_reason = $reason", self.reason or None),
            "success": ("success = $success", self.success),
            "since": ('"at" >= $since', self.since),
            "until": ('"at" < $until', self.until),
        }
        wanted = {name: (sql, value) for name, (sql, value) in every.items() if value is not None}
        return [sql for sql, _value in wanted.values()], {name: value for name, (_sql, value) in wanted.items()}

    def days_of(self, pool: Pool) -> Any:
        """The days that may have some."""
        rows = ArchivedDay.objects.kept().filter(pool=pool)
        if self.since is not None:
            rows = rows.filter(day__gte=self.since.astimezone(UTC).date())
        return rows if self.until is None else rows.filter(day__lte=self.until.astimezone(UTC).date())


@dataclass(frozen=True, slots=True)
class Part:
    """Some archived decisions, newest first. `next`: where the next part begins, "" behind the last. `reached`: the day behind which
    nothing was searched, where that was too much for one part."""

    rows: list[Archived] = field(default_factory=list)
    next: str = ""
    reached: date | None = None


def one(key: UUID, pools: Any = None) -> Archived | None:
    """The archived decision of that id, in one of these pools where they are given; None where there is none. Raises ArchiveError."""
    if not storage.is_used():
        return None
    rows = ArchivedDay.objects.kept().filter(first_id__lte=key, last_id__gte=key).exclude(pool=None)
    for archived in (rows if pools is None else rows.filter(pool__in=pools)).select_related("pool"):
        values = _rows(archived, ["id = $id"], {"id": str(key)}, NEWEST_FIRST, 1)
        if values and archived.pool is not None:
            return _restored(archived.pool, values)[0]
    return None


def kept(key: UUID, pools: Any) -> Archived | None:
    """The stored or archived decision of that id in one of these pools; None where there is none. Raises ArchiveError."""
    stored = Decision.objects.select_related("pool", "model__pool", "api_key").filter(pk=key, pool__in=pools).first()
    if stored is not None:
        return Archived(stored, Outcome.objects.filter(decision_id=key, pool=stored.pool).first())
    return one(key, pools)


def wherever(key: UUID, pools: Any) -> Archived | None:
    """As `kept`, for pages: None also where the archive cannot be read, which the log says."""
    try:
        return kept(key, pools)
    except ArchiveError as error:
        logger.warning("%s", error)
        return None


def extent(pool: Pool) -> dict[str, Any] | None:
    """How many decisions of the pool the archive has, and their `first` and `last` day; None without any."""
    if not storage.is_used():
        return None
    days_of = ArchivedDay.objects.kept().filter(pool=pool)
    counted: dict[str, Any] = days_of.aggregate(count=Sum("rows"), first=Min("day"), last=Max("day"))
    return counted if counted["count"] else None


def part(pool: Pool, search: Search, after: str, size: int) -> Part:
    """`size` archived decisions of the pool, from where an earlier part's `next` says. Raises ArchiveError."""
    matches: list[Archived] = []
    read = 0
    day, key = place(after)
    rows = search.days_of(pool).order_by("-day")
    conditions, values = search.conditions()
    for archived in rows if day is None else rows.filter(day__lte=day):
        if read and read + archived.rows > ROWS_OF_A_SEARCH:
            return Part(matches, f"{archived.day}", archived.day)
        read += archived.rows
        here, more = (["id < $after"], {"after": str(key)}) if key and archived.day == day else ([], {})
        some = _rows(
            archived, [*conditions, *here], {**values, **more}, NEWEST_FIRST, size + 1 - len(matches), rare=True
        )
        matches += _restored(pool, some)
        if len(matches) > size:
            last = matches[size - 1].decision
            return Part(matches[:size], f"{last.at.astimezone(UTC).date()}.{last.pk}")
    return Part(matches)


def has_some(pool: Pool, search: Search) -> bool:
    """Whether there is a day that may have some. No file is read."""
    return storage.is_used() and bool(search.days_of(pool).exists())


def not_stored(rows: Sequence[Archived]) -> list[Archived]:
    """Those that are not in the database too, as those of a day are that is written and not yet deleted."""
    stored = set(Decision.objects.filter(pk__in=[row.decision.pk for row in rows]).values_list("pk", flat=True))
    return [row for row in rows if row.decision.pk not in stored]


def place(after: str) -> tuple[date | None, UUID | None]:
    """The day, and in it the id, behind which a part begins; (None, None) for what names no place."""
    day, _dot, key = after.partition(".")
    try:
        return date.fromisoformat(day), UUID(key) if key else None
    except ValueError:
        return None, None


def period(pool: Pool, search: Search, at_once: int = 1_000) -> Iterator[Archived]:
    """All archived decisions of the pool that the search wants, the oldest first. Raises ArchiveError."""
    conditions, values = search.conditions()
    if not storage.is_used():
        return
    for archived in search.days_of(pool).order_by("day"):
        after: dict[str, Any] = {}
        while some := _rows(
            archived, [*conditions, *(["id > $after"] if after else [])], {**values, **after}, OLDEST_FIRST, at_once
        ):
            yield from _restored(pool, some)
            after = {"after": some[-1]["id"]}


def matching(archived: ArchivedDay, pattern: Pattern | None, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a file of which one of these columns matches the pattern, or all of them without one. Raises ArchiveError."""
    if pattern is None:
        return _rows(archived, [], {}, OLDEST_FIRST, archived.rows)
    any_of = " OR ".join(f"coalesce(regexp_matches({column}, $pattern), false)" for column in columns)
    return _rows(archived, [f"({any_of})"], {"pattern": pattern.re2()}, OLDEST_FIRST, archived.rows, rare=True)


# --- DuckDB -------------------------------------------------------------------------------------------------------


def _rows(
    archived: ArchivedDay,
    conditions: Sequence[str],
    values: Mapping[str, Any],
    order: str,
    limit: int,
    *,
    rare: bool = False,
) -> list[Any]:
    """Rows of one file as dictionaries; `rare` reads only the columns of the conditions where these fit no row."""
    import duckdb

    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    of_ids = f"FROM day {where} ORDER BY {order} LIMIT $limit"
    values = {**values, "limit": limit}
    for _n in range(TRIES):
        try:
            with _opened(archived) as engine:
                if not rare:
                    return engine.sql(f"SELECT * {of_ids}", params=values).to_arrow_table().to_pylist()
                ids = [key for (key,) in engine.execute(f"SELECT id {of_ids}", values).fetchall()]
                if not ids:
                    return []
                among = f"SELECT * FROM day WHERE id >= $low AND id <= $high AND id IN (SELECT unnest($ids)) ORDER BY {order}"  # noqa: S608
                named = {"ids": ids, "low": min(ids), "high": max(ids)}
                return engine.sql(among, params=named).to_arrow_table().to_pylist()
        except (duckdb.Error, ArchiveError) as error:
            newer = ArchivedDay.objects.kept().filter(pool=archived.pool_id, day=archived.day).first()
            if newer is None:
                return []  # it was too old, meanwhile
            if newer.path == archived.path:
                logger.warning("The archive's file %s cannot be read.", archived.path)
                raise ArchiveError(f"{archived.path} cannot be read: {error}") from error
            archived = newer
    raise ArchiveError(f"{archived.path}: others changed the archive all the time.")


@contextmanager
def _opened(archived: ArchivedDay) -> "Iterator[DuckDBPyConnection]":
    import duckdb
    from pyarrow import dataset

    config: dict[str, Any] = {
        "threads": THREADS, "memory_limit": MEMORY, "enable_external_access": False, "python_enable_replacements": False,
        "autoinstall_known_extensions": False, "autoload_known_extensions": False, "lock_configuration": True,
    }  # fmt: skip
    with storage.opened() as (system, root), duckdb.connect(":memory:", config=config) as engine:
        # A page whose bytes were altered is refused, not read as something else.
        form = dataset.ParquetFileFormat(
            default_fragment_scan_options=dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        )
        file = dataset.dataset(f"{root}/{archived.path}", days.schema(), format=form, filesystem=system)
        engine.register("day", file)
        yield engine


# --- As rows of the database --------------------------------------------------------------------------------------


def _restored(pool: Pool, rows: Sequence[Mapping[str, Any]]) -> list[Archived]:
    models = RouterModel.objects.select_related("pool").in_bulk({row["model_id"] for row in rows if row["model_id"]})
    keys = ApiKey.objects.in_bulk({row["api_key_id"] for row in rows if row["api_key_id"]})
    late = {
        outcome.decision_id: outcome for outcome in Outcome.objects.filter(decision_id__in=[row["id"] for row in rows])
    }
    restored = []
    for row in rows:
        plain = {name: row[name] for name in days.PLAIN if not name.endswith("_id") and name != "id"}
        jsons = {name: days.read_json(row[name]) for name in ("messages", "scores", "detail")}
        decision = Decision(id=UUID(row["id"]), pool=pool, agents=row["agents"], **plain, **jsons)
        decision.model, decision.api_key = models.get(row["model_id"]), keys.get(row["api_key_id"])
        restored.append(Archived(decision, late.get(decision.pk) or _outcome(decision, row)))
    return restored


def _outcome(decision: Decision, row: Mapping[str, Any]) -> Outcome | None:
    if row["success"] is None:
        return None
    return Outcome(
        decision_id=decision.pk, pool=decision.pool, success=row["success"], rating=row["rating"], comment=row["comment"],
        agents_used=days.read_json(row["agents_used"]), at=row["reported_at"],
    )  # fmt: skip
