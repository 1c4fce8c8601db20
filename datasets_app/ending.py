"""What ends in a pool that is put away, and what goes with it."""

from django.utils.translation import gettext as _

from agents_app.audit import Who
from agents_app.background_work.jobs import QUEUED, RUNNING
from agents_app.models import Pool
from datasets_app.files import imports
from datasets_app.models import Import, Label, PrelabelJob, Query, Snapshot, WritingJob
from datasets_app.prelabeling import jobs, writing


def of_putting_away(pool: Pool, _actor: Who) -> None:
    """Stop the imports, the pre-labeling and the writing that are under way; what they stored stays."""
    for upload in Import.objects.filter(dataset__pool=pool, status__in=(Import.Status.CHOOSING, QUEUED, RUNNING)):
        imports.cancel(upload)
    for job in PrelabelJob.objects.filter(pool=pool, status__in=(PrelabelJob.Status.PAUSED, QUEUED, RUNNING)):
        jobs.cancel(job)
    for writing_job in WritingJob.objects.filter(pool=pool, status__in=(QUEUED, RUNNING)):
        writing.cancel(writing_job)


def holds(pool: Pool) -> list[tuple[str, int]]:
    """How much a pool has of what people made."""
    return [
        (_("Queries, deleted ones too"), Query.objects.filter(dataset__pool=pool).count()),
        (_("Labels, replaced ones too"), Label.objects.filter(query__dataset__pool=pool).count()),
        (_("Snapshots"), Snapshot.objects.filter(pool=pool).count()),
    ]
