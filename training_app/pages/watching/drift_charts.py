"""What the page on drift draws: each measure over time beside its reference, and how its values are spread now."""

from typing import Any

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _

from training_app.engine.judging.drift import FEWEST, MEASURES, Measure
from training_app.models import Decision, DriftPoint, DriftReference, RouterModel
from training_app.watching import drift

POINTS = 168  # a week of hours
#: Newest decisions among which different queries are counted before the first look: more than FEWEST is enough for one.
LOOKED_AT = 2_000


def read(model: RouterModel) -> dict[str, Any]:
    """`latest` (a DriftPoint or None), `reference`, `sentence`, `measures` and, where nothing could be compared, what is missing."""
    points = list(DriftPoint.objects.filter(model=model)[:POINTS])[::-1]
    reference = DriftReference.objects.filter(model=model).first()
    charts: dict[str, Any] = {"reference": reference, "latest": points[-1] if points else None, "fewest": FEWEST}
    if not points:
        recent = Decision.objects.filter(model=model, at__gte=timezone.now() - drift.WINDOW)
        charts["no_reference"] = drift.why_no_reference(model) if drift.lacks_reference(model) else ""
        charts["texts"] = len(set(recent.order_by("-at").values_list("text", flat=True)[:LOOKED_AT]))
        return charts
    charts["sentence"] = drift.in_words(model, points[-1])
    charts["measures"] = [_measure(m, points, reference) for m in MEASURES if m.name in points[-1].measures]
    return charts


def _measure(measure: Measure, points: list[DriftPoint], reference: DriftReference | None) -> dict[str, Any]:
    name, last = measure.name, points[-1].measures[measure.name]
    measured = [(point, point.measures[name]) for point in points if name in point.measures]
    labels = [date_format(timezone.localtime(point.at), "j M H:i") for point, _values in measured]
    over_time = {
        "labels": labels,
        "datasets": [
            {
                "label": _("recent queries"),
                "data": [round(values["live"], 4) for _point, values in measured],
                "pointRadius": 2,
            },
            {"label": _("when it was judged"), "data": [round(values["reference"], 4) for _point, values in measured]},
        ],
    }
    chart = {
        "name": name,
        "title": drift.TITLES[name],
        "meaning": drift.MEANINGS[name],
        "share": name != "size",
        "over_time": over_time,
        **last,
    }
    before = reference.counts.get(name) if reference else None
    if before and name != "abstained":
        chart["spread"] = {
            "type": "bar",
            "labels": _bins(measure),
            "datasets": [
                {"label": _("recent queries"), "data": _shares(last["counts"])},
                {"label": _("when it was judged"), "data": _shares(before)},
            ],
            "y": _("share of the queries"),
        }
    return chart


def _bins(measure: Measure) -> list[str]:
    if measure.whole:
        return [*(str(i) for i in range(measure.bins - 1)), f"{measure.bins - 1}+"]
    return [f"{i / measure.bins:.2f}" for i in range(measure.bins)]


def _shares(counts: list[int]) -> list[float]:
    total = sum(counts) or 1
    return [round(count / total, 4) for count in counts]
