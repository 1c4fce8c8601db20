"""What was assigned to backends and what came of it, and what all processes share of their limits."""

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from orchestration_app.models import Backend
from routerweb.holds import Holds


class BackendCall(models.Model):
    """One agent's part of one decision, as it was really served. It may come before the decision's row is written, or without one.

    `assigned` is the backend that was named in the answer, `propensity` how likely that was, `decided_by` who chose it ("direct",
    "learner" or "lot") and `as_direct` whether the direct estimate would have taken it too. `category`, `tool` and `complexity` 0..1
    are what the application says of the query; null where it does not. Billed is what was served.
    """

    decision_id = models.UUIDField(_("decision"))
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="backend_calls")
    agent = models.PositiveIntegerField(_("agent"))
    backend = models.ForeignKey(Backend, on_delete=models.CASCADE, related_name="calls")
    tokens_in = models.PositiveIntegerField(_("tokens in"), default=0)
    tokens_out = models.PositiveIntegerField(_("tokens out"), default=0)
    cost = models.FloatField(_("cost"), default=0.0)
    latency = models.FloatField(_("latency in ms"), null=True)
    success = models.BooleanField(_("success"), null=True)
    failed = models.BooleanField(_("the call failed"), default=False)
    category = models.CharField(_("category"), max_length=80, blank=True)
    tool = models.BooleanField(_("needed a tool"), null=True)
    complexity = models.FloatField(_("complexity"), null=True)
    assigned = models.PositiveBigIntegerField(_("assigned"), null=True)
    propensity = models.FloatField(_("propensity"), null=True)
    decided_by = models.CharField(_("decided by"), max_length=8, blank=True)
    as_direct = models.BooleanField(_("as the direct estimate"), null=True)
    at = models.DateTimeField(default=timezone.now)
    holds = Holds(remark=[category], neither=[decided_by])

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("decision_id", "agent"), name="one_backend_call_per_agent_of_decision"),
        )
        indexes = (models.Index(fields=("pool", "-at")),)

    def __str__(self) -> str:
        return f"{self.decision_id} {self.agent}"


class BackendLoad(models.Model):
    """What all processes together did lately with a pool's backends: `state` is `backends.windows`' own."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, primary_key=True, related_name="+")
    state = models.JSONField(default=dict)
    holds = Holds(neither=[state], backup=False)

    def __str__(self) -> str:
        return str(self.pool)
