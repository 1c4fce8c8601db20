"""Pages: episodes, one as a timeline, many as a graph; beginning one, cancelling it, saying how well it did."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import Pool
from orchestration_app import readiness
from orchestration_app.calls.parts import FAILURES
from orchestration_app.engine.orchestrating.one_shot import NAME as ONE_SHOT
from orchestration_app.episodes import asides, episodes, policies, runner, timeline
from orchestration_app.episodes.asides import Aside, AsideError
from orchestration_app.episodes.episodes import EpisodeError, Wanted
from orchestration_app.episodes.judging import figures, marks
from orchestration_app.episodes.policies import NobodyToCall, PoolNotReady
from orchestration_app.models import Episode
from orchestration_app.pages import episode_graph as drawing
from orchestration_app.pages.episode_forms import EpisodeForm
from routerweb.http import page, wants_fragment
from routerweb.pages import parameters
from routerweb.pages.downloads import download
from routerweb.pages.shown_errors import show_errors
from training_app.answering import serving
from training_app.answering.answer import NotReady
from training_app.pages.sorting import order

ROWS = 25
DAYS = (1, 7, 30, 90)
SORTS = {"when": "created_at", "cost": "cost", "steps": "steps", "seconds": "latency"}
REASONS = {
    "stop": gettext_lazy("Nobody else was to be called"),
    "max_steps": gettext_lazy("Most steps"),
    "budget": gettext_lazy("Not enough budget for another call"),
    "no_agents": gettext_lazy("Nobody left to call"),
    "timeout": gettext_lazy("It took too long"),
    "cancelled": gettext_lazy("Cancelled"),
    "interrupted": gettext_lazy("Its process died too often"),
    "failed": gettext_lazy("A fault"),
}
OUTCOMES = {"right": gettext_lazy("Right"), "wrong": gettext_lazy("Wrong"), "none": gettext_lazy("Not judged")}


@require_GET
@require_role(Role.OPS)
def episode_list(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The pool's episodes, newest first; `?q=`, `?status=`, `?policy=`, `?outcome=` and `?days=` filter, `?sort=` sorts,
    `?format=jsonl` exports what is left."""
    pool = get_pool(request, slug)
    chosen, episodes = _chosen(request, pool)
    if request.GET.get("format") == "jsonl":
        return download(_lines(episodes), "application/x-ndjson", f"{pool.slug}-episodes.jsonl")
    sort, by = order(request.GET.get("sort", ""), SORTS, "-when")
    rows = Paginator(episodes.order_by(*by), ROWS).get_page(request.GET.get("page"))
    address = request.GET.copy()
    address["format"] = "jsonl"
    context = {
        **_shared(request, pool, chosen),
        "rows": [(row, REASONS.get(row.stop_reason, row.stop_reason), timeline.in_a_line(row.answer)) for row in rows],
        "page_of_rows": rows,
        "sort": sort,
        "export": f"?{address.urlencode()}",
    }
    return page(request, "orchestration_app/episodes.html", context, title=_("Episodes"), crumbs=_crumbs(pool))


@require_GET
@require_role(Role.OPS)
def episode_graph(request: HttpRequest, slug: str) -> HttpResponse:
    """Many episodes at once: which agent follows which, what each is used for, and how it went over time and by version. The same
    filters as the list's."""
    pool = get_pool(request, slug)
    chosen, rows = _chosen(request, pool)
    graph = figures.graph(rows)
    agents = {agent.number: agent for agent in pool.agents.all()}
    used = sum(graph.uses.values())
    by_day = figures.by_day(rows)
    context = {
        **_shared(request, pool, chosen),
        "graph": graph,
        "picture": drawing.draw(graph, agents),
        "most": figures.MOST,
        "uses": [
            (agents[number], count, count / used, graph.failures[number] / count)
            for number, count in sorted(graph.uses.items(), key=lambda use: -use[1])
            if number in agents
        ],
        "edges": drawing.table(graph, agents),
        "cycles": [
            (agents[source], agents[target], count)
            for source, target, count in graph.cycles
            if {source, target} <= agents.keys()
        ],
        "hubs": [(agents[number], count) for number, count in graph.hubs if number in agents],
        "by_policy": figures.by_policy(rows),
        "judges": marks.agreement(rows),
        "judged_by_people": rows.filter(judge=Episode.Judge.PERSON).count(),
        "over_time": len(by_day) > 1,
        **drawing.charts(by_day, pool.currency),
        "uses_chart": drawing.uses_chart(figures.uses_by_day(rows), agents),
    }
    return page(
        request,
        "orchestration_app/episode_graph.html",
        context,
        title=_("Episodes as a graph"),
        crumbs=_crumbs(pool, True),
    )


