"""The manifest of the decision archive: which file holds a pool's decisions of a day."""

from typing import Any, ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from agents_app.models import Pool
from routerweb.holds import Holds


class ArchivedDayQuerySet(models.QuerySet["ArchivedDay"]):
    def kept(self) -> "ArchivedDayQuerySet":
        """Those whose file is whole and in use."""
        return self.filter(state=ArchivedDay.State.KEPT)


class ArchivedDay(models.Model):
    """One Parquet file of the archive. No file is written before its row, and no row is deleted before its file, so that whatever
    breaks off leaves no file that nobody knows of. The row of a purged pool stays without a pool until its file is gone."""

    class State(models.TextChoices):
        WRITING = "writing", _("is being written")
        KEPT = "kept", _("in use")
        LEAVING = "leaving", _("is being deleted")

    pool = models.ForeignKey(Pool, on_delete=models.SET_NULL, null=True, related_name="archived_days")
    day = models.DateField(_("day"))
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.WRITING)
    path = models.CharField(_("path in the archive"), max_length=200, unique=True)
    rows = models.PositiveIntegerField(_("decisions"), default=0)
    bytes = models.PositiveBigIntegerField(_("bytes"), default=0)
    sha256 = models.CharField(_("SHA-256"), max_length=64, blank=True)
    first_id = models.UUIDField(_("lowest id"), null=True)
    last_id = models.UUIDField(_("highest id"), null=True)
    at = models.DateTimeField(_("written"), auto_now=True)
    holds = Holds(neither=[path, sha256])

    objects: ClassVar[Any] = ArchivedDayQuerySet.as_manager()

    class Meta:
        verbose_name = _("archived day of decisions")
        verbose_name_plural = _("archived days of decisions")
        constraints = (
            models.UniqueConstraint(
                fields=("pool", "day"), condition=models.Q(state="kept"), name="one_file_of_a_day_is_in_use"
            ),
        )

    def __str__(self) -> str:
        return self.path
