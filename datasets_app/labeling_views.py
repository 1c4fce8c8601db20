"""The labeling page and what it sends. Every address answers a plain form with a page and the page's own script with JSON."""

import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_POST

from agents_app import audit
from agents_app.access import Role, get_pool, require_role, roles_of
from agents_app.guidelines import rendered
from agents_app.models import Agent, Pool
from datasets_app import labeling, queue
from datasets_app.models import Assignment, Draft, Label, Query
from datasets_app.suggestions import Offer, mean_score, proposed
from routerweb.http import page

SKIP_REASONS = (
    gettext_lazy("I do not understand it"),
    gettext_lazy("It needs what was said before"),
    gettext_lazy("It is not in a language I read"),
    gettext_lazy("It holds personal data"),
    gettext_lazy("The guidelines do not cover it"),
)


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent as the labeling page draws it. `key` is its digit, "" beyond the ninth; `scores` are (p, source) in words."""

    agent: Agent
    key: str
    chosen: bool
    suggested: bool
    scores: Sequence[tuple[str, str]]


@require_GET
@require_role(Role.LABELER)
def label(request: HttpRequest, slug: str) -> HttpResponse:
    """The page: the person's next item, or why there is none."""
    pool, person = get_pool(slug), _person(request)
    leases = queue.take(pool, person)
    context = _frame(request, pool) | (_item(leases[0]) if leases else _nothing(pool, person))
    return page(request, "datasets_app/label.html", context, title=_("Label"))


