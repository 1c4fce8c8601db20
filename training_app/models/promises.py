"""What a model's quality is promised to be on live traffic, and what came of it: looks at traffic, and answers that people check."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from routerweb.holds import Holds


class TrafficLook(models.Model):
    """The newest look at how a model's traffic differs from the labels that it is promised on; taken once an hour.

    `figures` are those of `rollout.promises.Figures`.
    """

    model = models.OneToOneField("training_app.RouterModel", on_delete=models.CASCADE, related_name="traffic_look")
    figures = models.JSONField(default=dict)
    at = models.DateTimeField(auto_now=True)
    holds = Holds(neither=[figures])

    def __str__(self) -> str:
        return str(self.model_id)


class CheckedAnswerQuerySet(models.QuerySet["CheckedAnswer"]):
    """Filters of answers that were drawn to be checked."""

    def done(self) -> "CheckedAnswerQuerySet":
        """Those that somebody has checked."""
        return self.filter(checked_at__isnull=False)

    def waiting(self) -> "CheckedAnswerQuerySet":
        """Those that nobody has checked yet."""
        return self.filter(checked_at__isnull=True)


class CheckedAnswer(models.Model):
    """A live decision that was drawn at random for a person to check: what it answered, and what the person, who did not see that,
    says its query needs. The query stands in the decision alone."""

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="checked_answers")
    model = models.ForeignKey("training_app.RouterModel", on_delete=models.CASCADE, related_name="checked_answers")
    round = models.PositiveIntegerField(_("round"))
    decision_id = models.UUIDField(_("decision"))
    answered = models.JSONField(_("agents that were answered"))
    decided_at = models.DateTimeField()
    drawn_at = models.DateTimeField(auto_now_add=True)
    required = models.JSONField(_("agents that are needed"), null=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    checked_at = models.DateTimeField(null=True)
    holds = Holds(neither=[answered, required])

    objects = CheckedAnswerQuerySet.as_manager()

    class Meta:
        ordering = ("pk",)
        constraints = (models.UniqueConstraint(fields=("pool", "decision_id"), name="one_check_per_decision"),)
        indexes = (models.Index(fields=("model", "checked_at")),)

    def __str__(self) -> str:
        return str(self.decision_id)

    @property
    def right(self) -> bool | None:
        """Whether exactly the needed agents were answered; None before the check."""
        return None if self.required is None else set(self.required) == set(self.answered)
