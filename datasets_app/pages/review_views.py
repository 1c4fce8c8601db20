"""The pages Review and Agreement: one disagreement at a time, and how far people agree at all."""

import json
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import Pool
from datasets_app.figures import agreement
from datasets_app.labeling import adjudication, queue, sending
from datasets_app.labels import labels
from datasets_app.models import Label, Query
from datasets_app.pages.browse_views import table_rows
from datasets_app.pages.labeling_page import history
from datasets_app.prelabeling import judge
from routerweb.http import page, wants_fragment
from routerweb.pages import paging, parameters
from routerweb.pages.shown_errors import show_errors

LISTS = {"disputes": adjudication.disputes, "doubts": adjudication.doubts, "skipped": adjudication.passed}
AHEAD = 8
#: Cases of a list that its tab counts; how many more there are is estimated.
COUNTED = 1_000


@dataclass(frozen=True, slots=True)
class _Waiting:
    """The `first` AHEAD + 1 queries of the list `which`; `total` where the same reading counted it."""

    which: str
    first: list[Query]
    total: paging.Total | None = None


@require_GET
@require_role(Role.REVIEWER)
def review(request: HttpRequest, slug: str) -> HttpResponse:
    """The next query to decide, of the list that is chosen; what waits beside it."""
    pool = get_pool(request, slug)
    which = request.GET.get("list", "disputes")
    return _next_page(request, pool, which)


