"""The one way to take work: an atomic lease on an item of the queue, renewed by a heartbeat, free again when it is left alone.

Every write is a conditional UPDATE that goes on only if one row changed, so nothing here relies on what a database locks.
Where rows can be locked, `SKIP LOCKED` spares takers the wait for each other.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import ceil
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils import timezone

from agents_app.models import Agent, Pool
from datasets_app.labeling import talks
from datasets_app.labeling.filling import (
    fill,
    fill_these,
    filled_to,
    lots,
    needed,
    not_filled,
    settings_of,
    stored_settings,
)
from datasets_app.labeling.narrowing import Narrowing
from datasets_app.models import Assignment, Query, QueueItem, QueueSettings
from datasets_app.models.labeling import LINE, LOTS

__all__ = [
    "DONE", "HELD", "OPEN", "SKIPPED", "Holding", "Shares", "assignment_of", "close", "done_today", "effect_of", "fill",
    "fill_these", "filled_to", "finish", "heartbeat", "held", "holdings", "is_blind", "is_evaluation", "keep_only", "lots", "may_hold",
    "needed", "not_filled", "offer_skipped", "open_item", "release", "release_idle", "reopen", "resize", "settings_of", "skip",
    "skipped", "still_open", "stored_settings", "take", "take_these", "waiting_for",
]  # fmt: skip
BATCH = 1_000
#: Items that somebody who takes work puts into the queue on the way, where an import has just come in and fewer than these wait.
ON_THE_WAY = 200
#: Items to come that one person's browser keeps at most, and at least, for when the connection goes.
MOST_HELD, LEAST_HELD = 40, 3
#: Items that a person did last, at least, by which it is decided whether the next is drawn at random.
LAST = 100
EVERYTHING = Narrowing()
OPEN = Q(taken__lt=F("needed"))
HELD, DONE, SKIPPED = Assignment.State.HELD, Assignment.State.DONE, Assignment.State.SKIPPED


@dataclass(frozen=True, slots=True)
class Holding:
    """What one person holds of a pool's queue, and when the first of it is free again."""

    person: Any
    items: int
    free_at: datetime


def resize(settings: QueueSettings, query_ids: Collection[int] | None = None) -> None:
    """Bring every item's `needed` in line with the overlap settings, or these queries'; work that was done already stays done.

    A question about one agent is asked of one person. Nobody is asked about what is not wanted, decided, or deleted.
    """
    every = QueueItem.objects.filter(pool=settings.pool)
    if query_ids is not None:
        every = every.filter(query__in=query_ids)
    wanted = every.filter(wanted=True, decided=False, query__deleted_at__isnull=True)
    items, questions = wanted.filter(agent__isnull=True), wanted.filter(agent__isnull=False)
    line = round(settings.overlap_share * 10_000)
    for part, people in (
        (items.filter(overlap_lot__lt=line), settings.overlap),
        (items.filter(overlap_lot__gte=line), 1),
        (questions, 1),
    ):
        part.exclude(needed=F("extra") + people).update(needed=F("extra") + people)
    unasked = Q(wanted=False) | Q(decided=True) | Q(query__deleted_at__isnull=False)
    every.exclude(needed=0).filter(unasked).update(needed=0)


#: So many open queries are looked at for what a setting would do: lots are drawn evenly, so that those of others are much the same.
SAMPLED = 10_000


@dataclass(frozen=True, slots=True)
class Shares:
    """What a queue's settings mean for what is open: of `queries`, SAMPLED at most, how many are asked of several people, kept blind,
    and flagged for evaluation."""

    queries: int
    overlap: int
    blind: int
    evaluation: int

    @property
    def some_of_all(self) -> bool:
        """Whether there may be more than were looked at."""
        return self.queries == SAMPLED


