"""Where a query's text stands beside the query itself, and how it is taken out there.

Every column is looked through that declares to hold words (`routerweb.holds`). A text of LONG characters and more is found inside a
longer one, and by its beginning where a copy was cut short; a shorter one, like "yes", only where it is all that stands there.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from django.db import models
from django.utils.translation import gettext as _

from agents_app.texts import columns
from agents_app.texts.columns import Column
from agents_app.texts.matching import Phrase, Phrases, WholePhrase
from datasets_app.models import ImportChunk, Query, text_hash
from datasets_app.queries import stored_files
from routerweb import holds
from routerweb.erasing import Lookup
from routerweb.holds import Content


@dataclass(frozen=True, slots=True)
class Trace:
    """In how many rows of a place a text stands. `stays`: people wrote it for everybody, and have to take it out there."""

    place: str
    count: int
    stays: bool = False


def of(text: str) -> list[Trace]:
    """Where a text stands now: its queries, every copy that would be erased, and what stays for people to change."""
    phrase = Phrase(text)
    same = Query.objects.filter(text_hash=text_hash(text), erased_at=None)
    rows = [
        Trace(_("queries of this text"), same.count()),
        Trace(_("files of failed imports"), len(stored_files.holding(phrase))),
    ]
    for model in holds.tables():
        place = _("other keys of queries") if model is Query else str(model._meta.verbose_name_plural)
        copies = _copies(model, phrase, WholePhrase(text))
        keys = {key for words, lookup in copies for key, _held in columns.holding(model, words, lookup)}
        rows.append(Trace(place, len(keys)))
        if phrase.long:
            shared = holds.columns(model, Content.SHARED | Content.SETTING)
            rows.append(Trace(place, sum(1 for _row in columns.holding(model, shared, phrase)), stays=True))
    return [trace for trace in rows if trace.count]


def forget(texts: Sequence[str], erased: Collection[int]) -> None:
    """Take texts out of every copy, and delete the stored files of imports that hold any. Everything is looked through once for all
    of them, outside of a transaction; what is found is written in small ones. The queries with the keys `erased` are left as they are:
    what was said before one tells which belong to its conversation, until they are erased together."""
    phrases = Phrases(texts)
    ImportChunk.objects.filter(upload__in=stored_files.holding(phrases)).delete()
    for model in holds.tables():
        for words, lookup in _copies(model, phrases, Phrases(texts, WholePhrase)):
            columns.take_out(model, words, lookup, spared=erased if model is Query else ())


def _copies(model: type[models.Model], inside: Lookup, whole: Lookup) -> Iterator[tuple[list[Column], Lookup]]:
    """The columns of a model that may hold copies of a query's text, and what is looked for in them: it `inside` other texts, or as a
    `whole` text."""
    # Packed bytes are read by those who pack them: `stored_files`, `snapshots`, and the hook `texts_erased`.
    words = [
        column
        for column in holds.columns(model, Content.QUERY | Content.REMARK)
        if not isinstance(column, models.BinaryField)
    ]
    remarks = [column for column in words if holds.content(column) & Content.REMARK]
    queries = [column for column in words if column not in remarks and (model, column.name) != (Query, "text")]
    yield remarks, inside
    # In these stand other queries: a longer one that holds this text is another query.
    yield queries, whole
