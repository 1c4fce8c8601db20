"""The page Traffic: what came in as traces, and the two clicks from there to labeling."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from agents_app import pools
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.models import Agent, Pool
from datasets_app.traces import names, traffic
from routerweb.http import page
from routerweb.pages import parameters


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def traffic_page(request: HttpRequest, slug: str) -> HttpResponse:
    """What came in: by agent, length and hour; agents that the pool lacks; how many queries wait to be chosen."""
    return _shown(request, get_pool(request, slug), {})


def _shown(request: HttpRequest, pool: Pool, sent: Mapping[str, str], status: int = 200) -> HttpResponse:
    """The page, with what was `sent` for missing names chosen."""
    figures = traffic.read(pool)
    roles = roles_of(request.user, pool.pk)
    context = {
        "pool": pool,
        "traffic": figures,
        "missing": _missing(figures, list(pool.agents.active().order_by("number")), sent),
        "explained": traffic.explained(pool),
        "has_agents": pool.agents.active().exists(),
        "rated": any(agent.rated for agent in figures.answering),
        "sample": min(traffic.SAMPLE, figures.unasked),
        "may_add": Role.OPS in roles,
        "may_label": Role.LABELER in roles,
    }
    return page(
        request,
        "datasets_app/traffic.html",
        context,
        title=_("Traffic"),
        crumbs=[(_("Queries"), reverse("queries", args=[pool.slug]))],
        status=status,
    )


@dataclass(frozen=True, slots=True)
class MissingName:
    """A name that traces have and the pool lacks, in how many turns, and what it may be: groups of (choice, word), one preselected."""

    name: str
    turns: int
    choices: Sequence[tuple[str, str]]
    agents: Sequence[tuple[str, str]]
    names: Sequence[tuple[str, str]]
    chosen: str


def _missing(figures: traffic.Traffic, agents: Sequence[Agent], sent: Mapping[str, str]) -> list[MissingName]:
    """The missing names with what was sent for each, or a guess: the agent, or the more frequent name, that begins alike; else it is
    added."""
    listed = [name for name, _turns in figures.missing]
    choices = [
        (traffic.NEW, _("Add it as an agent")),
        (traffic.NO_AGENT, _("No agent to route to")),
        ("", _("Decide later")),
    ]
    of_agent = {agent.name: f"{traffic.IS_AGENT}{agent.number}" for agent in agents}
    shown: list[MissingName] = []
    for place, (name, turns) in enumerate(figures.missing):
        agent, other = (
            names.guess(name, of_agent),
            names.guess(name, [one.name for one in shown if one.chosen == traffic.NEW]),
        )
        chosen = of_agent[agent] if agent else f"{traffic.IS_NAME}{other}" if other else traffic.NEW
        chosen = sent.get(name, chosen)
        others = [(f"{traffic.IS_NAME}{one}", one) for one in [*listed[:place], *listed[place + 1 :]]]
        shown.append(MissingName(name, turns, choices, [(of_agent[one], one) for one in of_agent], others, chosen))
    return shown


@require_POST
@require_role(Role.OPS)
def traffic_agents(request: HttpRequest, slug: str) -> HttpResponse:
    """Say what names in traces mean that the pool lacks: `name-N` is what `means-N` says (`traffic.explain_names`). `forget` is a name
    that is asked about again."""
    pool, actor = get_pool(request, slug), person(request)
    if "forget" in request.POST:
        if traffic.forget_name(pool, request.POST["forget"], actor):
            messages.success(request, _("What this name means is open again."))
        return redirect("traffic", slug)
    sent, place = {}, 0
    while f"name-{place}" in request.POST:
        sent[request.POST[f"name-{place}"]] = request.POST.get(f"means-{place}", "")
        place += 1
    try:
        added = traffic.explain_names(pool, sent, actor)
    except pools.PoolError as refused:
        messages.error(request, str(refused))
        return _shown(request, pool, sent, status=422)
    message = ngettext("%(n)d agent was added.", "%(n)d agents were added.", len(added)) % {"n": len(added)}
    messages.success(request, message if added else _("The names are saved."))
    return redirect("traffic", slug)


@require_POST
@require_role(Role.REVIEWER, Role.OPS)
def traffic_label(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask people about the most valuable queries of the traffic, and go there for those who label."""
    pool = get_pool(request, slug)
    count = traffic.queue_sample(pool, parameters.number(request.POST.get("count")) or traffic.SAMPLE)
    message = ngettext("%(n)d query waits to be labeled.", "%(n)d queries wait to be labeled.", count) % {"n": count}
    messages.success(request, message)
    return redirect("label" if Role.LABELER in roles_of(request.user, pool.pk) else "traffic", slug)
