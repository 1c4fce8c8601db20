"""What ends in a pool that is put away, and what goes with it."""

from django.utils.translation import gettext as _

from agents_app.audit import Who
from agents_app.background_work.jobs import QUEUED, RUNNING
from agents_app.models import Pool
from training_app.models import Decision, MustPassCase, RouterModel, Run
from training_app.training import runs


def of_putting_away(pool: Pool, actor: Who) -> None:
    """Cancel the runs that are under way."""
    for run in Run.objects.filter(pool=pool, status__in=(QUEUED, RUNNING)).select_related("pool"):
        try:
            runs.cancel(run, actor=actor)
        except runs.RunError:
            continue  # it has ended meanwhile


def holds(pool: Pool) -> list[tuple[str, int]]:
    """How much a pool has of what was trained and answered."""
    return [
        (_("Runs"), Run.objects.filter(pool=pool).count()),
        (_("Models"), RouterModel.objects.filter(pool=pool).count()),
        (_("Must-pass cases"), MustPassCase.objects.filter(pool=pool).count()),
        (_("Decisions"), Decision.objects.filter(pool=pool).count()),
    ]
