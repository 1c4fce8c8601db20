"""Lists of any length in parts: a part begins after a row, not at a place, so that the last part costs what the first does."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import Model, Q, QuerySet
from django.utils.formats import number_format
from django.utils.translation import gettext as _

#: Rows that are counted while somebody waits; how many a longer list has is estimated.
COUNTED = 10_000
#: Digits of an estimate that mean something.
DIGITS = 2
#: Rows that a search without an index looks through at first, and at least, how many times as many it goes on with, and how long it
#: may take.
STRETCH, GROWTH, SECONDS = 20_000, 4, 0.3

Rows = QuerySet[Any]


@dataclass(frozen=True, slots=True)
class Part:
    """The keys of some rows of a list. `previous` and `next` lead on, as (parameter of the address, key); None where the list ends.

    `reached` is where a search stopped that did not look through all rows: a value of the order's first column. `end` is the place
    where the next part begins, as values of the order's columns: it stays one when its row is deleted.
    """

    keys: Sequence[Any]
    previous: tuple[str, Any] | None = None
    next: tuple[str, Any] | None = None
    reached: Any = None
    end: Sequence[Any] | None = None

    @property
    def is_whole(self) -> bool:
        """Whether this is the whole list."""
        return self.previous is None and self.next is None

    def of(self, rows: Rows) -> list[Any]:
        """The part's rows in its order, as `rows` reads them."""
        by_key = rows.order_by().in_bulk(list(self.keys))
        return [by_key[key] for key in self.keys if key in by_key]


@dataclass(frozen=True, slots=True)
class Total:
    """How long a list is: `count` rows where it is `exact`; otherwise about so many, or more than that where `least`."""

    count: int
    exact: bool = True
    least: bool = False

    def __str__(self) -> str:
        number = number_format(self.count, force_grouping=True)
        if self.exact:
            return number
        return (_("more than %(n)s") if self.least else _("about %(n)s")) % {"n": number}


@dataclass(frozen=True, slots=True)
class _Order:
    """Columns by which rows are ordered, all upwards or all `down`; the last is the key."""

    names: Sequence[str]
    down: bool

    def of(self, rows: Rows) -> Rows:
        return rows.order_by(*(f"-{name}" if self.down else name for name in self.names))

    def beyond(self, place: Sequence[Any]) -> Q:
        """That a row comes after that place."""
        return _beyond(self.names, place, "lt" if self.down else "gt")

    def until(self, place: Sequence[Any]) -> Q:
        """That a row comes before that place."""
        return _beyond(self.names, place, "gt" if self.down else "lt")


def _beyond(names: Sequence[str], place: Sequence[Any], side: str) -> Q:
    """That a row lies on that side of a place, in a form in which an index on the first column finds where."""
    beyond = Q(**{f"{names[0]}__{side}": place[0]})
    if len(names) == 1:
        return beyond
    beyond |= Q(**{names[0]: place[0]}) & _beyond(names[1:], place[1:], side)
    return Q(**{f"{names[0]}__{side}e": place[0]}) & beyond


def part(
    rows: Rows, order: Sequence[str], params: Mapping[str, str], size: int, fits: Callable[[Rows], Rows] | None = None
) -> Part:
    """The part of `rows` that `after` or `before` in `asked`, each the key of a row, ask for; the first where neither names one.

    `order`: columns, all with a minus or none; the last is the key. A row that has moved is where it is now. `fits` narrows the rows
    by what no index finds: they are looked through for SECONDS, then the part ends, full or not, and says what it `reached`.
    """
    names = [name.removeprefix("-") for name in order]
    down = order[0].startswith("-")
    backwards = "after" not in params and "before" in params
    place = _place(rows, names, params.get("before" if backwards else "after"))
    if place is None:
        return _forward(rows, _Order(names, down), size, fits)
    if not backwards:
        on = _forward(rows.filter(_Order(names, down).beyond(place)), _Order(names, down), size, fits)
        return replace(on, previous=("before", on.keys[0] if on.keys else params["after"]))
    back = _forward(rows.filter(_Order(names, not down).beyond(place)), _Order(names, not down), size, fits)
    if not back.keys and back.next is None:
        return _forward(rows, _Order(names, down), size, fits)
    earlier = ("before", back.next[1]) if back.next else None
    return Part(back.keys[::-1], earlier, ("after", back.keys[0] if back.keys else params["before"]), back.reached)


