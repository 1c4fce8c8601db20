"""The columns of a query: what each is called, what a file or a call may put into it, how it is searched, sorted and shown.

`COLUMNS` is the one table of them. Import, export, the page Queries, a query's own page, the API and the admin iterate over it;
CONTRIBUTING.md says how to add one. A column that files and calls may fill has an `Entry`; the others are kept by the product. Text,
labels and conversations are read by the engine (`training_app.engine.data.file_rows`) and are no rows of this table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Field, Q
from django.utils import timezone
from django.utils.crypto import salted_hmac
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app.templatetags.routerweb import ago, state
from datasets_app.models import Query, Split
from routerweb import holds
from routerweb.holds import Content
from routerweb.pages import parameters
from training_app.engine.data import storable
from training_app.engine.data.examples import Row

Shown = SafeString | str
_IN_LETTERS = str.maketrans("0123456789", "ghijklmnop")


class BadValue(ValueError):
    """What is wrong with a value, as it goes on after the column's name; `code` is a word for programs."""

    def __init__(self, reason: str, code: str = "invalid") -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, slots=True)
class Entry:
    """How a value comes in.

    `parse` takes a cell of a file or a value of JSON, never blank or null, gives what is stored, and raises BadValue. `schema`
    describes the value in JSON schema, and `example` is one. `headings` are further names, in small letters, that people give the
    column in their files. `row` is the attribute of the engine's `Row` that holds the value where the engine reads it itself.
    `groups`: rows of one value belong together, so that two values have to stay two where the pool redacts them.
    """

    parse: Callable[[Any], Any]
    schema: Mapping[str, Any]
    example: Any
    headings: tuple[str, ...] = ()
    row: str = ""
    groups: bool = False


@dataclass(frozen=True, slots=True)
class QueryColumn:
    """One row of the table. `name` is its key in files, in bodies of the API, in `name:value` of a search and in `?sort=name`.

    `lookup` finds it from a query in the database. `find` makes a search's value a condition, and raises LookupError with what is
    wrong. `badge` shows it, "" where there is nothing to show: on the query's page, and where it is `listed` in the list of queries
    and in the admin's.
    """

    name: str
    label: Promise
    lookup: str
    entry: Entry | None = None
    find: Callable[[str], Q] | None = None
    sorts: bool = False
    badge: Callable[[Query], Shown] | None = None
    listed: bool = False


# --- Finding ------------------------------------------------------------------------------------------------------


def one_of(value: str, options: Sequence[str]) -> str:
    """The option that a search names, in any case. Raises LookupError."""
    if value.lower() not in options:
        raise LookupError(_("not one of %(options)s.") % {"options": ", ".join(options)})
    return value.lower()


def _state(value: str) -> Q:
    return Q(state=one_of(value, Query.State.values))


def _split(value: str) -> Q:
    word = one_of(value, (*Split.values, "none"))
    return Q(group__split="" if word == "none" else word)


def day(value: str) -> datetime:
    """The beginning of a day like 2026-01-31. Raises LookupError."""
    on = parameters.day(value)
    if on is None:
        raise LookupError(_("not a date like 2026-01-31."))
    return timezone.make_aware(datetime(on.year, on.month, on.day))


# --- Values -------------------------------------------------------------------------------------------------------

MAX_NAME = 200


def _name(value: Any) -> str:
    """A text of at most MAX_NAME characters, without space around it."""
    if not isinstance(value, str):
        raise BadValue("must be a text")
    if fault := storable.text_fault(value):
        raise BadValue(fault)
    if len(value.strip()) > MAX_NAME:
        raise BadValue(f"has {len(value.strip()):,} characters; at most {MAX_NAME} are taken", "too_long")
    return value.strip()


NAME = {"type": "string", "maxLength": MAX_NAME}


# --- The table ----------------------------------------------------------------------------------------------------

COLUMNS: tuple[QueryColumn, ...] = (
    QueryColumn(
        "state", gettext_lazy("State"), "state", find=_state, sorts=True, badge=lambda query: state(query.state), listed=True
    ),
    QueryColumn(
        "split", gettext_lazy("Split"), "group__split", find=_split, sorts=True, listed=True,
        badge=lambda query: query.group.get_split_display(),
    ),
    QueryColumn(
        "updated", gettext_lazy("Updated"), "updated_at", sorts=True, badge=lambda query: ago(query.updated_at), listed=True
    ),
    QueryColumn("added", gettext_lazy("Added"), "pk", sorts=True, badge=lambda query: ago(query.created_at)),
    QueryColumn("text", gettext_lazy("Text"), "text", sorts=True),
    QueryColumn("before", gettext_lazy("Updated before"), "updated_at", find=lambda value: Q(updated_at__lt=day(value))),
    QueryColumn(
        "after", gettext_lazy("Updated after"), "updated_at",
        find=lambda value: Q(updated_at__gte=day(value) + timedelta(days=1)),
    ),
    QueryColumn("dataset", gettext_lazy("Dataset"), "dataset", find=lambda value: Q(dataset__name__iexact=value),
           badge=lambda query: query.dataset.name),
    QueryColumn(
        "id", gettext_lazy("Id in its source"), "external_id", Entry(_name, NAME, "ticket-4711", row="id"),
        find=lambda value: Q(external_id=value), badge=lambda query: query.external_id,
    ),
    QueryColumn(
        "conversation", gettext_lazy("Conversation"), "conversation", Entry(_name, NAME, "chat-7", row="conversation", groups=True),
        find=lambda value: Q(conversation=value), badge=lambda query: query.conversation,
    ),
    QueryColumn("origin", gettext_lazy("Origin"), "origin", badge=lambda query: query.came_from),
)  # fmt: skip

