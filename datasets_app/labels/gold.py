"""Gold: what counts for training, composed per (query, agent) from the labels that nobody has superseded.

`compose` is the whole rule and touches no database; `recompose` applies it and stores what came out.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol

from django.db import transaction
from django.utils import timezone

from agents_app.models import Agent, Pool
from datasets_app.labels import voices
from datasets_app.labels.voices import Merges, Statement
from datasets_app.models import Draft, Gold, GoldAgent, Label, Query, inserting

BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Composition:
    """What the labels of one query add up to.

    `required` ⊆ `asked`: the agents with a decision, by id. `disputed`: agents about which people disagree, none of them in
    `asked`. `decided_by`: agent id → the deciding label's key. `state`: a `Query.State`.
    """

    required: frozenset[int] = frozenset()
    asked: frozenset[int] = frozenset()
    disputed: frozenset[int] = frozenset()
    decided_by: dict[int, int] = field(default_factory=dict)
    state: str = Query.State.UNLABELED


def compose(labels: Iterable[Statement], merged: Merges | None = None, *, include_llm: bool = False) -> Composition:
    """The gold of one query from its current labels.

    For each agent the highest source that was asked about it decides: adjudication, then people, then import, then (only with
    `include_llm`) the LLM. People who disagree about an agent leave it without gold, whatever lower sources say. A label that
    its author marked unsure decides and disputes nothing, nor does an LLM's fallback. `merged`: the merges of its pool, as
    `voices` resolves them.
    """
    labels = list(labels)
    needed: dict[int, bool] = {}
    decided_by: dict[int, int] = {}
    disputed: set[int] = set()
    for agent, of in voices.decide(voices.listen(labels, llm=include_llm), merged or {}).items():
        if len({voice.needed for voice in of.values()}) > 1:
            disputed.add(agent)
            continue
        latest = max(of.values(), key=lambda voice: voice.label)
        needed[agent], decided_by[agent] = latest.needed, latest.label

    if disputed:
        state = Query.State.DISAGREEMENT
    elif needed:
        state = Query.State.GOLD
    else:
        state = Query.State.LABELED if labels else Query.State.UNLABELED
    return Composition(
        required=frozenset(agent for agent, answer in needed.items() if answer),
        asked=frozenset(needed),
        disputed=frozenset(disputed),
        decided_by=decided_by,
        state=state,
    )


def recompose(query_ids: Iterable[int]) -> int:
    """Compose the gold and the state of these queries again and store what changed; returns how many queries changed.

    In batches of 1,000, each one transaction that holds the queries' rows: two people who label one query at the same moment
    both see the other's label here, whoever comes second.
    """
    changed = 0
    pending = iter(query_ids)
    while batch := list(islice(pending, BATCH)):
        with transaction.atomic():
            locked = lock(batch)
            labels: dict[int, list[Label]] = defaultdict(list)
            for label in Label.objects.current().filter(query__in=batch).order_by("pk"):
                labels[label.query_id].append(label)
            changed += store(locked, labels)
    return changed


def recompose_pool(pool: Pool) -> int:
    """Compose all gold of a pool again, as after a merge of agents; returns how many queries changed."""
    # Read to the end before the first write: on SQLite a write beside an open read fails once another process has written.
    return recompose(list(Query.objects.filter(dataset__pool=pool).order_by("pk").values_list("pk", flat=True)))


def lock(query_ids: Sequence[int]) -> list[Query]:
    """These queries with their dataset, by key, held until the transaction ends (where the database locks rows)."""
    rows = Query.objects.filter(pk__in=query_ids).select_related("dataset").order_by("pk").defer("text", "extra")
    return list(rows.select_for_update(of=("self",), no_key=True))


def store(queries: Sequence[Query], labels: Mapping[int, Sequence[Statement]]) -> int:
    """Compose `queries` from all of their current `labels` (query key → labels) and write the differences; returns how many
    changed. To be called with the queries locked, within a transaction."""
    keys = [query.pk for query in queries]
    merged = voices.merges({query.dataset.pool_id for query in queries})
    unlabeled = [key for key in keys if not labels.get(key)]
    drafted = set(Draft.objects.filter(query__in=unlabeled).values_list("query_id", flat=True)) if unlabeled else set()
    stored = {gold.query_id: gold for gold in Gold.objects.filter(query__in=keys)}
    write: list[Gold] = []
    drop: list[int] = []
    states: dict[str, list[int]] = defaultdict(list)
    for query in queries:
        composed = compose(labels.get(query.pk, ()), merged[query.dataset.pool_id])
        before = stored.get(query.pk)
        after = (
            sorted(composed.required),
            sorted(composed.asked),
            {str(a): composed.decided_by[a] for a in sorted(composed.asked)},
        )
        differs = False
        if not composed.asked:
            if before is not None:
                drop.append(before.pk)
                differs = True
        elif before is None or (before.required, before.asked, before.decided_by) != after:
            write.append(Gold(query_id=query.pk, required=after[0], asked=after[1], decided_by=after[2]))
            differs = True
        state = composed.state
        if state == Query.State.UNLABELED and query.pk in drafted:
            state = Query.State.DRAFT  # a draft is no label, and stays until its author submits or drops it
        if state != query.state or differs:
            states[state].append(query.pk)

    if drop:
        Gold.objects.filter(pk__in=drop).delete()
    if write:
        _write(write, stored, {query.pk: query.dataset.pool_id for query in queries})
    now = timezone.now()
    for state, members in states.items():
        Query.objects.filter(pk__in=members).update(state=state, updated_at=now)
    return sum(map(len, states.values()))


def _write(rows: Sequence[Gold], stored: Mapping[int, Gold], pool_of: Mapping[int, int]) -> None:
    """Insert or update these rows and their agents. `stored` and `pool_of` are by the query's key."""
    agents = {
        (pool, number): key
        for key, pool, number in Agent.objects.filter(pool__in=set(pool_of.values())).values_list(
            "pk", "pool_id", "number"
        )
    }
    replaced = [stored[gold.query_id].pk for gold in rows if gold.query_id in stored]
    if replaced:
        GoldAgent.objects.filter(gold__in=replaced).delete()
        fields = ("required", "asked", "decided_by", "composed_at")
        Gold.objects.bulk_create(rows, update_conflicts=True, update_fields=fields, unique_fields=("query",))
    else:
        Gold.objects.bulk_create(rows)
    GoldAgent.objects.bulk_create(
        [
            GoldAgent(gold_id=gold.pk, agent_id=agents[pool_of[gold.query_id], number])
            for gold in rows
            for number in gold.required
        ]
    )


