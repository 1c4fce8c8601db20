"""Health checks of backends: an address that a backend may have, asked every minute. One that does not answer is given no call."""

from agents_app import health
from orchestration_app.models import Backend


def check_all() -> int:
    """Look at every backend's address; how many became healthy or stopped being so. Processes hear of it within a second."""
    rows = list(Backend.objects.in_use().exclude(health_url=""))
    changed = 0
    for row, result in zip(rows, health.look([row.health_url for row in rows]) if rows else [], strict=True):
        if result.ok is None:
            continue  # it was not asked, so nothing is known
        fields = {"healthy": result.ok, "health_said": result.message[:200]}
        Backend.objects.filter(pk=row.pk, health_url=row.health_url).update(**fields)
        changed += result.ok != row.healthy
    return changed
