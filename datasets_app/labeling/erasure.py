"""What labeling forgets when a query's text is erased: drafts, remarks, and its place in the queue. Labels and counts stay.

And the rules by which somebody's data are erased from queries, snapshots and the files of failed imports.
"""

from collections.abc import Sequence
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from agents_app import audit
from agents_app.texts import columns
from datasets_app.labeling import queue
from datasets_app.labels import erased_queries, snapshots
from datasets_app.models import (
    Assignment,
    Draft,
    Import,
    ImportChunk,
    Label,
    PrelabelItem,
    Query,
    QueueItem,
    Snapshot,
    SnapshotContent,
    TracedTurn,
)
from datasets_app.queries import query_columns, stored_files
from routerweb import holds
from routerweb.erasing import ErasedQuery, Erasing, Fate, Lookup, RowRule
from routerweb.holds import Content


def of_query(erased: ErasedQuery) -> None:
    """Called in the transaction that erases a query."""
    query = erased.key
    Draft.objects.filter(query=query).delete()
    Query.objects.filter(pk=query, state=Query.State.DRAFT).update(state=Query.State.UNLABELED)
    Assignment.objects.filter(item__query=query).update(reason="")
    Label.objects.filter(query=query).exclude(note="").update(note="")
    PrelabelItem.objects.filter(query=query).update(error="")
    TracedTurn.objects.filter(query=query).delete()
    queue.close([query])
    QueueItem.objects.filter(query=query).update(wanted=False, note="")
    for label in Label.objects.filter(query=query, provenance__has_key="error"):  # what an LLM said of the text
        del label.provenance["error"]
        label.save(update_fields=("provenance",))


# ---------------------------------------------------------------------------------------------------- somebody's data


def rules() -> list[RowRule]:
    """How somebody's data are erased from rows of this package's models."""
    return [
        RowRule(Query, Fate.ERASED, _erase_queries, beside=[(Label, "query")], link=_link),
        RowRule(SnapshotContent, Fate.BLANKED, _blank_rows, holding=snapshots.holding),
        RowRule(Snapshot, Fate.CUT, _cut_rosters),
        RowRule(
            ImportChunk,
            Fate.DELETED,
            _delete_files,
            holding=_files_holding,
            waits=_under_way,
            wait=_("stays: the import is under way; cancel it, or wait until it ends"),
        ),
    ]


def _link(query: Query) -> tuple[str, str]:
    return query.text, reverse("query", args=(query.dataset.pool.slug, query.pk))


def _erase_queries(keys: Sequence[Any], erasing: Erasing) -> None:
    erased_queries.erase_all(keys, audit.actor_of(erasing.actor).user, erasing.tick)
    for some in columns.chunks(keys):
        done = Query.objects.filter(pk__in=some, erased_at__isnull=False)
        done.update(text="", extra={}, messages=None, **query_columns.erased())


def _blank_rows(keys: Sequence[Any], erasing: Erasing) -> None:
    snapshots.blank_rows(lambda row: erasing.lookup.found_in(snapshots.said_in(row)), keys)


def _cut_rosters(keys: Sequence[Any], erasing: Erasing) -> None:
    words = holds.columns(Snapshot, Content.REMARK | Content.SHARED)
    for snapshot in Snapshot.objects.filter(pk__in=keys):
        with transaction.atomic():
            columns.take_out_of(Snapshot, [snapshot.pk], words, erasing.lookup)
            if erasing.lookup.found_in(snapshot.roster):
                snapshots.digest_again(Snapshot.objects.get(pk=snapshot.pk))


def _files_holding(lookup: Lookup) -> list[int]:
    """The first chunk of each stored file that holds it: one row a file."""
    uploads = [*stored_files.holding(lookup), *stored_files.holding(lookup, under_way=True)]
    return list(ImportChunk.objects.filter(upload__in=uploads, position=0).values_list("pk", flat=True))


def _under_way(keys: Sequence[Any]) -> set[Any]:
    running = ImportChunk.objects.filter(pk__in=keys, upload__status__in=stored_files.UNDER_WAY)
    return set(running.values_list("pk", flat=True))


def _delete_files(keys: Sequence[Any], erasing: Erasing) -> None:
    uploads = Import.objects.filter(chunks__in=keys).values_list("pk", flat=True)
    ImportChunk.objects.filter(upload__in=list(uploads)).delete()
