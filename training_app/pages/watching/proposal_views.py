"""The page of proposals: which agent is missing, which overlap, and what ops do about it."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents_app.access import Role, get_pool, person, require_role
from agents_app.background_work import work
from agents_app.models import Agent, Pool
from agents_app.pools import PoolError
from routerweb.http import page
from routerweb.pages import parameters
from training_app.models import AgentProposal
from training_app.watching import proposals

#: Queries that the page shows of one proposal.
EXAMPLES = 6
LONGEST = 2_000  # characters of a new description


@require_http_methods(["GET", "POST"])
@require_role(Role.OPS)
def proposal_list(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's open proposals. A POST's `do` looks again (`look`), or decides the `proposal`: `accept`, `decline`, `merge` `into` an
    agent, `try` or `rewrite` the descriptions `description-ID`."""
    pool = get_pool(request, slug)
    tried: dict[int, Any] = {}
    if request.method == "POST":
        try:
            key = _act(request, pool, tried)
        except (proposals.ProposalError, PoolError) as refused:
            messages.error(request, str(refused))
            key = None
        if key not in tried:
            return redirect(reverse("proposals", args=[slug]))
    agents = {agent.number: agent for agent in pool.agents.all()}
    open_ = AgentProposal.objects.filter(pool=pool, state=AgentProposal.State.OPEN)
    rows = [_row(one, agents, tried.get(one.pk), request) for one in open_]
    context = {
        "pool": pool,
        "missing": [row for row in rows if row["one"].kind == AgentProposal.Kind.MISSING],
        "overlapping": [row for row in rows if row["one"].kind == AgentProposal.Kind.OVERLAP],
        "others": [
            row for row in rows if row["one"].kind not in (AgentProposal.Kind.MISSING, AgentProposal.Kind.OVERLAP)
        ],
        "declined": AgentProposal.objects.filter(pool=pool, state=AgentProposal.State.DECLINED).count(),
    }
    crumbs = [(pool.name, reverse("home")), (_("Agents"), reverse("agents", args=[slug]))]
    return page(request, "training_app/proposals.html", context, title=_("Proposed agents"), crumbs=crumbs)


def _row(one: AgentProposal, agents: dict[int, Agent], tried: Any, request: HttpRequest) -> dict[str, Any]:
    """A proposal with what its card draws."""
    went = sorted((one.figures.get("went") or {}).items(), key=lambda item: -item[1])
    about = [agents[number] for number in one.agents if number in agents]
    return {
        "one": one,
        "agents": [(agent, request.POST.get(f"description-{agent.number}", agent.description)) for agent in about],
        "words": proposals.words(one) if one.kind == AgentProposal.Kind.MISSING else [],
        "examples": proposals.example_queries(one, EXAMPLES),
        "went": [(agents[int(number)], count) for number, count in went[:4] if int(number) in agents],
        "tried": tried,
    }


def _act(request: HttpRequest, pool: Pool, tried: dict[int, Any]) -> int | None:
    """Do what was asked; the key of the proposal. What descriptions were tried is put into `tried`."""
    do, actor = request.POST.get("do"), person(request)
    if do == "look":
        work.submit("proposals", pool=pool.pk)
        messages.success(request, _("Looking for proposals. They are here in a minute or two."))
        return None
    if do not in ("accept", "decline", "merge", "try", "rewrite"):
        raise proposals.ProposalError(_("Choose what to do with a proposal."))
    one = get_object_or_404(AgentProposal, pool=pool, pk=parameters.number(request.POST.get("proposal", "")))
    if do == "accept":
        agent = proposals.accept(one, request.POST.get("name", ""), request.POST.get("description", ""), actor=actor)
        words = _("%(agent)s is there, and its queries wait for labels. Train a model once some are labeled.")
        messages.success(request, words % {"agent": agent.name})
    elif do == "decline":
        proposals.decline(one, actor=actor)
        messages.success(request, _("Declined. It does not come back for the same queries."))
    elif do == "merge":
        proposals.merge(one, parameters.number(request.POST.get("into", "")) or 0, actor=actor)
        messages.success(request, _("The agents are one. Labels of both count for it."))
    elif do in ("try", "rewrite"):
        texts = {number: request.POST.get(f"description-{number}", "")[:LONGEST] for number in one.agents}
        if do == "try":
            tried[one.pk] = proposals.try_descriptions(pool, texts)
        else:
            proposals.rewrite(one, texts, actor=actor)
            messages.success(request, _("The descriptions are changed."))
    return one.pk
