"""What pages draw over and over: an agent, a time, a state, a figure, a bar, the pages of a list, a chart with its table.

{% load routerweb %}
{% agent_chip agent %}  {% agent_chip agent code_only=True %}
{{ run.created_at|ago }}  {{ run.status|state }}  {{ 0.9134|percent:1 }}  {{ 12345|number }}  {{ 0.9134|figure:3 }}
{% progress_bar run.step run.total %}  {% share_bar 0.91 low=0.88 high=0.94 %}
{% pagination page %}  {% parts part %}  {% sort_link "name" _("Name") %}  {% chart "curve" curve %}
"""

import math
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

from django import template
from django.core.paginator import Page
from django.http import QueryDict
from django.template.defaultfilters import truncatechars
from django.urls import reverse
from django.utils import formats, timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app.glossary import TERMS
from agents_app.guidelines import rendered
from routerweb.pages.paging import Part, Total

register = template.Library()

# The state words of the whole product, by the value that the models keep.
STATES = {
    "unlabeled": gettext_lazy("Unlabeled"),
    "draft": gettext_lazy("Draft"),
    "labeled": gettext_lazy("Labeled"),
    "disagreement": gettext_lazy("Disagreement"),
    "gold": gettext_lazy("Gold"),
    "candidate": gettext_lazy("Candidate"),
    "shadow": gettext_lazy("Shadow"),
    "active": gettext_lazy("Active"),
    "retired": gettext_lazy("Retired"),
    "archived": gettext_lazy("Archived"),
    "deleted": gettext_lazy("Deleted"),
    "choosing": gettext_lazy("Choosing columns"),
    "queued": gettext_lazy("Queued"),
    "running": gettext_lazy("Running"),
    "done": gettext_lazy("Done"),
    "failed": gettext_lazy("Failed"),
    "partial": gettext_lazy("Partial"),
    "cancelled": gettext_lazy("Cancelled"),
    "unavailable": gettext_lazy("Unavailable"),
    "revoked": gettext_lazy("Revoked"),
    "stopped": gettext_lazy("Stopped"),
    "expired": gettext_lazy("Expired"),
    "invited": gettext_lazy("Invited"),
    "deactivated": gettext_lazy("Deactivated"),
    "erased": gettext_lazy("Erased"),
    "waiting": gettext_lazy("Waiting"),
    "delivered": gettext_lazy("Delivered"),
    "muted": gettext_lazy("Muted"),
    "drifts": gettext_lazy("Drifts"),
    "steady": gettext_lazy("As before"),
}
NOTHING = "–"


def hue_of(number: int) -> int:
    """An agent's colour angle in degrees, from its id: successive ids lie a golden angle apart."""
    return round(number * 137.508) % 360


@register.simple_tag
def agent_chip(agent: Any, code_only: bool = False) -> SafeString:
    """An agent by its code, colour and, unless `code_only`, name. Takes a pool's agent or the engine's."""
    number = agent.number if hasattr(agent, "number") else agent.id
    code = agent.code or str(number)
    classes = "rw-agent"
    if getattr(agent, "state", "") == "retired":
        classes += " rw-agent-retired"
    if code_only:
        return format_html(
            '<span class="{} rw-agent-code" style="--hue: {}"><abbr title="{}">{}</abbr></span>',
            classes,
            hue_of(number),
            agent.name,
            code,
        )
    return format_html(
        '<span class="{}" style="--hue: {}"><b>{}</b>{}</span>', classes, hue_of(number), code, agent.name
    )


@register.filter
def milliseconds(microseconds: float | None) -> str:
    """A time as pages say it, in ms: "0.85" below ten, "12" above; NOTHING where there is none."""
    if microseconds is None:
        return NOTHING
    value = microseconds / 1000
    digits = 2 if value < 1 else 1 if value < 10 else 0
    return formats.number_format(value, digits, force_grouping=True)


@register.filter
def visible(text: str) -> str:
    """The text, or "" where nothing of it would be seen, as of spaces of no width: the name of a link has to be seen."""
    return text if any(unicodedata.category(character)[0] not in "CZ" for character in text) else ""


@register.filter
def shortened(text: str, most: int) -> str:
    """The text as `truncatechars` cuts it, at once where nothing is cut: that took a tenth of the time of a list's row."""
    return text if len(text) <= most else truncatechars(text, most)


@register.filter
def ago(value: datetime | None) -> SafeString | str:
    """How long ago (or until when), with the exact time on hover."""
    if not isinstance(value, datetime):
        return NOTHING
    now = timezone.now()
    seconds = (now - value).total_seconds()
    if abs(seconds) < 60:
        words = _("just now") if seconds >= 0 else _("in a moment")
    elif seconds < 0:
        words = _("in %(time)s") % {"time": timeuntil(value, now, depth=1)}
    else:
        words = _("%(time)s ago") % {"time": timesince(value, now, depth=1)}
    local = timezone.localtime(value)
    return format_html(
        '<time datetime="{}" title="{} {}">{}</time>',
        value.astimezone(UTC).isoformat(timespec="seconds"),
        formats.date_format(local, "DATETIME_FORMAT"),
        local.tzname() or "",
        words,
    )


