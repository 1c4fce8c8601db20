"""Splits belong to groups of queries that read the same but for case, punctuation and space; one given stays for ever."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils.translation import gettext as _

from agents_app.models import Pool
from datasets_app.models import Label, Query, Snapshot, Split, SplitGroup, inserting
from training_app.engine.data.examples import assign_splits

RATIOS = (0.7, 0.15, 0.15)
BATCH = 1_000
#: With gold for so many queries a router learns from gold alone, unless somebody wants LLM labels beside it: fewer are too few even
#: for cross-validation (`training_app.engine.judging.folds`).
ENOUGH_TO_TRAIN = 40
#: With gold for so many queries of a split, gold alone judges there: the share that is right is then known to within 18 in 100.
ENOUGH_TO_JUDGE = 30


def groups(pool: Pool, splits: Mapping[str, str]) -> dict[str, tuple[int, str]]:
    """(key, split) of the split groups of these texts' keys (→ split, "" for none), made where missing.

    A group without a split takes the one given here; a group that has one keeps it, and the caller compares. To be called in a
    transaction that holds the pool's row; in three database queries and one a split.
    """
    stored = SplitGroup.objects.filter(pool=pool, key__in=inserting.among(list(splits))).values_list(
        "key", "pk", "split"
    )
    by_key = {key: (pk, split) for key, pk, split in stored.iterator()}
    fill: dict[str, list[str]] = defaultdict(list)
    for key, (_pk, split) in by_key.items():
        if splits[key] and not split:
            fill[splits[key]].append(key)
    for split, members in fill.items():
        give_where(SplitGroup.objects.filter(pk__in=[by_key[key][0] for key in members]), split)
        by_key |= {key: (by_key[key][0], split) for key in members}
    missing = [(pool.pk, key, split) for key, split in splits.items() if key not in by_key]
    created = inserting.insert(SplitGroup, ("pool_id", "key", "split"), missing)
    return by_key | {key: (pk, split) for pk, (_pool, key, split) in zip(created, missing, strict=True)}


def give_where(groups: QuerySet[SplitGroup], split: str) -> int:
    """Give the groups of a query set a split where they have none, in one statement; returns how many took it."""
    if split not in Split.values:
        raise ValueError(f"{split!r} is not a split: one of {', '.join(Split.values)}")
    return groups.filter(split="").update(split=split)


class SplitError(Exception):
    """Why splits cannot be given so, in words for whoever asked."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What giving splits would do; making one writes nothing.

    `groups`: split → the keys of the groups that would get it. `gold` and `llm`: split → how many queries with gold, and how many
    that only an LLM has labeled, would then be in it.
    """

    groups: Mapping[str, frozenset[str]]
    gold: Mapping[str, int]
    llm: Mapping[str, int]

    def split_of(self) -> dict[str, str]:
        """The key of each group that would get a split → that split."""
        return {key: split for split, members in self.groups.items() for key in members}

    @property
    def llm_counts_in(self) -> frozenset[str]:
        """The splits in which an LLM's labels count: training, and those where gold is too little to judge."""
        judging = (split for split in (Split.VAL, Split.TEST) if self.gold.get(split, 0) < ENOUGH_TO_JUDGE)
        return frozenset((Split.TRAIN, *judging))


def labeled_by_llm_alone(pool: Pool) -> "QuerySet[Label]":
    """The labels of an LLM for queries that nobody else has labeled, of each query one. What stood in for an answer that could not
    be read is no label."""
    others = Label.objects.current().filter(query=OuterRef("query")).exclude(source=Label.Source.LLM)
    spoken = Label.objects.current().filter(source=Label.Source.LLM, partial=False, provenance__fallback__isnull=True)
    alive = spoken.filter(query__dataset__pool=pool, query__deleted_at=None, query__erased_at=None, query__gold=None)
    return alive.filter(~Exists(others)).order_by("query_id")


def with_llm(pool: Pool, include_llm: bool | None) -> bool:
    """Whether LLM labels count in a snapshot taken now. None leaves it to the pool: they count while so few queries have gold that
    nothing can be learnt from gold alone."""
    if include_llm is not None:
        return include_llm
    gold = Query.objects.of(pool).filter(gold__isnull=False, erased_at=None)
    return gold[:ENOUGH_TO_TRAIN].count() < ENOUGH_TO_TRAIN and labeled_by_llm_alone(pool).exists()


def divide_training(pool: Pool, ratios: Sequence[float] = RATIOS, seed: int = 0) -> dict[str, int]:
    """For a pool whose labeled queries all came as training ones: take that back, and split them like any others.

    A split that a snapshot holds is for ever, so this is only for a pool that no snapshot was made of. Returns how many groups went
    where, as `assign` does. Raises SplitError.
    """
    if Snapshot.objects.filter(pool=pool).exists():
        raise SplitError(
            _("Snapshots of %(pool)s hold its splits, so they stay. Import validation queries.") % {"pool": pool.name}
        )
    labeled = SplitGroup.objects.filter(pool=pool, queries__gold__isnull=False, queries__deleted_at__isnull=True)
    if labeled.filter(split=Split.VAL).exists():
        raise SplitError(_("%(pool)s has validation queries already.") % {"pool": pool.name})
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        SplitGroup.objects.filter(pool=pool, split=Split.TRAIN).update(split="")
        return assign(pool, ratios, seed)


def plan(pool: Pool, ratios: Sequence[float] = RATIOS, seed: int = 0, *, include_llm: bool | None = None) -> Plan:
    """The split of every group with a labeled query, stratified by set size; those that have one keep it.

    `ratios`: the shares of train, validation and test, in any unit. `include_llm`: see `with_llm`. Queries that nobody has labeled
    wait until somebody has: their set size, the stratum, is not known before. Raises ValueError for ratios that are no shares.
    """
    shares = dict(zip(Split.values, ratios, strict=True))
    of_gold = Query.objects.of(pool).filter(gold__isnull=False).order_by("pk")
    rows = list(of_gold.values_list("group__key", "gold__required", "group__split"))
    gold_rows = len(rows)
    if with_llm(pool, include_llm):
        rows += labeled_by_llm_alone(pool).values_list("query__group__key", "required", "query__group__split")
    keys = [key for key, _required, _split in rows]
    splits = [split for _key, _required, split in rows]
    answer = assign_splits(keys, [len(required) for _key, required, _split in rows], splits, ratios=shares, seed=seed)
    filled: dict[str, set[str]] = {split: set() for split in Split.values}
    for key, before, after in zip(keys, splits, answer, strict=True):
        if not before:
            filled[after].add(key)
    return Plan(
        {split: frozenset(members) for split, members in filled.items()},
        Counter(answer[:gold_rows]),
        Counter(answer[gold_rows:]),
    )


def assign(
    pool: Pool, ratios: Sequence[float] = RATIOS, seed: int = 0, *, include_llm: bool | None = None
) -> dict[str, int]:
    """Give every group with a labeled query and no split one, as `plan` says; returns how many groups went where. A second call fills
    only what has come since."""
    return carry_out(pool, plan(pool, ratios, seed, include_llm=include_llm))


def carry_out(pool: Pool, planned: Plan) -> dict[str, int]:
    """Write a plan; a group that got a split meanwhile keeps that. Returns how many groups went where."""
    counts: dict[str, int] = {}
    for split, members in planned.groups.items():
        counts[split] = 0
        pending = iter(sorted(members))
        while batch := list(islice(pending, BATCH)):
            with transaction.atomic():
                rows_of_pool = SplitGroup.objects.filter(pool=pool, key__in=batch, split="")
                counts[split] += rows_of_pool.update(split=split)
    return counts
