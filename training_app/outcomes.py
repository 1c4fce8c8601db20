"""Outcomes: what applications report of decisions, success over time, and failures on their way to the labeling queue.

An outcome is kept under its decision's id, not by a reference: decisions are written in bulk a moment after they are answered, and may
be pruned, sampled out or lost, so the outcome may come first or stand alone. The last report of a decision counts.
"""

import uuid
from dataclasses import dataclass

from django.db.models import Count, OuterRef, Q, Subquery

from agents_app.models import Pool
from datasets_app import queries, queue
from datasets_app.models import Query, text_hash
from training_app.models import Decision, Outcome

#: Where queries come from that were sent to the labeling queue from decisions.
DATASET = "Decisions"


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
    said = {"success": report.success, "agents_used": report.agents_used, "rating": report.rating}
    said |= {"comment": report.comment, "api_key_id": api_key}
    outcome, new = Outcome.objects.get_or_create(decision_id=report.decision, defaults={"pool": pool, **said})
    if outcome.pool_id != pool.pk:
        raise OtherPool
    if not new:
        for name, value in said.items():
            setattr(outcome, name, value)
        outcome.save()
    return outcome, new


def by_model(pool: Pool) -> list[tuple[str, int, float]]:
    """(model, outcomes, share of successes) of each model version that has any, newest first. Outcomes without a decision are
    left out: nothing says which model they speak of."""
    made_by = Decision.objects.filter(pk=OuterRef("decision_id")).order_by().values("model__version")[:1]
    found = (
        Outcome.objects.filter(pool=pool)
        .annotate(version=Subquery(made_by))
        .exclude(version=None)
        .values("version")
        .annotate(count=Count("pk"), good=Count("pk", filter=Q(success=True)))
        .order_by("-version")
    )
    return [(f"{pool.slug}-{row['version']}", row["count"], row["good"] / row["count"]) for row in found]


def send_to_labeling(pool: Pool, text: str, origin: str) -> bool:
    """Ask people about a text, whether they answered before or not; False where it waits to be labeled already.

    Where the pool has a query of that text it is the one that is asked about; otherwise the text becomes one.
    """
    known = Query.objects.filter(dataset__pool=pool, text_hash=text_hash(text), deleted_at=None).order_by("pk").first()
    new = known is None
    if known is None:
        known = queries.find_or_add(queries.dataset_of(pool, DATASET), [queries.NewQuery(text)], origin[:60])[0][0]
    return queue.send(Query.objects.filter(pk=known.pk), pool) > 0 or new