def part_and_total(
    rows: Rows,
    order: Sequence[str],
    params: Mapping[str, str],
    size: int,
    *,
    counted: int | None = None,
    entries: Rows | None = None,
) -> tuple[Part, Total]:
    """`part` and `total` of a search that takes longer to find rows than to send their keys: the first part and the count are one
    reading of up to `counted` (COUNTED) keys. A later part is read on its own.

    `entries`, where there are some, are rows that an index finds, nearly as many as `rows`: where they are more than are counted,
    PostgreSQL counts no rows and reads those of the part alone.
    """
    columns = _Order([name.removeprefix("-") for name in order], order[0].startswith("-"))
    most = COUNTED if counted is None else counted
    if entries is not None and connection.vendor == "postgresql" and entries.order_by()[: most + 1].count() > most:
        shown = part(rows, order, params, size)
        return shown, Total(len(shown.keys)) if shown.is_whole else _more_than(rows.order_by(), most)
    if "after" in params or "before" in params:
        shown = part(rows, order, params, size)
        return shown, total(rows, shown=shown, counted=counted)
    places = list(columns.of(rows).values_list(*columns.names)[: most + 1])
    return _cut(places, size), Total(len(places)) if len(places) <= most else _more_than(rows.order_by(), most)


def part_after(
    rows: Rows, order: Sequence[str], place: Sequence[Any], size: int, fits: Callable[[Rows], Rows] | None = None
) -> Part:
    """The part of `rows` that begins behind a place, an earlier part's `end`; the first for an empty one. As `part` otherwise."""
    columns = _Order([name.removeprefix("-") for name in order], order[0].startswith("-"))
    return _forward(rows.filter(columns.beyond(place)) if place else rows, columns, size, fits)


def _forward(rows: Rows, order: _Order, size: int, fits: Callable[[Rows], Rows] | None) -> Part:
    """The first `size` rows in that order."""
    if fits is not None:
        return _looked_through(rows, order, size, fits)
    return _cut(list(order.of(rows).values_list(*order.names)[: size + 1]), size)


def _looked_through(rows: Rows, order: _Order, size: int, fits: Callable[[Rows], Rows]) -> Part:
    """The first `size` rows that fit, stretch by stretch; no stretch begins that would end after SECONDS at the pace of the last."""
    began, stretch, places, left = time.monotonic(), STRETCH, list[Any](), rows
    while True:
        begins = time.monotonic()
        edge = list(order.of(left).values_list(*order.names)[stretch - 1 : stretch + 1])
        inside = left.filter(order.until(edge[1])) if len(edge) == 2 else left
        places += order.of(fits(inside)).values_list(*order.names)[: size + 1 - len(places)]
        if len(places) > size:
            return _full(places, size)
        if len(edge) < 2:
            return Part([place[-1] for place in places])
        now = time.monotonic()
        pace = stretch / max(now - begins, 1e-9)
        stretch = int(min(stretch * GROWTH, pace * (SECONDS - (now - began))))
        if stretch < STRETCH:
            return Part([place[-1] for place in places], None, ("after", edge[0][-1]), edge[0][0], end=edge[0])
        left = rows.filter(order.beyond(edge[0]))


def _cut(places: Sequence[Any], size: int) -> Part:
    """The first part of that size, from the places of its rows and of at least one more, where there is one."""
    return _full(places, size) if len(places) > size else Part([place[-1] for place in places])


def _full(places: Sequence[Any], size: int) -> Part:
    """A part of that size, from the places of its rows and of one more."""
    keys = [place[-1] for place in places[:size]]
    return Part(keys, None, ("after", keys[-1]), end=places[size - 1])


def _place(rows: Rows, names: Sequence[str], key: str | None) -> tuple[Any, ...] | None:
    """Where the row of that key stands in the order; None where there is none."""
    model: type[Model] = rows.model
    try:
        place = model._meta.pk.to_python(key)
    except ValidationError:
        return None
    return model._base_manager.filter(pk=place).values_list(*names).first() if place is not None else None


def total(rows: Rows, *, shown: Part | None = None, exact: bool = False, counted: int | None = None) -> Total:
    """How long a list is, of which `shown` is a part: counted up to `counted` (COUNTED), or all of it for `exact`; otherwise
    estimated."""
    if shown is not None and shown.is_whole:
        return Total(len(shown.keys))
    plain, most = rows.order_by(), COUNTED if counted is None else counted
    count = plain.count() if exact else plain[: most + 1].count()
    return Total(count) if exact or count <= most else _more_than(plain, most)


def _more_than(rows: Rows, most: int) -> Total:
    """How long a list of more than `most` rows is: as PostgreSQL estimates."""
    if connection.vendor != "postgresql":
        return Total(most, exact=False, least=True)
    estimate = int(json.loads(rows.explain(format="json"))[0]["Plan"]["Plan Rows"])
    return Total(max(round(estimate, DIGITS - len(str(estimate))), most), exact=False)
