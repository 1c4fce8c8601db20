"""Pages: a new pool; the pool's agents, added, edited, switched off, retired, merged."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app import effects, pools, rosters
from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import Agent, Pool
from agents_app.navigation import address
from agents_app.pools import PoolError
from agents_app.views.forms import AgentForm, PoolForm, SeveralAgentsForm
from routerweb.http import Crumb, page, remember_pool, takes_file, wants_fragment
from routerweb.pages.downloads import download
from routerweb.pages.shown_errors import show_errors_in

SORTS = ("number", "name", "cost", "state")
PAGE = 50
#: So many agents are named in a message.
SHOWN_NAMES = 12


def _get_agent(slug: str, number: int) -> Agent:
    return get_object_or_404(Agent.objects.select_related("pool", "merged_into"), pool__slug=slug, number=number)


def _crumbs(pool: Pool, *, agents: bool = True) -> list[Crumb]:
    trail = [(pool.name, reverse("agents", args=(pool.slug,)))]
    return [*trail, (_("Agents"), reverse("agents", args=(pool.slug,)))] if agents else trail


@takes_file
@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def pool_new(request: HttpRequest) -> HttpResponse:
    """A new pool, and its first agents pasted one a line or from a file."""
    form = PoolForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        with show_errors_in(form, PoolError):
            pool = _make_pool(request, values)
            # The next step; where no part of the product takes files, home, which says what is missing.
            importing = address("import", pool)
            messages.success(request, _welcome(pool))
            answer = redirect(importing or "home")
            remember_pool(request, answer, pool.slug)
            return answer
    return page(request, "agents_app/pool_new.html", {"form": form}, title=_("New pool"))


def _welcome(pool: Pool) -> str:
    """That a new pool is there, with the names that were read from whatever was given, and the next step."""
    names = list(pool.agents.order_by("number").values_list("name", flat=True))
    if len(names) < 2:
        message = _("The pool “%(name)s” is ready. Now import its agents, or traces of conversations that name them.")
        return message % {"name": pool.name}
    shown = ", ".join(names[:SHOWN_NAMES]) + (", …" if len(names) > SHOWN_NAMES else "")
    message = _("The pool “%(name)s” is ready with %(n)d agents: %(agents)s. Now import queries.")
    return message % {"name": pool.name, "n": len(names), "agents": shown}


def _make_pool(request: HttpRequest, values: dict[str, Any]) -> Pool:
    listed = _given(values)
    pool = rosters.pool_with_agents(values["name"], values["slug"], listed, actor=person(request))
    _warn_of_unread(request, listed)
    return pool


def _given(values: dict[str, Any]) -> rosters.Listed:
    """What was pasted and what was uploaded, as one. Raises PoolError."""
    listed = rosters.parse(values["agents"])
    return listed.and_also(rosters.read_upload(values["file"])) if values["file"] else listed


def _warn_of_unread(request: HttpRequest, listed: rosters.Listed) -> None:
    """Name the columns of a table that nothing was made of."""
    if listed.unread:
        text = _("Not read, as agents have nothing like it: %(columns)s.") % {"columns": ", ".join(listed.unread)}
        messages.warning(request, text)


@require_role(Role.OPS)
@require_GET
def agents(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's agents: `?q=` searches, `?state=active|retired|unavailable` filters, `?sort=` sorts."""
    pool = get_pool(request, slug)
    listed = pool.agents.select_related("merged_into")
    text, state, sort = (
        request.GET.get("q", "").strip(),
        request.GET.get("state", ""),
        request.GET.get("sort", "number"),
    )
    if text:
        listed = listed.filter(
            Q(name__icontains=text) | Q(description__icontains=text) | Q(code__iexact=text) | Q(key__iexact=text)
        )
    if state in Agent.State.values:
        listed = listed.filter(state=state)
    elif state == "unavailable":
        listed = listed.filter(state=Agent.State.ACTIVE, available=False)
    if sort.removeprefix("-") not in SORTS:
        sort = "number"
    rows = Paginator(listed.order_by(sort, "number"), PAGE).get_page(request.GET.get("page"))
    context = {"pool": pool, "rows": rows, "text": text, "state": state, "sort": sort, "filtered": bool(text or state)}
    return page(request, "agents_app/agents.html", context, title=_("Agents"), crumbs=_crumbs(pool, agents=False))


@require_role(Role.OPS)
@require_GET
def agents_export(request: HttpRequest, slug: str) -> FileResponse:
    """The active agents as agents.jsonl."""
    pool = get_pool(request, slug)
    return download(rosters.json_lines(pool), "application/jsonl; charset=utf-8", f"{pool.slug}-agents.jsonl")


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def agent_add(request: HttpRequest, slug: str) -> HttpResponse:
    """One more agent; its id and, where none is given, its code are made."""
    pool = get_pool(request, slug)
    form = AgentForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        with show_errors_in(form, PoolError):
            agent = pools.add_agent(pool, **form.cleaned_data, actor=person(request))
            messages.success(request, _("%(agent)s was added.") % {"agent": agent})
            return redirect("agent_add" if "another" in request.POST else "agents", pool.slug)
    context = {"pool": pool, "form": form}
    return page(request, "agents_app/agent_form.html", context, title=_("Add an agent"), crumbs=_crumbs(pool))


