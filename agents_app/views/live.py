"""Pages: an agent's live traffic. Its health check, its cold routing, pausing with a reason."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents_app import health, pools
from agents_app.access import Role, person, require_role
from agents_app.models import Agent, HealthCheck
from agents_app.pools import PoolError
from agents_app.views.forms import AgentLiveForm, PauseForm
from routerweb.http import page
from routerweb.pages.shown_errors import show_errors_in


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def agent_live(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """One agent's live traffic; `pause` or `resume` in the form pauses it with a reason or brings it back, else it saves."""
    agent = get_object_or_404(Agent.objects.select_related("pool"), pool__slug=slug, number=number)
    check = HealthCheck.objects.filter(agent=agent).first()
    form = AgentLiveForm(initial={"url": check.url if check else "", "cold": agent.cold})
    if request.method == "POST":
        if "pause" in request.POST or "resume" in request.POST:
            return _pause(request, agent)
        form = AgentLiveForm(request.POST)
        if form.is_valid() and _save(request, agent, form):
            messages.success(request, _("%(agent)s was saved.") % {"agent": agent})
            return redirect("agent_live", slug, number)
    context: dict[str, Any] = {"pool": agent.pool, "agent": agent, "check": check, "form": form, "pause": PauseForm()}
    crumbs = [
        (agent.pool.name, reverse("agents", args=(slug,))),
        (_("Agents"), reverse("agents", args=(slug,))),
        (agent.name, reverse("agent_edit", args=(slug, number))),
    ]
    return page(request, "agents_app/agent_live.html", context, title=_("Live traffic"), crumbs=crumbs)


def _pause(request: HttpRequest, agent: Agent) -> HttpResponse:
    resume, form = "resume" in request.POST, PauseForm(request.POST)
    why = form.cleaned_data["why"] if form.is_valid() else request.POST.get("why", "")[:200]
    pools.set_available(agent, resume, actor=person(request), why=why)
    message = (
        _("Queries are routed to %(agent)s again.") if resume else _("%(agent)s is paused: no query is routed to it.")
    )
    messages.success(request, message % {"agent": agent})
    return redirect("agent_live", agent.pool.slug, agent.number)


def _save(request: HttpRequest, agent: Agent, form: AgentLiveForm) -> bool:
    with show_errors_in(form, PoolError):
        health.set_url(agent, form.cleaned_data["url"], actor=person(request))
        pools.update_agent(agent, actor=person(request), cold=form.cleaned_data["cold"])
        return True
    return False
