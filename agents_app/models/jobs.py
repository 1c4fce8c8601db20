"""Background work without a table of its own, and what the job clusters say of themselves."""

from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.background_work.jobs import Job
from routerweb.holds import Holds


class BackgroundJob(Job):
    """One piece of registered work that a worker does: `work` is its name, `arguments` say what it is about, `progress` how far it is.

    `key` makes it one of a kind: two jobs of the same work never have the same key, unless that is empty.
    """

    class Status(models.TextChoices):
        QUEUED = "queued", _("Queued")
        RUNNING = "running", _("Running")
        DONE = "done", _("Done")
        FAILED = "failed", _("Failed")

    work = models.CharField(_("work"), max_length=100)
    key = models.CharField(_("key"), max_length=120, blank=True)
    status = models.CharField(_("status"), max_length=9, choices=Status.choices, default=Status.QUEUED, db_index=True)
    arguments = models.JSONField(_("arguments"), default=dict)
    progress = models.JSONField(_("progress"), default=dict)
    result = models.CharField(_("result"), max_length=400, blank=True)
    holds = Holds(remark=[arguments, progress, result], person=[arguments], neither=[work, key])

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        ordering = ("-pk",)
        verbose_name = _("background job")
        verbose_name_plural = _("background jobs")
        constraints = (
            models.UniqueConstraint(
                fields=("work", "key"), condition=~models.Q(key=""), name="background_job_is_one_of_its_key"
            ),
        )

    def __str__(self) -> str:
        return f"{self.work} {self.key or self.pk}"


class ClusterSign(models.Model):
    """What one job cluster last said of itself, by the database's clock.

    `guarded_at`: its guard runs. `executed_at`: one of its workers has done a task. `busy`: how many of them have one now.
    """

    slot = models.CharField(max_length=40, primary_key=True)
    queue = models.CharField(max_length=20)
    machine = models.CharField(max_length=100)
    guarded_at = models.DateTimeField()
    executed_at = models.DateTimeField(null=True)
    busy = models.PositiveSmallIntegerField(default=0)
    restarted_at = models.DateTimeField(null=True)
    why = models.CharField(max_length=300, blank=True)
    holds = Holds(neither=[slot, queue, machine, why], backup=False)

    objects: ClassVar[Any] = models.Manager()

    class Meta:
        ordering = ("queue", "slot")
        verbose_name = _("job cluster")
        verbose_name_plural = _("job clusters")

    def __str__(self) -> str:
        return f"{self.queue} {self.machine} {self.slot}"
