"""What calls may cost in a month, and what they have cost; and whether each executor worked when it was last tried."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import ApiKey, Pool
from orchestration_app.models.executors import Executor
from routerweb.database.checks import check
from routerweb.holds import Holds


class SpendLimit(models.Model):
    """The most that all calls of a pool may cost in a calendar month (UTC), in the pool's currency; with a key, those of its
    episodes."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="spend_limits")
    api_key = models.ForeignKey(ApiKey, on_delete=models.CASCADE, null=True, blank=True, related_name="+")
    most = models.FloatField(_("most in a month"))

    class Meta:
        verbose_name = _("spend limit")
        verbose_name_plural = _("spend limits")
        constraints = (
            models.UniqueConstraint(fields=("pool", "api_key"), name="one_spend_limit_per_key"),
            models.UniqueConstraint(
                fields=("pool",), condition=models.Q(api_key=None), name="one_spend_limit_per_pool"
            ),
            check("spend_limit_not_negative", most__gte=0),
        )

    def __str__(self) -> str:
        return f"{self.pool} {self.most:g}"


class MonthSpend(models.Model):
    """What calls under one limit cost in a month: those that ended at what they cost, those under way at the most that they may."""

    limit = models.ForeignKey(SpendLimit, on_delete=models.CASCADE, related_name="months")
    month = models.CharField(_("month"), max_length=7)
    amount = models.FloatField(_("amount"), default=0.0)
    holds = Holds(neither=[month], backup=False)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("limit", "month"), name="one_month_per_spend_limit"),)

    def __str__(self) -> str:
        return f"{self.month} {self.amount:g}"


class ExecutorCheck(models.Model):
    """What came of calling the agent once with a harmless task; `failure` is the kind of failure, "" where it answered."""

    executor = models.OneToOneField(Executor, on_delete=models.CASCADE, related_name="readiness")
    failure = models.CharField(_("failure"), max_length=20, blank=True)
    why = models.CharField(_("why"), max_length=400, blank=True)
    seconds = models.FloatField(_("seconds"), default=0.0)
    checked_at = models.DateTimeField(_("checked"), auto_now=True)
    holds = Holds(remark=[why], neither=[failure], backup=False)

    def __str__(self) -> str:
        return self.failure or "ready"
