"""Conversations in the queue: their turns follow one another, from the first, to the same person."""

from django.contrib.auth.models import User
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from agents_app.models import Pool
from datasets_app.models import Assignment, Query, QueueItem


def has_any(pool: Pool) -> bool:
    """Whether the pool has turns of conversations; where it has none, the queue asks the database nothing more."""
    return Query.objects.filter(dataset__pool=pool, turn__isnull=False).exists()


def drawn_by(text_hash: str, turn: int | None, group: str) -> str:
    """What a query's lots are drawn by: its text, or its conversation, whose turns share all of them."""
    return text_hash if turn is None else group


def one_by_one(
    candidates: "QuerySet[QueueItem]", person: User, pool: Pool, orders: "list[QuerySet[QueueItem]]"
) -> "list[QuerySet[QueueItem]]":
    """The orders in which this person is given turns: first what is left of the conversation that they are at, then what is in no
    conversation that enough others have begun, and only then the rest."""
    held = Assignment.objects.filter(item__pool=pool, item__agent=None, person=person).order_by("-taken_at", "-pk")
    at = held.values_list("item__query__group", "item__query__turn").first()
    others = Assignment.objects.filter(item__query__group=OuterRef("query__group"), item__agent=None).exclude(
        person=person
    )
    people = others.order_by().values("item__query__group").annotate(people=Count("person", distinct=True))
    begun = Coalesce(Subquery(people.values("people")), 0)
    # One begins with the first turn that is left: whoever comes in the same moment finds that one locked and begins elsewhere.
    earlier = candidates.filter(query__group=OuterRef("query__group"), query__turn__lt=OuterRef("query__turn"))
    free = Q(query__turn__isnull=True) | (Q(needed__gt=begun) & ~Exists(earlier))
    queries = [ordered.filter(free) for ordered in orders] + orders
    if at is not None and at[1] is not None:
        queries.insert(
            0, candidates.filter(query__group=at[0], query__turn__isnull=False).order_by("query__turn", "id")
        )
    return queries


def first_turn(item: QueueItem | None, candidates: "QuerySet[QueueItem]", skip_locked: bool) -> QueueItem | None:
    """The earliest turn of an item's conversation that is left for the person: one reads from the beginning."""
    if item is None or not item.query.turn or item.agent_id is not None:
        return item
    earlier = candidates.filter(query__group=item.query.group_id, query__turn__lt=item.query.turn)
    earlier = earlier.order_by("query__turn", "id").select_for_update(
        skip_locked=skip_locked, of=("self",), no_key=True
    )
    return earlier.first() or item
