"""What a run's page draws from its events: curves, log lines, and how long it will take."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy

from training_app.models import Run, RunEvent

#: Most events that one drawing reads, newest first, and most points in one curve.
EVENTS = 3000
POINTS = 300
LINES = 200

#: Which curves share a chart: (title, the metrics' names hold one of these words).
CHARTS = (
    (gettext_lazy("Validation"), ("jaccard", "f1", "exact", "recall", "precision")),
    (gettext_lazy("Loss"), ("loss",)),
    (gettext_lazy("Share of random actions"), ("epsilon",)),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """What `read` found.

    `charts` as `{"id", "title", "content"}` for the tag `chart`, `log` as (time, message) newest first, `left` the time until
    the present phase ends, where it can be told.
    """

    charts: list[dict[str, Any]]
    log: list[tuple[datetime, str]]
    left: timedelta | None


def read(run: Run) -> Picture:
    """Curves, log and time left of a run, from one query."""
    columns = ("at", "phase", "step", "message", "metrics")
    newest = list(RunEvent.objects.filter(run=run).order_by("-pk").values_list(*columns)[:EVENTS])
    events = newest[::-1]
    series: dict[str, dict[int, float]] = {}
    for _, _, step, _, metrics in events:
        for name, value in metrics.items():
            if isinstance(value, int | float):
                # A run that went on from a checkpoint walks some steps again: the newer walk counts.
                series.setdefault(name, {})[step] = value
    said = [(at, f"{phase}: {message}" if phase else message) for at, phase, _, message, _ in newest if message]
    # A word that is said again and again stands once, with the time at which it was first said.
    log = [line for i, line in enumerate(said) if i + 1 == len(said) or line[1] != said[i + 1][1]][:LINES]
    begun = next((e for e in events if e[1] == run.phase and run.started_at and e[0] >= run.started_at), None)
    return Picture(_charts(series), log, _left(run, begun[0], begun[2]) if begun else None)


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


def _left(run: Run, begun: datetime, first: int) -> timedelta | None:
    walked = run.step - first
    if run.status != Run.Status.RUNNING or walked <= 0 or run.total <= run.step:
        return None
    return (timezone.now() - begun) / walked * (run.total - run.step)