def effect_of(settings: QueueSettings) -> Shares:
    """What these settings, saved or not, would do to the queries that are to be asked about, or to the first SAMPLED of them. One
    database query."""

    def below(lot: str, share: float) -> Count:
        return Count("pk", filter=Q(**{f"{lot}__lt": round(share * LOTS)}))

    questions = QueueItem.objects.filter(
        pool=settings.pool, agent=None, wanted=True, decided=False, query__deleted_at__isnull=True
    )
    counts = questions.order_by()[:SAMPLED].aggregate(
        queries=Count("pk"),
        overlap=below("overlap_lot", settings.overlap_share),
        blind=below("blind_lot", settings.blind_share),
        evaluation=below("evaluation_lot", settings.evaluation_share),
    )
    return Shares(**counts)


def close(query_ids: Collection[int]) -> None:
    """Nobody is asked about these deleted queries, and nobody holds them any more."""
    while _free(Assignment.objects.filter(item__query__in=query_ids, state=HELD)):
        pass
    QueueItem.objects.filter(query__in=query_ids).update(needed=0)


# ----------------------------------------------------------------------------------------------------------- leases


def take(
    pool: Pool, person: User, *, count: int = 1, beside: Collection[int] = (), agent: Agent | None = None,
    narrow: Narrowing = EVERYTHING,
) -> list[Assignment]:  # fmt: skip
    """Up to `count` items for this person: first those that they hold already, then new ones in the queue's order.

    `beside`: keys of queries that the person has on screen or is sending; they are not given out again. `agent`: the re-ask
    queue of that agent instead of the main one. `narrow`: what they want to be asked about. Each item is leased until the idle time
    has passed without a heartbeat.
    """
    settings = stored_settings(pool)
    now = timezone.now()
    release_idle(pool, now)
    held = _held_within(pool, person, agent, narrow)
    mine = list(
        held.exclude(item__query__in=beside).select_related("item__query", "item__agent").order_by("pk")[:count]
    )
    if mine:
        held.filter(pk__in=[item.pk for item in mine]).update(leased_until=now + settings.idle)
    if (
        agent is None
        and len(mine) < count
        and QueueItem.objects.filter(OPEN, pool=pool)[:ON_THE_WAY].count() < ON_THE_WAY
    ):
        fill(pool, limit=ON_THE_WAY, settings=settings)
    while len(mine) < count:
        lease = _claim_next(settings, person, agent, narrow)
        if lease is None and agent is None and not mine and fill(pool, look_back=True, limit=ON_THE_WAY):
            continue
        if lease is None:
            break
        mine.append(lease)
    return mine


def _held_within(pool: Pool, person: User, agent: Agent | None, narrow: Narrowing) -> "QuerySet[Assignment]":
    """What this person holds of what they want to be asked about."""
    held = Assignment.objects.filter(
        item__pool=pool, item__agent=agent, item__query__deleted_at__isnull=True, person=person, state=HELD
    )
    if narrow:
        items = QueueItem.objects.filter(pk__in=held.values("item"))
        held = held.filter(item__in=narrow.within(items, settings_of(pool)))
    return held


def held(pool: Pool, person: User, agent: Agent | None = None, narrow: Narrowing = EVERYTHING) -> Assignment | None:
    """The item that this person took first of those that they hold now; None where they hold none. Writes nothing."""
    mine = _held_within(pool, person, agent, narrow).filter(leased_until__gt=timezone.now())
    return mine.select_related("item__query", "item__agent").order_by("pk").first()


def assignment_of(query: Query, person: User, pool: Pool, agent: Agent | None = None) -> Assignment | None:
    """This person's assignment for one query, whatever became of it; None where there is none. Writes nothing."""
    assignments = Assignment.objects.filter(item__query=query, item__agent=agent, item__pool=pool, person=person)
    return assignments.select_related("item__query", "item__agent").first()


def _candidates(settings: QueueSettings, person: User, agent: Agent | None) -> "QuerySet[QueueItem]":
    leases = Assignment.objects.filter(item=OuterRef("pk"), person=person)
    items = QueueItem.objects.filter(OPEN, pool=settings.pool, agent=agent, query__deleted_at__isnull=True)
    return items.filter(~Exists(leases))


