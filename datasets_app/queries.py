"""Adding queries to a dataset: one query a text, however often it comes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from agents_app.models import Pool
from datasets_app import splits
from datasets_app.models import Dataset, Query, group_hash, text_hash


@dataclass(frozen=True, slots=True)
class NewQuery:
    """One text that may or may not be in a dataset already. `split` is "" or what its file says."""

    text: str
    external_id: str = ""
    split: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


def dataset_of(pool: Pool, name: str = "") -> Dataset:
    """The pool's dataset of that name (in any case), made where there is none; without a name the pool's first one."""
    found = pool.datasets.filter(name__iexact=name) if name else pool.datasets.order_by("pk")
    return found.first() or Dataset.objects.create(pool=pool, name=name or "Queries")


def find_or_add(dataset: Dataset, texts: Sequence[NewQuery], origin: str) -> tuple[list[Query], set[int]]:
    """The dataset's query for each text, in order, and the keys of those that were not there before.

    Texts that are the same once normalised are one query, which keeps the first one's text, id and other keys. In one
    transaction and a constant number of database queries, for at most a few thousand texts.
    """
    hashes = [text_hash(new.text) for new in texts]
    first: dict[str, NewQuery] = {}
    for key, new in zip(hashes, texts, strict=True):
        first.setdefault(key, new)
    with transaction.atomic():
        # Two writers of one pool take turns, so that neither adds what the other is adding.
        Pool.objects.select_for_update(no_key=True).get(pk=dataset.pool_id)
        known = Query.objects.filter(dataset=dataset, text_hash__in=list(first)).select_related("group")
        found = {query.text_hash: query for query in known.defer("text", "extra")}

        wanted: dict[str, str] = {}
        group_of = {key: group_hash(new.text) for key, new in first.items() if key not in found}
        for key, new in zip(hashes, texts, strict=True):
            group = found[key].group.key if key in found else group_of[key]
            wanted[group] = wanted.get(group, "") or new.split
        groups = splits.groups(dataset.pool, wanted)
        for query in found.values():
            query.group = groups[query.group.key]

        missing = [
            Query(
                dataset=dataset,
                external_id=new.external_id,
                text=new.text,
                text_hash=key,
                group=groups[group_of[key]],
                origin=origin,
                extra=new.extra,
            )
            for key, new in first.items()
            if key not in found
        ]
        Query.objects.bulk_create(missing)
    found |= {query.text_hash: query for query in missing}
    return [found[key] for key in hashes], {query.pk for query in missing}
