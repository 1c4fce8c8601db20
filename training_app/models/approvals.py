"""Promotions, and canaries, that one person asks for and another one approves."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from routerweb.database.checks import check
from routerweb.holds import Holds
from training_app.models.versions import Promotion, RouterModel


class PromotionRequestQuerySet(models.QuerySet["PromotionRequest"]):
    """Filters of the requests."""

    def waiting(self) -> "PromotionRequestQuerySet":
        """Those that nobody has decided yet: one a model, at most."""
        return self.filter(state=PromotionRequest.State.WAITING)


class PromotionRequest(models.Model):
    """A promotion that waits for a second person, or with a `share` a canary, and what became of it. Rows are kept.

    `against` is the model that was active when it was asked for: once another one is, the request lapses, as what its approver would
    compare has changed.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("Waiting")
        APPROVED = "approved", _("Approved")
        DECLINED = "declined", _("Declined")
        WITHDRAWN = "withdrawn", _("Withdrawn")
        LAPSED = "lapsed", _("Lapsed")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="promotion_requests")
    model = models.ForeignKey(RouterModel, on_delete=models.CASCADE, related_name="promotion_requests")
    against = models.ForeignKey(RouterModel, on_delete=models.CASCADE, null=True, related_name="+")
    share = models.FloatField(
        _("share"), null=True, help_text=_("Share of the traffic, for a canary; empty for all of it.")
    )
    state = models.CharField(_("state"), max_length=9, choices=State.choices, default=State.WAITING)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    author_name = models.CharField(
        max_length=150, help_text=_("Kept when the account is deleted; for commands and keys, their name.")
    )
    reason = models.CharField(_("reason"), max_length=400, blank=True)
    override = models.CharField(_("reason for the override"), max_length=400, blank=True)
    asked_at = models.DateTimeField(auto_now_add=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    decided_by_name = models.CharField(max_length=150, blank=True)
    decided_at = models.DateTimeField(null=True)
    note = models.CharField(_("what was said to it"), max_length=400, blank=True)
    promotion = models.OneToOneField(Promotion, on_delete=models.SET_NULL, null=True, related_name="request")
    holds = Holds(person=[author_name, decided_by_name], remark=[reason, override, note])

    objects = PromotionRequestQuerySet.as_manager()

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("request for a promotion")
        verbose_name_plural = _("requests for promotions")
        constraints = (
            models.UniqueConstraint(
                fields=("model",), condition=models.Q(state="waiting"), name="one_waiting_request_per_model"
            ),
            check(
                "promotion_request_state_known", state__in=("waiting", "approved", "declined", "withdrawn", "lapsed")
            ),
        )

    def __str__(self) -> str:
        return f"{self.model} ({self.state})"
