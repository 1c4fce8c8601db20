"""Erasing queries: their texts leave everything that holds them, snapshots among it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from agents_app import audit
from agents_app.texts.columns import chunks
from agents_app.texts.matching import LONG
from datasets_app.labels.snapshots import BATCH, blank_rows
from datasets_app.models import Label, Query
from datasets_app.queries import query_columns, traces
from routerweb import hooks
from routerweb.erasing import ErasedQuery, empty_log
from training_app.engine.data.conversations import before, from_json
from training_app.engine.data.examples import normalise, of_one_conversation


def erase(query: Query, actor: User | None = None, *, report: bool = True) -> list[traces.Trace]:
    """Take a query's text out of everything, see `erase_all`. Returns where it still stands, unless `report` is off: what people wrote
    for everybody, as guidelines, is theirs to change."""
    text, erased = query.text, erase_all([query.pk], actor)
    query.refresh_from_db()
    return traces.of(text) if report and text in _texts(erased) else []


def erase_all(
    keys: Sequence[int], actor: User | None = None, tick: Callable[[], None] = lambda: None
) -> list[ErasedQuery]:
    """Take the texts of queries out of everything, wherever they stand in this form but for case and space: the queries of such a text
    in any dataset, every column that declares to hold such texts or remarks on them, snapshots, files of failed imports. With a turn
    all turns of its conversation go. Returns the queries that were erased.

    Everything is looked through once for all texts, and once more afterwards for copies that were written meanwhile. No look-up is
    part of a transaction that writes, and the queries themselves are erased last: whoever breaks it off can run it again.

    Counts, labels and hashes stay: a snapshot still adds up to its digest, and an import of the same text does not bring it
    back. There is no undo.
    """
    chosen = [query for some in chunks(keys) for query in Query.objects.filter(pk__in=some, erased_at=None)]
    doomed: dict[int, ErasedQuery] = {}
    for query in chosen:
        if query.pk not in doomed:
            same = Query.objects.filter(of_the_same(query), erased_at=None).select_related("dataset")
            doomed |= {
                same_query.pk: ErasedQuery(same_query.pk, same_query.dataset.pool_id, same_query.routed_text)
                for same_query in same
            }
            tick()
    if not doomed:
        return []
    _forget_copies(list(doomed.values()))
    erased: dict[int, ErasedQuery] = {}
    for query in chosen:
        if query.pk not in erased:
            erased |= {erased_query.key: erased_query for erased_query in _erase_alike(query, actor)}
            tick()
    _forget_copies(list({**doomed, **erased}.values()))
    empty_log()
    return list(erased.values())


def _erase_alike(query: Query, actor: User | None) -> list[ErasedQuery]:
    """Erase a query with those that go with it, in one transaction; what was erased."""
    now = timezone.now()
    with transaction.atomic():
        same = Query.objects.filter(of_the_same(query), erased_at=None).order_by("pk")
        locked = list(same.select_for_update(of=("self",), no_key=True).select_related("dataset__pool"))
        if not any(locked_query.pk == query.pk for locked_query in locked):
            return []
        erased = [
            ErasedQuery(locked_query.pk, locked_query.dataset.pool_id, locked_query.routed_text)
            for locked_query in locked
        ]
        for erased_query in erased:
            hooks.query_erased(erased_query)
        Label.objects.filter(query__in=[locked_query.pk for locked_query in locked]).update(reason="")
        for row in locked:
            row.text, row.extra, row.messages = "", {}, None  # `turn` stays: the place of a turn in its conversation
            blanks = query_columns.erased()
            for attribute, blank in blanks.items():
                setattr(row, attribute, blank)
            row.erased_at, row.deleted_at = now, row.deleted_at or now
            row.save(update_fields=("text", "extra", "messages", *blanks, "erased_at", "deleted_at", "updated_at"))
            audit.record("query.erased", actor=actor, target=f"query {row.pk}", pool=row.dataset.pool)
    return erased


def _forget_copies(erased: Sequence[ErasedQuery]) -> None:
    texts, keys = _texts(erased), {query.key for query in erased}
    long = {normalise(text) for text in texts if len(text) >= LONG}

    def is_gone(row: dict[str, Any]) -> bool:
        return row["query"] in keys or any(normalise(message["content"]) in long for message in row.get("messages", ()))

    # First those that keep more beside a text than its column does, such as comments on decisions.
    hooks.texts_erased(erased)
    blank_rows(is_gone)
    traces.forget(texts, keys)


def _texts(erased: Iterable[ErasedQuery]) -> list[str]:
    """The texts that go with queries. A turn as short as "yes" is said in many conversations: elsewhere it is another query's."""
    return list(dict.fromkeys(str(query.text) for query in erased if not before(query.text) or len(query.text) >= LONG))


def of_the_same(query: Query) -> Q:
    """The queries that are erased with one: those that read the same, and the turns of its conversation."""
    same = Q(pk=query.pk) | Q(text_hash=query.text_hash)
    if query.conversation:
        same |= Q(dataset__pool=query.dataset.pool_id, conversation=query.conversation)
    if query.messages:
        others = Query.objects.filter(group=query.group_id, erased_at=None).exclude(pk=query.pk)
        turns = others.values_list("pk", "text", "messages").iterator(chunk_size=BATCH)
        same |= Q(
            pk__in=[pk for pk, text, before in turns if of_one_conversation(query.routed_text, from_json(text, before))]
        )
    return same
