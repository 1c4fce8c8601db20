"""What set routers answered while a canary ran: decisions, and the outcomes reported of them."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models import Count, Q, QuerySet

from training_app.models import Canary, Decision, Outcome
from training_app.versions.traffic import MOST, MOST_OUTCOMES, MOST_SPLIT, Answers, Judged, both

#: Decisions that one query reads by their keys.
AT_ONCE = 500


class DecisionTraffic:
    """For `Kind.traffic`."""

    stepwise = False

    def answers(self, canary: Canary, model: int) -> Answers:
        """What that model answered while the canary ran."""
        made = _made(canary).filter(model=model)
        newest = list(made.order_by("-at").values_list("agents", "abstained", "microseconds")[:MOST])
        reported = Outcome.objects.filter(pool_id=canary.pool_id, decision_id__in=made.order_by().values("pk"))
        judged = reported.aggregate(count=Count("pk"), good=Count("pk", filter=Q(success=True)))
        return Answers(
            [len(agents) for agents, _abstained, _time in newest], [abstained for _agents, abstained, _time in newest],
            [float(time) for _agents, _abstained, time in newest], judged["count"], judged["good"],
        )  # fmt: skip

    def judged(self, canary: Canary) -> list[Judged]:
        """The newest outcomes of either side. A decision without a unit stands for itself."""
        reported = Outcome.objects.filter(pool_id=canary.pool_id, decision_id__in=_made(canary).order_by().values("pk"))
        success = dict(reported.order_by("-at").values_list("decision_id", "success")[:MOST_OUTCOMES])
        rows: list[Judged] = []
        keys = list(success)
        for first in range(0, len(keys), AT_ONCE):
            made = Decision.objects.filter(pk__in=keys[first : first + AT_ONCE]).order_by()
            for key, model, unit, at in made.values_list("pk", "model_id", "detail__unit", "at"):
                rows.append(Judged(success[key], model, unit or str(key), at))
        return rows

    def sides(self, canary: Canary, since: datetime) -> Sequence[int]:
        """Who answered each user or text since then: the models' keys."""
        units = _made(canary).filter(at__gte=since, detail__unit__isnull=False)
        return list(dict(units.order_by("-at").values_list("detail__unit", "model_id")[:MOST_SPLIT]).values())


def _made(canary: Canary) -> "QuerySet[Decision]":
    """The decisions of either side while the canary ran."""
    made = Decision.objects.filter(model__in=both(canary), at__gte=canary.started_at)
    return made.filter(at__lt=canary.ended_at) if canary.ended_at else made
