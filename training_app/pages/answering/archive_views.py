"""Page: a pool's archived decisions, searched and in parts."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from agents_app.access import Role, get_pool, require_role
from routerweb.http import page
from routerweb.pages import parameters
from training_app.decision_archive import reading
from training_app.decision_archive.storage import ArchiveError
from training_app.pages.answering.route_views import OUTCOMES, REASON_WORDS, ROWS

FILTERS = ("q", "agent", "model", "reason", "outcome", "since", "until")


@require_GET
@require_role(Role.OPS)
def archived_decisions(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's archived decisions, newest first; `?q=` (words), `?agent=`, `?model=`, `?reason=`, `?outcome=` and the days `?since=`
    and `?until=` filter, `?after=` is where the part begins."""
    pool = get_pool(request, slug)
    chosen = {name: request.GET.get(name, "").strip() for name in FILTERS}
    version, until = parameters.number(chosen["model"]), parameters.day(chosen["until"])
    versions = dict(pool.models.order_by("-version").values_list("version", "pk"))
    search = reading.Search(
        words=chosen["q"],
        agent=parameters.number(chosen["agent"]),
        model=None if version is None else versions.get(version, -1),
        reason=chosen["reason"],
        success={"success": True, "failure": False}.get(chosen["outcome"]),
        since=_begin(parameters.day(chosen["since"])),
        until=_begin(until + timedelta(days=1) if until is not None and until < date.max else None),
    )
    part, error, extent = reading.Part(), "", reading.extent(pool)
    if extent is not None:
        try:
            part = reading.part(pool, search, request.GET.get("after", ""), ROWS)
        except ArchiveError as problem:
            error = str(problem)
    agents = {agent.number: agent for agent in pool.agents.all()}
    context: dict[str, Any] = {
        "pool": pool,
        "rows": [
            (row, REASON_WORDS.get(row.stop_reason), [agents[number] for number in row.agents if number in agents])
            for row in (archived.decision for archived in part.rows)
        ],
        "part": part,
        "error": error,
        "extent": extent,
        "chosen": chosen,
        "agents": list(agents.values()),
        "versions": versions,
        "reasons": REASON_WORDS.items(),
        "reports": OUTCOMES.items(),
    }
    crumbs = [(pool.name, reverse("home")), (_("Decisions"), reverse("decisions", args=[slug]))]
    return page(request, "training_app/archived_decisions.html", context, title=_("Archive"), crumbs=crumbs)


def _begin(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), UTC)
