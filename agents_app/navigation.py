"""The sidebar, the pool switcher and the command search: what a person's role may open, in the pool where they are."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from unfold.dataclasses import SearchResult

from agents_app.access import Role, opens, roles_anywhere, roles_of
from agents_app.models import Agent, Pool
from routerweb import hooks
from routerweb.http import LAST_POOL

EVERYONE = frozenset(Role)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the sidebar: the page's URL name, who may open it, and the beginnings of the URL names of the pages that
    belong to it.

    `where` names an annotation of a pool: the line is shown only where that is true; elsewhere Settings lead to the page. A line that
    another package adds stands behind the line with the URL name `after`.
    """

    name: str
    title: str | Promise
    icon: str
    roles: frozenset[Role]
    belongs: tuple[str, ...]
    where: str = ""
    after: str = ""


OWN_ENTRIES = (
    Entry("home", _("Home"), "home", EVERYONE, ("home",)),
    Entry("label", _("Label"), "label", frozenset({Role.LABELER}), ("label", "check_answers")),
    Entry("my_labels", _("My labels"), "bookmark_check", frozenset({Role.LABELER}), ("my_labels",)),
    Entry("review", _("Review"), "rule", frozenset({Role.REVIEWER}), ("review", "agreement", "adjudicat")),
    Entry(
        "queries",
        _("Queries"),
        "list_alt",
        frozenset({Role.REVIEWER, Role.OPS}),
        ("quer", "import", "export", "snapshot", "dataset", "traffic"),
    ),
    Entry("agents", _("Agents"), "groups", frozenset({Role.OPS}), ("agent", "proposal")),
    Entry("runs", _("Runs"), "play_circle", frozenset({Role.OPS}), ("run",)),
    Entry("models", _("Models"), "deployed_code", frozenset({Role.OPS}), ("model", "promot", "rollback", "case")),
    Entry("decisions", _("Decisions"), "receipt_long", frozenset({Role.OPS}), ("decision",)),
    Entry("alarms", _("Alarms"), "notifications", frozenset({Role.OPS}), ("alarm", "drift")),
    Entry("playground", _("Playground"), "alt_route", frozenset({Role.OPS}), ("playground",)),
    Entry(
        "settings",
        _("Settings"),
        "settings",
        frozenset({Role.REVIEWER, Role.OPS}),
        ("settings", "people", "person", "key", "audit", "prelabel", "prompt", "receiver"),
    ),
)


class Page(NamedTuple):
    """A page that stands behind a line of the sidebar: the command search finds it by its title and by the beginnings of `words`."""

    name: str
    title: str | Promise
    words: str | Promise
    icon: str
    roles: frozenset[Role]


