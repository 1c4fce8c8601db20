"""What came in as traces: spans that wait to be put together, user turns with who answered them, and what could not be read."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from datasets_app.models.files import Import
from datasets_app.models.queries import Query
from routerweb.holds import Holds


class SpanBatch(models.Model):
    """Spans of one request, redacted, until a worker has put their traces together. `spans` are `traces.spans.Span.as_json`."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="+")
    received_at = models.DateTimeField()
    spans = models.JSONField()
    holds = Holds(query=[spans], backup=False, days="decision_days")

    def __str__(self) -> str:
        return f"{self.pool_id} · {self.received_at}"


class TracedTurn(models.Model):
    """One user turn as a trace or an export has it: its query, who answered, and how that was rated.

    `names` are [role, name] of the agents, tools and handoffs that took part, as the trace has them; `agents` the ids of those that
    the pool has. It suggests agents to labelers and is never a label. The same text asked twice is one query with two turns.
    """

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="traced_turns")
    query = models.ForeignKey(Query, on_delete=models.CASCADE, related_name="traced_turns")
    upload = models.ForeignKey(Import, on_delete=models.CASCADE, null=True, related_name="traced_turns")
    trace = models.CharField(max_length=64)
    place = models.CharField(max_length=64, help_text=_("What tells the turns of one trace apart."))
    source = models.CharField(_("source"), max_length=120)
    conversation = models.CharField(_("conversation"), max_length=200, blank=True)
    joined = models.BooleanField(
        default=False,
        help_text=_("Its trace had the last message alone; the turns before it are those of its conversation."),
    )
    answer = models.TextField(_("answer"), blank=True)
    names = models.JSONField(_("who answered"), default=list)
    agents = models.JSONField(_("agents"), default=list)
    success = models.BooleanField(_("success"), null=True)
    at = models.DateTimeField(_("time"))
    created_at = models.DateTimeField(auto_now_add=True)
    holds = Holds(
        query=[answer], remark=[trace, source, conversation, names], neither=[place, agents], days="decision_days"
    )

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("traced turn")
        verbose_name_plural = _("traced turns")
        constraints = (models.UniqueConstraint(fields=("pool", "trace", "place"), name="traced_turn_once"),)
        indexes = (
            models.Index(fields=("pool", "-at"), name="traced_turn_by_time"),
            models.Index(fields=("pool", "conversation"), name="traced_turn_by_conversation"),
        )

    def __str__(self) -> str:
        return f"{self.source} {self.trace}"


class SpanProblem(models.Model):
    """Why spans of a pool were left out, how often, and when last."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="span_problems")
    reason = models.CharField(_("reason"), max_length=200)
    count = models.PositiveBigIntegerField(_("spans"), default=0)
    last_at = models.DateTimeField(_("last"))
    holds = Holds(neither=[reason])

    class Meta:
        ordering = ("-count",)
        verbose_name = _("spans left out")
        verbose_name_plural = _("spans left out")
        constraints = (models.UniqueConstraint(fields=("pool", "reason"), name="span_problem_once"),)

    def __str__(self) -> str:
        return f"{self.reason}: {self.count}"
