"""Sorting a list by a column that its address names: `?sort=jaccard`, `?sort=-jaccard`."""

from collections.abc import Mapping

from django.db.models import F
from django.db.models.expressions import OrderBy


def order(key: str, columns: Mapping[str, str], default: str) -> tuple[str, list[OrderBy]]:
    """The sort that holds, `asked` or the default, and what `order_by` takes: rows without a value last, ties newest first."""
    name = key.removeprefix("-")
    sort = key if name in columns else default
    name, down = sort.removeprefix("-"), sort.startswith("-")
    column = F(columns[name])
    first = column.desc(nulls_last=True) if down else column.asc(nulls_last=True)
    return sort, [first, F("pk").desc()]
