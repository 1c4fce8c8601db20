"""What is counted in the background for large pools, so that no page counts them."""

from django.db import models
from django.utils import timezone

from agents_app.models import Pool
from routerweb.holds import Holds


class PoolFigures(models.Model):
    """The figures of one large pool as they were at `counted_at`; pools with fewer queries have no row, and are counted when asked.

    `seen` is what stood in the database when the counting began: while that is the same, nothing is counted again.
    """

    pool = models.OneToOneField(Pool, on_delete=models.CASCADE, related_name="figures")
    counts = models.JSONField(default=dict)
    seen = models.JSONField(default=list)
    seconds = models.FloatField(default=0.0)
    counted_at = models.DateTimeField(default=timezone.now)
    holds = Holds(neither=[counts, seen])

    def __str__(self) -> str:
        return f"{self.pool_id} at {self.counted_at}"
