"""A labeler's own labels: what they said, how much they did, and how far others agree. Never a ranking of people."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils import timezone

from agents_app.models import Agent, Pool
from datasets_app.labeling import queue
from datasets_app.labels import voices
from datasets_app.labels.disagreement import jaccard
from datasets_app.models import Assignment, Label, Query
from datasets_app.queries import text_search

#: The latest labels that agreement is measured on.
RECENT = 500


@dataclass(frozen=True, slots=True)
class Pace:
    """What one person did: items today and in seven days, and how far others agree with them, as the mean Jaccard over `shared`
    queries that others labeled too (None where there is none)."""

    today: int
    week: int
    agreement: float | None
    shared: int


def labels_of(pool: Pool, person: User, search: str = "") -> "QuerySet[Label]":
    """The person's labels that count, newest first; of queries that hold every word of `search`."""
    labels = Label.objects.current().filter(
        source=Label.Source.HUMAN, author=person, query__dataset__pool=pool, query__deleted_at__isnull=True
    )
    for word in search.split():
        labels = labels.filter(text_search.holding(word, "query__text"))
    return labels.select_related("query").order_by("-pk")


@dataclass(frozen=True, slots=True)
class Done:
    """One item that a person submitted: its query, and what they say of it, all of it or of the one agent in question."""

    query: Query
    required: frozenset[int]
    unsure: bool
    note: str


def lately_done(pool: Pool, person: User, agent: Agent | None, count: int) -> list[Done]:
    """What this person submitted last in the queue of whole sets or of one agent's questions, newest first. Two database queries."""
    assignments = Assignment.objects.filter(
        person=person, state=Assignment.State.DONE, item__pool=pool, item__agent=agent, item__query__deleted_at=None
    )
    queries = [
        assignment.item.query
        for assignment in assignments.select_related("item__query").order_by("-ended_at", "-pk")[:count]
    ]
    by_query: dict[int, list[Label]] = defaultdict(list)
    labels_of_person = Label.objects.current().filter(query__in=queries, source=Label.Source.HUMAN, author=person)
    for label in labels_of_person.order_by("pk"):
        by_query[label.query_id].append(label)
    return [_done(query, by_query[query.pk], agent) for query in queries if by_query[query.pk]]


def _done(query: Query, labels: list[Label], agent: Agent | None) -> Done:
    required = voices.answer(labels, {}).required
    if agent is not None:
        required &= {agent.number}
    return Done(query, required, labels[-1].unsure, labels[-1].note)


def pace(pool: Pool, person: User) -> Pace:
    """How much this person did lately, and how far others agree."""
    done = Assignment.objects.filter(item__pool=pool, person=person, state=Assignment.State.DONE)
    week = done.filter(ended_at__gte=timezone.now() - timedelta(days=7)).count()
    answers_of_person = {
        query: frozenset(required)
        for query, required in labels_of(pool, person)
        .filter(partial=False, unsure=False)
        .values_list("query", "required")[:RECENT]
    }
    others = Label.objects.current().filter(
        query__in=answers_of_person, source=Label.Source.HUMAN, partial=False, unsure=False
    )
    by_query: dict[int, list[frozenset[int]]] = defaultdict(list)
    for query, required in others.exclude(author=person).values_list("query", "required"):
        by_query[query].append(frozenset(required))
    shares = [
        sum(jaccard(answers_of_person[query], answer) for answer in answers) / len(answers)
        for query, answers in by_query.items()
    ]
    agreement = sum(shares) / len(shares) if shares else None
    return Pace(queue.done_today(pool, person), week, agreement, len(shares))