@register.filter
def state(value: str) -> SafeString | str:
    """The state word for what a model keeps, for example `{{ run.status|state }}`."""
    if not value:
        return NOTHING
    return format_html('<span class="rw-state rw-state-{}">{}</span>', value, STATES.get(value, value))


@register.filter
def account(name: object) -> SafeString:
    """An account's name, as a rule an e-mail address, that may break behind its @."""
    before, sign, after = str(name).partition("@")
    return format_html("{}{}<wbr>{}", before, sign, after) if sign else format_html("{}", before)


@register.filter
def at(values: Sequence[Any], place: int) -> Any:
    """What stands at a place of a list; "" beyond its end."""
    return values[place] if 0 <= place < len(values) else ""


@register.filter
def percent(value: float | None, digits: int = 0) -> str:
    """0.9134 as 91 %, with a narrow space that does not break."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return _minus(f"{formats.number_format(round(100 * value, digits), digits)}\u202f%")


@register.filter
def money(value: float | None, currency: str) -> str:
    """A cost in its currency, to two digits that say something: 0.00042 as USD 0.00042, 3.14159 as USD 3.14."""
    if value is None or not math.isfinite(value):
        return NOTHING
    digits = 2 if value == 0 or abs(value) >= 1 else 1 - math.floor(math.log10(abs(value)))
    return _minus(
        f"{currency}\u00a0{formats.number_format(round(value, digits), max(digits, 2), use_l10n=True, force_grouping=True)}"
    )


@register.filter
def number(value: float | None) -> str:
    """A whole number with its thousands apart."""
    if value is None:
        return NOTHING
    return _minus(str(formats.number_format(round(value), 0, use_l10n=True, force_grouping=True)))


@register.filter
def figure(value: float | None, digits: int = 3) -> str:
    """A measured figure with that many digits behind the point."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return NOTHING
    return _minus(str(formats.number_format(round(value, digits), digits)))


@register.filter
def amount(value: float | None) -> str:
    """A number as people write it, of a cost or the like: at most four digits behind the point, below 0.001 two that count, and no
    zeros at their end. What is less than 10⁻⁸ is 0."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return NOTHING
    small = 1e-8 <= abs(value) < 0.001
    exact = f"{value:.{1 - math.floor(math.log10(abs(value))) if small else 4}f}".rstrip("0")
    return _minus(
        str(formats.number_format(exact.rstrip("."), len(exact.partition(".")[2]), use_l10n=True, force_grouping=True))
    )


def _minus(shown: str) -> str:
    """A number with the sign that people write: a minus, not a hyphen."""
    return shown.replace("-", "−")


@register.filter
def markdown(text: str) -> SafeString:
    """Guidelines as safe HTML; wrap it in `class="rw-prose"`."""
    return rendered(text)


@register.simple_tag
def progress_bar(done: float, total: float, label: str = "") -> SafeString:
    """How far something is: a bar and its words, "3 of 10"."""
    share = min(max(done / total, 0.0), 1.0) if total else 0.0
    words = label or _("%(done)s of %(total)s") % {"done": number(done), "total": number(total)}
    return format_html(
        '<progress class="rw-progress" max="100" value="{}" aria-label="{}">{}</progress>',
        f"{100 * share:.1f}",
        words,
        words,
    )


@register.simple_tag
def share_bar(value: float, low: float | None = None, high: float | None = None, digits: int = 3) -> SafeString:
    """A value between 0 and 1 as a bar; `low` and `high` draw its interval over it. The figures stand in the title: with `digits`
    behind the point, of 100 without any."""
    inside = [min(max(float(x), 0.0), 1.0) if x is not None else None for x in (value, low, high)]
    scale = 1 if digits else 100
    words = figure(scale * value, digits) if digits else _("%(n)s of 100") % {"n": figure(100 * value, 0)}
    mark = SafeString("")
    if inside[1] is not None and inside[2] is not None:
        words = _("%(value)s (%(low)s to %(high)s)") % {
            "value": words,
            "low": figure(scale * float(low or 0), digits),
            "high": figure(scale * float(high or 0), digits),
        }
        mark = format_html(
            '<i style="left: {}%; width: {}%"></i>', f"{100 * inside[1]:.2f}", f"{100 * (inside[2] - inside[1]):.2f}"
        )
    return format_html(
        '<span class="rw-bar" role="img" aria-label="{}" title="{}"><span style="width: {}%"></span>{}</span>',
        words,
        words,
        f"{100 * (inside[0] or 0.0):.2f}",
        mark,
    )


@register.inclusion_tag("routerweb/pagination.html", takes_context=True)
def pagination(context: Mapping[str, Any], page: Page, name: str = "page") -> dict[str, Any]:
    """Links to the pages of a list that keep the rest of the address, so that the back button finds the list again."""

    def address(number: int) -> str:
        query = context["request"].GET.copy()
        query[name] = str(number)
        return f"?{query.urlencode()}"

    return {
        "page": page,
        "previous": address(page.previous_page_number()) if page.has_previous() else "",
        "next": address(page.next_page_number()) if page.has_next() else "",
    }


@register.inclusion_tag("routerweb/parts.html", takes_context=True)
def parts(context: Mapping[str, Any], part: Part) -> dict[str, Any]:
    """Links to the parts of a long list before and after this one, that keep the rest of the address."""

    def address(where: tuple[str, Any] | None) -> str:
        query = _without_place(context["request"].GET)
        if where is not None:
            query[where[0]] = str(where[1])
        return f"?{query.urlencode()}" if where is not None else ""

    return {"previous": address(part.previous), "next": address(part.next)}


def _without_place(query: QueryDict) -> QueryDict:
    """An address's query without where in a list it is."""
    query = query.copy()
    for name in ("page", "after", "before"):
        query.pop(name, None)
    return query


