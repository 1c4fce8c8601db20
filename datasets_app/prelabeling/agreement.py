"""How often an LLM agrees with people, on queries that have gold: asked before a job of thousands is paid for."""

import random
from typing import NamedTuple

from django.db.models import Exists, OuterRef, Q, QuerySet

from agents_app.models import Pool
from datasets_app.models import Gold, Label, PrelabelItem, PrelabelJob, Query


class Agreement(NamedTuple):
    """Of `asked` queries with people's labels the LLM named the same agents for `same`; `imported`: a file said what some need."""

    same: int
    asked: int
    imported: bool


def to_try(pool: Pool, queries: "QuerySet[Query]", new: int, labeled: int) -> "QuerySet[Query]":
    """The first `new` of the queries, and up to `labeled` of the pool's with gold that no LLM has labeled, drawn at random."""
    machine = Label.objects.current().filter(query=OuterRef("pk"), source=Label.Source.LLM)
    with_gold = Query.objects.of(pool).filter(state=Query.State.GOLD, erased_at=None).exclude(Exists(machine))
    keys = list(with_gold.order_by("pk").values_list("pk", flat=True))
    drawn = random.Random(pool.pk).sample(keys, min(labeled, len(keys)))  # noqa: S311 - a sample, no secret
    first = list(queries.order_by("pk").values_list("pk", flat=True)[:new])
    return Query.objects.filter(Q(pk__in=first) | Q(pk__in=drawn))


def with_people(job: PrelabelJob) -> Agreement | None:
    """How often the job's answers agree with gold, about the agents that both were asked about; None where it asked about no query
    with gold."""
    answered = (PrelabelItem.Status.ANSWERED, PrelabelItem.Status.CACHED)
    items = job.items.filter(status__in=answered, query__gold__isnull=False, query__deleted_at=None)
    gold = {
        query: (frozenset(required), frozenset(asked))
        for query, required, asked in Gold.objects.filter(query__in=items.values("query")).values_list(
            "query", "required", "asked"
        )
    }
    if not gold:
        return None
    current = Label.objects.current().filter(query__in=gold)
    same = 0
    for query, required, asked in current.filter(source=Label.Source.LLM).values_list("query", "required", "asked"):
        theirs, both = gold[query][0], gold[query][1] & frozenset(asked)
        same += (theirs & both) == (frozenset(required) & both)
    people = (Label.Source.HUMAN, Label.Source.ADJUDICATION)
    judged = current.filter(source__in=people).values("query").distinct().count()
    return Agreement(same, len(gold), judged < len(gold))
