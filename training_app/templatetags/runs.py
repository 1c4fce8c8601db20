"""How spans of time and settings of runs are written on screen, and the button beside a verdict that too few answers allow."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import quote

from django import template
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from agents_app.models import Pool
from training_app.models import Run
from training_app.rollout import checks
from training_app.versions import scorecards
from training_app.versions.verdict import Verdict

register = template.Library()


@register.filter
def setting(value: object) -> str:
    """A setting's value as it would stand in a file."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@register.inclusion_tag("training_app/_check_more.html")
def check_more(pool: Pool, verdict: Verdict) -> dict[str, Any]:
    """The button that leads to more checked answers: a round of live answers of the model in use, else the queue, which every role
    opens."""
    live = verdict.is_in_use and checks.possible(pool)
    return {"pool": pool, "missing": verdict.missing, "live": live, "round": checks.ROUND}


@register.filter
def item(values: Mapping[str, Any], name: str) -> Any:
    """What stands under a name that a template holds in a variable."""
    return values.get(name)


@register.filter
def searched(text: str) -> str:
    """A text as the search line of Queries finds it, for an address: its first words, as one phrase."""
    words = text.rstrip("…").replace('"', " ")
    return quote(f'"{words.strip()}"')


@register.filter
def signed(value: float | None) -> str:
    """A difference with its sign and three decimals; what rounds to zero has no minus."""
    return "–" if value is None else scorecards.as_in_tables(f"{value:+z.3f}")


@register.filter
def duration(value: timedelta | None) -> str:
    """A span in the largest unit that fits: 40 seconds, 12 minutes, 3.5 hours."""
    if value is None:
        return "–"
    seconds = value.total_seconds()
    if seconds < 100:
        return _("%(n)d s") % {"n": max(1, round(seconds))}
    if seconds < 6000:
        return _("%(n)d min") % {"n": round(seconds / 60)}
    return _("%(n)s h") % {"n": number_format(round(seconds / 3600, 1), 1)}


@register.filter
def pace(value: float) -> str:
    """Steps a second, with as many digits as say something."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


@register.filter
def took(run: Run) -> str:
    """How long a run trained, its last attempt."""
    return duration(run.finished_at - run.started_at) if run.finished_at and run.started_at else "–"


@register.filter
def latest(metrics: Mapping[str, Any]) -> list[tuple[str, float]]:
    """The latest figures of a run: at most six, with readable names."""
    shown = [(name.replace("_", " "), value) for name, value in metrics.items() if isinstance(value, int | float)]
    return shown[:6]
