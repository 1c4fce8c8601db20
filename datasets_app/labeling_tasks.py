"""Jobs of labeling, run by the `default` cluster: keys only go in, and each goes on where an earlier one was interrupted."""

from datasets_app import bulk, prelabel_run
from datasets_app.models import BulkChange


def bulk_change(change_id: int) -> int:
    """Do what is left of a bulk change; returns how many queries it has touched in all."""
    change = BulkChange.objects.filter(pk=change_id).first()
    return bulk.go_on(change).changed if change else 0


def prelabel(job_id: int) -> str:
    """Ask an LLM about a job's queries; returns how this turn ended. Does nothing where another worker has the job."""
    job = prelabel_run.run(job_id)
    return job.status if job else "not queued"
