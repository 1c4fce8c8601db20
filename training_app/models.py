"""Training runs, the models that they make, and the decisions that a model answers."""

import uuid
from typing import Any, ClassVar, cast

from django.conf import settings
from django.db import connection, models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents_app.models import ApiKey, Pool
from datasets_app.models import Snapshot


class Run(models.Model):
    """One training run: config, seed, snapshot, progress, metrics, log.

    A worker owns a run through its `attempt` token: every write of a job filters on it, so that a job which was taken for dead
    and comes back writes nothing. `deliveries` counts how often the run was handed to the queue since it was last queued, `losses` how
    often its worker died since a person launched it. `doubted_at` is when the row of a silent run was last written by a reaper, which
    proves that a living worker could have written to it too.
    """

    class Status(models.TextChoices):
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="runs")
    snapshot = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="runs")
    status = models.CharField(_("status"), max_length=9, choices=Status.choices, default=Status.QUEUED, db_index=True)
    config = models.JSONField(_("config"), default=dict, help_text=_("Every setting of the engine, defaults included."))
    seed = models.PositiveIntegerField(_("seed"), default=0)
    promote = models.BooleanField(_("promote when done"), default=False)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    rule = models.ForeignKey(
        "training_app.LaunchRule", on_delete=models.SET_NULL, null=True, editable=False, related_name="runs"
    )
    sweep = models.ForeignKey(
        "training_app.Sweep", on_delete=models.SET_NULL, null=True, editable=False, related_name="runs"
    )
    attempt = models.UUIDField(null=True, editable=False)
    attempts = models.PositiveIntegerField(default=0, editable=False)
    deliveries = models.PositiveIntegerField(default=0, editable=False)
    delivered_at = models.DateTimeField(null=True, blank=True, editable=False)
    losses = models.PositiveSmallIntegerField(default=0, editable=False)
    worker = models.CharField(_("worker"), max_length=100, blank=True, editable=False)
    phase = models.CharField(_("phase"), max_length=40, blank=True)
    step = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    metrics = models.JSONField(_("latest metrics"), default=dict)
    error = models.TextField(_("error"), blank=True)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True, editable=False)
    heartbeat_at = models.DateTimeField(null=True, blank=True, editable=False)
    doubted_at = models.DateTimeField(null=True, blank=True, editable=False)
    finished_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(status__in=("queued", "running", "done", "failed", "cancelled")),
                name="run_status_known",
            ),
            models.CheckConstraint(
                condition=~models.Q(status="running") | models.Q(attempt__isnull=False), name="running_run_has_attempt"
            ),
        )

    def __str__(self) -> str:
        return f"{self.pool.slug} run {self.pk}"

    @property
    def ended(self) -> bool:
        """Whether the run is done, failed or cancelled."""
        return self.status not in (self.Status.QUEUED, self.Status.RUNNING)


class RunEvent(models.Model):
    """One line of a run's log and one point of its curves."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    at = models.DateTimeField(default=timezone.now)
    phase = models.CharField(max_length=40, blank=True)
    step = models.PositiveIntegerField(default=0)
    message = models.CharField(max_length=500, blank=True)
    metrics = models.JSONField(default=dict)

    class Meta:
        ordering = ("run", "pk")

    def __str__(self) -> str:
        return self.message


class Checkpoint(models.Model):
    """Where a run's training stands, so that another worker can go on from there; replaced as the run goes, gone when it is done."""

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="checkpoint")
    step = models.PositiveIntegerField()
    content = models.BinaryField()
    saved_at = models.DateTimeField(auto_now=True)


def unread(*paths: str) -> tuple[str, ...]:
    """What `defer` leaves in the database of the models that these relations lead to: a scorecard holds every error, so that reading
    one for each row of a list takes longer than all the rest of it."""
    return tuple(f"{path}__{name}" for path in paths for name in ("scorecard", "roster"))


