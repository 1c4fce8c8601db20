"""The pages Queries and one query: search, bulk changes with a preview and an undo, export, delete and erase."""

from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.db.models import Count, QuerySet
from django.http import FileResponse, Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.models import Agent, Pool
from datasets_app.files import exports
from datasets_app.labeling import bulk, one_query, sending
from datasets_app.labeling.bulk_actions import ACTIONS, BulkAction
from datasets_app.labels import erased_queries, suggestions
from datasets_app.models import Assignment, BulkChange, Label, Query, QueueItem, Split
from datasets_app.pages import browse, chat
from datasets_app.pages.labeling_page import history
from datasets_app.queries import query_columns, traces
from routerweb.http import page, wants_fragment
from routerweb.pages import paging, parameters
from routerweb.pages.downloads import download

ROWS = 50
#: The newest bulk changes that the page offers to undo.
CHANGES = 10
may_browse = require_role(Role.REVIEWER, Role.OPS)


@require_GET
@may_browse
def queries(request: HttpRequest, slug: str) -> HttpResponse:
    """The list: a search line, its terms as chips, a page of the table. An HTMX request gets the list alone."""
    pool = get_pool(request, slug)
    results = browse.search(pool, request.GET.get("q", ""))
    order, exact = _order(request.GET.get("sort", "")), request.GET.get("count") == "exact"
    if results.terms and not exact:
        entries = results.entries(pool)
        shown, total = paging.part_and_total(results.queries, order, request.GET, ROWS, entries=entries)
    else:
        shown = paging.part(results.queries, order, request.GET, ROWS)
        total = paging.total(results.queries, shown=shown, exact=exact)
    agents = list(pool.agents.all())
    changes = BulkChange.objects.filter(pool=pool, undone_at=None).select_related("agent", "author")[:CHANGES]
    running, undoable = _changes(list(changes))
    context = {
        "pool": pool,
        "search": results,
        "chips": [(str(term), results.without(term)) for term in results.terms],
        "part": shown,
        "total": total,
        "rows": (rows := table_rows(shown.keys, agents)),
        "suggested": any(row["suggested"] for row in rows),
        "columns": query_columns.LISTED,
        "agents": [agent for agent in agents if agent.state == Agent.State.ACTIVE],
        "states": Query.State.choices,
        "splits": Split.choices,
        "sources": Label.Source.choices,
        "running": running,
        "undoable": undoable,
        "offer_undo": bool(undoable) and undoable[0][0].total > bulk.AT_ONCE,
        "actions": ACTIONS.values(),
        "action": request.GET.get("action", ""),
        "agent_asked": request.GET.get("agent", ""),
    }
    if wants_fragment(request):
        return render(request, "datasets_app/_queries_list.html", context)
    return page(request, "datasets_app/queries.html", context, title=_("Queries"))


def _changes(changes: Sequence[BulkChange]) -> tuple[BulkChange | None, list[tuple[BulkChange, str]]]:
    """The change that runs, where the newest does, and those that can be undone, each with the words for its action."""
    running = changes[0] if changes and not changes[0].finished_at else None
    finished = [(change, str(ACTIONS[change.action].label)) for change in changes if change.finished_at]
    return running, [(change, f"{what} ({change.agent.name})" if change.agent else what) for change, what in finished]


def _order(sort: str) -> list[str]:
    name, sign = sort.removeprefix("-"), "-" if sort.startswith("-") else ""
    lookup = query_columns.SORTS.get(name)
    if lookup is None:
        return ["-pk"]
    return [sign + field for field in dict.fromkeys((lookup, "pk"))]


def table_rows(keys: Sequence[int], agents: list[Agent]) -> list[dict[str, Any]]:
    """What the table says of each query, in five database queries however many rows."""
    by_number = {agent.number: agent for agent in agents}
    queries_by_key = Query.objects.filter(pk__in=keys).select_related("group", "gold", "dataset").defer("extra")
    by_key = {query.pk: query for query in queries_by_key}
    people = dict(
        Label.objects.current()
        .filter(query__in=keys, source=Label.Source.HUMAN)
        .values_list("query")
        .annotate(Count("pk"))
    )
    apart = dict(QueueItem.objects.filter(query__in=keys, agent__isnull=True).values_list("query_id", "disagreement"))
    offered = suggestions.offers(keys)
    rows = []
    for key in keys:
        query = by_key[key]
        gold = getattr(query, "gold", None)
        rows.append(
            {
                "query": query,
                "badges": [shown for _column, shown in query_columns.badges(query, listed=True)],
                "gold": gold,
                "agents": [by_number[n] for n in gold.required if n in by_number] if gold else [],
                "suggested": [
                    (offer.called, [by_number[n] for n in sorted(offer.required) if n in by_number])
                    for offer in offered.get(key, ())
                    if not offer.fallback
                ],
                "people": people.get(key, 0),
                "agreement": 1 - apart.get(key, 0.0) if people.get(key, 0) > 1 else None,
            }
        )
    return rows