@require_GET
@require_role(Role.LABELER)
def label_item(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """One query of the person's choice: the page, or for the script the item alone."""
    pool = get_pool(slug)
    lease = _lease(request, pool, query_id)
    if _wants_json(request):
        return JsonResponse(_drawn(request, pool, lease))
    context = _frame(request, pool) | _item(lease)
    return page(request, "datasets_app/label.html", context, title=_("Label"))


@require_GET
@require_role(Role.LABELER)
def label_next(request: HttpRequest, slug: str) -> HttpResponse:
    """The item to come, for the script; `beside` lists the queries that the person has on screen or is sending."""
    pool, person = get_pool(slug), _person(request)
    beside = [int(key) for key in request.GET.get("beside", "").split(",") if key.isdigit()]
    leases = queue.take(pool, person, beside=beside)
    if leases:
        return JsonResponse(_drawn(request, pool, leases[0]))
    html = render_to_string("datasets_app/_label_nothing.html", {"pool": pool, **_nothing(pool, person)}, request)
    return JsonResponse({"query": None, "html": html, **_counts(pool, person)})


@require_POST
@require_role(Role.LABELER)
def label_draft(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """Keep what is chosen so far. 409 when another tab has written since; the answer holds both versions."""
    pool = get_pool(slug)
    lease = _lease(request, pool, query_id)
    base, version, step = (_number(request, name) for name in ("base", "version", "step"))
    choice = _choice(request, pool)
    try:
        draft = labeling.save_draft(
            lease, choice, base=base, version=version, writer=request.POST.get("writer", ""), step=step
        )
    except labeling.Stale as stale:
        return _conflict(request, pool, lease, choice, stale)
    queue.heartbeat(pool, lease.person, [query_id])
    if _wants_json(request):
        return JsonResponse({"saved": True, "version": draft.version})
    return redirect("label_item", slug=pool.slug, query_id=query_id)


@require_POST
@require_role(Role.LABELER)
def label_submit(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """Send the label. The same key twice is one label; 400 for a choice that is no answer; 409 when another tab was first."""
    pool = get_pool(slug)
    lease = _lease(request, pool, query_id)
    choice = _choice(request, pool)
    key = request.POST.get("key", "")[:64] or uuid.uuid4().hex
    try:
        labeling.submit(
            lease,
            choice,
            key=f"{lease.person_id}:{key}"[:64],
            base=_number(request, "base"),
            seconds=_number(request, "seconds"),
            replace=request.POST.get("replace") == "1",
        )
    except labeling.ChoiceError as error:
        return _refused(request, pool, lease, choice, str(error))
    except labeling.Stale as stale:
        return _conflict(request, pool, lease, choice, stale)
    if _wants_json(request):
        return JsonResponse({"saved": True, **_counts(pool, lease.person)})
    messages.success(request, _("Saved."), extra_tags="undo:" + reverse("label_undo", args=[pool.slug]))
    return redirect("label", slug=pool.slug)


@require_POST
@require_role(Role.LABELER)
def label_skip(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """Hand the item on with a reason."""
    pool = get_pool(slug)
    lease = _lease(request, pool, query_id)
    reason = (request.POST.get("remark", "").strip() or request.POST.get("reason", "").strip())[:200]
    if not reason:
        return _refused(request, pool, lease, _choice(request, pool), _("Say why you skip it."))
    labeling.skip(lease, reason)
    if _wants_json(request):
        return JsonResponse({"saved": True, **_counts(pool, lease.person)})
    messages.success(request, _("Skipped."), extra_tags="undo:" + reverse("label_undo", args=[pool.slug]))
    return redirect("label", slug=pool.slug)


@require_POST
@require_role(Role.LABELER)
def label_undo(request: HttpRequest, slug: str) -> HttpResponse:
    """Take back the last submit or skip, or the one of the query that is named."""
    pool, person = get_pool(slug), _person(request)
    wanted = _number(request, "query")
    query = get_object_or_404(Query, pk=wanted, dataset__pool=pool) if wanted else None
    undone = labeling.undo(pool, person, query)
    if _wants_json(request):
        key = undone.query.pk if undone else wanted or None
        return JsonResponse(
            {"saved": True, "query": key, "what": undone.what if undone else "", **_counts(pool, person)}
        )
    if undone is None:
        messages.info(request, _("There is nothing to undo."))
        return redirect("label", slug=pool.slug)
    return redirect("label_item", slug=pool.slug, query_id=undone.query.pk)


@require_POST
@require_role(Role.LABELER)
def label_heartbeat(request: HttpRequest, slug: str) -> HttpResponse:
    """The person is still at it: their leases on the named queries are renewed. Answers with those that they still hold."""
    pool = get_pool(slug)
    keys = [int(key) for key in request.POST.get("queries", "").split(",") if key.isdigit()]
    return JsonResponse({"held": sorted(queue.heartbeat(pool, _person(request), keys))})


@require_POST
@require_role(Role.LABELER)
def label_skipped(request: HttpRequest, slug: str) -> HttpResponse:
    """Be asked again what one skipped."""
    pool = get_pool(slug)
    queue.offer_skipped(pool, _person(request))
    return redirect("label", slug=pool.slug)


@require_POST
@require_role(Role.REVIEWER)
def label_release(request: HttpRequest, slug: str, person_id: int) -> HttpResponse:
    """Free what somebody holds."""
    pool, holder = get_pool(slug), get_object_or_404(User, pk=person_id)
    count = queue.release(pool, holder)
    audit.record(
        "queue.released", actor=_person(request), target=holder.get_username(), pool=pool, detail={"items": count}
    )
    messages.success(request, _("%(count)s items of %(person)s are free again.") % {"count": count, "person": holder})
    back = request.POST.get("next", "")
    return redirect(back if url_has_allowed_host_and_scheme(back, None) else reverse("label", args=[slug]))


@require_GET
@require_role(Role.LABELER, Role.REVIEWER, Role.OPS)
def label_history(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """Who said what of a query and when, as far as this person may see it."""
    pool = get_pool(slug)
    query = get_object_or_404(Query, pk=query_id, dataset__pool=pool)
    return render(
        request,
        "datasets_app/_label_history.html",
        {"pool": pool, "query": query, "events": history(pool, query, request.user)},
    )


# ------------------------------------------------------------------------------------------------------ what is drawn


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user


def _wants_json(request: HttpRequest) -> bool:
    return "application/json" in request.headers.get("Accept", "")


def _number(request: HttpRequest, name: str) -> int:
    raw = request.POST.get(name, "")
    return int(raw) if raw.isdigit() and len(raw) < 16 else 0


def _lease(request: HttpRequest, pool: Pool, query_id: int) -> Assignment:
    query = get_object_or_404(Query, pk=query_id, dataset__pool=pool, deleted_at__isnull=True)
    lease = queue.open_item(query, _person(request), pool)
    lease.person = _person(request)
    lease.item.pool = pool
    return lease


def _choice(request: HttpRequest, pool: Pool) -> labeling.Choice:
    known = set(pool.agents.values_list("number", flat=True))

    def numbers(values: Sequence[str]) -> frozenset[int]:
        return frozenset(int(value) for value in values if value.isdigit()) & known

    asked = numbers(request.POST.get("asked", "").split(","))
    return labeling.Choice(
        required=numbers(request.POST.getlist("agent")),
        none=request.POST.get("none") == "1",
        unsure=request.POST.get("unsure") == "1",
        asked=asked,
    )


def _frame(request: HttpRequest, pool: Pool) -> dict[str, Any]:
    """What stands around the item."""
    return {
        "pool": pool,
        "guidelines": rendered(pool.guidelines),
        "may_edit_guidelines": Role.REVIEWER in roles_of(request.user),
        "reasons": SKIP_REASONS,
        **_counts(pool, _person(request)),
    }


def _counts(pool: Pool, person: User) -> dict[str, int]:
    return {"today": queue.done_today(pool, person), "left": queue.left(pool)}


def _drawn(request: HttpRequest, pool: Pool, lease: Assignment) -> dict[str, Any]:
    context = {"pool": pool, "reasons": SKIP_REASONS, **_item(lease)}
    html = render_to_string("datasets_app/_label_item.html", context, request)
    return {"query": lease.item.query_id, "html": html, **_counts(pool, lease.person)}


def _item(lease: Assignment, choice: labeling.Choice | None = None, problem: str = "") -> dict[str, Any]:
    """The item: its text, its agents in the order that they keep, what is chosen."""
    query, person = lease.item.query, lease.person
    agents = list(Agent.objects.filter(pool=lease.item.pool_id).active().order_by("number"))
    numbers = [agent.number for agent in agents]
    offers = labeling.show(lease, numbers)
    own = labeling.own_label(query, person)
    draft = Draft.objects.filter(query=query, person=person).first()
    if choice is None:
        choice = _stored(draft, own, numbers)
    suggested = proposed(offers, numbers)
    rows = [
        AgentRow(
            agent=agent,
            key=str(position + 1) if position < 9 else "",
            chosen=agent.number in choice.required,
            suggested=agent.number in suggested,
            scores=[(f"{offer.score(agent.number):.2f}", _source(offer)) for offer in offers if offer.scores],
        )
        for position, agent in enumerate(agents)
    ]
    rows.sort(key=lambda row: (not row.suggested, -mean_score(offers, row.agent.number) if row.suggested else 0))
    return {
        "query": query,
        "lease": lease,
        "text": underlined(query.text, agents),
        "rows": rows,
        "asked": ",".join(map(str, numbers)),
        "choice": choice,
        "offers": [(offer, _source(offer)) for offer in offers],
        "none_suggested": bool(offers) and not suggested,
        "suggested": ",".join(map(str, sorted(suggested))),
        "base": own.pk if own else 0,
        "own": own,
        "version": draft.version if draft else 0,
        "problem": problem,
    }


def _stored(draft: Draft | None, own: Label | None, numbers: Sequence[int]) -> labeling.Choice:
    if draft is not None:
        return labeling.Choice(frozenset(draft.required), draft.none, draft.unsure, frozenset(numbers))
    if own is not None:
        return labeling.Choice(frozenset(own.required), not own.required, own.unsure, frozenset(numbers))
    return labeling.Choice(frozenset(), False, False, frozenset(numbers))


def _source(offer: Offer) -> str:
    if offer.fallback:
        return _("keywords") if offer.fallback == "keyword" else _("all agents")
    return _("LLM") if offer.source == "llm" else _("model")


def underlined(text: str, agents: Sequence[Agent]) -> SafeString:
    """The text, escaped, with every agent's keywords underlined and named on hover; they stand out without colour."""
    names = {word.casefold(): agent.name for agent in agents for word in agent.keywords if word.strip()}
    if not names:
        return escape(text)
    words = "|".join(re.escape(word) for word in sorted(names, key=len, reverse=True))
    pieces, at = [], 0
    for found in re.finditer(rf"(?<!\w)(?:{words})(?!\w)", text, re.IGNORECASE):
        name = names.get(found.group().casefold(), "")
        pieces += [escape(text[at : found.start()]), format_html('<u title="{}">{}</u>', name, found.group())]
        at = found.end()
    return mark_safe("".join([*pieces, escape(text[at:])]))  # noqa: S308


def _nothing(pool: Pool, person: User) -> dict[str, Any]:
    """Why there is nothing to do: never an unexplained "no tasks"."""
    return {
        "query": None,
        "holdings": [one for one in queue.holdings(pool) if one.person.pk != person.pk],
        "skipped": queue.skipped(pool, person),
        "queries": Query.objects.filter(dataset__pool=pool, deleted_at__isnull=True).exists(),
        "agents": pool.agents.filter(state=Agent.State.ACTIVE).exists(),
        "open_for_others": queue.left(pool),
    }


def _refused(
    request: HttpRequest, pool: Pool, lease: Assignment, choice: labeling.Choice, problem: str
) -> HttpResponse:
    if _wants_json(request):
        return JsonResponse({"error": problem}, status=400)
    context = _frame(request, pool) | _item(lease, choice, problem)
    return page(request, "datasets_app/label.html", context, title=_("Label"), status=400)


def _conflict(
    request: HttpRequest, pool: Pool, lease: Assignment, choice: labeling.Choice, stale: labeling.Stale
) -> HttpResponse:
    """409, and both versions: what stands, and what was sent."""
    theirs = stale.theirs
    sent = isinstance(theirs, Label)
    stands = {
        "required": theirs.required,
        "none": not theirs.required if isinstance(theirs, Label) else theirs.none,
        "unsure": theirs.unsure,
        "sent": sent,
        "version": 0 if isinstance(theirs, Label) else theirs.version,
        "base": theirs.pk if sent else _number(request, "base"),
    }
    mine = {"required": sorted(choice.required), "none": choice.none, "unsure": choice.unsure}
    if _wants_json(request):
        return JsonResponse({"error": str(stale), "theirs": stands, "mine": mine}, status=409)
    agents = {agent.number: agent for agent in pool.agents.all()}
    context = {
        "pool": pool,
        "query": lease.item.query,
        "theirs": stands | {"agents": [agents[n] for n in theirs.required if n in agents]},
        "mine": mine | {"agents": [agents[n] for n in sorted(choice.required) if n in agents]},
        "asked": request.POST.get("asked", ""),
        "key": uuid.uuid4().hex,
    }
    return page(request, "datasets_app/label_conflict.html", context, title=_("Two versions"), status=409)


def history(pool: Pool, query: Query, viewer: Any) -> list[dict[str, Any]]:
    """What was said of a query, oldest first: who, when, what was added to and removed from what they had said before."""
    agents = {agent.number: agent for agent in pool.agents.all()}
    before: dict[tuple[str, int | None], Label] = {}
    events = []
    for one in labeling.visible_labels(query, viewer):
        slot = (one.source, one.author_id)
        earlier = before.get(slot)
        old = set(earlier.required) if earlier else set()
        withdrawn = "withdrawn_by" in one.provenance
        events.append(
            {
                "label": one,
                "who": (one.author.get_short_name() or one.author.get_username()) if one.author else "",
                "agents": [agents[n] for n in one.required if n in agents],
                "first": earlier is None,
                "added": [agents[n] for n in sorted(set(one.required) - old) if n in agents],
                "removed": [agents[n] for n in sorted(old - set(one.required)) if n in agents],
                "withdrawn": withdrawn,
            }
        )
        if not withdrawn:
            before[slot] = one
    return events
