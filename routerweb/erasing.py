"""What erasing somebody's data does to rows, and the rules by which packages say so for their own (the hook `row_rules`)."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from django.db import models
from django.utils.functional import Promise


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
    files; `covers` are models whose rows count as those of the rule's, by the name of their reference to it. `waits` gives those of
    the keys that cannot be erased now, and `wait` says why. `beside` are exported with a row, again by the name of a reference to it.
    `link` gives what a page shows of a row, and the address of the row's page.
    """

    model: type[models.Model]
    fate: Fate
    erase: Callable[[Sequence[Any], Erasing], None]
    holding: Callable[[Lookup], Iterable[Any]] | None = None
    covers: Sequence[tuple[type[models.Model], str]] = ()
    waits: Callable[[Sequence[Any]], Collection[Any]] = _nothing
    wait: str | Promise = ""
    beside: Sequence[tuple[type[models.Model], str]] = ()
    link: Callable[[Any], tuple[str, str]] | None = None
