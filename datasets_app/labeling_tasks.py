"""Jobs of labeling, run by the `default` cluster: keys only go in, and each goes on where an earlier one was interrupted."""

from agents_app.models import Agent
from datasets_app.labels import bulk, reask
from datasets_app.models import BulkChange
from datasets_app.prelabeling import run as prelabel_run
from routerweb.observing import tracing


@tracing.job("bulk change")
def bulk_change(change_id: int) -> int:
    """Do what is left of a bulk change; returns how many queries it has touched in all."""
    change = BulkChange.objects.filter(pk=change_id).first()
    return bulk.go_on(change).changed if change else 0


@tracing.job("questions about an agent")
def fill_reask(agent_id: int) -> int:
    """Ask about a new agent wherever it was not asked about; returns how many questions came in."""
    agent = Agent.objects.filter(pk=agent_id).first()
    return reask.fill(agent) if agent else 0


@tracing.job("pre-labeling")
def prelabel(job_id: int) -> str:
    """Ask an LLM about a job's queries; returns how this turn ended. Does nothing where another worker has the job."""
    job = prelabel_run.run(job_id)
    return job.status if job else "not queued"
