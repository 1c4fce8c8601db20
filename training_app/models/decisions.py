"""What a model answered, and what came of it."""

import uuid
from typing import Any, ClassVar, cast

from django.db import connection, models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents_app.models import ApiKey, Pool
from routerweb.holds import Holds
from training_app.engine.data.conversations import from_json, said_before
from training_app.models.versions import RouterModel


class DecisionQuerySet(models.QuerySet["Decision"]):
    def choosing(self, agent: int) -> "DecisionQuerySet":
        """Decisions whose set holds the agent of that id."""
        if connection.vendor == "postgresql":
            return self.filter(agents__contains=[agent])
        holds = "EXISTS (SELECT 1 FROM json_each(training_app_decision.agents) WHERE value = %s)"
        return cast("DecisionQuerySet", self.extra(where=[holds], params=[agent]))  # noqa: S610  (fixed text)


class Decision(models.Model):
    """One answer of the router. Its id is made with the answer, before the row is written."""

    #: A set of less confidence is likelier wrong than right.
    UNSURE = 0.5
    #: What answers are named by that no model made: the agents' descriptions did.
    DESCRIPTIONS = "descriptions"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="decisions")
    #: None where no model answered but the agents' descriptions.
    model = models.ForeignKey(RouterModel, on_delete=models.PROTECT, null=True, blank=True, related_name="decisions")
    api_key = models.ForeignKey(ApiKey, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    text = models.TextField(_("query"))
    messages = models.JSONField(
        _("messages before"), null=True, help_text=_("What was said before the query in its conversation.")
    )
    agents = models.JSONField(_("agents"))
    scores = models.JSONField(_("scores"))
    confidence = models.FloatField(_("confidence"))
    steps = models.PositiveSmallIntegerField(_("steps"))
    stop_reason = models.CharField(_("stop reason"), max_length=12)
    abstained = models.BooleanField(_("abstained"), default=False)
    microseconds = models.PositiveIntegerField(_("time in µs"))
    propensity = models.FloatField(
        _("propensity"),
        null=True,
        help_text=_("The probability of exactly this set, if the pool explored; else empty."),
    )
    detail = models.JSONField(
        _("detail"), null=True, help_text=_("What else influenced the set: a canary, an explored agent, cold agents.")
    )
    at = models.DateTimeField(default=timezone.now)
    holds = Holds(query=[text, messages], remark=[detail], neither=[agents, scores, stop_reason], days="decision_days")

    objects: ClassVar[Any] = DecisionQuerySet.as_manager()

    class Meta:
        ordering = ("-at",)
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")
        indexes = (models.Index(fields=("pool", "-at")), models.Index(fields=("model", "-at")))

    def __str__(self) -> str:
        return str(self.id)

    @property
    def answered_by(self) -> str:
        """The name of the version that answered."""
        return self.DESCRIPTIONS if self.model is None else self.model.name

    @property
    def routed_text(self) -> str:
        """The query as it was routed: its text, which knows what was said before it where anything was."""
        return from_json(self.text, self.messages)

    @property
    def said_before(self) -> str:
        """What the user said in the turn before, "" for a first turn."""
        return said_before(self.messages)


class Outcome(models.Model):
    """What an application says became of a decision. It may come before the decision's row is written, or without one at all."""

    decision_id = models.UUIDField(_("decision"), unique=True)
    pool = models.ForeignKey("agents_app.Pool", on_delete=models.CASCADE, related_name="outcomes")
    api_key = models.ForeignKey("agents_app.ApiKey", on_delete=models.SET_NULL, null=True, related_name="+")
    success = models.BooleanField(_("success"))
    agents_used = models.JSONField(_("agents used"), null=True)
    rating = models.FloatField(_("rating"), null=True)
    comment = models.TextField(_("comment"), blank=True)
    asked = models.BooleanField(
        default=False, editable=False, help_text=_("Whether the failure went to the labeling queue.")
    )
    at = models.DateTimeField(auto_now=True)
    holds = Holds(remark=[comment], neither=[agents_used], days="decision_days")

    class Meta:
        indexes = (models.Index(fields=("pool", "-at")),)

    def __str__(self) -> str:
        return str(self.decision_id)
