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
from training_app.engine.data.conversations import earlier_as_json, said_before
from training_app.models import AgentProposal
from training_app.rollout import trials
from training_app.versions import registry
from training_app.watching import proposals

#: Queries that the page shows of one proposal.
EXAMPLES = 6
LONGEST = 2_000  # characters of a new description


@require_http_methods(["GET", "POST"])
@require_role(Role.OPS)
def proposal_list(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's open proposals. A POST's `do` looks again (`look`), or decides the `proposal`: `accept`, `decline`, `merge` `into` an
    agent, `belong` `into` an active one, `try` or `rewrite` the descriptions `description-ID`."""
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
    rows = [_row(proposal, agents, tried.get(proposal.pk), request) for proposal in open_]
    context = {
        "pool": pool,
        "missing": [row for row in rows if row["one"].kind == AgentProposal.Kind.MISSING],
        "overlapping": [row for row in rows if row["one"].kind == AgentProposal.Kind.OVERLAP],
        "others": [
            row for row in rows if row["one"].kind not in (AgentProposal.Kind.MISSING, AgentProposal.Kind.OVERLAP)
        ],
        "active": [agent for agent in agents.values() if agent.state == Agent.State.ACTIVE],
        "looked_at": proposals.looked_at(pool),
        "declined": AgentProposal.objects.filter(pool=pool, state=AgentProposal.State.DECLINED).count(),
    }
    crumbs = [(pool.name, reverse("home")), (_("Agents"), reverse("agents", args=[slug]))]
    return page(request, "training_app/proposals.html", context, title=_("Proposed agents"), crumbs=crumbs)


def _row(proposal: AgentProposal, agents: dict[int, Agent], tried: Any, request: HttpRequest) -> dict[str, Any]:
    """A proposal with what its card draws."""
    went = sorted((proposal.figures.get("went") or {}).items(), key=lambda item: -item[1])
    about = [agents[number] for number in proposal.agents if number in agents]
    return {
        "one": proposal,
        "agents": [(agent, request.POST.get(f"description-{agent.number}", agent.description)) for agent in about],
        "words": proposals.words(proposal) if proposal.kind == AgentProposal.Kind.MISSING else [],
        "examples": [
            (said_before(earlier_as_json(text)), text) for text in proposals.example_queries(proposal, EXAMPLES)
        ],
        "went": [(agents[int(number)], count) for number, count in went[:4] if int(number) in agents],
        "tried": tried,
    }


def _act(request: HttpRequest, pool: Pool, tried: dict[int, Any]) -> int | None:
    """Do what was asked; the key of the proposal. What descriptions were tried is put into `tried`."""
    do, actor = request.POST.get("do"), person(request)
    if do == "look":
        work.submit(proposals.LOOK, pool=pool.pk)
        messages.success(request, _("Looking for proposals. They are here in a minute or two."))
        return None
    if do not in ("accept", "belong", "decline", "merge", "try", "rewrite"):
        raise proposals.ProposalError(_("Choose what to do with a proposal."))
    proposal = get_object_or_404(AgentProposal, pool=pool, pk=parameters.number(request.POST.get("proposal", "")))
    chosen = parameters.number(request.POST.get("into", ""))
    into = -1 if chosen is None else chosen  # no agent has it
    if do == "accept":
        agent = proposals.accept(
            proposal, request.POST.get("name", ""), request.POST.get("description", ""), actor=actor
        )
        words = _("%(agent)s is there, and its queries wait for labels. Train a model once some are labeled.")
        messages.success(request, f"{words % {'agent': agent.name}} {_until_then(pool)}")
    elif do == "belong":
        agent = proposals.accept(proposal, into=into, actor=actor)
        words = _("The queries wait for labels, as those of %(agent)s. Train a model once some are labeled.")
        messages.success(request, words % {"agent": agent.name})
    elif do == "decline":
        proposals.decline(proposal, actor=actor)
        messages.success(request, _("Declined. It does not come back for the same queries."))
    elif do == "merge":
        proposals.merge(proposal, into, actor=actor)
        messages.success(request, _("The agents are one. Labels of both count for it."))
    elif do in ("try", "rewrite"):
        texts = {number: request.POST.get(f"description-{number}", "")[:LONGEST] for number in proposal.agents}
        if do == "try":
            tried[proposal.pk] = proposals.try_descriptions(pool, texts)
        else:
            proposals.rewrite(proposal, texts, actor=actor)
            messages.success(request, _("The descriptions are changed."))
    return proposal.pk


def _until_then(pool: Pool) -> str:
    """Whether a new agent is routed to before a model has learnt it."""
    if registry.active(pool) is None or trials.settings_of(pool).cold:
        return _("Until then its description says which queries it gets.")
    return _("Until then no query is routed to it, unless Settings, Live traffic, say so.")
