"""Jobs of this room, run by the `default` cluster; each takes keys only and decides by its own claim whether it runs."""

import logging

from django.db import transaction
from django_q.tasks import async_task

from agents_app.models import Pool
from datasets_app.files import imports, storing, uploads
from datasets_app.labels import disagreement, gold, queue
from datasets_app.models import Gold
from routerweb.observing import tracing

log = logging.getLogger(__name__)

#: Up to so many gold labels are composed anew where an agent is merged, in a second or so; more are left to a worker.
AT_ONCE = 2_000


@tracing.job("import")
def read_upload(import_id: int) -> str:
    """Read an uploaded file into its dataset; returns how it ended. Does nothing where another worker has it."""
    upload = imports.claim(import_id)
    if upload is None:
        return "not queued"
    try:
        ended = storing.run(upload, uploads.content(upload))
        queue.fill(ended.dataset.pool)  # here, so that no labeler waits for it
        return ended.status
    except Exception:  # whatever a file did, the import is not left running
        log.exception("import %s failed", import_id)
        return "failed"


def recompose_pool(pool_id: int) -> int:
    """Compose a pool's gold anew, as after a merge of its agents; returns how many queries changed."""
    pool = Pool.objects.filter(pk=pool_id).first()
    return _resolve_merges(pool) if pool is not None else 0


def recompose_after_merge(pool: Pool) -> None:
    """Bring a pool's gold and disagreements in line with its merged agents: at once where it is small, by a worker where it is not."""
    if Gold.objects.filter(query__dataset__pool=pool)[: AT_ONCE + 1].count() <= AT_ONCE:
        _resolve_merges(pool)
        return
    key = pool.pk
    transaction.on_commit(
        lambda: async_task("datasets_app.tasks.recompose_pool", key, q_options={"cluster": "default"})
    )


def _resolve_merges(pool: Pool) -> int:
    changed = gold.recompose_pool(pool)
    disagreement.measure_pool(pool)
    return changed
