"""What launches runs beside people: rules that fire by the clock, by new labels or by drift, and sweeps over settings."""

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from datasets_app.models import Snapshot
from routerweb.database.checks import check
from routerweb.holds import Holds
from training_app.models.kinds import SET_ROUTER


class LaunchRule(models.Model):
    """When a pool is trained again without anybody asking, and with which settings.

    `last_fired_at` doubles as the claim: whoever moves it launches, so that two processes that look at once launch one run.
    """

    class Trigger(models.TextChoices):
        NIGHTLY = "nightly", _("Every night")
        LABELS = "labels", _("After new gold labels")
        DRIFT = "drift", _("When drift is found")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="rules")
    name = models.CharField(_("name"), max_length=80)
    model_kind = models.CharField(_("kind of model"), max_length=30, default=SET_ROUTER, editable=False)
    trigger = models.CharField(_("when"), max_length=7, choices=Trigger.choices, default=Trigger.NIGHTLY)
    hour = models.PositiveSmallIntegerField(
        _("hour"),
        default=2,
        validators=[MaxValueValidator(23)],
        help_text=_("Of the day, 0 to 23, in the time zone of this installation. For every night."),
    )
    labels = models.PositiveIntegerField(
        _("new labels"),
        default=100,
        validators=[MinValueValidator(1), MaxValueValidator(1_000_000)],
        help_text=_("For “after new gold labels”: the number of new or changed gold labels since the last launch."),
    )
    rest_hours = models.PositiveSmallIntegerField(
        _("rest in hours"),
        default=12,
        validators=[MinValueValidator(1), MaxValueValidator(24 * 30)],
        help_text=_("For new labels and drift: the shortest time between two launches."),
    )
    only_new = models.BooleanField(
        _("only where gold changed"),
        default=True,
        help_text=_("Nights without a new or changed gold label are skipped."),
    )
    include_llm = models.BooleanField(_("with LLM labels that nobody reviewed"), default=False)
    config = models.JSONField(_("config"), default=dict, help_text=_("The settings that differ from the defaults."))
    promote = models.BooleanField(_("promote when the gate passes"), default=False)
    active = models.BooleanField(_("on"), default=True)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    last_fired_at = models.DateTimeField(null=True, editable=False)
    passed_at = models.DateTimeField(null=True, editable=False, help_text=_("The last night that was skipped."))
    last_reason = models.CharField(_("why it launched last"), max_length=300, blank=True, editable=False)
    problem = models.CharField(_("why it could not launch"), max_length=400, blank=True, editable=False)
    holds = Holds(shared=[name], remark=[last_reason, problem], setting=[config], neither=[model_kind])

    class Meta:
        ordering = ("pool", "name")
        verbose_name = _("launch rule")
        verbose_name_plural = _("launch rules")
        constraints = (
            models.UniqueConstraint(fields=("pool", "name"), name="rule_name_unique_in_pool"),
            check("rule_trigger_known", trigger__in=("nightly", "labels", "drift")),
            check("rule_hour_of_the_day", hour__lte=23),
            check("rule_rests", rest_hours__gte=1),
        )

    def __str__(self) -> str:
        return self.name


class Sweep(models.Model):
    """One search over settings: its runs are ordinary runs on one snapshot, each with another point of the space."""

    class Method(models.TextChoices):
        GRID = "grid", _("Every combination")
        RANDOM = "random", _("Drawn at random")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="sweeps")
    snapshot = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="sweeps")
    method = models.CharField(_("method"), max_length=6, choices=Method.choices, default=Method.GRID)
    base = models.JSONField(_("settings of every run"), default=dict)
    space = models.JSONField(_("settings that vary"), default=dict)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    holds = Holds(setting=[base, space])

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("sweep")
        verbose_name_plural = _("sweeps")
        constraints = (check("sweep_method_known", method__in=("grid", "random")),)

    def __str__(self) -> str:
        return f"{self.pool.slug} sweep {self.pk}"