@require_GET
@may_browse
def queries_export(request: HttpRequest, slug: str) -> FileResponse:
    """Everything that a search returns, as a file."""
    pool = get_pool(request, slug)
    format = request.GET.get("format", "jsonl")
    if format not in ("jsonl", "csv", "txt"):
        raise Http404(_("No such format."))
    rows = browse.search(pool, request.GET.get("q", "")).queries.filter(erased_at__isnull=True)
    pieces = exports.for_spreadsheets(exports.encode(exports.rows(rows), format), format)
    return download(pieces, exports.CONTENT_TYPES[format], exports.file_name(pool, format))


# ------------------------------------------------------------------------------------------------------ bulk changes


def _agent(pool: Pool, value: str | None) -> Agent | None:
    number = parameters.number(value)
    return None if number is None else pool.agents.filter(number=number).first()


def _selected(pool: Pool, fields: Any) -> tuple["QuerySet[Query]", str, str]:
    """The queries that an action is about, the search line and the ticked keys: those ticked, or, if that is asked for,
    all that the search returns."""
    text = fields.get("q", "")
    results = browse.search(pool, text)
    ticked = parameters.keys(fields.getlist("query"))
    if fields.get("all") == "1":
        return results.queries, text, ""
    return Query.objects.filter(pk__in=ticked, dataset__pool=pool), text, ",".join(map(str, ticked))


@require_GET
@may_browse
def bulk_preview(request: HttpRequest, slug: str) -> HttpResponse:
    """What an action would do, counted, before anything is done."""
    pool = get_pool(request, slug)
    action = request.GET.get("action", "")
    chosen, text, ticked = _selected(pool, request.GET)
    back = _list_of(slug, request.GET.get("q", ""))
    agent = None
    if request.GET.get("all") != "1" and not ticked:
        messages.error(request, _("Tick the queries first, or “all that match”."))
        params = {name: request.GET[name] for name in ("action", "agent") if request.GET.get(name)}
        return redirect(f"{back}&{urlencode(params)}" if params else back)
    what = ACTIONS.get(action)
    if what is None:
        messages.error(request, _("Choose an action first."))
        return redirect(back)
    if what.takes_agent:
        agent = _agent(pool, request.GET.get("agent"))
        if agent is None or (agent.state != Agent.State.ACTIVE and not what.retired_agents):
            return _which_agent(request, pool, what, back)
    preview = bulk.preview(chosen, action, agent)
    context = {
        "pool": pool, "action": what, "button": what.button(preview.changes), "agent": agent, "preview": preview, "search": text,
        "ticked": ticked.split(",") if ticked else [], "all": request.GET.get("all", ""), "back": back,
    }  # fmt: skip
    crumbs = [(_("Queries"), back)]
    return page(request, "datasets_app/bulk_preview.html", context, title=_("Change many queries"), crumbs=crumbs)


def _list_of(slug: str, search: str) -> str:
    """The address of what a search returns."""
    return f"{reverse('queries', args=[slug])}?{urlencode({'q': search})}"


def _which_agent(request: HttpRequest, pool: Pool, action: BulkAction, back: str) -> HttpResponse:
    context = {
        "pool": pool,
        "action": action,
        "agents": pool.agents.all() if action.retired_agents else pool.agents.active(),
        "kept": [(name, value) for name in ("q", "all", "query") for value in request.GET.getlist(name)],
        "back": back,
    }
    title, crumbs = _("Which agent?"), [(_("Queries"), back)]
    return page(request, "datasets_app/bulk_agent.html", context, title=title, crumbs=crumbs)


@require_POST
@may_browse
def bulk_apply(request: HttpRequest, slug: str) -> HttpResponse:
    """Do it, and offer the undo. More than 2,000 queries are left to a worker."""
    pool, actor = get_pool(request, slug), person(request)
    action = request.POST.get("action", "")
    chosen, text, _ticked = _selected(pool, request.POST)
    back = _list_of(slug, text)
    agent, what = _agent(pool, request.POST.get("agent")), ACTIONS.get(action)
    if what is None or (agent is not None) != what.takes_agent:
        raise Http404(_("No such change."))
    change = bulk.start(pool, chosen, action, agent, author=actor, search=text)
    change = bulk.carry_out(change)
    if change.finished_at is None:
        messages.success(request, _("%(n)s queries are being changed by a worker.") % {"n": change.total})
        return redirect(back)
    undo = "undo:" + reverse("bulk_undo", args=[slug, change.pk])
    messages.success(request, what.done(change.total), extra_tags=undo)
    return redirect(back)


@require_POST
@may_browse
def bulk_undo(request: HttpRequest, slug: str, change_id: int) -> HttpResponse:
    """Take a bulk change back."""
    change = get_object_or_404(BulkChange.objects.select_related("pool"), pk=change_id, pool__slug=slug)
    count = bulk.undo(change, person(request))
    as_it_was = ngettext("The change of %(n)s query is undone.", "The change of %(n)s queries is undone.", count) % {
        "n": count
    }
    messages.success(request, as_it_was)
    return redirect(_list_of(slug, change.search))


# --------------------------------------------------------------------------------------------------------- one query


