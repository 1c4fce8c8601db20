"""All that episodes write: by one thread of the process, as many writes in one transaction as wait for it.

A call's row is stored before the call is made and its end before the next begins, so each step waits for the database. Hundreds of
episodes write together: what arrives while one transaction is under way goes into the next. Every write names its episode's attempt
and fails where the episode is no longer running under it: it was cancelled, or presumed dead and continues elsewhere.
"""

import asyncio
import json
import logging
import queue
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import JSONField
from django.db.models.functions import Now
from django.utils import timezone

from agents_app.background_work.jobs import AttemptLost
from orchestration_app.calls.spending import Limited
from orchestration_app.models import Episode, Step

if TYPE_CHECKING:
    from django.db.backends.utils import CursorWrapper

log = logging.getLogger(__name__)

#: A transaction is tried again for so long while the database is away; then what waits for it fails.
PATIENCE_SECONDS = 60.0
#: Writes of one transaction at most. What is stored together goes on together, and its next writes come together: small transactions
#: spread a hundred episodes over the time that their agents take, and nobody waits for ninety-nine others.
MOST = 16
IDLE_SECONDS = 0.5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a call, for the row that was stored before it."""

    turn: int
    path: int
    place: int
    status: str
    output: str
    failure: str
    why: str
    cost: float
    tokens: int
    latency: float
    attempts: int
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Entry:
    """One write of an episode: calls that end, calls that begin, and fields of the episode itself; `after` is done in the same
    transaction. Under limits of a month (`limited`), calls that do not fit begin as failed ones, and `unused` is what calls that
    end did not cost of what was set aside for them."""

    episode: uuid.UUID
    attempt: uuid.UUID
    ends: Sequence[Ended] = ()
    begins: Sequence[Step] = ()
    fields: dict[str, Any] = field(default_factory=dict)
    after: Callable[[], object] | None = None
    limited: Limited | None = None
    unused: float = 0.0


@dataclass(slots=True)
class _Wait:
    """Somebody on an event loop who waits for a write or for work done here."""

    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[Any]"
    entry: Entry | None = None
    work: Callable[[], Any] | None = None


class DatabaseThread(Protocol):
    """Who does work that needs the database for an event loop."""

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns, called in a thread that has the database."""

    def soon(self, work: Callable[[], object]) -> None:
        """Have work done; nobody waits for it."""


class Ledger:
    """`write`, `run` and `soon` are for one event loop; `serve` is for the thread that has the database."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[_Wait | None] = queue.SimpleQueue()
        #: What this turn of the event loop has asked for: handed over at its end, so that episodes which decided together are written
        #: together, and the other thread is woken once.
        self._asked: list[_Wait] = []

    async def write(self, entry: Entry) -> None:
        """Once it returns, it is stored. Raises AttemptLost, and django.db.Error where the database stayed away."""
        await self._wait(entry=entry)

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns, called in the thread that has the database."""
        result: T = await self._wait(work=work)
        return result

    def soon(self, work: Callable[[], object]) -> None:
        """Have work done before what is written from here on. Nobody waits for it: what it raises is logged."""

        def done() -> None:
            try:
                work()
            except Exception:  # a report that fails must not fail the episodes whose writes share its thread
                log.exception("what an episode reported could not be kept")

        loop = asyncio.get_running_loop()
        self._ask(_Wait(loop, loop.create_future(), work=done))

    async def _wait(self, **what: Any) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._ask(_Wait(loop, future, **what))
        return await future

    def _ask(self, wait: _Wait) -> None:
        if not self._asked:
            wait.loop.call_soon(self._hand_over)
        self._asked.append(wait)

    def _hand_over(self) -> None:
        waits, self._asked = self._asked, []
        for wait in waits:
            self._queue.put(wait)

    def wake(self) -> None:
        """Let `serve` look whether it is to end."""
        self._queue.put(None)

    def serve(self, ended: Callable[[], bool]) -> None:
        """Do what is asked for until `ended`."""
        while not ended():
            try:
                waits = [self._queue.get(timeout=IDLE_SECONDS)]
            except queue.Empty:
                continue
            while len(waits) < MOST:
                try:
                    waits.append(self._queue.get_nowait())
                except queue.Empty:
                    break
            batch = [wait for wait in waits if wait is not None]
            entries = [(wait, wait.entry) for wait in batch if wait.entry is not None]
            if entries:
                _tell(_written(entries))
            for wait in batch:
                if wait.work is not None:
                    _tell([(wait, *_done(wait.work))])


def _written(entries: list[tuple[_Wait, Entry]]) -> list[tuple[_Wait, Any, Exception | None]]:
    """Each entry's wait, and what to raise there."""
    lost, error = _done(lambda: write_all([entry for _wait, entry in entries]))
    results: list[tuple[_Wait, Any, Exception | None]] = []
    for at, (wait, entry) in enumerate(entries):
        problem = error
        if problem is None and at in lost:
            problem = AttemptLost(f"episode {entry.episode} is no longer running under attempt {entry.attempt}")
        results.append((wait, None, problem))
    return results


def _done(work: Callable[[], T]) -> tuple[T | Any, Exception | None]:
    """What the work returned, or raised; while the database is away it is done again."""
    until = time.monotonic() + PATIENCE_SECONDS
    waited = False
    while True:
        try:
            return work(), None
        except (OperationalError, InterfaceError) as error:
            if connection.in_atomic_block or time.monotonic() > until:
                return None, error
            if not waited:
                log.warning("episodes wait for the database (%s); trying again", error)
            waited = True
            connection.close()
            time.sleep(0.2)
        except Exception as error:  # told to who waits for it
            return None, error


