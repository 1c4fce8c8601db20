"""The sidebar, the pool switcher and the command search: what a person's role may open, in the pool where they are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import admin
from django.db.models import Exists, OuterRef
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from unfold.dataclasses import SearchResult

from agents_app.access import Role, opens, roles_anywhere, roles_of
from agents_app.models import Agent, Executor, Pool

EVERYONE = frozenset(Role)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the sidebar: the page's URL name, who may open it, and the URL names of the pages that belong to it."""

    name: str
    title: str | Promise
    icon: str
    roles: frozenset[Role]
    belongs: tuple[str, ...]
    #: Shown only in a pool of which this attribute is true; elsewhere the page is led to from Settings.
    where: str = ""


ENTRIES = (
    Entry("home", _("Home"), "home", EVERYONE, ("home",)),
    Entry("label", _("Label"), "label", frozenset({Role.LABELER}), ("label",)),
    Entry("my_labels", _("My labels"), "bookmark_check", frozenset({Role.LABELER}), ("my_labels",)),
    Entry("review", _("Review"), "rule", frozenset({Role.REVIEWER}), ("review", "agreement", "adjudicat")),
    Entry(
        "queries",
        _("Queries"),
        "list_alt",
        frozenset({Role.REVIEWER, Role.OPS}),
        ("quer", "import", "export", "snapshot", "dataset"),
    ),
    Entry("agents", _("Agents"), "groups", frozenset({Role.OPS}), ("agent",)),
    Entry("runs", _("Runs"), "play_circle", frozenset({Role.OPS}), ("run",)),
    Entry("models", _("Models"), "deployed_code", frozenset({Role.OPS}), ("model", "promot", "rollback")),
    Entry("decisions", _("Decisions"), "receipt_long", frozenset({Role.OPS}), ("decision",)),
    Entry("episodes", _("Episodes"), "timeline", frozenset({Role.OPS}), ("episode",), "orchestrates"),
    Entry("alarms", _("Alarms"), "notifications", frozenset({Role.OPS}), ("alarm", "drift")),
    Entry("playground", _("Playground"), "alt_route", frozenset({Role.OPS}), ("playground",)),
    Entry(
        "settings",
        _("Settings"),
        "settings",
        frozenset({Role.REVIEWER, Role.OPS}),
        ("settings", "people", "person", "key", "audit", "prelabel", "prompt", "receiver", "executor"),
    ),
)


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
        called = Exists(Executor.objects.filter(agent__pool=OuterRef("pk"), active=True))
        found = Pool.objects.in_use().only("slug", "name", "archived_at", "deleted_at").annotate(orchestrates=called)
        request._routerweb_pools = [pool for pool in found if opens(request.user, pool)]  # type: ignore[attr-defined]
    pools: list[Pool] = request._routerweb_pools  # type: ignore[attr-defined]
    return pools


def current_pool(request: HttpRequest) -> Pool | None:
    """The pool that a person is in: the address's, or else the one they were in last, or else the first."""
    pools = pools_of(request)
    match = request.resolver_match
    named = match.kwargs.get("slug") if match else None
    for pool in pools:
        if pool.slug == named:
            if request.session.get("pool") != named:
                request.session["pool"] = named
            return pool
    opened: Pool | None = getattr(request, "_routerweb_pool", None)
    if opened is not None and opened.slug == named:
        return opened  # it is put away: it stands in no list, and can be read
    last = request.session.get("pool")
    return next((pool for pool in pools if pool.slug == last), pools[0] if pools else None)


def shell(request: HttpRequest) -> dict[str, Any]:
    """What the shell's own templates need: the pools and where each would lead."""
    if not request.user.is_authenticated:
        return {}
    pool = current_pool(request)
    here = _page_name(request)
    entry = next((entry for entry in ENTRIES if _belongs(here, entry)), None)
    return {
        "rw_pool": pool,
        # Another pool opens on the same page where that page is one of the sidebar's, else on its agents or its home.
        "rw_pools": [(other, _same_page(entry, other, request), other == pool) for other in pools_of(request)],
        "rw_new_pool": address("pool_new", None) if Role.OPS in roles_of(request.user) else "",
        "rw_pools_page": address("pools", None) if Role.OPS in roles_anywhere(request.user) else "",
        "rw_home": address("home", None) or "/",
    }


def _same_page(entry: Entry | None, pool: Pool, request: HttpRequest) -> str:
    for candidate in (entry, *ENTRIES[1:]):
        if candidate is None or candidate.name == "home" or not _used(candidate, pool):
            continue
        if candidate.roles & roles_of(request.user, pool):
            found = address(candidate.name, pool)
            if found:
                return found
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
    for entry in ENTRIES:
        link = address(entry.name, pool) if entry.roles & roles and _used(entry, pool) else ""
        if link:
            items.append({"title": entry.title, "icon": entry.icon, "link": link, "active": _belongs(here, entry)})
    groups: list[dict[str, Any]] = [{"title": None, "collapsible": False, "items": items}]
    if lists := admin_lists(request):
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


#: What later rooms let a person find in the current pool, by a lower-case term.
FINDS: list[Callable[[HttpRequest, Pool, str], list[SearchResult]]] = []


def search(request: HttpRequest, term: str) -> list[SearchResult]:
    """What the command search finds beside the admin's lists: pages, pools, the current pool's agents, and what later rooms know."""
    pool = current_pool(request)
    roles = roles_of(request.user, pool)
    found = []
    for entry in ENTRIES:
        link = address(entry.name, pool) if entry.roles & roles and _used(entry, pool) else ""
        if link and term in str(entry.title).lower():
            found.append(SearchResult(str(entry.title), pool.name if pool else "", link, entry.icon))
    for other in pools_of(request):
        if term in other.name.lower() or term in other.slug:
            found.append(SearchResult(other.name, str(_("Pool")), _same_page(None, other, request), "hub"))
    if pool is not None and Role.OPS in roles:
        for agent in Agent.objects.filter(pool=pool, name__icontains=term)[:10]:
            link = reverse("agent_edit", args=(pool.slug, agent.number))
            found.append(SearchResult(agent.name, f"{agent.code} · {pool.name}", link, "smart_toy"))
    if pool is not None:
        for find in FINDS:
            found += find(request, pool, term)
    return found
