"""The settings' sections Labeling queue and Pre-labeling, and the page of a pre-labeling job."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app import audit, llm, pools
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.models import Agent, Pool
from agents_app.views.settings import draw
from datasets_app.figures import progress
from datasets_app.labeling import orders, queue, reask
from datasets_app.models import Label, PrelabelJob, Query
from datasets_app.pages import browse
from datasets_app.pages.labeling_forms import BudgetForm, PrelabelForm, PromptForm, QueueSettingsForm
from datasets_app.prelabeling import agreement, prompts
from datasets_app.prelabeling import jobs as prelabel
from routerweb.http import page, wants_fragment
from routerweb.pages import paging
from routerweb.pages.shown_errors import show_errors_in

#: Queries that "try and look" asks about.
TRIED = 10
#: Labeled queries that it asks about too, to say how often the LLM agrees with people.
CHECKED = 40
#: A job of so few shows what it was answered, query by query.
SHOWN = TRIED + CHECKED

may_set = require_role(Role.REVIEWER, Role.OPS)


@require_http_methods(["GET", "POST"])
@may_set
def queue_settings(request: HttpRequest, slug: str) -> HttpResponse:
    """Order, overlap, blind and evaluation shares; a change holds for everything that is still open."""
    pool = get_pool(request, slug)
    current = queue.settings_of(pool)
    if request.method == "GET" and wants_fragment(request):
        return render(
            request, "datasets_app/_queue_effect.html", _effect(QueueSettingsForm(request.GET, instance=current))
        )
    form = QueueSettingsForm(request.POST or None, instance=current)
    if request.method == "POST" and form.is_valid():
        saved = form.save()
        queue.fill(pool)
        queue.resize(saved)
        orders.arrange(saved)
        audit.record("queue.settings", actor=person(request), pool=pool, detail={"changed": form.changed_data})
        messages.success(request, _("Saved. It applies to all open queries."))
        return redirect("settings_queue", slug)
    context = _effect(form) | {
        "form": form,
        "left": progress.left(pool).total,
        "holdings": queue.holdings(pool),
        "questions": progress.questions(pool),
    }
    return draw(
        request, "datasets_app/queue_settings.html", "settings_queue", context, title=_("Labeling queue"), pool=pool
    )


def _effect(form: QueueSettingsForm) -> dict[str, Any]:
    """What the form's settings would do, as they stand in it; what is stored, where they are no settings."""
    settings = form.instance
    if form.is_bound and not form.is_valid():
        return {"effect": None}
    return {"effect": queue.effect_of(settings), "settings": settings}


