"""Jobs of labeling, run by the `default` cluster: keys only go in, and each goes on where an earlier one was interrupted."""

from datasets_app import bulk
from datasets_app.models import BulkChange


def bulk_change(change_id: int) -> int:
    """Do what is left of a bulk change; returns how many queries it has touched in all."""
    change = BulkChange.objects.filter(pk=change_id).first()
    return bulk.go_on(change).changed if change else 0
