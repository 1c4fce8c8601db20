"""Jobs of this room, run by the `default` cluster; each takes keys only and decides by its own claim whether it runs."""

import logging

from agents_app.models import Pool
from datasets_app import gold, imports, uploads

log = logging.getLogger(__name__)


def read_upload(import_id: int) -> str:
    """Read an uploaded file into its dataset; returns how it ended. Does nothing where another worker has it."""
    upload = imports.claim(import_id)
    if upload is None:
        return "not queued"
    try:
        return imports.run(upload, uploads.content(upload)).status
    except Exception:
        log.exception("import %s failed", import_id)
        return "failed"


def recompose_pool(pool_id: int) -> int:
    """Compose a pool's gold anew, as after a merge of its agents; returns how many queries changed."""
    pool = Pool.objects.filter(pk=pool_id).first()
    return gold.recompose_pool(pool) if pool is not None else 0