@require_POST
@may_set
def reask_change(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Stop asking about an agent, or look once more for queries that were not asked about it."""
    pool = get_pool(request, slug)
    agent = get_object_or_404(Agent.objects.active(), pool=pool, number=number)
    if request.POST.get("close") == "1":
        messages.success(request, _("%(n)s questions are closed.") % {"n": reask.close(agent)})
    else:
        messages.success(request, _("%(n)s new questions.") % {"n": reask.fill(agent)})
    return redirect("settings_queue", slug)


# ------------------------------------------------------------------------------------------------------- pre-labeling


@require_http_methods(["GET", "POST"])
@may_set
def prelabel_page(request: HttpRequest, slug: str) -> HttpResponse:
    """Start a job, after an estimate or with a few queries to look at; the jobs that there were."""
    pool = get_pool(request, slug)
    form = PrelabelForm(request.POST or None, pool=pool, initial={"q": request.GET.get("q", "")})
    estimate = None
    if request.method == "POST" and form.is_valid():
        values = dict(form.cleaned_data)
        text, limit = values.pop("q"), values.pop("limit")
        results = browse.search(pool, text) if text else None
        queries = results.queries if results else prelabel.unlabeled(pool)
        if results and results.problems:
            form.add_error("q", " ".join(results.problems))
        elif "start" in request.POST:
            if request.POST["start"] == "try":
                queries, limit = agreement.to_try(pool, queries, TRIED, CHECKED), None
            with show_errors_in(form, prelabel.PrelabelError):
                job = prelabel.create(pool, queries, author=person(request), limit=limit, **values)
                prelabel.enqueue(job)
                return redirect("prelabel_job", slug, job.pk)
        else:
            chosen = Query.objects.filter(pk__in=queries.order_by("pk").values("pk")[:limit]) if limit else queries
            prices = {"price_in": values["price_in"], "price_out": values["price_out"]}
            with show_errors_in(form, prelabel.PrelabelError):
                estimate = prelabel.estimate(pool, chosen, batch_size=values["batch_size"], **prices)
    context = {
        "form": form,
        "estimate": estimate,
        "llm": llm.connection(),
        "waiting": paging.total(prelabel.unlabeled(pool)),
        "may_connect": Role.ADMIN in roles_of(request.user),
        "prompt": prompts.current(pool),
        "jobs": [
            (job, prelabel.counts(job)) for job in PrelabelJob.objects.filter(pool=pool).select_related("prompt")[:20]
        ],
    }
    return draw(request, "datasets_app/prelabel.html", "prelabel", context, title=_("Pre-labeling"), pool=pool)


@require_http_methods(["GET", "POST"])
@may_set
def prompt_page(request: HttpRequest, slug: str) -> HttpResponse:
    """The prompt, with what one call sends for a real query; saving makes a new version."""
    pool = get_pool(request, slug)
    current = prompts.current(pool)
    form = PromptForm(request.POST or None, initial={"text": current.text})
    text = current.text
    if request.method == "POST" and form.is_valid():
        text = form.cleaned_data["text"]
        if "save" in request.POST:
            with show_errors_in(form, prompts.PromptError, field="text"):
                saved = prompts.save(pool, text, person(request))
                messages.success(request, _("Saved as version %(n)s.") % {"n": saved.version})
                return redirect("prompt", slug)
    context = {"form": form, "prompt": current, **_preview(pool, text)}
    return draw(request, "datasets_app/prompt.html", "prelabel", context, title=_("Prompt"), pool=pool)


def _preview(pool: Pool, text: str) -> dict[str, object]:
    query = Query.objects.of(pool).order_by("-pk").first()
    agents = pools.roster(pool, retired=False)
    try:
        instruction = prompts.render(text, pool, agents, 0, None)
    except prompts.PromptError as error:
        return {"problem": str(error)}
    shown = query.text if query else _("(the query appears here)")
    return {"messages_shown": prompts.messages(instruction, [shown], agents, 0, None)}


def _job(slug: str, job_id: int) -> PrelabelJob:
    return get_object_or_404(PrelabelJob.objects.select_related("pool", "prompt", "author"), pk=job_id, pool__slug=slug)


@require_GET
@may_set
def prelabel_job(request: HttpRequest, slug: str, job_id: int) -> HttpResponse:
    """One job, live while it runs. An HTMX request gets the live part alone."""
    job = _job(slug, job_id)
    counted = prelabel.counts(job)
    running = job.status in (PrelabelJob.Status.QUEUED, PrelabelJob.Status.RUNNING)
    problems = list(job.items.filter(error__gt="").select_related("query").order_by("pk")[:20])
    context = {"pool": job.pool, "job": job, "counts": counted, "live": running, "problems": problems}
    if not running:
        context["labeled"] = progress.labeled(job.pool)
        context["may_train"] = Role.OPS in roles_of(request.user, job.pool)
    context |= _pace(job, counted)
    context["agreed"] = agreement.with_people(job)
    if counted["total"] <= SHOWN:
        context["answers"] = _answers(job)
    if job.left == 0 and (counted["waiting"] or counted["failed"]) and not running:
        context["budget_form"] = BudgetForm()
    if running and job.cost and counted["done"]:
        context["cost_in_all"] = job.cost * counted["total"] / counted["done"]
    if wants_fragment(request):
        answer = render(request, "datasets_app/_prelabel_live.html", context)
        if not running:
            answer["HX-Refresh"] = "true"
        return answer
    crumbs = [(_("Settings"), reverse("settings", args=[slug])), (_("Pre-labeling"), reverse("prelabel", args=[slug]))]
    return page(request, "datasets_app/prelabel_job.html", context, title=_("Job %(n)s") % {"n": job.pk}, crumbs=crumbs)


def _answers(job: PrelabelJob) -> list[tuple[Query, list[Agent]]]:
    """What the LLM says of each query of a small job, so far: (query, agents)."""
    agents = {agent.number: agent for agent in job.pool.agents.all()}
    message = (
        Label.objects.current().filter(source=Label.Source.LLM, query__prelabel_items__job=job).select_related("query")
    )
    return [(label.query, [agents[n] for n in label.required if n in agents]) for label in message.order_by("query_id")]


def _pace(job: PrelabelJob, counted: dict[str, int]) -> dict[str, float | None]:
    """Queries a second since the job was last begun or gone on with, and the seconds that are left at that pace."""
    if job.started_at is None:
        return {"pace": None, "seconds_left": None}
    seconds = ((job.finished_at or timezone.now()) - job.started_at).total_seconds()
    answered = prelabel.settled(counted) - job.settled_before
    pace = answered / seconds if seconds > 0 and answered > 0 else None
    return {"pace": pace, "seconds_left": counted["waiting"] / pace if pace else None}


@require_POST
@may_set
def prelabel_change(request: HttpRequest, slug: str, job_id: int) -> HttpResponse:
    """Pause, cancel or go on with a job."""
    job = _job(slug, job_id)
    wish = request.POST.get("wish", "")
    done = {"pause": prelabel.pause, "cancel": prelabel.cancel, "resume": prelabel.resume}
    if wish == "resume" and "budget" in request.POST:
        form = BudgetForm(request.POST)
        if not form.is_valid():
            messages.error(request, form.errors["budget"].as_text().removeprefix("* "))
            return redirect("prelabel_job", slug, job_id)
        try:
            prelabel.rebudget(job, form.cleaned_data["budget"])
        except prelabel.PrelabelError as error:
            messages.error(request, str(error))
            return redirect("prelabel_job", slug, job_id)
    if wish not in done or not done[wish](job):
        messages.info(request, _("Nothing to do: the job has changed meanwhile."))
    else:
        audit.record(f"prelabel.{wish}", actor=person(request), pool=job.pool, target=str(job))
    return redirect("prelabel_job", slug, job_id)
