"""What a run's page draws from its events: curves, log lines, and how long it will take."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from training_app.engine.measures import PRIMARY, SHARES
from training_app.models import Run, RunEvent

#: Most events that one drawing reads, newest first, and most points in one curve.
EVENTS = 3000
POINTS = 300
LINES = 200

#: Which curves share a chart: (title, the metrics' names hold one of these words).
CHARTS = (
    (gettext_lazy("Validation"), SHARES),
    (gettext_lazy("Value expected at the start, and by how much it is too high"), ("q_start", "overestimation")),
    (gettext_lazy("Loss"), ("loss",)),
    (gettext_lazy("Error of the values (TD)"), ("td_error",)),
    (gettext_lazy("Share of random actions"), ("epsilon",)),
)


#: How many colours `chart.js` tells apart.
COLOURS = 5
#: What is drawn of several runs over each other: (metric, title).
OVERLAID = (
    (f"val_{PRIMARY}", gettext_lazy("Validation Jaccard")),
    ("loss", gettext_lazy("Loss")),
    ("epsilon", gettext_lazy("Share of random actions")),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """What `read` found.

    `charts` as `{"id", "title", "content"}` for the tag `chart`, `log` as (time, message) newest first, `left` the time until
    the present phase ends and `pace` its steps a second, where they can be told.
    """

    charts: list[dict[str, Any]]
    log: list[tuple[datetime, str]]
    left: timedelta | None
    pace: float | None = None


def read(run: Run) -> Picture:
    """Curves, log and time left of a run, from one query."""
    columns = ("at", "phase", "step", "message", "metrics")
    newest = list(RunEvent.objects.filter(run=run).order_by("-pk").values_list(*columns)[:EVENTS])
    events = newest[::-1]
    series = _series((step, metrics) for _, _, step, _, metrics in events)
    lines = [(at, f"{phase}: {message}" if phase else message) for at, phase, _, message, _ in newest if message]
    # A word that is said again and again stands once, with the time at which it was first said.
    log = [line for i, line in enumerate(lines) if i + 1 == len(lines) or line[1] != lines[i + 1][1]][:LINES]
    begun = next((e for e in events if e[1] == run.phase and run.started_at and e[0] >= run.started_at), None)
    pace = _pace(run, begun[0], begun[2]) if begun else None
    remaining = timedelta(seconds=(run.total - run.step) / pace) if pace and run.total > run.step else None
    return Picture(_charts(series), log, remaining, pace)


def overlay(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The curves of several runs over each other, a chart a metric, as `Picture.charts`; one query."""
    events = RunEvent.objects.filter(run__in=runs).exclude(metrics={}).order_by("-pk")
    newest = events.values_list("run_id", "step", "metrics")[: EVENTS * len(runs)]
    shown = list(newest)[::-1]
    by_run = {run.pk: _series((step, metrics) for key, step, metrics in shown if key == run.pk) for run in runs}
    colours = colours_of(by_run)
    charts: list[dict[str, Any]] = []
    for metric, title in OVERLAID:
        drawn = {run.pk: by_run[run.pk].get(metric, {}) for run in runs}
        steps = sorted({step for points in drawn.values() for step in points})
        steps = steps[:: len(steps) // POINTS + 1]
        if len(steps) > 1:
            name = gettext("Run %(number)d")
            datasets = [
                {"label": name % {"number": key}, "data": [points.get(step) for step in steps], "colour": colours[key]}
                for key, points in drawn.items()
                if points
            ]
            content = {"labels": steps, "datasets": datasets, "x": gettext("step")}
            charts.append({"id": f"overlay-{metric}", "title": str(title), "content": content})
    return charts


def colours_of(runs: Iterable[int]) -> dict[int, int]:
    """The number of each run's colour and dash in `chart.js`: by its id, so that it looks the same in every chart and whatever else is
    drawn beside it; of two that would look alike the newer one takes the next that is free."""
    colours: dict[int, int] = {}
    for run in sorted(runs):
        free = [(run + step) % COLOURS for step in range(COLOURS)]
        colours[run] = next((colour for colour in free if colour not in colours.values()), free[0])
    return colours


def _series(points: Iterable[tuple[int, Mapping[str, Any]]]) -> dict[str, dict[int, float]]:
    series: dict[str, dict[int, float]] = {}
    for step, metrics in points:
        for name, value in metrics.items():
            if isinstance(value, int | float):
                # A run that went on from a checkpoint walks some steps again: the newer walk counts.
                series.setdefault(name, {})[step] = value
    return series


def _charts(series: dict[str, dict[int, float]]) -> list[dict[str, Any]]:
    charts: list[dict[str, Any]] = []
    for title, words in CHARTS:
        drawn = {name: points for name, points in series.items() if len(points) > 1 and any(w in name for w in words)}
        steps = sorted({step for points in drawn.values() for step in points})
        steps = steps[:: len(steps) // POINTS + 1]
        if steps:
            datasets = [
                {"label": name.replace("_", " "), "data": [points.get(step) for step in steps]}
                for name, points in drawn.items()
            ]
            charts.append(
                {
                    "id": f"curve-{len(charts)}",
                    "title": str(title),
                    "content": {"labels": steps, "datasets": datasets, "x": gettext("step")},
                }
            )
    return charts


def _pace(run: Run, begun: datetime, first: int) -> float | None:
    """Steps a second of the phase that a run is in; None where it cannot be told."""
    walked, seconds = run.step - first, (timezone.now() - begun).total_seconds()
    if run.status != Run.Status.RUNNING or walked <= 0 or seconds <= 0:
        return None
    return walked / seconds
