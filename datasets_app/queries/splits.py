"""Splits belong to groups of queries that read the same but for case, punctuation and space; one given stays for ever."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from agents_app.models import Pool
from datasets_app.models import Query, Snapshot, Split, SplitGroup, inserting
from training_app.engine.data.examples import assign_splits

RATIOS = (0.7, 0.15, 0.15)
BATCH = 1_000


def groups(pool: Pool, splits: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """(key, split) of the split groups of these texts' keys (→ split, "" for none), made where missing.

    A group without a split takes the one given here; a group that has one keeps it, and the caller compares. To be called in a
    transaction that holds the pool's row; in three database queries and one a split.
    """
    stored = SplitGroup.objects.filter(pool=pool, key__in=inserting.among(list(splits))).values_list(
        "key", "pk", "split"
    )
    found = {key: (pk, split) for key, pk, split in stored.iterator()}
    fill: dict[str, list[str]] = defaultdict(list)
    for key, (_pk, split) in found.items():
        if splits[key] and not split:
            fill[splits[key]].append(key)
    for split, members in fill.items():
        give_where(SplitGroup.objects.filter(pk__in=[found[key][0] for key in members]), split)
        found |= {key: (found[key][0], split) for key in members}
    missing = [(pool.pk, key, split) for key, split in splits.items() if key not in found]
    made = inserting.insert(SplitGroup, ("pool_id", "key", "split"), missing)
    return found | {key: (pk, split) for pk, (_pool, key, split) in zip(made, missing, strict=True)}


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


class SplitError(Exception):
    """Why splits cannot be given so, in words for whoever asked."""


def divide_training(pool: Pool, ratios: Sequence[float] = RATIOS, seed: int = 0) -> dict[str, int]:
    """For a pool whose labeled queries all came as training ones: take that back, and split them like any others.

    A split that a run has seen is for ever, so this is only for a pool that no snapshot was made of. Returns how many groups went
    where, as `assign` does. Raises SplitError.
    """
    if Snapshot.objects.filter(pool=pool).exists():
        raise SplitError(
            _("Runs have used the splits of %(pool)s, so they stay. Import validation queries.") % {"pool": pool.name}
        )
    given = SplitGroup.objects.filter(pool=pool, queries__gold__isnull=False, queries__deleted_at__isnull=True)
    if given.filter(split=Split.VAL).exists():
        raise SplitError(_("%(pool)s has validation queries already.") % {"pool": pool.name})
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        SplitGroup.objects.filter(pool=pool, split=Split.TRAIN).update(split="")
        return assign(pool, ratios, seed)


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
    rows = Query.objects.of(pool).filter(gold__isnull=False).order_by("pk")
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