def waiting_for(pool: Pool, person: User, narrow: Narrowing) -> int:
    """How many items of what this person wants wait for them: those that they hold, and those next in line (`narrowing.LOOKED_AT`)."""
    settings = settings_of(pool)
    fresh = narrow.within(_candidates(settings, person, None), settings)
    return _held_within(pool, person, None, narrow).count() + fresh.count()


def keep_only(pool: Pool, person: User, narrow: Narrowing) -> None:
    """End this person's leases on what they do not want to be asked about; their drafts stay."""
    held = Assignment.objects.filter(item__pool=pool, item__agent=None, state=HELD, person=person)
    within = _held_within(pool, person, None, narrow).values_list("pk", flat=True)
    _free(held.exclude(pk__in=list(within)))


def _claim_next(
    settings: QueueSettings, person: User, agent: Agent | None, narrow: Narrowing = EVERYTHING
) -> Assignment | None:
    """Lease the first open item that this person has not touched; None when there is none."""
    candidates = narrow.within(_candidates(settings, person, agent), settings).select_related("query", "agent")
    orders = [candidates.order_by(*LINE)]
    line = round(settings.evaluation_share * LOTS)
    if agent is None and line and not narrow and settings.order != QueueSettings.Order.RANDOM:
        # What may be evaluated on comes in random order only: an order that chooses would take its hard part first.
        drawn = candidates.filter(evaluation_lot__lt=line).order_by("random_key", "id")
        chosen = candidates.filter(evaluation_lot__gte=line).order_by(*LINE)
        orders = [drawn, chosen] if _evaluation_turn(settings, person) else [chosen, drawn]
    if agent is None and talks.has_any(settings.pool):
        orders = talks.one_by_one(candidates, person, settings.pool, orders)
    for ordered in orders:
        for skip_locked in (True, False):
            while ordered.exists():  # read first: whoever finds nothing opens no write transaction
                with transaction.atomic():
                    item = ordered.select_for_update(skip_locked=skip_locked, of=("self",), no_key=True).first()
                    item = talks.first_turn(item, candidates, skip_locked)
                    lease = _lease(item, person, settings) if item else None
                if lease is not None:
                    return lease
                if item is None:
                    break
    return None


def _evaluation_turn(settings: QueueSettings, person: User) -> bool:
    """Whether this person's next item is drawn at random: where fewer of their last ones were than the share says, so that no clock or
    luck is involved, and nobody's years of labels are counted."""
    share = settings.evaluation_share
    mine = Assignment.objects.filter(item__pool=settings.pool, person=person)
    last = mine.filter(state=DONE).order_by("-ended_at")[: max(LAST, ceil(1 / share))]
    drawn = [is_drawn for rows in (mine.filter(state=HELD), last) for is_drawn in rows.values_list("drawn", flat=True)]
    return int((len(drawn) + 1) * share) > sum(drawn)


def _lease(item: QueueItem, person: User, settings: QueueSettings) -> Assignment | None:
    """Count the person in, if there is room, and give them the lease. None: somebody else, or their other tab, was first."""
    now = timezone.now()
    try:
        with transaction.atomic():
            if not QueueItem.objects.filter(OPEN, pk=item.pk).update(taken=F("taken") + 1):
                return None
            lease = Assignment.objects.create(
                item=item,
                person=person,
                taken_at=now,
                leased_until=now + settings.idle,
                blind=is_blind(settings, item),
                drawn=item.agent_id is None and is_evaluation(settings, item),
            )
    except IntegrityError:
        return None
    item.taken += 1
    return lease


def take_these(settings: QueueSettings, person: User, items: Sequence[QueueItem]) -> list[Assignment]:
    """This person's leases on items of their choice: those that they hold, renewed, and new ones where there is room; what they have
    answered or skipped, and what others hold, is left out."""
    held = Assignment.objects.filter(item__in=items, person=person, state=HELD)
    held.update(leased_until=timezone.now() + settings.idle)
    lease_by_item = {lease.item_id: lease for lease in held}
    leases = []
    for item in items:
        lease = lease_by_item.get(item.pk) or _lease(item, person, settings)
        if lease is not None:
            lease.item, lease.person = item, person
            leases.append(lease)
    return leases


