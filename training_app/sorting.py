"""Sorting a list by a column that its address names: `?sort=jaccard`, `?sort=-jaccard`."""

from collections.abc import Mapping

from django.db.models import Expression, F, FloatField
from django.db.models.expressions import OrderBy
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast


def order(asked: str, columns: Mapping[str, str], default: str) -> tuple[str, list[OrderBy]]:
    """The sort that holds, `asked` or the default, and what `order_by` takes: rows without a value last, ties newest first."""
    name = asked.removeprefix("-")
    sort = asked if name in columns else default
    name, down = sort.removeprefix("-"), sort.startswith("-")
    column = F(columns[name])
    first = column.desc(nulls_last=True) if down else column.asc(nulls_last=True)
    return sort, [first, F("pk").desc()]


def scorecard_figure(measure: str, scorecard: str = "scorecard") -> Expression:
    """The mean of a measure, out of the scorecard's JSON."""
    measured = KeyTransform(measure, KeyTransform("metrics", scorecard))
    return Cast(KeyTextTransform("mean", measured), FloatField())