@register.simple_tag(takes_context=True)
def count_exactly(context: Mapping[str, Any], total: Total) -> SafeString:
    """A link that counts a list of which the length was estimated; nothing where it was counted."""
    if total.exact:
        return SafeString("")
    query = context["request"].GET.copy()
    query["count"] = "exact"
    return format_html('<a class="rw-link" href="?{}">{}</a>', query.urlencode(), _("Count exactly"))


@register.simple_tag(takes_context=True)
def sort_link(
    context: Mapping[str, Any], field: str, label: str, default: str = "", number: bool = False
) -> SafeString:
    """A table head that sorts by `field` through `?sort=field` and, on a second click, `?sort=-field`.

    `default` is the sort of a page whose address names none; `number=True` stands above a column of figures.
    """
    query = _without_place(context["request"].GET)
    now = query.get("sort") or default
    down = now == field
    query["sort"] = f"-{field}" if down else field
    arrow = {field: "↑", f"-{field}": "↓"}.get(now, "")
    order = {field: "ascending", f"-{field}": "descending"}.get(now)
    sorted_by = format_html(' aria-sort="{}"', order) if order else ""
    aligned = SafeString(' class="rw-number"') if number else ""
    return format_html(
        '<th scope="col"{}{}><a href="?{}">{} {}</a></th>', sorted_by, aligned, query.urlencode(), label, arrow
    )


@register.inclusion_tag("routerweb/chart.html")
def chart(identifier: str, content: Mapping[str, Any], title: str = "") -> dict[str, Any]:
    """A Chart.js chart with the table of its figures behind it ("Show as table").

    `content` is {"type": "line" | "bar" | "scatter", "labels": [...], "datasets": [{"label": ..., "data": [...]}], "x": axis title,
    "y": axis title, "options": further Chart.js options}. A point is a number, null, or {"x": ..., "y": ...}. The colours are the
    page's own, light or dark.
    """
    datasets = content.get("datasets", [])
    labels = content.get("labels", [])
    if labels:
        rows = [
            (label, [_cell(d["data"][i]) if i < len(d["data"]) else NOTHING for d in datasets])
            for i, label in enumerate(labels)
        ]
        columns = [d.get("label", "") for d in datasets]
    else:
        rows = [(d.get("label", ""), [_cell(p["x"]), _cell(p["y"])]) for d in datasets for p in d["data"]]
        columns = [content.get("x", "x"), content.get("y", "y")]
    return {
        "id": identifier,
        "content": content,
        "title": title,
        "columns": columns,
        "rows": rows,
        "x": content.get("x", "") if labels else "",  # of points, the first column says whose they are
    }


def _cell(value: Any) -> str:
    if isinstance(value, bool) or value is None or isinstance(value, (str, date)):
        return NOTHING if value is None else str(value)
    return number(value) if float(value).is_integer() else figure(value, 4)


@register.simple_tag
def term(key: str, word: str = "") -> SafeString:
    """A word of the glossary, or `word` in its place: its meaning shows where one points or tabs to it, and it leads to the page of
    all. Raises KeyError for a term that there is none of."""
    entry = TERMS[key]
    return format_html(
        '<a class="rw-term" href="{}#{}" data-rw-term="{}">{}</a>',
        reverse("glossary"),
        key,
        entry.means,
        word or entry.word,
    )
