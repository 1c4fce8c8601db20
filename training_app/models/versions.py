"""The models that runs make, how they were promoted, and what they were compared by."""

from typing import Any

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from datasets_app.models import Snapshot
from routerweb.database.checks import check
from routerweb.holds import Holds
from training_app.models.kinds import SET_ROUTER
from training_app.models.runs import Run
from training_app.models.scorecards import Card, LearntRoster, Scorecard


class RouterModelQuerySet(models.QuerySet["RouterModel"]):
    """Filters of the models."""

    def active(self, kind: str = SET_ROUTER) -> "RouterModelQuerySet":
        """The active ones of that kind: one a pool, at most."""
        return self.filter(kind=kind, state=RouterModel.State.ACTIVE)


class RouterModel(models.Model):
    """The artifact that a run made, or that was imported: one version of one of the pool's kinds of model."""

    class State(models.TextChoices):
        CANDIDATE = "candidate", _("Candidate")
        SHADOW = "shadow", _("Shadow")
        ACTIVE = "active", _("Active")
        RETIRED = "retired", _("Retired")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="models")
    kind = models.CharField(_("kind"), max_length=30, default=SET_ROUTER)
    version = models.PositiveIntegerField(_("version"))
    run = models.OneToOneField(Run, on_delete=models.PROTECT, null=True, blank=True, related_name="model")
    state = models.CharField(_("state"), max_length=9, choices=State.choices, default=State.CANDIDATE)
    artifact_digest = models.CharField(_("artifact SHA-256"), max_length=64)
    artifact_bytes = models.PositiveBigIntegerField(_("artifact size in bytes"))
    pinned = models.BooleanField(_("pinned"), default=False, help_text=_("Its artifact is never pruned."))
    prune_at = models.DateTimeField(
        null=True, editable=False, help_text=_("When its artifact is pruned, where that is announced.")
    )
    pruned_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    holds = Holds(neither=[kind, artifact_digest])

    objects = RouterModelQuerySet.as_manager()

    class Meta:
        ordering = ("pool", "-version")
        verbose_name = _("model")
        verbose_name_plural = _("models")
        constraints = (
            models.UniqueConstraint(fields=("pool", "version"), name="model_version_unique_in_pool"),
            models.UniqueConstraint(
                fields=("pool", "kind"), condition=models.Q(state="active"), name="one_active_model_per_kind"
            ),
            check("model_state_known", state__in=("candidate", "shadow", "active", "retired")),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The version's name in answers, commands and pages, for example `support-3`."""
        return f"{self.pool.slug}-{self.version}"

    @property
    def card(self) -> Card:
        """How well it does; without figures where none came with it. Read from a table of its own, when it is asked for."""
        try:
            return self.measured.card
        except Scorecard.DoesNotExist:
            return Card()

    @property
    def roster(self) -> list[dict[str, Any]]:
        """The agents as they were when the model learnt them. Read from a table of their own; `select_related("learnt")` in lists."""
        try:
            return list(self.learnt.agents)
        except LearntRoster.DoesNotExist:
            return []


class Artifact(models.Model):
    """A model's bytes, in a table of their own so that listing models never reads them."""

    model = models.OneToOneField(RouterModel, on_delete=models.CASCADE, related_name="artifact")
    content = models.BinaryField()
    holds = Holds(remark=[content])


class Promotion(models.Model):
    """One change of a pool's active model of one kind: from which, to which, by whom and why. STOPPED leaves none active of its kind:
    `model` and `previous` are then the one that decides no more."""

    class Kind(models.TextChoices):
        FIRST = "first", _("First promotion")
        PROMOTION = "promotion", _("Promotion")
        ROLLBACK = "rollback", _("Roll-back")
        STOPPED = "stopped", _("Stopped")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="promotions")
    model = models.ForeignKey(RouterModel, on_delete=models.PROTECT, related_name="promotions")
    previous = models.ForeignKey(RouterModel, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    kind = models.CharField(_("kind"), max_length=9, choices=Kind.choices, default=Kind.PROMOTION)
    model_kind = models.CharField(_("kind of model"), max_length=30, default=SET_ROUTER)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    reason = models.CharField(_("reason"), max_length=400, blank=True)
    at = models.DateTimeField(auto_now_add=True)
    holds = Holds(remark=[reason], neither=[model_kind])

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("promotion")
        verbose_name_plural = _("promotions")
        constraints = (
            check("promotion_kind_known", kind__in=("first", "promotion", "rollback", "stopped")),
            models.UniqueConstraint(
                fields=("pool", "model_kind"), condition=models.Q(kind="first"), name="one_first_promotion_per_kind"
            ),
        )

    def __str__(self) -> str:
        return f"{self.previous or '–'} → {self.model}"


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
    holds = Holds(neither=[figures])

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
    holds = Holds(remark=[findings, override])

    class Meta:
        constraints = (check("override_has_a_reason", models.Q(passed=True) | ~models.Q(override="")),)

    def __str__(self) -> str:
        return str(_("passed") if self.passed else _("overridden"))
