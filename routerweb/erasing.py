"""What erasing somebody's data does to rows, and the rules by which packages say so for their own (the hook `row_rules`)."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from django.db import connection, models
from django.utils.functional import Promise

#: Emptying the log of SQLite waits so many milliseconds for readers, during which nobody else can write; so often, a second apart.
LOG_WAIT_MS, LOG_TRIES = 500, 5


class Lookup(Protocol):
    """What is looked for in stored values; `agents_app.texts.matching` has them."""

    def found_in(self, value: Any) -> bool:
        """Whether it stands anywhere in a text or in JSON."""

    def taken_out(self, value: Any) -> Any:
        """A value without it."""


class Fate(StrEnum):
    """What erasing does to a row in which somebody was found, in the order in which it is done."""

    ERASED = "erased"
    BLANKED = "blanked"
    DELETED = "deleted"
    CUT = "cut"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class ErasedQuery:
    """A query that is erased: its key, its pool's, and its text, which knows what was said before it where anything was."""

    key: int
    pool: int
    text: str


@dataclass(frozen=True, slots=True)
class Erasing:
    """One erasing of somebody's data: what is looked for, who erases, and what is called after each step of long work."""

    lookup: Lookup
    actor: Any
    tick: Callable[[], None] = lambda: None


def _nothing(_keys: Sequence[Any]) -> Collection[Any]:
    return ()


@dataclass(frozen=True, slots=True)
class RowRule:
    """How rows of one model are erased, where cutting words out of their columns is not enough.

    `erase` gets the keys of the rows in which somebody was found. `holding` finds them where columns alone do not tell, as in packed
    files, and `inside` gives what is exported in place of such rows, as (id, values). `covers` are models whose rows count as those of
    the rule's, by the name of their reference to it. `waits` gives those of the keys that cannot be erased now, and `wait` says why.
    `beside` are exported with a row, again by the name of a reference to it. `link` gives what a page shows of a row, and the address
    of the row's page.
    """

    model: type[models.Model]
    fate: Fate
    erase: Callable[[Sequence[Any], Erasing], None]
    holding: Callable[[Lookup], Iterable[Any]] | None = None
    inside: Callable[[Sequence[Any], Lookup], Iterable[tuple[str, dict[str, Any]]]] | None = None
    covers: Sequence[tuple[type[models.Model], str]] = ()
    waits: Callable[[Sequence[Any]], Collection[Any]] = _nothing
    wait: str | Promise = ""
    beside: Sequence[tuple[type[models.Model], str]] = ()
    link: Callable[[Any], tuple[str, str]] | None = None


def empty_log() -> bool:
    """Write the log of SQLite into the database and empty it, so that no file holds what was erased; whether nothing is left in it.

    The file itself is overwritten as rows go (`secure_delete`). Long readers keep the log from being emptied; it is then overwritten
    as others write. Within a transaction nothing is done; PostgreSQL's vacuum frees old rows by itself.
    """
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        return False
    with connection.cursor() as cursor:
        (usual,) = cursor.execute("PRAGMA busy_timeout").fetchone()
        cursor.execute(f"PRAGMA busy_timeout={LOG_WAIT_MS}")
        try:
            for attempt in range(LOG_TRIES):
                if attempt:
                    time.sleep(1.0)
                if cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0:
                    return True
        finally:
            cursor.execute(f"PRAGMA busy_timeout={usual}")
    return False