@require_GET
@require_role(Role.OPS)
def episode_detail(request: HttpRequest, slug: str, episode_id: UUID) -> HttpResponse:
    """One episode as a timeline; HTMX asks for the steps alone, every second until it has ended."""
    episode = _episode(slug, episode_id)
    agents = {agent.number: agent for agent in episode.pool.agents.all()}
    context = {
        "pool": episode.pool,
        "episode": episode,
        "reason": REASONS.get(episode.stop_reason, episode.stop_reason),
        "answer_parts": timeline.parts(episode.answer),
        "lanes": timeline.read(episode, agents),
        "waits": [(row, agents.get(row.agent or 0), Aside.of(row.metadata)) for row in asides.waiting(episode)],
        "missing": [
            part | {"words": FAILURES.get(part["reason"]) or REASONS.get(part["reason"], part["reason"])}
            for part in episode.missing
        ],
        "marks": list(episode.marks.all()) if episode.ended else [],
        "worth": episode.trajectory.filter(path=0, turn=0).values_list("reward", flat=True).first(),
        "spent": sum(row.cost for row in episode.trajectory.all()),
    }
    if wants_fragment(request):
        response = render(request, "orchestration_app/_episode_live.html", context)
        if (
            episode.ended or episode.status == Episode.Status.WAITING
        ):  # nothing to cancel any more, and something to judge
            response["HX-Refresh"] = "true"
        return response
    return page(
        request, "orchestration_app/episode.html", context, title=_("Episode"), crumbs=_crumbs(episode.pool, True)
    )


@require_role(Role.OPS)
@require_http_methods(["GET", "POST"])
def episode_new(request: HttpRequest, slug: str) -> HttpResponse:
    """Begin an episode by hand; its page shows each step as it happens."""
    pool = get_pool(request, slug)
    form, refused = EpisodeForm(request.POST or None), False
    if request.method == "POST" and form.is_valid():
        loaded = serving.refresh().pools[pool.slug]
        values = form.cleaned_data
        wanted = Wanted(
            [{"role": "user", "content": values["task"]}], max_steps=values["max_steps"] or 0, budget=values["budget"],
            paths=values["paths"] or 1,
        )  # fmt: skip
        try:
            episode, _new = runner.launch(pool.pk, wanted, policies.orchestra(loaded), author=person(request))
        except NotReady as error:
            refused = isinstance(error, PoolNotReady | NobodyToCall)
            form.add_error(None, str(error) if refused else f"{error} {error.hint}")
        else:
            return redirect("episode", slug, episode.pk)
    unready = () if form.is_bound else [problem.sentence for problem in readiness.problems(pool)]
    context = {"pool": pool, "form": form, "refused": refused, "unready": unready}
    return page(
        request, "orchestration_app/episode_new.html", context, title=_("New episode"), crumbs=_crumbs(pool, True)
    )


@require_role(Role.OPS)
@require_POST
def episode_cancel(request: HttpRequest, slug: str, episode_id: UUID) -> HttpResponse:
    """End it; a call under way is not waited for."""
    episode = _episode(slug, episode_id)
    try:
        episodes.cancel(episode, actor=person(request))
    except EpisodeError as error:
        messages.info(request, str(error))
    else:
        messages.success(request, _("The episode is cancelled. Its steps stay."))
    return redirect("episode", slug, episode_id)


