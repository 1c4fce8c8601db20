"""The page of the queries that an LLM wrote: ask for them, watch the job, keep or reject them."""

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from agents_app import audit, llm
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.views.settings import draw
from datasets_app.models import WritingJob, WrittenQuery
from datasets_app.pages.writing_forms import WritingForm
from datasets_app.prelabeling import writing
from routerweb.http import wants_fragment
from routerweb.pages.shown_errors import show_errors_in

ON_A_PAGE = 100

may_write = require_role(Role.REVIEWER, Role.OPS)


@require_http_methods(["GET", "POST"])
@may_write
def written(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask for queries, after an estimate; the last job, and what was written. An HTMX request gets the job alone."""
    pool = get_pool(request, slug)
    job = WritingJob.objects.filter(pool=pool).first()
    live = job is not None and job.status in (WritingJob.Status.QUEUED, WritingJob.Status.RUNNING)
    if request.method == "GET" and wants_fragment(request):
        answer = render(request, "datasets_app/_writing_job.html", {"pool": pool, "job": job, "live": live})
        if not live:
            answer["HX-Refresh"] = "true"
        return answer
    form = WritingForm(request.POST or None, pool=pool)
    estimate = None
    if request.method == "POST" and form.is_valid():
        with show_errors_in(form, writing.WritingError):
            if "start" in request.POST:
                writing.enqueue(writing.create(pool, form.wish(), person(request)))
                return redirect("written", slug)
            estimate = writing.estimate(pool, form.wish())
    shown = Paginator(WrittenQuery.objects.filter(pool=pool), ON_A_PAGE).get_page(request.GET.get("page"))
    agents = {agent.number: agent for agent in pool.agents.all()}
    context = {
        "form": form,
        "estimate": estimate,
        "llm": llm.connection(),
        "may_connect": Role.ADMIN in roles_of(request.user),
        "job": job,
        "live": live,
        "counts": writing.counts(pool),
        "shown": shown,
        "rows": [(row, [agents[n] for n in row.agents if n in agents]) for row in shown],
    }
    return draw(request, "datasets_app/written.html", "prelabel", context, title=_("Written queries"), pool=pool)


@require_POST
@may_write
def written_job(request: HttpRequest, slug: str) -> HttpResponse:
    """Cancel the pool's last job, or go on with it."""
    pool = get_pool(request, slug)
    job = get_object_or_404(WritingJob.objects.filter(pool=pool).order_by("-pk")[:1])
    wish = request.POST.get("wish", "")
    done = {"cancel": writing.cancel, "resume": writing.resume}
    if wish not in done or not done[wish](job):
        messages.info(request, _("Nothing to do: the job has changed meanwhile."))
    else:
        audit.record(f"writing.{wish}", actor=person(request), pool=pool, target=str(job))
    return redirect("written", slug)


@require_POST
@may_write
def written_change(request: HttpRequest, slug: str) -> HttpResponse:
    """Reject or keep one written query, or all of them."""
    pool = get_pool(request, slug)
    rejected = request.POST.get("to") == "reject"
    changed = writing.set_rejected(pool, rejected, _keys(request))
    audit.record(
        "writing.reviewed", actor=person(request), pool=pool, detail={"rejected": rejected, "queries": changed}
    )
    if wants_fragment(request) and changed == 1 and "query" in request.POST:
        row = get_object_or_404(WrittenQuery, pool=pool, pk=request.POST["query"])
        context = {"pool": pool, "row": row, "counts": writing.counts(pool), "beside": True}
        return render(request, "datasets_app/_written_choice.html", context)
    return redirect("written", slug)


def _keys(request: HttpRequest) -> list[int] | None:
    """The keys of the queries that the form names, None for all."""
    named = request.POST.get("query", "")
    if named == "all":
        return None
    return [int(named)] if named.isdecimal() and len(named) < 19 else []
