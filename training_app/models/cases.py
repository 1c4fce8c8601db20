"""Must-pass cases: queries that every model of a pool has to route the same way, whatever else it does better."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from routerweb.database.checks import check
from routerweb.holds import Holds
from training_app.engine.data.conversations import from_json


class MustPassCase(models.Model):
    """One query and the set of agents that it must always be routed to.

    `required` are agents' ids as they were when the case was made; an agent that was merged since stands for the one
    that took it over.
    """

    class Source(models.TextChoices):
        QUERY = "query", _("Query")
        DECISION = "decision", _("Decision")
        DISPUTE = "dispute", _("Dispute")
        OUTCOME = "outcome", _("Outcome")
        WRITTEN = "written", _("Written by hand")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="cases")
    text = models.TextField(_("query"))
    messages = models.JSONField(
        _("messages before"),
        null=True,
        blank=True,
        help_text=_("What was said before the query in its conversation."),
    )
    text_hash = models.CharField(max_length=64, editable=False)
    required = models.JSONField(_("required agents"), help_text=_("Sorted agent ids; [] is “none of these”."))
    reason = models.CharField(_("reason"), max_length=400)
    source = models.CharField(_("made from"), max_length=8, choices=Source.choices, default=Source.WRITTEN)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    owner_name = models.CharField(_("owner"), max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)
    holds = Holds(query=[text, messages], remark=[reason], person=[owner_name], neither=[text_hash, required])

    class Meta:
        ordering = ("pk",)
        verbose_name = _("must-pass case")
        verbose_name_plural = _("must-pass cases")
        constraints = (
            models.UniqueConstraint(fields=("pool", "text_hash"), name="one_case_per_text"),
            check("case_source_known", source__in=("query", "decision", "dispute", "outcome", "written")),
        )

    def __str__(self) -> str:
        return self.text if len(self.text) <= 80 else self.text[:79] + "…"

    @property
    def routed_text(self) -> str:
        """The query as it is routed: its text, which knows what was said before it where anything was."""
        return from_json(self.text, self.messages)