@require_role(Role.OPS)
@require_POST
def episode_judge(request: HttpRequest, slug: str, episode_id: UUID) -> HttpResponse:
    """Say how well it did: `success` is 1 or 0, `rating` 0 to 1, `comment` a text."""
    episode = _episode(slug, episode_id)
    success = {"1": True, "0": False}.get(request.POST.get("success", ""))
    rating = parameters.decimal(request.POST.get("rating"))
    if success is None and rating is None:
        messages.error(request, _("Say whether it was right, or rate it."))
    elif rating is not None and not 0 <= rating <= 1:
        messages.error(request, _("A rating is a number from 0 to 1."))
    else:
        with show_errors(request, EpisodeError):
            comment = request.POST.get("comment", "").strip()[:2_000]
            episodes.judge(episode, success=success, rating=rating, comment=comment, person=person(request))
            messages.success(request, _("Thank you: orchestrators learn from it."))
    return redirect("episode", slug, episode_id)


@require_role(Role.OPS)
@require_POST
def episode_reply(request: HttpRequest, slug: str, episode_id: UUID) -> HttpResponse:
    """Answer an agent's question (`text`), or approve a call (`approve` is 1 or 0, with `why`); `call` says which."""
    episode, call = _episode(slug, episode_id), parameters.number(request.POST.get("call"))
    approve = {"1": True, "0": False}.get(request.POST.get("approve", ""))
    with show_errors(request, AsideError):
        if approve is None:
            asides.answer(episode, request.POST.get("text", ""), call)
        else:
            asides.decide(episode, approve, call, why=request.POST.get("why", ""), actor=person(request))
        messages.success(request, _("The episode goes on."))
    return redirect("episode", slug, episode_id)


def _episode(slug: str, episode_id: UUID) -> Episode:
    rows = Episode.objects.select_related("pool", "model__pool", "api_key", "author", "judged_by")
    return get_object_or_404(rows, pool__slug=slug, pk=episode_id)


def _chosen(request: HttpRequest, pool: Pool) -> tuple[dict[str, str], "QuerySet[Episode]"]:
    """The filters of the address, and the episodes that they leave."""
    chosen = {name: request.GET.get(name, "").strip() for name in ("q", "status", "policy", "outcome", "days")}
    rows = episodes.of_pool(pool)
    if chosen["q"]:
        rows = rows.filter(task__icontains=chosen["q"])
    if chosen["status"] in Episode.Status.values:
        rows = rows.filter(status=chosen["status"])
    if chosen["policy"]:
        rows = rows.filter(policy=chosen["policy"])
    if chosen["outcome"] in OUTCOMES:
        rows = rows.filter(success={"right": True, "wrong": False, "none": None}[chosen["outcome"]])
    days = parameters.number(chosen["days"])
    if days in DAYS:
        rows = rows.filter(created_at__gte=timezone.now() - timedelta(days=days))
    return chosen, rows


def _shared(request: HttpRequest, pool: Pool, chosen: dict[str, str]) -> dict[str, Any]:
    query = request.GET.copy()
    for name in ("page", "format", "sort"):
        query.pop(name, None)
    return {
        "pool": pool,
        "chosen": chosen,
        "filtered": any(chosen.values()),
        "query": query.urlencode(),
        "statuses": Episode.Status.choices,
        "outcomes": OUTCOMES.items(),
        "days": DAYS,
        "versions": [
            (name, policy_title(name))
            for name in Episode.objects.filter(pool=pool).order_by("policy").values_list("policy", flat=True).distinct()
        ],
    }


def policy_title(name: str) -> str:
    """What decides an episode, as a page names it."""
    return _("the router's set") if name == ONE_SHOT else name


def _crumbs(pool: Pool, below: bool = False) -> list[tuple[str, str]]:
    trail = [(pool.name, reverse("home"))]
    return [*trail, (_("Episodes"), reverse("episodes", args=(pool.slug,)))] if below else trail


def _lines(rows: "QuerySet[Episode]") -> Iterator[str]:
    for episode in rows.prefetch_related("trajectory").iterator(chunk_size=100):
        yield json.dumps(timeline.as_json(episode), ensure_ascii=False) + "\n"
