"""Texts taken out of archived decisions when a query or somebody's data are erased: only files that hold them are written anew."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext_lazy as _

from agents_app.texts import narrowing
from agents_app.texts.matching import PersonalDataError
from routerweb.erasing import ErasedQuery, Erasing, Fate, Lookup, RowRule
from training_app.decision_archive import days, reading, storage
from training_app.decision_archive.days import read_json
from training_app.decision_archive.storage import ArchiveError
from training_app.engine.data.conversations import from_json
from training_app.models import ArchivedDay
from training_app.versions import erasing as decisions

if TYPE_CHECKING:
    import pyarrow

#: Columns in which a text or somebody is looked for: those that `Decision.holds` and `Outcome.holds` declare to hold words.
WORDS = ("text", "messages", "detail", "comment")
#: What a row says without what is erased, by its columns; None where that does not stand in it.
Change = Callable[[Mapping[str, Any]], dict[str, Any] | None]


def rules() -> list[RowRule]:
    """For the hook `row_rules`."""
    return [
        RowRule(
            ArchivedDay, Fate.BLANKED, _erase, holding=_holding, inside=_inside, waits=_waiting,
            wait=_("stays: it is being written, or DECISION_ARCHIVE is not set; search again later"),
        )
    ]  # fmt: skip


def forget(erased: Sequence[ErasedQuery]) -> None:
    """For the hook `texts_erased`: as `versions.erasing.forget_decisions`, in the archive."""
    if not storage.is_used():
        return
    # A file that is being written may hold rows as they were: whoever writes it finds so, and reads them again.
    ArchivedDay.objects.filter(state=ArchivedDay.State.WRITING).update(state=ArchivedDay.State.LEAVING)
    texts = [query.text for query in erased]
    is_on_any = decisions.on_any(texts)

    def change(row: Mapping[str, Any]) -> dict[str, Any] | None:
        if not row["text"] or not is_on_any(from_json(row["text"], read_json(row["messages"]))):
            return None
        return {"text": "", "messages": None, "comment": row["comment"] and ""}

    pattern = narrowing.of_texts(decisions.said_in(texts))
    for archived in ArchivedDay.objects.kept().exclude(pool=None):
        _rewrite(archived, pattern, change, ("text", "messages"))


def _holding(lookup: Lookup) -> Iterator[int]:
    for archived in ArchivedDay.objects.exclude(pool=None).exclude(state=ArchivedDay.State.LEAVING).order_by("pk"):
        with _said():
            held = archived.state == ArchivedDay.State.WRITING or not storage.is_used() or _held(archived, lookup)
        if held:
            yield archived.pk


def _waiting(keys: Sequence[Any]) -> list[Any]:
    if not storage.is_used():
        return list(keys)
    rows = ArchivedDay.objects.filter(pk__in=keys, state=ArchivedDay.State.WRITING)
    return list(rows.values_list("pk", flat=True))


def _held(archived: ArchivedDay, lookup: Lookup) -> list[dict[str, Any]]:
    """The rows of a file in which somebody stands."""
    return [row for row in reading.matching(archived, narrowing.of(lookup), WORDS) if _stands_in(row, lookup)]


def _stands_in(row: Mapping[str, Any], lookup: Lookup) -> bool:
    return any(row[name] and lookup.found_in(row[name]) for name in WORDS)


def _inside(keys: Sequence[Any], lookup: Lookup) -> Iterator[tuple[str, dict[str, Any]]]:
    """For an export: the id and the columns of each archived decision in which somebody stands."""
    if storage.is_used():
        for archived in ArchivedDay.objects.kept().filter(pk__in=keys):
            with _said():
                rows = _held(archived, lookup)
            for row in rows:
                yield row["id"], row


def _erase(keys: Sequence[Any], erasing: Erasing) -> None:
    """Blank the texts of decisions in which somebody stands, as in the database; out of a comment alone the words are cut."""
    lookup = erasing.lookup

    def change(row: Mapping[str, Any]) -> dict[str, Any] | None:
        if not _stands_in(row, lookup):
            return None
        if any(row[name] and lookup.found_in(row[name]) for name in ("text", "messages", "detail")):
            detail = row["detail"] and json.dumps(lookup.taken_out(read_json(row["detail"])), ensure_ascii=False)
            return {"text": "", "messages": None, "detail": detail, "comment": row["comment"] and ""}
        return {"comment": lookup.taken_out(row["comment"])}

    pattern = narrowing.of(lookup)
    for archived in ArchivedDay.objects.kept().filter(pk__in=keys).exclude(pool=None):
        with _said():
            _rewrite(archived, pattern, change, WORDS)
        erasing.tick()


@contextmanager
def _said() -> Iterator[None]:
    """Tell whoever looks for somebody that a file cannot be read: nobody knows then whether they stand in it."""
    try:
        yield
    except ArchiveError as error:
        words = _(
            "Archived decisions cannot be read, so nobody can say whether they hold it. Repeat this later; if a file is lost or "
            "altered, copy it back first, or give its day up for good: manage.py give_up_archived_day. %s"
        )
        raise PersonalDataError(words % error) from error


def _rewrite(
    archived: ArchivedDay | None, pattern: narrowing.Pattern | None, change: Change, columns: Sequence[str]
) -> None:
    """Write a file anew, where `change` changes any of its rows. Raises ArchiveError."""
    for _n in range(days.TRIES):
        if archived is None or archived.pool is None:
            return  # it was too old, meanwhile
        rows = reading.matching(archived, pattern, columns)
        changes = {row["id"]: changed for row in rows if (changed := change(row)) is not None}
        if not changes or days.replaced(archived, archived.pool, archived.day, partial(_changed, archived, changes)):
            return
        archived = ArchivedDay.objects.kept().filter(pool=archived.pool, day=archived.day).first()
    raise ArchiveError(f"{archived}: others changed the archive all the time.")


def _changed(archived: ArchivedDay, changes: Mapping[str, Mapping[str, Any]]) -> "Iterator[pyarrow.Table]":
    """The rows of a file with these columns of these rows changed."""
    import pyarrow

    for table in days.tables_of(archived):
        ids = table.column("id").to_pylist()
        here = {place: changes[key] for place, key in enumerate(ids) if key in changes}
        for name in WORDS if here else ():
            values = table.column(name).to_pylist()
            for place, changed in here.items():
                values[place] = changed.get(name, values[place])
            at = table.schema.get_field_index(name)
            table = table.set_column(at, table.schema.field(at), pyarrow.array(values, table.schema.field(at).type))
        yield table