def _tell(settled: Iterable[tuple[_Wait, Any, Exception | None]]) -> None:
    """Wake who waited: one call for each event loop, whatever the number."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Wait, Any, Exception | None]]] = {}
    for write in settled:
        by_loop.setdefault(write[0].loop, []).append(write)
    for loop, those in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle, those)
        except RuntimeError:  # the loop ended, and with it who waited
            continue


def _settle(settled: list[tuple[_Wait, Any, Exception | None]]) -> None:
    for wait, value, error in settled:
        if wait.future.done():
            continue
        if error is None:
            wait.future.set_result(value)
        else:
            wait.future.set_exception(error)


# --- In the database ------------------------------------------------------------------------------------------------


def write_all(entries: Sequence[Entry]) -> set[int]:
    """Store the entries in one transaction, in their order; the places of those whose attempt was lost."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            owned = _owned(cursor, {entry.episode for entry in entries})
            lost = {at for at, entry in enumerate(entries) if owned.get(_key(entry.episode)) != _key(entry.attempt)}
            written = [entry for at, entry in enumerate(entries) if at not in lost]
            for entry in written:
                if entry.limited is not None:
                    entry.limited.settle(entry.unused)
                    entry.limited.begin(entry.begins)
            if begins := [step for entry in written for step in entry.begins]:
                _begin(cursor, begins)
            if ends := [(entry.episode, end) for entry in written for end in entry.ends]:
                _end(cursor, ends)
        for entry in written:
            if entry.fields:
                Episode.objects.filter(pk=entry.episode).update(heartbeat_at=Now(), **entry.fields)
            if entry.after is not None:
                entry.after()
    return lost


# One statement for all rows. Between two statements this thread may wait for other threads to have computed; and the ORM takes
# longer to write a statement than the database to do it.

_COLUMNS = [column for column in Step._meta.concrete_fields if not column.primary_key]
_VALUES = attrgetter(*(column.attname for column in _COLUMNS))
_PLACE = {column.name: at for at, column in enumerate(_COLUMNS)}
_JSON = [at for at, column in enumerate(_COLUMNS) if isinstance(column, JSONField)]
_ENDED = [field.name for field in fields(Ended)]
_CHANGED = [name for name in _ENDED if name not in ("turn", "path", "place")]


def _owned(cursor: "CursorWrapper", episodes: Collection[uuid.UUID]) -> dict[Any, Any]:
    """The attempts that run these episodes, both as the database has them; nobody else changes them until the transaction ends."""
    places = ", ".join(["%s"] * len(episodes))
    running = f"FROM orchestration_app_episode WHERE status = 'running' AND id IN ({places})"
    keys = [_key(key) for key in episodes]
    if connection.vendor == "sqlite":
        # In one row: SQLite lets other threads compute before each row, and this one waits for them after it.
        cursor.execute(f"SELECT group_concat(id || attempt, '') {running}", keys)
        owner = cursor.fetchone()[0] or ""
        return {owner[at : at + 32]: owner[at + 32 : at + 64] for at in range(0, len(owner), 64)}
    cursor.execute(f"SELECT id, attempt {running} ORDER BY id FOR UPDATE", keys)
    return dict(cursor.fetchall())


def _begin(cursor: "CursorWrapper", steps: Sequence[Step]) -> None:
    """Write the rows of calls that begin, and of paths that end."""
    at_once = timezone.now()
    now = connection.ops.adapt_datetimefield_value(at_once)
    values: list[Any] = []
    for step in steps:
        step.at = at_once
        row = list(_VALUES(step))
        row[_PLACE["episode"]], row[_PLACE["at"]] = _key(step.episode_id), now
        for at in _JSON:
            row[at] = _json(row[at])
        values += row
    cursor.execute(_insert(len(steps), connection.vendor), values)


def _end(cursor: "CursorWrapper", ends: Sequence[tuple[uuid.UUID, Ended]]) -> None:
    """Write what came of calls."""
    values: list[Any] = []
    for episode, end in ends:
        row = [getattr(end, name) for name in _ENDED]
        row[_ENDED.index("why")] = end.why[:400]
        row[_ENDED.index("metadata")] = _json(end.metadata)
        values += [_key(episode), *row]
    cursor.execute(_update(len(ends), connection.vendor), values)


@lru_cache(maxsize=4 * MOST)
def _insert(count: int, vendor: str) -> str:
    """The statement for so many new rows."""
    row_of = ", ".join(_placeholder(column.name, vendor) for column in _COLUMNS)
    names = ", ".join(str(column.column) for column in _COLUMNS)
    return f"INSERT INTO orchestration_app_step ({names}) VALUES {', '.join([f'({row_of})'] * count)}"  # noqa: S608


@lru_cache(maxsize=4 * MOST)
def _update(count: int, vendor: str) -> str:
    """The statement for what came of so many calls."""
    row_of = ", ".join(["%s", *(_placeholder(name, vendor) for name in _ENDED)])
    changed = ", ".join(f"{name} = ended.{name}" for name in _CHANGED)
    return (
        f"WITH ended (episode_id, {', '.join(_ENDED)}) AS (VALUES {', '.join([f'({row_of})'] * count)})"  # noqa: S608
        f" UPDATE orchestration_app_step SET {changed} FROM ended WHERE orchestration_app_step.episode_id = ended.episode_id AND"
        " orchestration_app_step.turn = ended.turn AND orchestration_app_step.path = ended.path"
        " AND orchestration_app_step.place = ended.place"
    )


def _placeholder(name: str, vendor: str) -> str:
    return "%s::jsonb" if vendor == "postgresql" and _PLACE[name] in _JSON else "%s"


_json = json.JSONEncoder(ensure_ascii=False).encode


def _key(episode: uuid.UUID) -> Any:
    return episode if connection.features.has_native_uuid_field else episode.hex