class RouterModel(models.Model):
    """The artifact that a run made, or that was imported: one version of a pool's router."""

    class State(models.TextChoices):
        CANDIDATE = "candidate", _("Candidate")
        SHADOW = "shadow", _("Shadow")
        ACTIVE = "active", _("Active")
        RETIRED = "retired", _("Retired")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="models")
    version = models.PositiveIntegerField(_("version"))
    run = models.OneToOneField(Run, on_delete=models.PROTECT, null=True, blank=True, related_name="model")
    state = models.CharField(_("state"), max_length=9, choices=State.choices, default=State.CANDIDATE)
    roster = models.JSONField(_("roster"), help_text=_("The agents as they were when the model learnt them."))
    scorecard = models.JSONField(_("scorecard"), default=dict)
    artifact_digest = models.CharField(_("artifact SHA-256"), max_length=64)
    artifact_bytes = models.PositiveBigIntegerField(_("artifact size in bytes"))
    pinned = models.BooleanField(_("pinned"), default=False, help_text=_("Its artifact is never pruned."))
    prune_at = models.DateTimeField(
        null=True, editable=False, help_text=_("When its artifact is pruned, where that is announced.")
    )
    pruned_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("pool", "-version")
        verbose_name = _("model")
        verbose_name_plural = _("models")
        constraints = (
            models.UniqueConstraint(fields=("pool", "version"), name="model_version_unique_in_pool"),
            models.UniqueConstraint(
                fields=("pool",), condition=models.Q(state="active"), name="one_active_model_per_pool"
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=("candidate", "shadow", "active", "retired")), name="model_state_known"
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The version's name in answers, commands and pages, for example `support-3`."""
        return f"{self.pool.slug}-{self.version}"


class Artifact(models.Model):
    """A model's bytes, in a table of their own so that listing models never reads them."""

    model = models.OneToOneField(RouterModel, on_delete=models.CASCADE, related_name="artifact")
    content = models.BinaryField()


class Promotion(models.Model):
    """One change of a pool's active model: from which, to which, by whom and why."""

    class Kind(models.TextChoices):
        FIRST = "first", _("First promotion")
        PROMOTION = "promotion", _("Promotion")
        ROLLBACK = "rollback", _("Roll-back")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="promotions")
    model = models.ForeignKey(RouterModel, on_delete=models.PROTECT, related_name="promotions")
    previous = models.ForeignKey(RouterModel, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    kind = models.CharField(_("kind"), max_length=9, choices=Kind.choices, default=Kind.PROMOTION)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    reason = models.CharField(_("reason"), max_length=400, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("promotion")
        verbose_name_plural = _("promotions")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(kind__in=("first", "promotion", "rollback")), name="promotion_kind_known"
            ),
            models.UniqueConstraint(
                fields=("pool",), condition=models.Q(kind="first"), name="one_first_promotion_per_pool"
            ),
        )

    def __str__(self) -> str:
        return f"{self.previous or '–'} → {self.model}"


class DecisionQuerySet(models.QuerySet["Decision"]):
    def choosing(self, agent: int) -> "DecisionQuerySet":
        """Decisions whose set holds the agent of that id."""
        if connection.vendor == "postgresql":
            return self.filter(agents__contains=[agent])
        holds = "EXISTS (SELECT 1 FROM json_each(training_app_decision.agents) WHERE value = %s)"
        return cast("DecisionQuerySet", self.extra(where=[holds], params=[agent]))  # noqa: S610  (fixed text)


class Decision(models.Model):
    """One answer of the router. Its id is made with the answer, before the row is written."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="decisions")
    model = models.ForeignKey(RouterModel, on_delete=models.PROTECT, related_name="decisions")
    api_key = models.ForeignKey(ApiKey, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    text = models.TextField(_("query"))
    agents = models.JSONField(_("agents"))
    scores = models.JSONField(_("scores"))
    confidence = models.FloatField(_("confidence"))
    steps = models.PositiveSmallIntegerField(_("steps"))
    stop_reason = models.CharField(_("stop reason"), max_length=12)
    abstained = models.BooleanField(_("abstained"), default=False)
    microseconds = models.PositiveIntegerField(_("time in µs"))
    propensity = models.FloatField(
        _("propensity"), null=True, help_text=_("How likely this very set was, where the pool explored; else empty.")
    )
    detail = models.JSONField(
        _("detail"), null=True, help_text=_("What else made the set: a canary, an explored agent, agents routed cold.")
    )
    at = models.DateTimeField(default=timezone.now)

    objects: ClassVar[Any] = DecisionQuerySet.as_manager()

    class Meta:
        ordering = ("-at",)
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")
        indexes = (models.Index(fields=("pool", "-at")), models.Index(fields=("model", "-at")))

    def __str__(self) -> str:
        return str(self.id)


from training_app.alarm_models import (  # noqa: E402
    Alarm,
    AlarmDelivery,
    AlarmMute,
    AlarmReceiver,
    DriftPoint,
    DriftReference,
    ProcessSign,
    WatchTurn,
)
from training_app.launch_models import LaunchRule, Sweep  # noqa: E402
from training_app.live_models import Canary, LiveSettings, LiveTally, ShadowScore  # noqa: E402
from training_app.operations_models import Comparison, Judgement, Outcome  # noqa: E402

__all__ = (
    "Alarm",
    "AlarmDelivery",
    "AlarmMute",
    "AlarmReceiver",
    "Artifact",
    "Canary",
    "Checkpoint",
    "Comparison",
    "Decision",
    "DriftPoint",
    "DriftReference",
    "Judgement",
    "LaunchRule",
    "LiveSettings",
    "LiveTally",
    "Outcome",
    "ProcessSign",
    "Promotion",
    "RouterModel",
    "Run",
    "RunEvent",
    "ShadowScore",
    "Sweep",
    "WatchTurn",
    "unread",
)
