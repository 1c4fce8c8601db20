"""Outcomes: what applications report of decisions, success over time, and failures on their way to the labeling queue.

An outcome is kept under its decision's id, not by a reference: decisions are written in bulk a moment after they are answered, and may
be pruned, sampled out or lost, so the outcome may come first or stand alone. The last report of a decision counts.
"""

import uuid
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import privacy
from agents_app.models import Pool
from datasets_app.labeling import queue, sending
from datasets_app.models import Query, QueueItem, text_hash
from datasets_app.models.queries import FAILED, UNSURE
from datasets_app.queries import adding
from datasets_app.traces.turns import Turn
from training_app.engine.data.conversations import from_json
from training_app.engine.routing.options import LIMITING_SET
from training_app.models import Decision, LiveSettings, Outcome

#: Where queries come from that were sent to the labeling queue from decisions.
DATASET = "Decisions"
#: Outcomes that the success of each model is counted of.
NEWEST = 2_000
#: Decisions of a day that are looked at for those, the least sure first.
LOOKED_AT = 5_000


@dataclass(frozen=True, slots=True)
class Report:
    """What an application says became of one decision."""

    decision: uuid.UUID
    success: bool
    agents_used: list[int] | None = None
    rating: float | None = None
    comment: str = ""


class OtherPool(Exception):
    """The decision, or an earlier outcome of it, belongs to another pool."""


def record(pool: Pool, api_key: int | None, report: Report) -> tuple[Outcome, bool]:
    """Keep a report, in place of an earlier one; the outcome and whether it is the decision's first. Raises OtherPool."""
    if Decision.objects.filter(pk=report.decision).exclude(pool=pool).exists():
        raise OtherPool
    values: dict[str, Any] = {"success": report.success, "agents_used": report.agents_used, "rating": report.rating}
    values |= {"comment": privacy.redacted(pool.pk, [report.comment])[0], "api_key_id": api_key}
    outcome, new = Outcome.objects.get_or_create(decision_id=report.decision, defaults={"pool": pool, **values})
    if outcome.pool_id != pool.pk:
        raise OtherPool
    if not new:
        for name, value in values.items():
            setattr(outcome, name, value)
        outcome.save()
    return outcome, new


def of_turns(pool: Pool, turns: Sequence[Turn]) -> None:
    """Keep what traces say of decisions of the router, for the hook `turns_rated`. One that names none, or another pool's, is passed
    over: a trace is no caller that could be refused."""
    for turn in turns:
        with suppress(ValueError, OtherPool):
            record(pool, None, Report(uuid.UUID(turn.decision), bool(turn.success), None, turn.rating, turn.comment))


def by_model(pool: Pool) -> list[tuple[str, int, float]]:
    """(model, outcomes, share of successes) of each model version that has any among the NEWEST of the pool, the newest version first.
    Outcomes without a decision are left out: nothing says which model they speak of."""
    newest = dict(Outcome.objects.filter(pool=pool).order_by("-at").values_list("decision_id", "success")[:NEWEST])
    made = Decision.objects.filter(pk__in=list(newest)).exclude(model=None).order_by()
    by_version: dict[int, list[bool]] = defaultdict(list)
    for key, version in made.values_list("pk", "model__version"):
        by_version[version].append(newest[key])
    rows = sorted(by_version.items(), reverse=True)
    return [(f"{pool.slug}-{version}", len(successes), sum(successes) / len(successes)) for version, successes in rows]


def send_to_labeling(pool: Pool, text: str, origin: str) -> bool:
    """Ask people about a text, or a turn in its conversation, whether they answered before or not; False where it waits already.

    Where the pool has a query of that text it is the one that is asked about; otherwise the text becomes one.
    """
    redactor = privacy.redactor_of(pool.pk)
    text = redactor.conversation(text) if redactor else text
    of_text = Query.objects.of(pool).filter(text_hash=text_hash(text)).order_by("pk")
    query_key = of_text.values_list("pk", flat=True).first()
    new = query_key is None
    if query_key is None:
        query_key = adding.find_or_add(adding.dataset_of(pool, DATASET), [adding.NewQuery(text)], origin[:60])[0][0].pk
    return sending.send(Query.objects.filter(pk=query_key), pool) > 0 or new


def offer_unsure() -> int:
    """Of each pool's decisions of the last day, ask people about those that the router was least sure of: it abstained, or its
    confidence was below UNSURE_CONFIDENCE. A request that limits who may be chosen is left out: the confidence in such a set says
    little of the query. At most UNSURE_PER_DAY new queries a pool in any 24 hours; returns how many came in.
    """
    since, count = timezone.now() - timedelta(days=1), 0
    unsure = Q(abstained=True) | Q(confidence__lt=settings.UNSURE_CONFIDENCE)
    unsure &= Q(detail__options__isnull=True) | ~Q(detail__options__has_any_keys=sorted(LIMITING_SET))
    for pool in Pool.objects.in_use():
        offered = Query.objects.filter(dataset__pool=pool, origin=UNSURE, created_at__gte=since).count()
        left = settings.UNSURE_PER_DAY - offered
        if left <= 0:
            continue
        decisions = Decision.objects.filter(unsure, pool=pool, at__gte=since).order_by("-abstained", "confidence", "pk")
        routed_texts = [from_json(*row) for row in decisions.values_list("text", "messages")[:LOOKED_AT]]
        texts = {text_hash(text): text for text in routed_texts}
        hashes = set(Query.objects.filter(dataset__pool=pool, text_hash__in=texts).values_list("text_hash", flat=True))
        new = [adding.NewQuery(text) for key, text in texts.items() if key not in hashes][:left]
        if new:
            added = adding.find_or_add(adding.dataset_of(pool, DATASET), new, UNSURE)[1]
            queue.fill_these(pool, added)
            count += len(added)
    return count


def offer_failures() -> int:
    """In the pools that want it, ask people about the decisions that applications reported as failed, the application's comment shown.

    Failures of the last day, at most the pool's own number in any 24 hours; one whose decision is not written yet waits for the next
    round. Returns how many queries were asked about.
    """
    since, count = timezone.now() - timedelta(days=1), 0
    for live in LiveSettings.objects.filter(failures=True, pool__in=Pool.objects.in_use()).select_related("pool"):
        sent = Outcome.objects.filter(pool=live.pool, asked=True, at__gte=since).count()
        left = live.failures_per_day - sent
        if left <= 0:
            continue
        failed = Outcome.objects.filter(pool=live.pool, success=False, asked=False, at__gte=since).order_by("at")
        reported = Decision.objects.filter(pool=live.pool, pk__in=failed.values("decision_id"))
        texts = {key: from_json(text, before) for key, text, before in reported.values_list("pk", "text", "messages")}
        for outcome in [outcome for outcome in failed if outcome.decision_id in texts][:left]:
            _ask_about(live.pool, texts[outcome.decision_id], outcome)
            count += 1
    return count


def _ask_about(pool: Pool, text: str, outcome: Outcome) -> None:
    send_to_labeling(pool, text, FAILED)
    comment = " ".join(outcome.comment.split())
    note = _("An application reported a failure: %(comment)s") if comment else _("An application reported a failure.")
    QueueItem.objects.filter(pool=pool, agent=None, query__text_hash=text_hash(text), query__deleted_at=None).update(
        note=(note % {"comment": comment})[:300]
    )
    # Not by `save`: the outcome was reported when it was, not now.
    Outcome.objects.filter(pk=outcome.pk).update(asked=True)