OPS = frozenset({Role.OPS})
PEOPLE = frozenset({Role.REVIEWER, Role.OPS})
PAGES = (
    Page("import", _("Import"), _("upload file csv excel labels queries"), "upload", PEOPLE),
    Page("traffic", _("Traffic"), _("traces opentelemetry langfuse who answered"), "timeline", PEOPLE),
    Page("export", _("Export"), _("download file csv jsonl"), "download", PEOPLE),
    Page("snapshots", _("Snapshots"), _("frozen data set version"), "inventory_2", PEOPLE),
    Page("agreement", _("Agreement of labelers"), _("kappa alpha quality"), "handshake", PEOPLE),
    Page("agents_add_several", _("Add several agents"), _("new agent import card openapi mcp"), "group_add", OPS),
    Page("run_new", _("Train a model"), _("launch run training new router"), "play_circle", OPS),
    Page("run_sweeps", _("Sweeps"), _("hyperparameter search tune"), "tune", OPS),
    Page("run_rules", _("Training rules"), _("automatic schedule retrain"), "autorenew", OPS),
    Page("cases", _("Must-pass cases"), _("test regression always route"), "checklist", PEOPLE),
    Page("decisions_live", _("Shadows and canary"), _("rollout trial share traffic a/b"), "science", OPS),
    Page("decisions_outcomes", _("Outcomes"), _("feedback success report"), "thumb_up", OPS),
    Page("decisions_off_policy", _("Off-policy"), _("evaluation what if"), "query_stats", OPS),
    Page(
        "check_answers",
        _("Check 30 answers"),
        _("delivered quality sample live blind"),
        "fact_check",
        frozenset({Role.LABELER}),
    ),
    Page("proposals", _("Proposed agents"), _("missing overlap cluster duplicate gap"), "group_add", OPS),
    Page("drift", _("Drift"), _("change of queries distribution"), "trending_up", OPS),
    Page("health_page", _("Health"), _("processes workers queue status"), "monitor_heart", OPS),
    Page("pools", _("Pools"), _("archive delete restore"), "hub", OPS),
    Page("pool_new", _("New pool"), _("make create"), "add_circle", OPS),
    Page("prompt", _("Prompt"), _("llm instruction pre-labeling"), "edit_note", PEOPLE),
    Page("provisioning", _("Provisioning"), _("scim identity provider directory"), "sync", frozenset({Role.ADMIN})),
    Page("account", _("Your account"), _("my password sessions second factor sign out"), "account_circle", EVERYONE),
)


@cache
def entries() -> tuple[Entry, ...]:
    """Every line of the sidebar, from top to bottom."""
    lines = list(OWN_ENTRIES)
    for entry in (entry for added in hooks.sidebar_entries() for entry in added):
        lines.insert(1 + [line.name for line in lines].index(entry.after), entry)
    return tuple(lines)


def address(name: str, pool: Pool | None) -> str:
    """Where a page is, in that pool where it belongs to one; "" when it cannot be opened."""
    if pool is not None:
        try:
            return reverse(name, args=(pool.slug,))
        except NoReverseMatch:
            pass
    try:
        return reverse(name)
    except NoReverseMatch:
        return ""


def pools_of(request: HttpRequest) -> list[Pool]:
    """Every pool in use that the person has a role in, by name, without its texts; read once a request."""
    if not hasattr(request, "_routerweb_pools"):
        annotations = {name: value for added in hooks.pool_annotations() for name, value in added.items()}
        readable = Pool.objects.in_use().only("slug", "name", "archived_at", "deleted_at").annotate(**annotations)
        request._routerweb_pools = [pool for pool in readable if opens(request.user, pool)]  # type: ignore[attr-defined]
    pools: list[Pool] = request._routerweb_pools  # type: ignore[attr-defined]
    return pools


def current_pool(request: HttpRequest) -> Pool | None:
    """The pool that a person is in: the address's, or else the one they were in last, or else the first."""
    pools = pools_of(request)
    match = request.resolver_match
    named = match.kwargs.get("slug") if match else None
    for pool in pools:
        if pool.slug == named:
            return pool
    opened: Pool | None = getattr(request, "_routerweb_pool", None)
    if opened is not None and opened.slug == named:
        return opened  # it is put away: it stands in no list, and can be read
    last = request.COOKIES.get(LAST_POOL)
    return next((pool for pool in pools if pool.slug == last), pools[0] if pools else None)


def shell(request: HttpRequest) -> dict[str, Any]:
    """What the shell's own templates need: the pools and where each would lead."""
    if not request.user.is_authenticated:
        return {}
    pool = current_pool(request)
    here = _page_name(request)
    entry = next((entry for entry in entries() if _belongs(here, entry)), None)
    return {
        "rw_pool": pool,
        # Another pool opens on the same page where that page is one of the sidebar's, else on its agents or its home.
        "rw_pools": [(other, _same_page(entry, other, request), other == pool) for other in pools_of(request)],
        "rw_new_pool": address("pool_new", None) if Role.OPS in roles_of(request.user) else "",
        "rw_pools_page": address("pools", None) if Role.OPS in roles_anywhere(request.user) else "",
        "rw_home": address("home", None) or "/",
        "rw_demo": settings.DEMO,
    }


