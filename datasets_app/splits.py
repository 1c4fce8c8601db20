"""Splits belong to groups of queries that read the same but for case, punctuation and space; one given stays for ever."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from django.db import transaction
from django.db.models import QuerySet

from agents_app.models import Pool
from datasets_app.models import Query, Split, SplitGroup
from training_app.engine.data import assign_splits

RATIOS = (0.7, 0.15, 0.15)
BATCH = 1_000


def groups(pool: Pool, splits: Mapping[str, str]) -> dict[str, SplitGroup]:
    """The split groups of these keys (key → split, "" for none), made where missing, by key.

    A group without a split takes the one given here; a group that has one keeps it, and the caller compares. To be called in a
    transaction; in three database queries and one a split.
    """
    found = {group.key: group for group in SplitGroup.objects.filter(pool=pool, key__in=list(splits))}
    missing = [SplitGroup(pool=pool, key=key, split=split) for key, split in splits.items() if key not in found]
    if missing:
        # Another process may be adding the same groups: what it made first counts.
        SplitGroup.objects.bulk_create(missing, ignore_conflicts=True)
        keys = [group.key for group in missing]
        found |= {group.key: group for group in SplitGroup.objects.filter(pool=pool, key__in=keys)}
    fill: dict[str, list[SplitGroup]] = defaultdict(list)
    for key, group in found.items():
        if splits[key] and not group.split:
            fill[splits[key]].append(group)
    for split, members in fill.items():
        give(members, split)
    return found


def give(members: Iterable[SplitGroup], split: str) -> int:
    """Give these groups a split where they have none; returns how many took it."""
    members = list(members)
    for group in members:
        group.split = group.split or split
    return give_where(SplitGroup.objects.filter(pk__in=[group.pk for group in members]), split)


def give_where(groups: QuerySet[SplitGroup], split: str) -> int:
    """Give the groups of a query set a split where they have none, in one statement; returns how many took it."""
    if split not in Split.values:
        raise ValueError(f"{split!r} is not a split: one of {', '.join(Split.values)}")
    return groups.filter(split="").update(split=split)


def assign(pool: Pool, ratios: Sequence[float] = RATIOS, seed: int = 0) -> dict[str, int]:
    """Give every group with a gold query and no split one, stratified by set size; returns how many groups went where.

    `ratios`: the shares of train, validation and test, in any unit. Groups that have a split keep it, so that a second call
    fills only what has come since. Queries without gold wait until they have it: their set size, the stratum, is not known
    before. Raises ValueError for ratios that are no shares.
    """
    shares = dict(zip(Split.values, ratios, strict=True))
    keys: list[str] = []
    sizes: list[int] = []
    splits: list[str] = []
    rows = Query.objects.filter(dataset__pool=pool, gold__isnull=False, deleted_at__isnull=True).order_by("pk")
    for key, required, split in rows.values_list("group__key", "gold__required", "group__split").iterator():
        keys.append(key)
        sizes.append(len(required))
        splits.append(split)
    answer = assign_splits(keys, sizes, splits, ratios=shares, seed=seed)
    filled: dict[str, set[str]] = {split: set() for split in Split.values}
    for key, before, after in zip(keys, splits, answer, strict=True):
        if not before:
            filled[after].add(key)

    counts: dict[str, int] = {}
    for split, members in filled.items():
        counts[split] = 0
        pending = iter(sorted(members))
        while batch := list(islice(pending, BATCH)):
            with transaction.atomic():
                rows_of_pool = SplitGroup.objects.filter(pool=pool, key__in=batch, split="")
                counts[split] += rows_of_pool.update(split=split)
    return counts