@takes_file
@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def agents_add_several(request: HttpRequest, slug: str) -> HttpResponse:
    """Several agents at once, pasted or from a file."""
    pool = get_pool(request, slug)
    form = SeveralAgentsForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        with show_errors_in(form, PoolError):
            listed = _given(values)
            if not listed:
                raise PoolError(_("Paste at least one line, or choose a file."), "agents")
            loaded = rosters.add_several(pool, listed, actor=person(request))
            text = ngettext("%(count)d agent was added.", "%(count)d agents were added.", loaded.created)
            text %= {"count": loaded.created}
            if loaded.updated:
                changed = ngettext("%(count)d was changed.", "%(count)d were changed.", loaded.updated)
                text += " " + changed % {"count": loaded.updated}
            messages.success(request, text)
            _warn_of_unread(request, listed)
            return redirect("agents", pool.slug)
    context = {"pool": pool, "form": form}
    return page(request, "agents_app/agents_several.html", context, title=_("Add several agents"), crumbs=_crumbs(pool))


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def agent_edit(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Change an agent's name, description, keywords, code or cost."""
    agent = _get_agent(slug, number)
    now = {
        "name": agent.name,
        "description": agent.description,
        "keywords": ", ".join(agent.keywords),
        "code": agent.code,
        "cost": agent.cost,
    }
    form = AgentForm(request.POST or None, initial=now)
    if request.method == "POST" and form.is_valid():
        with show_errors_in(form, PoolError):
            agent = pools.update_agent(agent, actor=person(request), **form.cleaned_data)
            messages.success(request, _("%(agent)s was saved.") % {"agent": agent})
            return redirect("agents", slug)
        agent = _get_agent(slug, number)  # as it is kept
    context = {"pool": agent.pool, "agent": agent, "form": form}
    return page(request, "agents_app/agent_form.html", context, title=agent.name, crumbs=_crumbs(agent.pool))


@require_role(Role.OPS)
@require_POST
def agent_available(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Turn routing to an agent on (`available=1`) or off (`available=0`). Answers the row's switch to HTMX."""
    agent = _get_agent(slug, number)
    wanted = request.POST.get("available")
    if wanted not in ("0", "1"):
        return HttpResponse(_("available: must be 0 or 1."), status=400, content_type="text/plain; charset=utf-8")
    pools.set_available(agent, wanted == "1", actor=person(request))
    if wants_fragment(request):
        return render(request, "agents_app/available.html", {"agent": agent, "pool": agent.pool})
    return redirect("agents", slug)


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def agent_retire(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """What retiring would do; then do it."""
    agent = _get_agent(slug, number)
    if request.method == "POST":
        pools.retire(agent, actor=person(request))
        undo = reverse("agent_restore", args=(slug, number))
        messages.success(request, _("%(agent)s is retired.") % {"agent": agent}, extra_tags=f"undo:{undo}")
        return redirect("agents", slug)
    context = {"pool": agent.pool, "agent": agent, "effects": effects.of_retiring(agent)}
    title = _("Retire %(name)s?") % {"name": agent.name}
    return page(request, "agents_app/agent_retire.html", context, title=title, crumbs=_crumbs(agent.pool))


@require_role(Role.OPS)
@require_POST
def agent_restore(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Bring a retired or merged agent back."""
    agent = pools.restore(_get_agent(slug, number), actor=person(request))
    messages.success(request, _("%(agent)s is active again.") % {"agent": agent})
    return redirect("agents", slug)


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def agent_merge(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Retire an agent and let its labels count as another's."""
    agent = _get_agent(slug, number)
    others = list(agent.pool.agents.active().exclude(pk=agent.pk).order_by("name"))
    problem = ""
    if request.method == "POST":
        into = next((other for other in others if str(other.number) == request.POST.get("into")), None)
        try:
            if into is None:
                raise PoolError(_("Choose the active agent that it is merged into."), "into")
            pools.merge(agent, into, person(request))
        except PoolError as error:
            problem = str(error)
        else:
            undo = reverse("agent_restore", args=(slug, number))
            message = _("%(agent)s now counts as %(into)s.") % {"agent": agent.name, "into": into.name}
            messages.success(request, message, extra_tags=f"undo:{undo}")
            return redirect("agents", slug)
    context = {
        "pool": agent.pool,
        "agent": agent,
        "others": others,
        "problem": problem,
        "effects": effects.of_merging(agent),
    }
    title = _("Merge %(name)s into another agent") % {"name": agent.name}
    return page(request, "agents_app/agent_merge.html", context, title=title, crumbs=_crumbs(agent.pool))
