"""Pages: agents that describe themselves, from A2A's cards and MCP's servers; what they offer is compared and approved."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import AgentSource, Pool
from agents_app.pools import PoolError
from agents_app.sealing import CannotOpen
from agents_app.sources import catalog
from agents_app.sources.described import SourceError
from agents_app.views.forms import SourcesForm
from routerweb.http import page, takes_file
from routerweb.pages.shown_errors import show_errors


@takes_file
@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def agent_sources(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's sources with what each offers; the form asks more addresses, or takes a file of cards."""
    pool = get_pool(request, slug)
    form = SourcesForm(request.POST or None, request.FILES or None)
    if request.method == "POST" and form.is_valid():
        count, problems = _look(request, pool, form.cleaned_data)
        if count:
            message = ngettext("%(count)d description was read.", "%(count)d descriptions were read.", count)
            messages.success(request, message % {"count": count})
        if not problems:
            return redirect("agent_sources", slug)
        for problem in problems:
            form.add_error(None, problem)
    sources = [
        (source, catalog.changes(source), catalog.fingerprint(source))
        for source in pool.agent_sources.select_related("agent", "pool")
    ]
    crumbs = [(pool.name, reverse("agents", args=(slug,))), (_("Agents"), reverse("agents", args=(slug,)))]
    context: dict[str, Any] = {"pool": pool, "form": form, "sources": sources}
    return page(request, "agents_app/sources.html", context, title=_("Agents from A2A or MCP"), crumbs=crumbs)


def _look(request: HttpRequest, pool: Pool, values: dict[str, Any]) -> tuple[int, list[str]]:
    """How many descriptions were read, and why others were not."""
    count, problems = 0, []
    for address in values["addresses"]:
        try:
            secret = values["key"] or None
            if values["each"] and values["kind"] == AgentSource.Kind.TOOLS:
                count += len(catalog.look_at_each(pool, address, secret=secret, actor=person(request)))
                continue
            catalog.look(pool, address, values["kind"], secret=secret, actor=person(request))
            count += 1
        except (SourceError, CannotOpen) as error:
            problems.append(f"{address}: {error}")
    if values["file"]:
        try:
            count += len(catalog.look_in_file(pool, values["file"], actor=person(request)))
        except SourceError as error:
            problems.append(f"{values['file'].name}: {error}")
    return count, problems


@require_role(Role.OPS)
@require_POST
def agent_source(request: HttpRequest, slug: str, source_id: int) -> HttpResponse:
    """Approve what a source offers (`do=approve`), leave it (`dismiss`), ask it again (`look`) or ask it no more (`forget`)."""
    source = get_object_or_404(AgentSource.objects.select_related("pool", "agent"), pool__slug=slug, pk=source_id)
    actor, do = person(request), request.POST.get("do")
    with show_errors(request, SourceError, PoolError, CannotOpen):
        if do == "approve":
            words = _("%(agent)s now matches its own description.") if source.agent else _("%(agent)s is an agent now.")
            agent = catalog.approve(source, request.POST.get("shown", ""), actor=actor)
            messages.success(request, words % {"agent": agent})
        elif do == "dismiss":
            catalog.dismiss(source, actor=actor)
        elif do == "look" and source.can_be_asked:
            catalog.look(source.pool, source.address, source.kind, actor=actor)
        elif do == "forget":
            catalog.forget(source, actor=actor)
        else:
            return HttpResponse(_("do: not known."), status=400, content_type="text/plain; charset=utf-8")
    return redirect("agent_sources", slug)
