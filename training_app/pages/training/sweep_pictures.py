"""The pictures of a sweep: one small chart a setting, validation Jaccard by its value."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from training_app.models import Sweep
from training_app.templatetags.runs import setting as written
from training_app.training.sweeps import Result


def by_setting(sweep: Sweep, rows: Sequence[Result]) -> list[dict[str, Any]]:
    """`{"id", "title", "content"}` for the tag `chart`, of each setting that varies and has more than one value measured.

    A setting with a list of values: the best and the mean run of each value. One drawn from a range: a point a run.
    """
    drawn = []
    for name, axis in sweep.space.items():
        measured = [(row.point[name], row.validation) for row in rows if row.validation is not None]
        if len({written(value) for value, _figure in measured}) < 2:
            continue
        content = _points(measured) if isinstance(axis, Mapping) else _values(measured)
        drawn.append(
            {"id": f"sweep-{name}", "title": name, "content": {**content, "x": name, "y": _("validation Jaccard")}}
        )
    return drawn


def _points(measured: Sequence[tuple[Any, float]]) -> dict[str, Any]:
    points = [{"x": value, "y": figure} for value, figure in sorted(measured)]
    return {"type": "scatter", "datasets": [{"label": _("run"), "data": points}]}


def _values(measured: Sequence[tuple[Any, float]]) -> dict[str, Any]:
    figures: dict[str, list[float]] = defaultdict(list)
    for value, figure in sorted(measured, key=lambda pair: pair[0]):
        figures[written(value)].append(figure)
    mark = {"showLine": False, "pointRadius": 6}
    return {
        "type": "line",
        "labels": list(figures),
        "datasets": [
            {"label": _("best"), "data": [max(some) for some in figures.values()], **mark, "pointStyle": "triangle"},
            {"label": _("mean"), "data": [sum(some) / len(some) for some in figures.values()], **mark},
        ],
    }
