"""Gold: what counts for training, composed per (query, agent) from the labels that nobody has superseded.

`compose` is the whole rule and touches no database; `recompose` applies it and stores what came out.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from django.db import transaction
from django.utils import timezone

from agents_app.models import Agent, Pool
from datasets_app.models import Gold, GoldAgent, Label, Query

BATCH = 1_000


class Statement(Protocol):
    """What composing needs to know of a label; `Label` rows are such."""

    pk: Any
    source: str
    required: Any
    asked: Any
    unsure: bool
    provenance: Any


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


def answers(label: Statement, merged: Mapping[int, int]) -> dict[int, bool]:
    """Agent id → needed or not, as one label has it once merged agents are resolved. Agents not asked are absent.

    A merged agent's "needed" speaks for the agent that took it over. Its "not needed" does not: it said nothing of the rest of
    what that agent does.
    """
    found: dict[int, bool] = {}
    required = set(label.required)
    for agent in label.asked:
        target = merged.get(agent, agent)
        if agent in required:
            found[target] = True
        elif target == agent:
            found.setdefault(agent, False)
    return found


def compose(
    labels: Iterable[Statement], merged: Mapping[int, int] | None = None, *, include_llm: bool = False
) -> Composition:
    """The gold of one query from its current labels.

    For each agent the highest source that was asked about it decides: adjudication, then people, then import, then (only with
    `include_llm`) the LLM. People who disagree about an agent leave it without gold, whatever lower sources say. A label that
    its author marked unsure decides and disputes nothing, nor does an LLM's fallback. `merged`: id of a merged agent → the id
    that it became.
    """
    merged = merged or {}
    tiers: dict[str, list[Statement]] = defaultdict(list)
    any_label = False
    for label in labels:
        any_label = True
        if not label.unsure and not (label.source == Label.Source.LLM and label.provenance.get("fallback")):
            tiers[label.source].append(label)
    order = [Label.Source.ADJUDICATION, Label.Source.HUMAN, Label.Source.IMPORT]
    if include_llm:
        order.append(Label.Source.LLM)

    needed: dict[int, bool] = {}
    decided_by: dict[int, int] = {}
    disputed: set[int] = set()
    for source in order:
        said: dict[int, dict[int, bool]] = defaultdict(dict)  # agent → label key → needed
        for label in tiers[source]:
            for agent, answer in answers(label, merged).items():
                said[agent][label.pk] = answer
        for agent, by_label in said.items():
            if agent in needed or agent in disputed:
                continue
            if len(set(by_label.values())) == 1:
                latest = max(by_label)
                needed[agent] = by_label[latest]
                decided_by[agent] = latest
            else:
                disputed.add(agent)

    if disputed:
        state = Query.State.DISAGREEMENT
    elif needed:
        state = Query.State.GOLD
    else:
        state = Query.State.LABELED if any_label else Query.State.UNLABELED
    return Composition(
        required=frozenset(agent for agent, answer in needed.items() if answer),
        asked=frozenset(needed),
        disputed=frozenset(disputed),
        decided_by=decided_by,
        state=state,
    )


def merges(pools: Iterable[int]) -> dict[int, dict[int, int]]:
    """Pool key → {id of a merged agent → id of the agent that it became, to the end of the chain}. One database query."""
    found: dict[int, dict[int, int]] = {pool: {} for pool in pools}
    rows = Agent.objects.filter(pool__in=list(found), merged_into__isnull=False)
    for pool, number, target in rows.values_list("pool_id", "number", "merged_into__number"):
        found[pool][number] = target
    for steps in found.values():
        for number in list(steps):
            seen = {number}
            while steps[number] in steps and steps[number] not in seen:
                seen.add(steps[number])
                steps[number] = steps[steps[number]]
    return found


def recompose(query_ids: Iterable[int]) -> int:
    """Compose the gold and the state of these queries anew and store what changed; returns how many queries changed.

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
    """Compose all gold of a pool anew, as after a merge of agents; returns how many queries changed."""
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
    pools = {query.dataset.pool_id for query in queries}
    merged = merges(pools)
    agents = {
        (pool, number): key
        for key, pool, number in Agent.objects.filter(pool__in=pools).values_list("pk", "pool_id", "number")
    }
    stored = {gold.query_id: gold for gold in Gold.objects.filter(query__in=keys)}
    write: list[Gold] = []
    drop: list[int] = []
    states: dict[str, list[int]] = defaultdict(list)
    changed = 0
    pool_of: dict[int, int] = {}
    for query in queries:
        pool_of[query.pk] = query.dataset.pool_id
        found = compose(labels.get(query.pk, ()), merged[query.dataset.pool_id])
        before = stored.get(query.pk)
        after = (
            sorted(found.required),
            sorted(found.asked),
            {str(a): found.decided_by[a] for a in sorted(found.asked)},
        )
        differs = False
        if not found.asked:
            if before is not None:
                drop.append(before.pk)
                differs = True
        elif before is None or (before.required, before.asked, before.decided_by) != after:
            write.append(Gold(query_id=query.pk, required=after[0], asked=after[1], decided_by=after[2]))
            differs = True
        state = found.state
        if state == Query.State.UNLABELED and query.state == Query.State.DRAFT:
            state = Query.State.DRAFT  # a draft is no label, and stays until its author submits or drops it
        if state != query.state or differs:
            states[state].append(query.pk)
            changed += 1

    if drop:
        Gold.objects.filter(pk__in=drop).delete()
    if write:
        before_keys = [stored[gold.query_id].pk for gold in write if gold.query_id in stored]
        if before_keys:
            GoldAgent.objects.filter(gold__in=before_keys).delete()
        fields = ("required", "asked", "decided_by", "composed_at")
        if before_keys:
            Gold.objects.bulk_create(write, update_conflicts=True, update_fields=fields, unique_fields=("query",))
        else:
            Gold.objects.bulk_create(write)
        GoldAgent.objects.bulk_create(
            [
                GoldAgent(gold_id=gold.pk, agent_id=agents[pool_of[gold.query_id], number])
                for gold in write
                for number in gold.required
            ]
        )
    now = timezone.now()
    for state, members in states.items():
        Query.objects.filter(pk__in=members).update(state=state, updated_at=now)
    return changed