class Spoken(Protocol):
    """What a new label says."""

    @property
    def source(self) -> str: ...
    @property
    def unsure(self) -> bool: ...
    @property
    def required(self) -> Collection[int]: ...
    @property
    def asked(self) -> Collection[int]: ...
    @property
    def provenance(self) -> Mapping[str, Any]: ...


@dataclass(slots=True)
class _First:
    """A label as far as composing alone needs it."""

    source: str
    author_id: int | None
    required: Collection[int]
    asked: Collection[int]
    unsure: bool
    provenance: Mapping[str, Any]
    pk: int = 0
    created_at: datetime | None = None


def store_first(pool: Pool, labels: Sequence[tuple[int, int, Spoken]], before: Mapping[int, str]) -> None:
    """Compose and write the gold of queries that have one label each and had none before: (query key, label key, label). `before`:
    query key → its state. To be called in the transaction that added the queries."""
    merged = tuple(sorted(voices.merges([pool.pk])[pool.pk].items()))
    agents = dict(Agent.objects.filter(pool=pool).values_list("number", "pk"))
    states: dict[str, list[int]] = defaultdict(list)
    rows: list[tuple[int, str, str, str]] = []
    members: list[Collection[int]] = []
    for query, label, voice in labels:
        alone = _alone(voice.source, voice.unsure, frozenset(voice.required), frozenset(voice.asked), merged)
        if before.get(query) != alone.state:
            states[alone.state].append(query)
        if alone.decided:
            decided_by = "{" + ", ".join([f"{agent}{label}" for agent in alone.decided]) + "}"
            rows.append((query, alone.required_text, alone.asked_text, decided_by))
            members.append(alone.required)
    keys = inserting.insert(Gold, ("query_id", "required", "asked", "decided_by"), rows)
    of_agents = [(key, agents[number]) for key, required in zip(keys, members, strict=True) for number in required]
    inserting.insert(GoldAgent, ("gold_id", "agent_id"), of_agents)
    now = timezone.now()
    for state, queries in states.items():
        Query.objects.filter(pk__in=queries).update(state=state, updated_at=now)


@dataclass(frozen=True, slots=True)
class _Alone:
    """The gold of a query with one label, as its row has it; `decided`: the keys of `decided_by`, each ready for its value."""

    state: str
    required: tuple[int, ...]
    required_text: str
    asked_text: str
    decided: tuple[str, ...]


@lru_cache(maxsize=4_096)
def _alone(
    source: str,
    unsure: bool,
    required: frozenset[int],
    asked: frozenset[int],
    merged: tuple[tuple[int, voices.Merge], ...],
) -> _Alone:
    """What such a label makes of its query alone: most labels say what another one said."""
    composed = compose([_First(source, None, required, asked, unsure, {})], dict(merged))
    needed, answered = sorted(composed.required), sorted(composed.asked)
    decided = tuple(f'"{agent}": ' for agent in answered)
    return _Alone(composed.state, tuple(needed), json.dumps(needed), json.dumps(answered), decided)
