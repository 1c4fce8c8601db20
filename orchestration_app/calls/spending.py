"""What calls may cost in a month: by pool, and by API key in a pool.

A call's most is taken out of what is left when its row is stored, in the same transaction, and put back less its cost when it ends:
all processes together stay within a limit, and a process that dies leaves nothing out. A call that does not fit is not made; its part
of the answer is missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC

from django.db import transaction
from django.db.models import F, Sum
from django.utils import timezone

from agents_app import audit
from agents_app.models import ApiKey, Pool, Stamp
from orchestration_app.models import MonthSpend, SpendLimit, Step

ENDED = (Step.Status.DONE, Step.Status.FAILED)


@dataclass(frozen=True, slots=True)
class Limited:
    """The limits that an episode's calls keep to, by key of the row, with the most and who it is for in words."""

    limits: tuple[tuple[int, float, str], ...] = ()

    def begin(self, steps: Sequence[Step]) -> None:
        """Take the most of each call out of what is left; a step that does not fit becomes a failed one. In a transaction."""
        for step in steps:
            if step.call is None or step.status not in (Step.Status.RUNNING, Step.Status.WAITING):
                continue
            reserved: list[int] = []
            for key, limit, who in self.limits:
                fits = MonthSpend.objects.filter(pk=_month(key).pk, amount__lte=limit - step.worst + 1e-12)
                if fits.update(amount=F("amount") + step.worst):
                    reserved.append(key)
                else:
                    _put_back(reserved, step.worst)
                    limited = f"month's limit of {limit:g} for {who}"
                    step.why = f"The {limited} is spent."
                    if step.worst:
                        left = max(limit - _month(key).amount, 0.0)
                        step.why = f"The call may cost {step.worst:g}, and {left:g} is left of the {limited}."
                    step.status, step.failure, step.worst = Step.Status.FAILED, "budget", 0.0
                    break

    def settle(self, unused: float) -> None:
        """Put back what calls that ended did not cost. In a transaction."""
        if unused:
            _put_back([key for key, _most, _who in self.limits], unused)


def _month(limit: int) -> MonthSpend:
    return MonthSpend.objects.get_or_create(limit_id=limit, month=month())[0]


def month() -> str:
    """The present month in UTC, as 2026-11."""
    return timezone.now().strftime("%Y-%m")


def begun_now(step: Step) -> bool:
    """Whether a call's most was set aside in the present month: only there can what it did not cost be put back."""
    return step.at is None or step.at.astimezone(UTC).strftime("%Y-%m") == month()


def _put_back(limits: Sequence[int], amount: float) -> None:
    MonthSpend.objects.filter(limit__in=limits, month=month()).update(amount=F("amount") - amount)


def of_pool(pool: int) -> dict[int | None, tuple[int, float, str]]:
    """The limits of a pool, by API key; None is the pool's own."""
    rows = SpendLimit.objects.filter(pool_id=pool).select_related("api_key")
    return {
        row.api_key_id: (row.pk, row.most, "the pool" if row.api_key is None else f"the key {row.api_key.name}") for row in rows
    }  # fmt: skip


def limited(limits: dict[int | None, tuple[int, float, str]], api_key: int | None) -> Limited | None:
    """Those that an episode of that key keeps to; None for none."""
    applicable = [limits[key] for key in dict.fromkeys((None, api_key)) if key in limits]
    return Limited(tuple(applicable)) if applicable else None


def save(pool: Pool, api_key: ApiKey | None, limit: float | None, *, actor: audit.Who = None) -> None:
    """Limit what calls cost in a month, or, with None, no longer."""
    with transaction.atomic():
        if limit is None:
            SpendLimit.objects.filter(pool=pool, api_key=api_key).delete()
        else:
            row, _new = SpendLimit.objects.update_or_create(pool=pool, api_key=api_key, defaults={"most": limit})
            _reconciled(row)
        detail = {"most": limit, "key": api_key.name if api_key else None}
        audit.record("spend_limit.saved", actor=actor, target=str(pool), pool=pool, detail=detail)
        Stamp.bump()


def reconcile() -> int:
    """Count each limit's present month anew, from the calls: what cancelled episodes left set aside comes back. A schedule calls
    it."""
    rows = list(SpendLimit.objects.all())
    for limit in rows:
        with transaction.atomic():
            _reconciled(limit)
    return len(rows)


def _reconciled(limit: SpendLimit) -> None:
    spent = MonthSpend.objects.select_for_update().get_or_create(limit=limit, month=month())[0]
    start = timezone.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    steps = Step.objects.filter(episode__pool=limit.pool_id, at__gte=start, call__isnull=False)
    if limit.api_key_id is not None:
        steps = steps.filter(episode__api_key=limit.api_key_id)
    done = steps.filter(status__in=ENDED).aggregate(sum=Sum("cost"))["sum"] or 0.0
    under_way = (
        steps.exclude(status__in=ENDED).exclude(episode__status="cancelled").aggregate(sum=Sum("worst"))["sum"] or 0.0
    )
    MonthSpend.objects.filter(pk=spent.pk).update(amount=done + under_way)


def shown(pool: Pool) -> list[tuple[SpendLimit, float]]:
    """Each limit with what this month's calls cost so far."""
    rows = SpendLimit.objects.filter(pool=pool).select_related("api_key").order_by("api_key__name")
    amounts = dict(MonthSpend.objects.filter(limit__in=rows, month=month()).values_list("limit", "amount"))
    return [(row, max(amounts.get(row.pk, 0.0), 0.0)) for row in rows]
