"""How much a pool answers, by the hour: what Home draws without reading a decision."""

from django.db import models

from agents_app.models import Pool


class TrafficHour(models.Model):
    """A pool's answers of one hour that is over, and the outcomes that were reported in it. An hour without either has no row.

    `none` counts answers that named no agent, `unsure` those whose set was likelier wrong than right. Decisions that are deleted later
    stay counted.
    """

    pool = models.ForeignKey(Pool, on_delete=models.CASCADE, related_name="traffic_hours")
    hour = models.DateTimeField()
    answers = models.PositiveBigIntegerField(default=0)
    abstained = models.PositiveBigIntegerField(default=0)
    none = models.PositiveBigIntegerField(default=0)
    unsure = models.PositiveBigIntegerField(default=0)
    outcomes = models.PositiveBigIntegerField(default=0)
    successes = models.PositiveBigIntegerField(default=0)

    class Meta:
        constraints = (models.UniqueConstraint(fields=("pool", "hour"), name="one_traffic_row_per_hour"),)

    def __str__(self) -> str:
        return f"{self.pool_id} {self.hour}"
