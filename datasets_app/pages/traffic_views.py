"""The page Traffic: what came in as traces, and the two clicks from there to labeling."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_POST

from agents_app import pools
from agents_app.access import Role, get_pool, person, require_role, roles_of
from datasets_app.traces import names, traffic
from routerweb.http import page
from routerweb.pages import parameters
from routerweb.pages.shown_errors import show_errors


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def traffic_page(request: HttpRequest, slug: str) -> HttpResponse:
    """What came in: by agent, length and hour; agents that the pool lacks; how many queries wait to be chosen."""
    pool = get_pool(request, slug)
    figures = traffic.read(pool)
    roles = roles_of(request.user, pool.pk)
    context = {
        "pool": pool,
        "traffic": figures,
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
        crumbs=[(_("Queries"), reverse("queries", args=[slug]))],
    )


@require_POST
@require_role(Role.OPS)
def traffic_agents(request: HttpRequest, slug: str) -> HttpResponse:
    """Add the agents that traces name and the pool lacks."""
    pool = get_pool(request, slug)
    with show_errors(request, pools.PoolError):
        added = traffic.add_missing(pool, request.POST.getlist("name"), person(request))
        names.read_again(pool)
        message = ngettext("%(n)d agent was added.", "%(n)d agents were added.", len(added)) % {"n": len(added)}
        messages.success(request, message)
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
