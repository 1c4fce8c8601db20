"""What the default cluster does for labeling. Each goes on where an earlier attempt was interrupted."""

from agents_app.background_work.work import Running
from agents_app.models import Agent
from datasets_app.labeling import bulk, reask
from datasets_app.models import BulkChange
from datasets_app.prelabeling import run as prelabel_run
from datasets_app.prelabeling import writing
from routerweb.observing import tracing


def bulk_change(running: Running) -> int:
    """Do what is left of a bulk change; returns how many queries it has touched in all."""
    change = BulkChange.objects.filter(pk=running.arguments["change"]).first()
    return bulk.go_on(change, alive=running.save).changed if change else 0


def fill_reask(running: Running) -> int:
    """Ask about a new agent wherever it was not asked about; returns how many questions came in."""
    agent = Agent.objects.filter(pk=running.arguments["agent"]).first()
    return reask.fill(agent) if agent else 0


@tracing.job("pre-labeling")
def prelabel(key: str) -> str:
    """Ask an LLM about a job's queries; returns how this turn ended. Does nothing where another worker has the job."""
    job = prelabel_run.run(int(key))
    return job.status if job else "not queued"


@tracing.job("writing queries")
def write_queries(key: str) -> str:
    """Have the LLM write the queries of a job; returns how it ended. Does nothing where another worker has the job."""
    job = writing.run(int(key))
    return job.status if job else "not queued"
