"""What the default cluster does with queries and files. Each job names a key, and its own claim decides whether it runs."""

import logging

from django.db import transaction

from agents_app.background_work import jobs, work
from agents_app.models import Pool
from datasets_app.figures import counting
from datasets_app.files import imports, storing, uploads
from datasets_app.labeling import queue
from datasets_app.labels import disagreement, gold
from datasets_app.models import Gold, Query
from routerweb.observing import tracing

log = logging.getLogger(__name__)

#: Up to so many gold labels are composed again where an agent is merged, in a second or so; more are left to a worker.
AT_ONCE = 2_000
#: Queries that one transaction composes again.
BATCH = 1_000


@tracing.job("import")
def read_upload(key: str) -> str:
    """Read an uploaded file into its dataset; returns how it ended. Does nothing where another worker has it."""
    upload = imports.claim(int(key))
    if upload is None:
        return "not queued"
    try:
        ended = storing.run(upload, uploads.content(upload), counting.when_large(upload.dataset.pool))
        queue.fill(ended.dataset.pool, look_back=True)  # here, so that no labeler waits for it
        return ended.status
    except Exception:  # whatever a file did, the import is not left running
        jobs.raise_if_stopped()
        log.exception("import %s failed", key)
        return "failed"


def recompose_pool(running: work.Running) -> int:
    """Compose a pool's gold again, as after a merge of its agents; returns how many queries changed."""
    pool = Pool.objects.filter(pk=running.arguments["pool"]).first()
    if pool is None:
        return 0
    changed: int = running.progress.get("changed", 0)
    keys = Query.objects.filter(dataset__pool=pool).order_by("pk").values_list("pk", flat=True)
    while batch := list(keys.filter(pk__gt=running.progress.get("last", 0))[:BATCH]):
        with transaction.atomic():
            changed += gold.recompose(batch)
            running.save(last=batch[-1], changed=changed)
    disagreement.measure_pool(pool)
    return changed


def recompose_after_merge(pool: Pool) -> None:
    """Bring a pool's gold and disagreements in line with its merged agents: at once where it is small, by a worker where it is not."""
    if Gold.objects.filter(query__dataset__pool=pool)[: AT_ONCE + 1].count() <= AT_ONCE:
        _resolve_merges(pool)
        return
    work.submit("recompose_pool", pool=pool.pk)


def _resolve_merges(pool: Pool) -> int:
    changed = gold.recompose_pool(pool)
    disagreement.measure_pool(pool)
    return changed
