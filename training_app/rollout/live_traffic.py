"""What each kind of model left behind while a canary ran, in one shape: a set router's decisions, an orchestrator's episodes.

`live_figures` compares the two sides and knows no kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.db.models import Count, Q, QuerySet

from training_app.models import ORCHESTRATOR, Canary, Decision, Episode, Outcome

#: Newest answers of a side that are read, newest outcomes that the comparison of success reads, and newest answers that the split is
#: counted on.
MOST = 5_000
MOST_OUTCOMES = 100_000
MOST_SPLIT = 20_000
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Answers:
    """The newest answers of one side: agents each called or chose, whether it gave none, microseconds it took; and of all its outcomes
    how many there are and how many are good."""

    sizes: list[int]
    none: list[bool]
    microseconds: list[float]
    outcomes: int
    successes: int


class Judged(NamedTuple):
    """One outcome: whether it was good, who answered, for whom, when."""

    success: bool
    model: int
    unit: str
    at: datetime


def answers(canary: Canary, model: int) -> Answers:
    """What that model answered while the canary ran."""
    if canary.kind == ORCHESTRATOR:
        ended = _ended(canary).filter(model=model)
        rows = ended.order_by("-created_at").values_list("steps", "status", "latency")[:MOST]
        judged = ended.order_by().aggregate(
            count=Count("pk", filter=Q(success__isnull=False)), good=Count("pk", filter=Q(success=True))
        )
        told = [(steps, status != Episode.Status.DONE, 1e6 * seconds) for steps, status, seconds in rows]
    else:
        made = _made(canary).filter(model=model)
        newest = made.order_by("-at").values_list("agents", "abstained", "microseconds")[:MOST]
        told = [(len(agents), abstained, float(time)) for agents, abstained, time in newest]
        reported = Outcome.objects.filter(pool_id=canary.pool_id, decision_id__in=made.order_by().values("pk"))
        judged = reported.aggregate(count=Count("pk"), good=Count("pk", filter=Q(success=True)))
    return Answers(
        [size for size, _none, _time in told], [none for _size, none, _time in told], [time for _size, _none, time in told],
        judged["count"], judged["good"],
    )  # fmt: skip


def judged(canary: Canary) -> list[Judged]:
    """The newest outcomes of either side. A decision from before units were kept stands for itself; an episode for its task."""
    if canary.kind == ORCHESTRATOR:
        rows = _ended(canary).exclude(success=None).order_by("-created_at")
        told = rows.values_list("success", "model_id", "task", "created_at")[:MOST_OUTCOMES]
        return [Judged(bool(success), model, task, at) for success, model, task, at in told]
    reported = Outcome.objects.filter(pool_id=canary.pool_id, decision_id__in=_made(canary).order_by().values("pk"))
    success = dict(reported.order_by("-at").values_list("decision_id", "success")[:MOST_OUTCOMES])
    found: list[Judged] = []
    keys = list(success)
    for first in range(0, len(keys), AT_ONCE):
        made = Decision.objects.filter(pk__in=keys[first : first + AT_ONCE]).order_by()
        for key, model, unit, at in made.values_list("pk", "model_id", "detail__unit", "at"):
            found.append(Judged(success[key], model, unit or str(key), at))
    return found


def sides(canary: Canary, since: datetime) -> Sequence[int]:
    """Who answered each user, text or task since then: the models' keys."""
    if canary.kind == ORCHESTRATOR:
        tasks = Episode.objects.filter(pool=canary.pool_id, model__in=_both(canary), created_at__gte=since)
        return list(dict(tasks.order_by("-created_at").values_list("task", "model_id")[:MOST_SPLIT]).values())
    units = _made(canary).filter(at__gte=since, detail__unit__isnull=False)
    return list(dict(units.order_by("-at").values_list("detail__unit", "model_id")[:MOST_SPLIT]).values())


def _both(canary: Canary) -> tuple[int, int]:
    return canary.model_id, canary.against_id


def _made(canary: Canary) -> "QuerySet[Decision]":
    """The decisions of either side while the canary ran."""
    made = Decision.objects.filter(model__in=_both(canary), at__gte=canary.started_at)
    return made.filter(at__lt=canary.ended_at) if canary.ended_at else made


def _ended(canary: Canary) -> "QuerySet[Episode]":
    """The episodes of either side that began while the canary ran and have ended; what somebody cancelled says nothing."""
    begun = Episode.objects.filter(pool=canary.pool_id, model__in=_both(canary), created_at__gte=canary.started_at)
    begun = begun.filter(status__in=(Episode.Status.DONE, Episode.Status.FAILED))
    return begun.filter(created_at__lt=canary.ended_at) if canary.ended_at else begun
