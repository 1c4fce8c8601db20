"""What this package does beside requests: its kind of job, its process, and what workers do by the clock."""

from collections.abc import Sequence
from datetime import datetime

from django.utils.translation import gettext_lazy as _

from agents_app.background_work.jobs import JobKind
from agents_app.background_work.processes import Process
from agents_app.background_work.work import Work, by_the_clock
from orchestration_app.episodes import episodes
from orchestration_app.models import Episode

DAY = 24 * 60


def kinds() -> Sequence[JobKind]:
    """For the hook `job_kinds`. Episodes have a process of their own, so the queue plays no part in them."""
    return (JobKind("episode", Episode, "", episodes.interrupted),)


def processes() -> Sequence[Process]:
    """For the hook `processes`."""
    return (Process("episodes", _("Episodes"), "episode runner", ("run_episodes",), _waits),)


def _waits(before: datetime) -> bool:
    return Episode.objects.filter(status=Episode.Status.QUEUED, created_at__lt=before).exists()


def work() -> Sequence[Work]:
    """For the hook `background_work`."""
    return (
        by_the_clock("orchestration_app.episodes.episodes.prune", "Delete old episodes", DAY),
        by_the_clock("orchestration_app.episodes.episodes.redact_ended", "Redact the texts of ended episodes", 1),
        by_the_clock("orchestration_app.episodes.judging.marks.turn", "Have the language model judge episodes", 60),
        by_the_clock(
            "orchestration_app.calls.spending.reconcile", "Count what calls cost this month", 60,
            name="orchestration_app.episodes.spending.reconcile",
        ),
        by_the_clock(
            "orchestration_app.backends.savings.turn", "What choosing backends saves, and training of choosers", 60
        ),
        by_the_clock("orchestration_app.health.check_all", "Health checks of backends", 1),
    )  # fmt: skip
