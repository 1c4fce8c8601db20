"""Training runs, what they report while they train, and where they can go on from."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from agents_app.background_work.jobs import Job
from agents_app.models import Pool
from datasets_app.models import Snapshot
from routerweb.database.checks import check
from routerweb.holds import Holds
from training_app.models.kinds import SET_ROUTER


class Run(Job):
    """One training run: config, seed, snapshot, progress, metrics, log."""

    class Status(models.TextChoices):
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="runs")
    snapshot = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="runs")
    status = models.CharField(_("status"), max_length=9, choices=Status.choices, default=Status.QUEUED, db_index=True)
    kind = models.CharField(_("kind"), max_length=30, default=SET_ROUTER, help_text=_("What it trains."))
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
    phase = models.CharField(_("phase"), max_length=40, blank=True)
    step = models.PositiveIntegerField(default=0)
    total = models.PositiveIntegerField(default=0)
    metrics = models.JSONField(_("latest metrics"), default=dict)
    holds = Holds(setting=[config], neither=[kind, phase, metrics])

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        constraints = (
            check("run_status_known", status__in=("queued", "running", "done", "failed", "cancelled")),
            check("running_run_has_attempt", ~models.Q(status="running") | models.Q(attempt__isnull=False)),
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
    holds = Holds(remark=[message], person=[message], neither=[phase, metrics])

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
    holds = Holds(neither=[content])