BY_NAME: dict[str, QueryColumn] = {column.name: column for column in COLUMNS}
FOUND = tuple(column for column in COLUMNS if column.find)
SORTS = {column.name: column.lookup for column in COLUMNS if column.sorts}
LISTED = tuple(column for column in COLUMNS if column.listed)
BADGES = tuple(column for column in COLUMNS if column.badge)


def entries() -> tuple[tuple[QueryColumn, Entry], ...]:
    """The columns that files and calls may fill, each with how."""
    return tuple((column, column.entry) for column in COLUMNS if column.entry)


# --- Values on their way in and out -------------------------------------------------------------------------------


def parsed(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a call says about these columns, by name, ready to be stored; blank and null say nothing. Raises WrongColumn."""
    return {
        column.name: _parsed(column, entry, values[column.name])
        for column, entry in entries()
        if _says(values, column.name)
    }


def of_row(row: Row) -> tuple[dict[str, Any], dict[str, Any]]:
    """(what a row of a file says about these columns, as `parsed`; its other keys). Raises WrongColumn."""
    columns = [(column, entry) for column, entry in entries() if not entry.row]
    values = {
        column.name: _parsed(column, entry, row.extra[column.name])
        for column, entry in columns
        if _says(row.extra, column.name)
    }
    values |= {column.name: getattr(row, entry.row) for column, entry in entries() if entry.row}
    names = {column.name for column, _entry in columns}
    return values, {key: value for key, value in row.extra.items() if key not in names}


class WrongColumn(BadValue):
    """A value that a column does not take; `column` is the column's name and `value` what was sent."""

    def __init__(self, column: str, value: Any, wrong: BadValue) -> None:
        super().__init__(str(wrong), wrong.code)
        self.column, self.value = column, value


def _says(values: Mapping[str, Any], name: str) -> bool:
    value = values.get(name)
    return value is not None and not (isinstance(value, str) and not value.strip())


def _parsed(column: QueryColumn, entry: Entry, value: Any) -> Any:
    try:
        return entry.parse(value)
    except BadValue as wrong:
        raise WrongColumn(column.name, value, wrong) from None


def stored(values: Mapping[str, Any]) -> list[Any]:
    """The database's values of a new query in the order of `entries`, defaults where nothing was said."""
    return [values[column.name] if column.name in values else _default(column) for column, _entry in entries()]


def written(values: Sequence[Any]) -> dict[str, Any]:
    """A stored query's values, in the order of `entries`, as further keys of its row in a file; what is blank is left out."""
    return {
        column.name: value
        for (column, entry), value in zip(entries(), values, strict=True)
        if not entry.row and value is not None and value != ""
    }


def redacted(values: Mapping[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    """Parsed values with what the pool redacts taken out of those whose columns declare to hold a query's words or remarks."""
    clean = dict(values)
    for column, entry in entries():
        field = Query._meta.get_field(column.lookup)
        value = values.get(column.name)
        if (
            isinstance(value, str)
            and isinstance(field, Field)
            and holds.content(field) & (Content.QUERY | Content.REMARK)
        ):
            redacted_text = redact(value)
            clean[column.name] = (
                _distinct(redacted_text, value, field) if entry.groups and redacted_text != value else redacted_text
            )
    return clean


def _distinct(redacted_text: str, value: str, field: "Field[Any, Any]") -> str:
    """What is left of a value, with a keyed digest of it in letters: no pattern for numbers finds that."""
    digest = salted_hmac(field.name, value).hexdigest()[:16].translate(_IN_LETTERS)
    return f"{redacted_text[: (field.max_length or 200) - len(digest) - 1]} {digest}"


def erased() -> dict[str, str]:
    """What stands in the texts among these columns once a query is erased, by attribute of `Query`."""
    return {column.lookup: "" for column, _entry in entries() if isinstance(_default(column), str)}


def _default(column: QueryColumn) -> Any:
    field = Query._meta.get_field(column.lookup)
    assert isinstance(field, Field), f"{column.lookup} is no column of Query"
    return field.get_default()


def badges(query: Query, *, listed: bool = False) -> list[tuple[QueryColumn, Shown]]:
    """Each column that shows something, or that lists show, with what, in the table's order; "" where a query has nothing to show."""
    return [(column, column.badge(query)) for column in (LISTED if listed else BADGES) if column.badge]