@require_http_methods(["GET", "POST"])
@require_role(Role.REVIEWER)
def review_query(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """One query to decide; a POST records the decision and goes on to the next: an HTMX request gets it at once, with the way to undo
    in a note."""
    pool = get_pool(request, slug)
    query = get_object_or_404(Query.objects.of(pool), pk=query_id)
    which = request.GET.get("list", "disputes")
    if request.method == "GET":
        return _case_page(request, pool, query, _waiting(pool, which))
    took = request.POST.get("take", "edit")
    case = adjudication.case(pool, query)
    asked = frozenset(int(n) for n in request.POST.get("asked", "").split(",") if n.isdecimal() and len(n) < 6)
    asked &= frozenset(pool.agents.values_list("number", flat=True))
    voices = {voice.key: voice for voice in case.people}
    if took == "union":
        required = case.union
    elif took in voices:
        required = voices[took].required
    else:
        required, took = _ticked(request, case), "edit"
    try:
        label = adjudication.decide(
            pool,
            query,
            adjudication.Ruling(
                required=required,
                took=took,
                reason=request.POST.get("reason", ""),
                remark=request.POST.get("remark", ""),
                asked=asked or None,
            ),
            author=person(request),
        )
    except adjudication.DecisionError as error:
        return _case_page(request, pool, query, _waiting(pool, which), str(error), required)
    address, undo = f"{reverse('review', args=[slug])}?list={which}", reverse("review_undo", args=[slug, label.pk])
    if not wants_fragment(request):
        messages.success(request, _("Decided."), extra_tags=f"undo:{undo}")
        return redirect(address)
    request.POST = QueryDict()  # what was given belongs to the query that is decided
    answer = _next_page(request, pool, which)
    answer["HX-Replace-Url"] = address
    answer["HX-Trigger"] = json.dumps({"toast": {"text": _("Decided."), "undo": undo, "undoText": _("Undo")}})
    return answer


def _next_page(request: HttpRequest, pool: Pool, which: str) -> HttpResponse:
    """The first query of a list, or that none waits there."""
    waiting = _waiting(pool, which)
    if not waiting.first:
        return _drawn(request, {"pool": pool, "case": None, **_around(pool, waiting, None)})
    return _case_page(request, pool, waiting.first[0], waiting)


def _drawn(request: HttpRequest, context: dict[str, Any], status: int = 200) -> HttpResponse:
    """The page, or what HTMX puts in its place; HTMX draws nothing that is not 200."""
    if wants_fragment(request):
        return render(request, "datasets_app/_review.html", context)
    return page(request, "datasets_app/review.html", context, title=_("Review"), status=status)


def _ticked(request: HttpRequest, case: adjudication.Case) -> frozenset[int]:
    numbers = {row.agent.number for row in case.rows}
    return frozenset(parameters.numbers(request.POST.getlist("agent"))) & numbers


@require_POST
@require_role(Role.REVIEWER)
def review_judge(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """What an LLM says of the set that is ticked. An HTMX request gets the verdict alone, a plain form the page with it."""
    pool = get_pool(request, slug)
    query = get_object_or_404(Query.objects.of(pool), pk=query_id)
    required = _ticked(request, adjudication.case(pool, query))
    verdict_shown: dict[str, Any] = {}
    try:
        verdict = judge.judge(pool, query, required)
    except judge.NoVerdict as error:
        verdict_shown["no_verdict"] = str(error)
    else:
        agents = {agent.number: agent for agent in pool.agents.all()}
        verdict_shown["verdict"] = verdict
        verdict_shown |= {name: [agents[n] for n in getattr(verdict, name)] for name in ("missing", "unneeded")}
    if wants_fragment(request):
        return render(request, "datasets_app/_verdict.html", verdict_shown)
    waiting = _waiting(pool, request.GET.get("list", "disputes"))
    return _case_page(request, pool, query, waiting, chosen=required, verdict_shown=verdict_shown)


@require_POST
@require_role(Role.REVIEWER)
def review_undo(request: HttpRequest, slug: str, label_id: int) -> HttpResponse:
    """Take a decision back."""
    pool = get_pool(request, slug)
    label = get_object_or_404(
        Label.objects.select_related("query"), pk=label_id, query__dataset__pool=pool, **sending.REVIEWED
    )
    with show_errors(request, adjudication.DecisionError, labels.LabelError):
        adjudication.take_back(label, person(request))
        messages.success(request, _("The decision is undone."))
        return redirect("review_query", slug, label.query_id)
    return redirect("query", slug, label.query_id)


def _case_page(
    request: HttpRequest,
    pool: Pool,
    query: Query,
    waiting: _Waiting,
    problem: str = "",
    chosen: frozenset[int] | None = None,
    verdict_shown: dict[str, Any] | None = None,
) -> HttpResponse:
    case = adjudication.case(pool, query, person(request))
    picked = chosen if chosen is not None else frozenset(row.agent.number for row in case.rows if row.proposed)
    context = {
        "pool": pool,
        "case": case,
        "query": query,
        "disputed": [row for row in case.rows if row.disputed],
        "settled": [row for row in case.rows if not row.disputed],
        "picked": picked,
        "asked": ",".join(str(row.agent.number) for row in case.rows),
        "reasons": [(key, words, key[0].upper()) for key, words in adjudication.REASONS.items()],
        "remark": request.POST.get("remark", ""),
        "given": request.POST.get("reason", ""),
        "problem": problem,
        "events": history(pool, query, request.user),
        **_around(pool, waiting, query),
        **(verdict_shown or {}),
    }
    return _drawn(request, context, 422 if problem else 200)


def _waiting(pool: Pool, which: str) -> _Waiting:
    """The first queries of a list, and how long it is where the same reading says so."""
    if which == "doubts":
        return _Waiting(which, adjudication.first_doubts(pool, AHEAD + 1))
    if which == "skipped":  # one reading of keys, which takes a look at every assignment of that kind
        keys, total = paging.part_and_total(adjudication.passed(pool), ["pk"], {}, AHEAD + 1, counted=COUNTED)
        return _Waiting(which, keys.of(Query.objects.all()), total)
    return _Waiting(which, list(LISTS.get(which, adjudication.disputes)(pool)[: AHEAD + 1]))


def _around(pool: Pool, waiting: _Waiting, query: Query | None) -> dict[str, Any]:
    disputed = Query.objects.of(pool).filter(state=Query.State.DISAGREEMENT)
    counted = {"disputes": disputed, "doubts": adjudication.doubts(pool), "skipped": adjudication.passed(pool)}
    titles = {"disputes": _("Disagreements"), "doubts": _("Unsure"), "skipped": _("Skipped")}
    totals = {waiting.which: waiting.total}
    return {
        "which": waiting.which,
        "tabs": [
            (name, titles[name], totals.get(name) or paging.total(rows, counted=COUNTED))
            for name, rows in counted.items()
        ],
        "ahead": [ahead for ahead in waiting.first if query is None or ahead.pk != query.pk][:AHEAD],
        "holdings": queue.holdings(pool),
    }


# ---------------------------------------------------------------------------------------------------------- agreement


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def agreement_page(request: HttpRequest, slug: str) -> HttpResponse:
    """A matrix of people, a line per agent, the LLM against people, blind against shown."""
    pool = get_pool(request, slug)
    only = request.GET.get("items", "")
    report = agreement.shown(agreement.report(pool, only))
    matrix = [
        (a, [(b, report.pairs.get((a.pk, b.pk)) or report.pairs.get((b.pk, a.pk))) for b in report.people])
        for a in report.people
    ]
    context = {
        "pool": pool,
        "report": report,
        "matrix": matrix,
        "only": only,
    }
    return page(request, "datasets_app/agreement.html", context, title=_("Agreement"), crumbs=_above(pool))


def _above(pool: Pool) -> list[tuple[str, str]]:
    return [(_("Review"), reverse("review", args=[pool.slug]))]


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def agreement_items(request: HttpRequest, slug: str) -> HttpResponse:
    """The queries behind one cell, those that differ most first."""
    pool = get_pool(request, slug)

    def number(name: str) -> int | None:
        return parameters.number(request.GET.get(name))

    items, llm = request.GET.get("items", ""), request.GET.get("llm") == "1"
    keys = agreement.differing(pool, number("a"), number("b"), number("agent"), llm, items)
    agents = list(pool.agents.all())
    shown = Paginator(keys, 50).get_page(request.GET.get("page"))
    people = {user.pk: user for user in User.objects.filter(pk__in=[key for key in (number("a"), number("b")) if key])}
    context = {
        "pool": pool,
        "rows": table_rows(list(shown.object_list), agents),
        "page_of": shown,
        "between": [people[key] for key in (number("a"), number("b")) if key in people],
        "agent": next((agent for agent in agents if agent.number == number("agent")), None),
        "llm": llm,
        "made": items,
    }
    crumbs = [*_above(pool), (_("Agreement"), reverse("agreement", args=[slug]))]
    return page(
        request, "datasets_app/agreement_items.html", context, title=_("Queries behind a figure"), crumbs=crumbs
    )
