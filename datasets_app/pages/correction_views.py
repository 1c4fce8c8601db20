"""Putting a label right in place: a form that HTMX brings beside an error, and what it sends."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents_app.access import Role, get_pool, person, require_role
from agents_app.guidelines import rendered
from datasets_app.labels import corrections, labeling
from routerweb import parameters
from routerweb.http import page, wants_fragment


@require_http_methods(["GET", "POST"])
@require_role(Role.LABELER)
def correct(request: HttpRequest, slug: str) -> HttpResponse:
    """`text`, what it was answered (`set`), and where that was seen (`at`); a POST of `agent`s or `none` is this person's label."""
    pool = get_pool(request, slug)
    asked = request.POST if request.method == "POST" else request.GET
    text, seen_at, problem, done = asked.get("text", ""), asked.get("at", "")[:40], "", False
    chosen = set(parameters.listed(asked.get("set")))
    if request.method == "POST":
        chosen = set(parameters.keys(request.POST.getlist("agent")))
        try:
            if bool(chosen) == ("none" in request.POST):
                raise labeling.ChoiceError(_("Choose agents or “None of these agents”."))
            corrections.correct(pool, text, chosen, person(request), seen_at=seen_at)
            done = True
        except labeling.ChoiceError as error:
            problem = str(error)
    agents = list(pool.agents.active().order_by("number"))
    context = {
        "pool": pool,
        "text": text,
        "at": seen_at,
        "done": done,
        "problem": problem,
        "rows": [(agent, agent.number in chosen) for agent in agents],
        "needed": [agent for agent in agents if agent.number in chosen],
        "query": corrections.find(pool, text) if text else None,
        "guidelines": rendered(pool.guidelines) if pool.guidelines else "",
    }
    if wants_fragment(request):
        return render(request, "datasets_app/_correct.html", context)
    if done:
        return redirect("my_labels", slug)
    status = 422 if problem else 200
    return page(request, "datasets_app/correct.html", context, title=_("Correct an answer"), status=status)
