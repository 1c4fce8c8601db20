"""What orchestrators answered while a canary ran: episodes, and how they were judged."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Count, Q, QuerySet

from orchestration_app.models import ANSWERED, Episode
from training_app.models import Canary
from training_app.versions.traffic import MOST, MOST_OUTCOMES, MOST_SPLIT, Answers, Judged, both


class EpisodeTraffic:
    """For `Kind.traffic`."""

    stepwise = True

    def answers(self, canary: Canary, model: int) -> Answers:
        """What that model answered while the canary ran."""
        ended = _ended(canary).filter(model=model)
        newest = list(ended.order_by("-created_at").values_list("steps", "status", "latency")[:MOST])
        judged = ended.order_by().aggregate(
            count=Count("pk", filter=Q(success__isnull=False)), good=Count("pk", filter=Q(success=True))
        )
        return Answers(
            [steps for steps, _status, _seconds in newest],
            [status not in ANSWERED for _steps, status, _seconds in newest],
            [1e6 * seconds for _steps, _status, seconds in newest], judged["count"], judged["good"],
        )  # fmt: skip

    def judged(self, canary: Canary) -> list[Judged]:
        """The newest outcomes of either side; an episode stands for its task."""
        rows = _ended(canary).exclude(success=None).order_by("-created_at")
        judged = rows.values_list("success", "model_id", "task", "created_at")[:MOST_OUTCOMES]
        return [Judged(bool(success), model, task, at) for success, model, task, at in judged]

    def sides(self, canary: Canary, since: datetime) -> Sequence[int]:
        """Who answered each task since then: the models' keys."""
        tasks = Episode.objects.filter(pool=canary.pool_id, model__in=both(canary), created_at__gte=since)
        return list(dict(tasks.order_by("-created_at").values_list("task", "model_id")[:MOST_SPLIT]).values())


def _ended(canary: Canary) -> "QuerySet[Episode]":
    """The episodes of either side that began while the canary ran and have ended; what somebody cancelled says nothing."""
    begun = Episode.objects.filter(pool=canary.pool_id, model__in=both(canary), created_at__gte=canary.started_at)
    begun = begun.filter(status__in=(*ANSWERED, Episode.Status.FAILED))
    return begun.filter(created_at__lt=canary.ended_at) if canary.ended_at else begun
