"""What the live path keeps beside decisions: a pool's live settings, canaries, what shadows said, and what went wrong with either."""

import secrets

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from routerweb.database.checks import check
from routerweb.holds import Holds
from training_app.models.kinds import SET_ROUTER

MOST_EXPLORED = 0.10
MOST_CANARY = 0.50


def new_salt() -> str:
    """64 random bits in hexadecimal digits."""
    return secrets.token_hex(8)


class LiveSettings(models.Model):
    """What a pool does with live traffic beside answering from its active model. All of it is off until somebody turns it on."""

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="live")
    salt = models.CharField(max_length=16, default=new_salt, editable=False)
    exploration = models.FloatField(
        _("share that is explored"),
        default=0.0,
        validators=[MinValueValidator(0.0), MaxValueValidator(MOST_EXPLORED)],
        help_text=_(
            "Share of the answers, 0 to 0.1, in which one agent is added or left out at random. Such answers are marked."
        ),
    )
    cold = models.BooleanField(
        _("route to agents that the model has not learnt"),
        default=False,
        help_text=_("By what their descriptions say, until a model that knows them is promoted."),
    )
    cold_threshold = models.FloatField(
        _("least probability"),
        default=0.5,
        validators=[MinValueValidator(0.01), MaxValueValidator(1.0)],
        help_text=_(
            "If a query needs an agent with a lower probability, by its description, it is not routed to it. The best set "
            "of the others is the answer."
        ),
    )
    ask_cost = models.FloatField(
        _("cost of asking the user"),
        null=True,
        blank=True,
        validators=[MinValueValidator(0.01), MaxValueValidator(1.0)],
        help_text=_(
            "In wrong answers: at 0.2, one wrong answer costs as much as five questions. Where asking is worth more, an answer has a "
            "question for the user. Empty: never ask."
        ),
    )
    failures = models.BooleanField(
        _("send failures to labeling"),
        default=False,
        help_text=_("Queries that applications report as failed go to the labeling queue, with their comment."),
    )
    failures_per_day = models.PositiveIntegerField(
        _("at most a day"), default=50, validators=[MaxValueValidator(10_000)]
    )
    holds = Holds(neither=[salt])

    class Meta:
        constraints = (
            check("exploration_is_small", exploration__gte=0, exploration__lte=MOST_EXPLORED),
            check("cold_threshold_is_a_likeness", cold_threshold__gt=0, cold_threshold__lte=1),
            check("ask_cost_is_in_wrong_answers", ask_cost__gt=0, ask_cost__lte=1),
        )

    def __str__(self) -> str:
        return self.pool.slug


class CanaryQuerySet(models.QuerySet["Canary"]):
    """Filters of the canaries."""

    def running(self, kind: str = "") -> "CanaryQuerySet":
        """Those that answer now, of that kind or of all: one of each kind a pool, at most."""
        return self.filter(ended_at=None, **({"kind": kind} if kind else {}))


class Canary(models.Model):
    """A model that answers a share of its pool's traffic; one of each kind at a time. Rows of canaries that ended are kept."""

    class Ended(models.TextChoices):
        STOPPED = "stopped", _("Stopped")
        PROMOTED = "promoted", _("Promoted")
        OTHER = "other", _("Another model was promoted")
        ROLLBACK = "rollback", _("Rolled back")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="canaries")
    kind = models.CharField(_("kind"), max_length=30, default=SET_ROUTER)
    model = models.ForeignKey("training_app.RouterModel", on_delete=models.CASCADE, related_name="canaries")
    against = models.ForeignKey("training_app.RouterModel", on_delete=models.CASCADE, related_name="+")
    share = models.FloatField(_("share"))
    shares = models.JSONField(_("shares over time"), default=list)  # [[since, share], …], times in ISO 8601
    reason = models.CharField(_("reason"), max_length=400, blank=True)
    passed = models.BooleanField(_("passed the gate"))
    findings = models.JSONField(_("findings"), default=list)
    override = models.CharField(_("reason for the override"), max_length=400, blank=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    ended = models.CharField(_("ended"), max_length=8, choices=Ended.choices, blank=True)
    holds = Holds(remark=[reason, findings, override], neither=[kind, shares])

    objects = CanaryQuerySet.as_manager()

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("canary")
        verbose_name_plural = _("canaries")
        constraints = (
            models.UniqueConstraint(
                fields=("pool", "kind"), condition=models.Q(ended_at__isnull=True), name="one_canary_per_pool_and_kind"
            ),
            check("canary_share_up_to_half", share__gt=0, share__lte=MOST_CANARY),
            check("canary_override_has_a_reason", models.Q(passed=True) | ~models.Q(override="")),
        )

    def __str__(self) -> str:
        return f"{self.model} {self.share:.0%}"


class ShadowScore(models.Model):
    """What a shadow would have answered to a query that another model answered."""

    model = models.ForeignKey("training_app.RouterModel", on_delete=models.CASCADE, related_name="shadow_scores")
    against = models.ForeignKey("training_app.RouterModel", on_delete=models.CASCADE, related_name="+")
    decision_id = models.UUIDField(_("decision"))
    agents = models.JSONField(_("its agents"))
    answered = models.JSONField(_("agents that were answered"))
    abstained = models.BooleanField(default=False)
    microseconds = models.PositiveIntegerField(_("its time in µs"))
    answered_in = models.PositiveIntegerField(_("time of the answer in µs"))
    at = models.DateTimeField()
    holds = Holds(neither=[agents, answered])

    class Meta:
        constraints = (models.UniqueConstraint(fields=("model", "decision_id"), name="one_shadow_score_per_decision"),)
        indexes = (models.Index(fields=("model", "against", "-at")), models.Index(fields=("at",)))

    def __str__(self) -> str:
        return f"{self.model_id} {self.decision_id}"


class LiveTally(models.Model):
    """What became of a model's live texts, over all processes: scored or answered, failed, and left out for want of time."""

    class Kind(models.TextChoices):
        SHADOW = "shadow", _("Shadow")
        CANARY = "canary", _("Canary")

    model = models.ForeignKey("training_app.RouterModel", on_delete=models.CASCADE, related_name="tallies")
    kind = models.CharField(max_length=6, choices=Kind.choices)
    done = models.PositiveBigIntegerField(default=0)
    errors = models.PositiveBigIntegerField(default=0)
    skipped = models.PositiveBigIntegerField(default=0)
    last_error = models.CharField(max_length=300, blank=True)
    last_error_at = models.DateTimeField(null=True)
    holds = Holds(remark=[last_error])

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("model", "kind"), name="one_tally_per_model_and_kind"),
            check("tally_kind_known", kind__in=("shadow", "canary")),
        )

    def __str__(self) -> str:
        return f"{self.model_id} {self.kind}"
