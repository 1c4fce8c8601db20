"""Adding queries to a dataset: one query a text, however often it comes."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import transaction

from agents_app import audit, privacy
from agents_app.audit import Who, actor_of
from agents_app.models import Pool
from datasets_app.models import Dataset, Query, hashes_of, inserting
from datasets_app.queries import query_columns, splits
from training_app.engine.data.conversations import before, earlier_as_json

#: The dataset of queries that came by the API, unless they name another.
SENT = "Sent"


@dataclass(frozen=True, slots=True)
class NewQuery:
    """One text, or turn of a conversation, that may or may not be in a dataset already.

    `values` are those of its columns, by the names of `query_columns.entries`; `extra` its other keys. `split` is "" or what its file
    says; `state` the state that a new query will have once the caller has recorded its label, which spares a second write.
    """

    text: str
    values: Mapping[str, Any] = field(default_factory=dict)
    split: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    state: str = Query.State.UNLABELED

    @property
    def conversation(self) -> str:
        """The id of the conversation that it is a turn of, "" for none."""
        return str(self.values.get("conversation", ""))


def dataset_of(pool: Pool, name: str = "") -> Dataset:
    """The pool's dataset of that name (in any case), made where there is none; without a name the pool's first one."""
    # In Python: SQLite folds the case of ASCII letters only, and a name that PostgreSQL calls taken could not be restored there.
    datasets = pool.datasets.order_by("pk")
    dataset = next(
        (candidate for candidate in datasets if not name or candidate.name.casefold() == name.casefold()), None
    )
    return dataset or Dataset.objects.create(pool=pool, name=name or "Queries")


@dataclass(frozen=True, slots=True)
class StoredQuery:
    """The query that a text is: its key, its split ("" for none), the state it was added with ("" where it was there before), and
    whether it was deleted or erased."""

    pk: int
    split: str
    state: str = ""
    deleted: bool = False
    erased: bool = False


def find_or_add(dataset: Dataset, texts: Sequence[NewQuery], origin: str) -> tuple[list[StoredQuery], set[int]]:
    """The dataset's query for each text, in order, and the keys of those that were not there before.

    Texts that are the same once normalised are one query, which keeps the first one's text, id and other keys. In one
    transaction and a constant number of database queries, for at most a few thousand texts. What the pool redacts is taken out first.
    """
    redactor = privacy.redactor_of(dataset.pool_id)
    if redactor is not None:
        texts = [
            replace(
                new,
                text=redactor.conversation(new.text),
                values=query_columns.redacted(new.values, redactor.text),
                extra=redactor.value(new.extra),
            )
            for new in texts
        ]
    hashes = [hashes_of(new.text, new.conversation) for new in texts]
    first: dict[str, int] = {}  # of each text's hash the place of its first row
    for place, (key, _group) in enumerate(hashes):
        first.setdefault(key, place)
    with transaction.atomic():
        # Two writers of one pool take turns, so that neither adds what the other is adding.
        Pool.objects.select_for_update(no_key=True).get(pk=dataset.pool_id)
        # In no order: asked for the order of their keys, SQLite would walk through the whole dataset instead of looking up each hash.
        stored = Query.objects.filter(dataset=dataset, text_hash__in=inserting.among(list(first))).order_by()
        rows = {
            row[0]: row[1:]
            for row in stored.values_list("text_hash", "pk", "group__key", "deleted_at", "erased_at").iterator()
        }
        # Erasing keeps the group of a text, and a query that has been moved to another one stays there.
        group_of = {key: rows[key][1] if key in rows else hashes[place][1] for key, place in first.items()}
        wanted: dict[str, str] = {}
        for (key, _group), new in zip(hashes, texts, strict=True):
            group = group_of[key]
            wanted[group] = wanted.get(group, "") or new.split
        groups = splits.groups(dataset.pool, wanted)

        missing = [place for key, place in first.items() if key not in rows]
        keys = _insert(dataset, origin, [(texts[i], hashes[i][0], groups[group_of[hashes[i][0]]][0]) for i in missing])
    queries = {
        key: StoredQuery(pk, groups[group][1], "", deleted is not None, erased is not None)
        for key, (pk, group, deleted, erased) in rows.items()
    }
    for place, pk in zip(missing, keys, strict=True):
        key = hashes[place][0]
        queries[key] = StoredQuery(pk, groups[group_of[key]][1], texts[place].state)
    return [queries[key] for key, _group in hashes], set(keys)


def _insert(dataset: Dataset, origin: str, rows: Sequence[tuple[NewQuery, str, int]]) -> list[int]:
    """New queries, each with its hash and the key of its group; returns their keys in the same order."""
    attributes = (
        "dataset_id", "text", "text_hash", "group_id", "origin", "extra", "state", "messages", "turn",
        *(column.lookup for column, _entry in query_columns.entries()),
    )  # fmt: skip
    values = []
    for new, key, group in rows:
        messages = before(new.text)
        values.append(
            (
                dataset.pk, str(new.text), key, group, origin, json.dumps(new.extra) if new.extra else "{}", new.state,
                json.dumps(earlier_as_json(new.text)) if messages else None,
                len(messages) if new.conversation or messages else None,
                *query_columns.stored(new.values),
            )
        )  # fmt: skip
    return inserting.insert(Query, attributes, values)


def send(pool: Pool, rows: Sequence[NewQuery], *, actor: Who, dataset: str = "") -> tuple[Dataset, list[StoredQuery]]:
    """Queries that an application wants labeled, at most a thousand: into the pool's dataset of that name, made where there is none.

    Returns the dataset and each one's place, in order; a text that is there already, deleted or erased stays as it is.
    """
    with transaction.atomic():
        into = dataset_of(pool, dataset or SENT)
        places, new = find_or_add(into, rows, f"sent by {actor_of(actor).name}"[:60])
        if new:
            audit.record("queries.sent", actor=actor, target=into.name, pool=pool, detail={"queries": len(new)})
    return into, places