def open_item(query: Query, person: User, pool: Pool, agent: Agent | None = None) -> Assignment:
    """This person's assignment for one query of their choice, made if there is none, even beyond the number wanted.

    An assignment that is done or skipped is returned as it is.
    """
    settings = settings_of(pool)
    item = QueueItem.objects.select_related("query", "agent").filter(query=query, agent=agent, pool=pool).first()
    if item is None:
        fill_these(pool, [query.pk])
        item = QueueItem.objects.select_related("query", "agent").get(query=query, agent=agent, pool=pool)
    now = timezone.now()
    with transaction.atomic():
        _hold(item.pk)
        lease, created = Assignment.objects.get_or_create(
            item=item,
            person=person,
            defaults={
                "leased_until": now + settings.idle,
                "blind": is_blind(settings, item),
            },
        )
        if created:
            QueueItem.objects.filter(pk=item.pk).update(taken=F("taken") + 1)
    lease.item = item
    return lease


def _hold(item: int) -> None:
    """Lock an item before an assignment to it is made: everybody in this order, so that nobody waits in a circle."""
    QueueItem.objects.select_for_update(no_key=True).only("pk").get(pk=item)


def is_blind(settings: QueueSettings, item: QueueItem) -> bool:
    """Whether suggestions are kept from whoever takes this item."""
    return item.blind_lot < round(settings.blind_share * 10_000)


def is_evaluation(settings: QueueSettings, item: QueueItem) -> bool:
    """Whether the item is of the sample that was drawn at random for evaluation."""
    return item.evaluation_lot < round(settings.evaluation_share * LOTS)


def heartbeat(pool: Pool, person: User, query_ids: Iterable[int]) -> set[int]:
    """Renew this person's leases on these queries; returns the keys that they still hold."""
    settings = settings_of(pool)
    held = Assignment.objects.filter(
        item__pool=pool,
        item__query__deleted_at__isnull=True,
        item__query__in=list(query_ids),
        person=person,
        state=HELD,
    )
    held.update(leased_until=timezone.now() + settings.idle)
    return set(held.values_list("item__query_id", flat=True))


def release_idle(pool: Pool, now: datetime | None = None) -> int:
    """Free what nobody has shown a sign of life on; returns how many leases ended."""
    over = Assignment.objects.filter(item__pool=pool, state=HELD, leased_until__lt=now or timezone.now())
    return _free(over, now or timezone.now())


def release(pool: Pool, person: User, query_ids: Collection[int] | None = None) -> int:
    """Free everything that one person holds, as they and a reviewer may, or these queries; their drafts stay. Returns how many leases
    ended."""
    held = Assignment.objects.filter(item__pool=pool, state=HELD, person=person)
    return _free(held if query_ids is None else held.filter(item__query__in=query_ids))


def _free(leases: "QuerySet[Assignment]", ended_before: datetime | None = None) -> int:
    count = 0
    for key, item in list(leases.values_list("pk", "item_id")[:BATCH]):
        with transaction.atomic():
            lease = Assignment.objects.filter(pk=key, state=HELD)
            if ended_before is not None:
                lease = lease.filter(leased_until__lt=ended_before)  # a heartbeat may have come since
            if lease.delete()[0]:
                QueueItem.objects.filter(pk=item, taken__gt=0).update(taken=F("taken") - 1)
                count += 1
    return count


# ---------------------------------------------------------------------------------------------------- what becomes of it


def finish(lease: Assignment) -> None:
    """The person has answered, and their answer counts for good: also when the lease had ended meanwhile, or they had skipped."""
    now = timezone.now()
    leases = Assignment.objects.filter(item_id=lease.item_id, person_id=lease.person_id)
    with transaction.atomic():
        if leases.filter(state__in=(HELD, DONE)).update(state=DONE, ended_at=now):
            return
        _hold(lease.item_id)
        fields = {"state": DONE, "ended_at": now, "reason": "", "leased_until": now}
        if not leases.filter(state=SKIPPED).update(**fields):
            fields |= {"blind": lease.blind, "shown": lease.shown}
            Assignment.objects.create(item_id=lease.item_id, person_id=lease.person_id, **fields)
        QueueItem.objects.filter(pk=lease.item_id).update(taken=F("taken") + 1)


