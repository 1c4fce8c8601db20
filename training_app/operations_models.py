"""What operating models leaves behind: comparisons with the active model, what the gate found at each promotion, outcomes."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from datasets_app.models import Snapshot


class Comparison(models.Model):
    """Two models of a pool, routed on the same test queries of a snapshot. Artifacts never change, so neither does this."""

    model = models.ForeignKey("training_app.RouterModel", on_delete=models.CASCADE, related_name="comparisons")
    against = models.ForeignKey("training_app.RouterModel", on_delete=models.CASCADE, related_name="+")
    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="+")
    queries = models.PositiveIntegerField(_("queries"))
    figures = models.JSONField(
        _("figures"), help_text=_("By measure: ours, theirs and the difference, each a mean with its 95 % interval.")
    )
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("model", "against", "snapshot"), name="one_comparison_of_two_models"),
        )

    def __str__(self) -> str:
        return f"{self.model_id} / {self.against_id}"


class Judgement(models.Model):
    """What the gate found when a model was promoted, and why somebody promoted it all the same, where it did not pass."""

    promotion = models.OneToOneField("training_app.Promotion", on_delete=models.CASCADE, related_name="judgement")
    passed = models.BooleanField(_("passed"))
    findings = models.JSONField(_("findings"), default=list)
    override = models.CharField(_("reason for the override"), max_length=400, blank=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(passed=True) | ~models.Q(override=""), name="override_has_a_reason"
            ),
        )

    def __str__(self) -> str:
        return str(_("passed") if self.passed else _("overridden"))


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

    class Meta:
        indexes = (models.Index(fields=("pool", "-at")),)

    def __str__(self) -> str:
        return str(self.decision_id)