@require_GET
@may_browse
def query(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """Everything that is known of one query."""
    pool = get_pool(request, slug)
    shown = get_object_or_404(Query.objects.select_related("dataset", "group", "gold"), pk=query_id, dataset__pool=pool)
    agents = {agent.number: agent for agent in pool.agents.all()}
    gold = getattr(shown, "gold", None)
    decided = {label.pk: label for label in Label.objects.filter(query=shown).select_related("author")}
    offers = suggestions.offers([shown.pk]).get(shown.pk, [])
    people = [label for label in decided.values() if label.superseded_at is None and label.source == Label.Source.HUMAN]
    standing = (label for label in decided.values() if label.superseded_at is None)
    decision = next((label for label in standing if sending.is_reviewed(label)), None)
    spoken = {number for label in people if not label.unsure for number in label.asked}
    rows = [
        {
            "agent": agent,
            "required": gold is not None and number in gold.required,
            "asked": gold is not None and number in gold.asked,
            "disputed": number in spoken and not (gold and number in gold.asked),
            "label": decided.get(gold.decided_by.get(str(number))) if gold else None,
            "scores": [(offer.called, offer.version, offer.score(number)) for offer in offers],
        }
        for number, agent in agents.items()
        if agent.state == Agent.State.ACTIVE or (gold and number in gold.required)
    ]
    rows.sort(key=lambda row: (not row["disputed"], not row["required"], not row["asked"]))
    context = {
        "pool": pool,
        "query": shown,
        "badges": query_columns.badges(shown),
        "chat": chat.earlier(shown.routed_text, list(agents.values())),
        "gold": gold,
        "rows": rows,
        "offers": offers,
        "events": history(pool, shown, request.user),
        "leases": Assignment.objects.filter(item__query=shown).select_related("person").order_by("taken_at"),
        "may_review": Role.REVIEWER in roles_of(request.user, pool),
        "decision": decision,
        "own": one_query.own_label(shown, person(request)),
    }
    title = _("Query %(key)s") % {"key": shown.pk}
    return page(
        request,
        "datasets_app/query.html",
        context,
        title=title,
        crumbs=[(_("Queries"), reverse("queries", args=[slug]))],
    )


@require_POST
@may_browse
def query_delete(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """Put one query aside; it can be brought back."""
    pool, actor = get_pool(request, slug), person(request)
    query = get_object_or_404(Query, pk=query_id, dataset__pool=pool)
    change = bulk.apply(pool, Query.objects.filter(pk=query.pk), bulk.DELETE, None, author=actor)
    messages.success(request, _("Deleted."), extra_tags="undo:" + reverse("bulk_undo", args=[slug, change.pk]))
    return redirect("queries", slug)


@require_POST
@may_browse
def query_restore(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """Bring one query back."""
    pool = get_pool(request, slug)
    bulk.restore(pool, [get_object_or_404(Query, pk=query_id, dataset__pool=pool).pk])
    messages.success(request, _("The query is back."))
    return redirect("query", slug, query_id)


@require_http_methods(["GET", "POST"])
@may_browse
def query_erase(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """Take a query's text out of everything, for ever; its counts stay. A GET shows where it stands, and asks for the word."""
    pool = get_pool(request, slug)
    query = get_object_or_404(Query, pk=query_id, dataset__pool=pool)
    if query.erased_at is not None:
        return redirect("query", slug, query_id)
    if request.method == "POST" and request.POST.get("sure") == "1":
        copies = erased_queries.erase(query, person(request))
        messages.success(request, _("The text is erased everywhere. Its label still counts."))
        if copies:
            where = ", ".join(f"{trace.place} ({trace.count})" for trace in copies)
            messages.warning(request, _("It still appears in: %(where)s. Change it there by hand.") % {"where": where})
        return redirect("query", slug, query_id)
    if request.method == "POST":
        messages.error(request, _("Tick the box to confirm. Erasing cannot be undone."))
    turns = (
        Query.objects.filter(erased_queries.of_the_same(query), erased_at=None)
        .exclude(text_hash=query.text_hash)
        .count()
    )
    context = {"pool": pool, "query": query, "traces": traces.of(query.text), "turns": turns}
    crumbs = [(pool.name, reverse("home")), (_("Queries"), reverse("queries", args=[slug]))]
    return page(request, "datasets_app/query_erase.html", context, title=_("Erase a query"), crumbs=crumbs)


@require_POST
@may_browse
def query_send(request: HttpRequest, slug: str, query_id: int) -> HttpResponse:
    """Ask labelers about one query."""
    pool = get_pool(request, slug)
    query = get_object_or_404(Query.objects.of(pool), pk=query_id)
    change = bulk.apply(pool, Query.objects.filter(pk=query.pk), bulk.SEND, None, author=person(request))
    if change.total:
        undo = "undo:" + reverse("bulk_undo", args=[slug, change.pk])
        messages.success(request, _("It waits for labelers."), extra_tags=undo)
    else:
        messages.success(request, _("It was already waiting for labelers."))
    return redirect("query", slug, query_id)
