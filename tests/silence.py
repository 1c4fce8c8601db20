"""Jobs whose worker says nothing any more."""

from datetime import timedelta

from django.conf import settings
from django.db.models import QuerySet
from django.utils import timezone

from agents_app.background_work.jobs import Job


def silence(jobs: "QuerySet[Job]") -> None:
    """As if their workers had been silent for long, before and after a reaper wrote to their rows."""
    long_ago = timezone.now() - timedelta(seconds=3 * settings.DEAD_AFTER_SECONDS)
    jobs.update(heartbeat_at=long_ago, doubted_at=long_ago + timedelta(seconds=settings.DEAD_AFTER_SECONDS))
