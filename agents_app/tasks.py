"""What a message in the queue makes a worker do. Messages name jobs; whether one is done is decided by its claim."""

from django.db import connections
from django.utils.module_loading import import_string

from agents_app.background_work import jobs, work
from agents_app.background_work.jobs import Stopped
from agents_app.clusters import signs


def execute(kind: str, key: str) -> str:
    """Do the job of that kind and key; returns how it ended in a word. A worker that is asked to end puts it back into the queue."""
    registered = jobs.kinds()[kind]
    try:
        with jobs.stop_signals():
            ended = str(import_string(registered.execute)(key))
    except Stopped:
        connections["default"].close()  # it may have been interrupted in the middle of a statement
        jobs.release_mine(registered.model, key)
        raise SystemExit(0) from None
    signs.executed()
    return ended


def scheduled(name: str, due: str) -> str:
    """Do the turn of scheduled work that was due at this time, once; returns how it ended."""
    job = work.due(name, due)
    return execute(work.KIND, str(job.pk)) if job else "done already"