def _same_page(entry: Entry | None, pool: Pool, request: HttpRequest) -> str:
    for candidate in (entry, *entries()[1:]):
        if candidate is None or candidate.name == "home" or not _used(candidate, pool):
            continue
        if candidate.roles & roles_of(request.user, pool):
            target = address(candidate.name, pool)
            if target:
                return target
    return address("home", None) or "/"


def _used(entry: Entry, pool: Pool | None) -> bool:
    """Whether the pool uses what the entry leads to."""
    return not entry.where or bool(getattr(pool, entry.where, False))


def _page_name(request: HttpRequest) -> str:
    match = request.resolver_match
    return (match.url_name or "") if match and not match.namespaces else ""


def _belongs(name: str, entry: Entry) -> bool:
    return bool(name) and name.startswith(entry.belongs)


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """The groups of the sidebar: the pages that the person's role opens, then the admin's lists, folded."""
    if not request.user.is_authenticated:
        return []
    pool, here = current_pool(request), _page_name(request)
    roles = roles_of(request.user, pool)
    items = []
    for entry in entries():
        link = address(entry.name, pool) if entry.roles & roles and _used(entry, pool) else ""
        if link:
            items.append({"title": entry.title, "icon": entry.icon, "link": link, "active": _belongs(here, entry)})
    groups: list[dict[str, Any]] = [{"title": None, "collapsible": False, "items": items}]
    # The admin's lists are closed to visitors of a public demo.
    if lists := [] if getattr(request, "is_visitor", False) else admin_lists(request):
        groups.append({"title": _("Admin"), "collapsible": True, "items": lists})
    return groups


def admin_lists(request: HttpRequest) -> list[dict[str, Any]]:
    """The admin's lists that the person may view, in the order of the apps."""
    lists = []
    for app in admin.site.get_app_list(request):
        for model in app["models"]:
            if model.get("admin_url"):
                url = model["admin_url"]
                lists.append({"title": model["name"], "link": url, "active": request.path.startswith(url)})
    return lists


#: What later packages let a person find in the current pool, by a lower-case term.
FINDS: list[Callable[[HttpRequest, Pool, str], list[SearchResult]]] = []


def says(term: str, title: str | Promise, words: str | Promise = "") -> bool:
    """Whether a title holds a lower-case term, or one of the words beside it begins so."""
    return term in str(title).lower() or any(word.startswith(term) for word in str(words).lower().split())


def search(request: HttpRequest, term: str) -> list[SearchResult]:
    """What the command search finds beside the admin's lists: pages, pools, the current pool's agents, and what later packages add."""
    pool = current_pool(request)
    roles = roles_of(request.user, pool)
    results = []
    for entry in entries():
        link = address(entry.name, pool) if entry.roles & roles and _used(entry, pool) else ""
        if link and term in str(entry.title).lower():
            results.append(SearchResult(str(entry.title), pool.name if pool else "", link, entry.icon))
    for page in PAGES:
        if page.roles & roles and says(term, page.title, page.words) and (link := address(page.name, pool)):
            results.append(SearchResult(str(page.title), pool.name if pool else "", link, page.icon))
    for other in pools_of(request):
        if term in other.name.lower() or term in other.slug:
            results.append(SearchResult(other.name, str(_("Pool")), _same_page(None, other, request), "hub"))
    if pool is not None and Role.OPS in roles:
        for agent in Agent.objects.filter(pool=pool, name__icontains=term)[:10]:
            link = reverse("agent_edit", args=(pool.slug, agent.number))
            results.append(SearchResult(agent.name, f"{agent.code} · {pool.name}", link, "smart_toy"))
    if pool is not None:
        for find in FINDS:
            results += find(request, pool, term)
    return results