def skip(lease: Assignment, reason: str) -> bool:
    """Hand the item back with a reason: others are asked, this person is not until they want to. False: it was not held."""
    with transaction.atomic():
        held = Assignment.objects.filter(pk=lease.pk, state=HELD)
        if not held.update(state=SKIPPED, reason=reason[:200], ended_at=timezone.now()):
            return False
        QueueItem.objects.filter(pk=lease.item_id, taken__gt=0).update(taken=F("taken") - 1)
    return True


def reopen(lease: Assignment) -> bool:
    """Undo `finish` or `skip`: the person holds the item again. False: they hold it already, or somebody else has taken what they
    skipped, and then it is as if they had not touched it."""
    settings = settings_of(lease.item.pool)
    fields = {"state": HELD, "ended_at": None, "reason": "", "leased_until": timezone.now() + settings.idle}
    with transaction.atomic():
        if Assignment.objects.filter(pk=lease.pk, state=DONE).update(**fields):
            return True
        skipped = Assignment.objects.filter(pk=lease.pk, state=SKIPPED)
        # The item first, as whoever takes it does.
        if skipped.exists() and QueueItem.objects.filter(OPEN, pk=lease.item_id).update(taken=F("taken") + 1):
            if skipped.update(**fields):
                return True
            QueueItem.objects.filter(pk=lease.item_id, taken__gt=0).update(taken=F("taken") - 1)
        skipped.delete()
    return False


def offer_skipped(pool: Pool, person: User, agent: Agent | None = None) -> int:
    """Let this person be asked again what they skipped; returns how many items came back."""
    skipped = Assignment.objects.filter(item__pool=pool, item__agent=agent, person=person, state=SKIPPED)
    return skipped.delete()[0]


# --------------------------------------------------------------------------------------------------------- what is left


def still_open(pool: Pool, agent: Agent | None = None) -> int:
    """How many items nobody holds and that want another answer. What a person is told is left: `progress.left`."""
    return QueueItem.objects.filter(OPEN, pool=pool, agent=agent).count()


def skipped(pool: Pool, person: User, agent: Agent | None = None) -> int:
    """How many items this person has skipped."""
    return Assignment.objects.filter(item__pool=pool, item__agent=agent, person=person, state=SKIPPED).count()


def done_today(pool: Pool, person: User) -> int:
    """How many items this person has answered since midnight, in the site's time zone."""
    midnight = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    done = Assignment.objects.filter(person=person, state=DONE, ended_at__gte=midnight)
    return done.filter(item__pool=pool).count()


def may_hold(pool: Pool, person: User, agent: Agent | None = None) -> int:
    """How many items to come this person's browser may keep for when the connection goes: a share of what is open that leaves as much
    to everybody else who is at it, and to one who comes while this person labels alone."""
    others = sum(1 for holding in holdings(pool, agent) if holding.person.pk != person.pk)
    open_items = QueueItem.objects.filter(OPEN, pool=pool, agent=agent, query__deleted_at__isnull=True)
    open_count = open_items[: MOST_HELD * 2 * (others + 1)].count()
    return min(MOST_HELD, max(LEAST_HELD, open_count // (2 * (others + 1))))


def holdings(pool: Pool, agent: Agent | None = None) -> Sequence[Holding]:
    """Who holds how much of this pool's queue, and when the first of it is free."""
    now = timezone.now()
    held = Assignment.objects.filter(item__pool=pool, item__agent=agent, state=HELD, leased_until__gte=now)
    held = held.select_related("person")
    by_person: dict[int, Holding] = {}
    for lease in held.order_by("leased_until"):
        before = by_person.get(lease.person_id)
        items = before.items + 1 if before else 1
        by_person[lease.person_id] = Holding(lease.person, items, before.free_at if before else lease.leased_until)
    return list(by_person.values())
