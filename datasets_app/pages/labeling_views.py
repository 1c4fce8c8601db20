"""The labeling page and what it sends. Every address answers a plain form with a page and the page's own script with JSON."""

import uuid
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app import audit
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.guidelines import rendered
from agents_app.models import Agent, Pool
from datasets_app.figures import progress
from datasets_app.labeling import one_query, queue
from datasets_app.labeling.narrowing import Narrowing
from datasets_app.models import Assignment, Query, QueueItem
from datasets_app.pages import narrowed
from datasets_app.pages.labeling_page import SKIP_REASONS, address, counts, history, item, nothing
from routerweb import hooks
from routerweb.http import opening, page
from routerweb.pages import parameters


def unless_gone(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Tell who works on a query that it was deleted meanwhile, and lead on to the next: 410 for the script, the queue for a form."""

    @wraps(view)
    def checked(request: HttpRequest, slug: str, query_id: int, number: int | None = None) -> HttpResponse:
        try:
            return view(request, slug, query_id, number)
        except one_query.Gone as gone:
            if wants_json(request):
                return JsonResponse({"error": str(gone)}, status=410)
            messages.warning(request, str(gone))
            pool = get_pool(request, slug)
            return redirect(address(pool, _about(pool, number)))

    return checked


@require_http_methods(["GET", "POST"])
@require_role(Role.LABELER)
def label(request: HttpRequest, slug: str, number: int | None = None) -> HttpResponse:
    """The page: the item that the person holds, or why there is none. A POST takes the next one; where they hold none and some wait, a
    GET is a page that sends that POST."""
    pool, labeler = get_pool(request, slug), person(request)
    agent = _about(pool, number)
    narrow = narrowed.chosen(request, pool) if agent is None else queue.EVERYTHING
    if request.method == "POST":
        leases = queue.take(pool, labeler, agent=agent, narrow=narrow)
        if leases:
            one_query.reveal(leases[0])
            return redirect(narrowed.address(pool, narrow) if narrow else address(pool, agent))
        return label_page(request, pool, agent, nothing(pool, labeler, agent))
    lease = queue.held(pool, labeler, agent, narrow)
    if lease is None and _waits(pool, labeler, agent, narrow):
        return opening(request, _("Label"))
    if lease is None:
        return label_page(request, pool, agent, nothing(pool, labeler, agent))
    lease.item.pool, lease.person = pool, labeler
    if one_query.is_unrevealed(lease):
        return opening(request, _("Label"))
    return label_page(request, pool, agent, item(lease))


@require_http_methods(["GET", "POST"])
@require_role(Role.LABELER)
@unless_gone
def label_item(request: HttpRequest, slug: str, query_id: int, number: int | None = None) -> HttpResponse:
    """One query of the person's choice. A POST opens it, and answers the script with the item; a GET of one that is not open yet is a
    page that sends that POST."""
    pool = get_pool(request, slug)
    if request.method == "POST":
        lease = _lease(request, pool, query_id, number)
        one_query.reveal(lease)
        return JsonResponse(_drawn(request, pool, lease)) if wants_json(request) else redirect(request.path)
    query, agent = query_of(pool, query_id), _about(pool, number)
    assignment = queue.assignment_of(query, person(request), pool, agent)
    if assignment is not None:
        assignment.item.pool, assignment.person = pool, person(request)
    if assignment is None or one_query.is_unrevealed(assignment):
        return opening(request, _("Label"))
    return label_page(request, pool, agent, item(assignment))


@require_POST
@require_role(Role.LABELER)
def label_next(request: HttpRequest, slug: str, number: int | None = None) -> HttpResponse:
    """Take the item to come, for the script; `beside` lists the queries that the person has on screen or is sending."""
    pool, labeler = get_pool(request, slug), person(request)
    agent = _about(pool, number)
    narrow = narrowed.chosen(request, pool) if agent is None else queue.EVERYTHING
    beside = parameters.listed(request.POST.get("beside"))
    leases = queue.take(pool, labeler, beside=beside, agent=agent, narrow=narrow)
    waits = {"narrowed": queue.waiting_for(pool, labeler, narrow)} if narrow else {}
    if leases:
        one_query.reveal(leases[0])
        return JsonResponse(_drawn(request, pool, leases[0]) | waits)
    context = {"pool": pool, "narrow": narrow, **counts(pool, labeler, agent), **nothing(pool, labeler, agent)}
    html = render_to_string("datasets_app/_label_nothing.html", context, request)
    return JsonResponse({"query": None, "html": html, **counts(pool, labeler, agent), **waits})


@require_GET
@require_role(Role.LABELER)
def label_words(request: HttpRequest, slug: str, query_id: int, number: int | None = None) -> HttpResponse:
    """Which words of the query call for each agent, {"words": {agent: [[start, end, strength], …]}}; null for a blind item, and for
    one that the person does not hold."""
    pool = get_pool(request, slug)
    query, agent = query_of(pool, query_id), _about(pool, number)
    lease = queue.assignment_of(query, person(request), pool, agent)
    if lease is None or lease.blind:
        return JsonResponse({"words": None})
    by_source = hooks.words_for_agents(pool, query.routed_text)
    return JsonResponse({"words": {number: marks for words in by_source for number, marks in words.items()}})


@require_POST
@require_role(Role.LABELER)
@unless_gone
def label_draft(request: HttpRequest, slug: str, query_id: int, number: int | None = None) -> HttpResponse:
    """Keep what is chosen so far. 409 when another tab has written since; the answer holds both versions."""
    pool = get_pool(request, slug)
    lease = _lease(request, pool, query_id, number)
    base, version, step = (_number(request, name) for name in ("base", "version", "step"))
    choice = _choice(request, pool)
    try:
        draft = one_query.save_draft(
            lease, choice, base=base, version=version, writer=request.POST.get("writer", ""), step=step
        )
    except one_query.Stale as stale:
        return _conflict(request, pool, lease, choice, stale)
    queue.heartbeat(pool, lease.person, [query_id])
    if wants_json(request):
        return JsonResponse({"saved": True, "version": draft.version})
    return redirect(f"{address(pool, lease.item.agent)}{query_id}/")


@require_POST
@require_role(Role.LABELER)
@unless_gone
def label_submit(request: HttpRequest, slug: str, query_id: int, number: int | None = None) -> HttpResponse:
    """Send the label, of this query and of those that `similar` names. The same key twice is one label; 400 for a choice
    that is no answer; 409 when another tab was first."""
    pool = get_pool(request, slug)
    lease = _lease(request, pool, query_id, number)
    choice = _choice(request, pool)
    key = request.POST.get("key", "")[:64] or uuid.uuid4().hex
    similar = parameters.keys(request.POST.getlist("similar"))
    try:
        sent, _new = one_query.submit(
            lease,
            choice,
            key=f"{lease.person_id}:{key}"[:64],
            base=_number(request, "base"),
            seconds=_number(request, "seconds"),
            similar=similar,
        )
    except one_query.Gone:
        raise
    except one_query.KeyUsed as error:
        return _refused(request, pool, lease, choice, str(error), status=409)
    except one_query.ChoiceError as error:
        return _refused(request, pool, lease, choice, str(error))
    except one_query.Stale as stale:
        return _conflict(request, pool, lease, choice, stale)
    queue.release(pool, lease.person, parameters.listed(request.POST.get("let_go")))
    left_out = max(0, len(set(similar)) - sent.followers.count()) if similar else 0
    if wants_json(request):
        return JsonResponse({"saved": True, "left_out": left_out, **counts(pool, lease.person, lease.item.agent)})
    if left_out:
        messages.warning(request, _left_out(left_out))
    messages.success(request, _("Saved."), extra_tags=f"undo:{address(pool, lease.item.agent)}undo/")
    return redirect(address(pool, lease.item.agent))


@require_POST
@require_role(Role.LABELER)
@unless_gone
def label_skip(request: HttpRequest, slug: str, query_id: int, number: int | None = None) -> HttpResponse:
    """Hand the item on with a reason."""
    pool = get_pool(request, slug)
    lease = _lease(request, pool, query_id, number)
    reason = (request.POST.get("remark", "").strip() or request.POST.get("reason", "").strip())[:200]
    if not reason:
        return _refused(request, pool, lease, _choice(request, pool), _("Say why you skip it."))
    one_query.skip(lease, reason)
    if wants_json(request):
        return JsonResponse({"saved": True, **counts(pool, lease.person, lease.item.agent)})
    messages.success(request, _("Skipped."), extra_tags=f"undo:{address(pool, lease.item.agent)}undo/")
    return redirect(address(pool, lease.item.agent))


@require_POST
@require_role(Role.LABELER)
def label_undo(request: HttpRequest, slug: str, number: int | None = None) -> HttpResponse:
    """Take back the last submit or skip, or the one of the query that is named."""
    pool, labeler = get_pool(request, slug), person(request)
    wanted = _number(request, "query")
    query = get_object_or_404(Query, pk=wanted, dataset__pool=pool) if wanted else None
    agent = _about(pool, number)
    undone = one_query.undo(pool, labeler, query, agent)
    if wants_json(request):
        key = (undone.query.pk if undone.held else None) if undone else wanted or None
        return JsonResponse(
            {"saved": True, "query": key, "what": undone.what if undone else "", **counts(pool, labeler, agent)}
        )
    if undone is None:
        messages.info(request, _("There is nothing to undo."))
        return redirect(address(pool, agent))
    if not undone.held:
        messages.info(request, _("Your skip is undone, but somebody else has taken the query meanwhile."))
        return redirect(address(pool, agent))
    return redirect(f"{address(pool, agent)}{undone.query.pk}/")


@require_POST
@require_role(Role.LABELER)
def label_heartbeat(request: HttpRequest, slug: str, number: int | None = None) -> HttpResponse:
    """The person is still at it: their leases on the named queries are renewed. Answers with those that they still hold."""
    pool = get_pool(request, slug)
    keys = parameters.listed(request.POST.get("queries"))
    return JsonResponse({"held": sorted(queue.heartbeat(pool, person(request), keys))})


@require_POST
@require_role(Role.LABELER)
def label_skipped(request: HttpRequest, slug: str, number: int | None = None) -> HttpResponse:
    """Be asked again what one skipped."""
    pool = get_pool(request, slug)
    agent = _about(pool, number)
    queue.offer_skipped(pool, person(request), agent)
    return redirect(address(pool, agent))


@require_POST
@require_role(Role.REVIEWER)
def label_release(request: HttpRequest, slug: str, person_id: int) -> HttpResponse:
    """Free what somebody holds."""
    pool, holder = get_pool(request, slug), get_object_or_404(User, pk=person_id)
    count = queue.release(pool, holder)
    audit.record(
        "queue.released", actor=person(request), target=holder.get_username(), pool=pool, detail={"items": count}
    )
    messages.success(request, _("%(count)s items of %(person)s are free again.") % {"count": count, "person": holder})
    back = request.POST.get("next", "")
    # Not by `redirect`, which takes what is no path for the name of a view.
    here = back.startswith("/") and url_has_allowed_host_and_scheme(back, None)
    return HttpResponseRedirect(back if here else reverse("label", args=[slug]))


@require_GET
@require_role(Role.LABELER, Role.REVIEWER, Role.OPS)
def label_history(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """Who said what of a query and when, as far as this person may see it."""
    pool = get_pool(request, slug)
    query = get_object_or_404(Query, pk=query_id, dataset__pool=pool)
    return render(
        request,
        "datasets_app/_label_history.html",
        {"pool": pool, "query": query, "events": history(pool, query, request.user)},
    )


# ------------------------------------------------------------------------------------------------------ what is drawn


def _waits(pool: Pool, labeler: User, agent: Agent | None, narrow: Narrowing) -> bool:
    """Whether something that this person wants waits for them."""
    return bool(queue.waiting_for(pool, labeler, narrow) if narrow else progress.left(pool, labeler, agent).yours)


def _left_out(count: int) -> str:
    return ngettext(
        "%(count)s similar query was left out: somebody else has it, or it was answered meanwhile.",
        "%(count)s similar queries were left out: somebody else has them, or they were answered meanwhile.",
        count,
    ) % {"count": count}


def wants_json(request: HttpRequest) -> bool:
    return "application/json" in request.headers.get("Accept", "")


def _number(request: HttpRequest, name: str) -> int:
    return parameters.number(request.POST.get(name)) or 0


def _about(pool: Pool, number: int | None) -> Agent | None:
    """The agent of the queue of one question, None for the queue of whole sets."""
    return None if number is None else get_object_or_404(Agent.objects.active(), pool=pool, number=number)


def _lease(request: HttpRequest, pool: Pool, query_id: int, number: int | None) -> Assignment:
    agent, query = _about(pool, number), query_of(pool, query_id)
    if agent is not None:
        get_object_or_404(QueueItem, query=query, agent=agent)
    lease = queue.open_item(query, person(request), pool, agent)
    lease.person = person(request)
    lease.item.pool = pool
    return lease


def query_of(pool: Pool, query_id: int) -> Query:
    """The query that an address names. Raises labeling.Gone."""
    query = get_object_or_404(Query, pk=query_id, dataset__pool=pool)
    if query.deleted_at is not None:
        raise one_query.Gone
    return query


def _choice(request: HttpRequest, pool: Pool) -> one_query.Choice:
    own_numbers = set(pool.agents.values_list("number", flat=True))

    def numbers(values: Sequence[str]) -> frozenset[int]:
        return frozenset(parameters.numbers(values)) & own_numbers

    asked = numbers(request.POST.get("asked", "").split(","))
    return one_query.Choice(
        required=numbers(request.POST.getlist("agent")),
        none=request.POST.get("none") == "1",
        unsure=request.POST.get("unsure") == "1",
        asked=asked,
        note=request.POST.get("note", "").strip(),
        one_key=request.POST.get("one_key") == "1",
    )


def label_page(
    request: HttpRequest, pool: Pool, agent: Agent | None, drawn: dict[str, Any], status: int = 200
) -> HttpResponse:
    """The page around an item, or around why there is none."""
    context = {
        "pool": pool,
        "only": agent,
        "at": address(pool, agent),
        "guidelines": rendered(pool.guidelines),
        "may_edit_guidelines": Role.REVIEWER in roles_of(request.user, pool),
        "reasons": SKIP_REASONS,
        "reask": progress.questions(pool, person(request)),
        **(narrowed.drawn(request, pool) if agent is None else {}),
        **counts(pool, person(request), agent),
        **drawn,
    }
    return page(request, "datasets_app/label.html", context, title=_("Label"), status=status)


def _drawn(request: HttpRequest, pool: Pool, lease: Assignment) -> dict[str, Any]:
    context = {"pool": pool, "reasons": SKIP_REASONS, **item(lease)}
    html = render_to_string("datasets_app/_label_item.html", context, request)
    return {
        "query": lease.item.query_id,
        "html": html,
        "hold": queue.may_hold(pool, lease.person, lease.item.agent),
        **counts(pool, lease.person, lease.item.agent),
    }


def _refused(
    request: HttpRequest, pool: Pool, lease: Assignment, choice: one_query.Choice, problem: str, status: int = 400
) -> HttpResponse:
    if wants_json(request):
        return JsonResponse({"error": problem}, status=status)
    return label_page(request, pool, lease.item.agent, item(lease, choice, problem), status=status)


def _conflict(
    request: HttpRequest, pool: Pool, lease: Assignment, choice: one_query.Choice, stale: one_query.Stale
) -> HttpResponse:
    """409, and both versions: what stands, and what was sent."""
    both = one_query.both_versions(stale, choice, _number(request, "base"))
    if wants_json(request):
        return JsonResponse({"error": str(stale), **both}, status=409)
    agents = {agent.number: agent for agent in pool.agents.all()}
    context = {
        "pool": pool,
        "at": address(pool, lease.item.agent),
        "query": lease.item.query,
        "theirs": both["theirs"] | {"agents": [agents[n] for n in stale.required if n in agents]},
        "mine": both["mine"] | {"agents": [agents[n] for n in sorted(choice.required) if n in agents]},
        "asked": request.POST.get("asked", ""),
        "key": uuid.uuid4().hex,
    }
    return page(request, "datasets_app/label_conflict.html", context, title=_("Two versions"), status=409)
