"""The sidebar, the pool switcher and the search: each person sees what their role opens."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import site
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.test import Client

from agents_app import pools
from agents_app.models import Pool
from agents_app.navigation import PAGES, address, entries

pytestmark = pytest.mark.django_db

# A page of this room that each role may open, to look at the shell around it.
STARTS = {"reviewer": "/p/support/settings/", "ops": "/p/support/agents/", "admin": "/people/"}


def _items(page: str) -> list[str]:
    listed = page[page.index('id="nav-sidebar-apps"') : page.index('class="rw-me"')]
    return re.findall(r'aria-hidden="true">\w+</span><span>([^<]+)</span>', listed)


@pytest.mark.parametrize(
    ("role", "seen", "unseen"),
    [
        ("reviewer", {"Settings", "Queries", "Label"}, {"Agents", "Runs", "Models"}),
        ("ops", {"Agents", "Settings", "Runs", "Models", "Queries", "Label"}, {"Review"}),
        ("admin", {"Agents", "Settings", "Label", "Queries", "Runs"}, set()),
    ],
)
def test_the_sidebar_shows_what_the_role_opens(
    client_of: Callable[[str], Client], pool: Pool, role: str, seen: set[str], unseen: set[str]
) -> None:
    there = {str(entry.title) for entry in entries() if address(entry.name, pool)}
    items = set(_items(client_of(role).get(STARTS[role]).content.decode()))
    assert items >= seen & there
    assert "Settings" in items
    assert not items & unseen


def test_the_admins_lists_are_folded_and_follow_permissions(client_of: Callable[[str], Client], pool: Pool) -> None:
    page = client_of("ops").get("/p/support/agents/").content.decode()
    assert '<details class="rw-nav-group"><summary>Admin' in page
    assert "/admin/agents_app/auditentry/" in page
    assert "/admin/auth/user/" not in page
    assert "/admin/auth/user/" in client_of("admin").get("/people/").content.decode()
    assert '<details class="rw-nav-group" open>' in client_of("ops").get("/admin/agents_app/agent/").content.decode()


def test_the_admins_lists_are_worked_out_once_a_page(ops: Client, pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    built = site._build_app_dict

    def counted(request: HttpRequest, label: str | None = None) -> dict[str, Any]:
        asked.append(label)
        found: dict[str, Any] = built(request, label)
        return found

    monkeypatch.setattr(site._wrapped, "_build_app_dict", counted)
    for path in ("/p/support/agents/", "/admin/"):
        asked.clear()
        assert "/admin/agents_app/auditentry/" in ops.get(path).content.decode()
        assert asked == [None]


def test_the_page_one_is_on_is_marked(ops: Client, pool: Pool) -> None:
    page = ops.get("/p/support/agents/0/").content.decode()
    assert re.findall(r'<a href="([^"]+)" class="active" aria-current="page">', page) == ["/p/support/agents/"]


def test_the_pool_is_remembered_and_the_switcher_stays_on_the_page(
    client_of: Callable[[str], Client], pool: Pool
) -> None:
    pools.create_pool("Sales")
    browser, other = client_of("ops"), client_of("ops")
    page = browser.get("/p/support/settings/").content.decode()
    assert '<a href="/p/sales/settings/">Sales</a>' in page
    assert '<a href="/p/support/settings/" aria-current="true">Support</a>' in page
    # A page that belongs to no pool shows the one that one was in last; without any, the first by name.
    assert "<b>Support</b>" in browser.get("/audit/").content.decode()
    assert "<b>Sales</b>" in other.get("/audit/").content.decode()


def test_without_a_pool_the_shell_leads_to_a_new_one(ops: Client) -> None:
    page = ops.get("/pools/new/").content.decode()
    assert "No pool yet" in page
    assert 'href="/pools/new/"' in page


def test_the_search_finds_pages_pools_and_agents_of_ones_role(client_of: Callable[[str], Client], pool: Pool) -> None:
    def found(role: str, term: str) -> str:
        return client_of(role).get(f"/admin/search/?extended=1&s={term}").content.decode()

    assert "/p/support/agents/0/" in found("ops", "billing")
    assert "/p/support/agents/0/" not in found("reviewer", "billing")
    assert "/p/support/settings/" in found("reviewer", "settings")
    assert "Support" in found("ops", "supp")


@pytest.mark.parametrize(
    ("term", "path"),
    [
        ("keys", "/p/support/settings/keys/"),
        ("canary", "/p/support/decisions/live/"),
        ("drift", "/p/support/drift/"),
        ("privacy", "/p/support/settings/privacy/"),
        ("retrain", "/p/support/runs/rules/"),
        ("csv", "/p/support/import/"),
    ],
)
def test_the_search_finds_pages_behind_the_sidebar(
    client_of: Callable[[str], Client], pool: Pool, term: str, path: str
) -> None:
    address = f"/admin/search/?extended=1&s={term}"
    assert f'href="{path}"' in client_of("ops").get(address).content.decode()
    assert f'href="{path}"' not in client_of("labeler").get(address).content.decode()


def test_every_page_that_the_search_names_exists_and_opens(client_of: Callable[[str], Client], pool: Pool) -> None:
    admin = client_of("admin")
    for page in PAGES:
        assert admin.get(address(page.name, pool)).status_code == 200, page.name


def test_a_search_that_finds_nothing_says_so_and_what_to_try(ops: Client, pool: Pool) -> None:
    page = ops.get("/admin/search/?extended=1&s=<zebra>").content.decode()
    assert (
        page.index('id="command-results-list"') < page.index("Nothing is called “&lt;zebra&gt;”") < page.index("Try ")
    )


def test_error_pages_are_drawn_without_the_shell(ops: Client, pool: Pool) -> None:
    answer = ops.get("/p/nowhere/agents/")
    assert (answer.status_code, "There is no such page" in answer.content.decode()) == (404, True)
    for name in ("400.html", "403.html", "403_csrf.html", "404.html", "500.html"):
        page = render_to_string(name)
        assert page.count("<h1>") == 1
        assert "routerweb/app.css" in page


def test_every_page_has_one_heading_a_skip_link_and_a_main(admin: Client, pool: Pool) -> None:
    for path in ("/p/support/agents/", "/p/support/settings/keys/", "/people/", "/audit/", "/pools/new/"):
        page = admin.get(path).content.decode()
        assert page.count("<h1") == 1, path
        assert page.count("<main") == 1, path
        assert page.index('class="rw-skip"') < page.index('id="rw-main"'), path
        ids = re.findall(r'\sid="([^"]+)"', page)
        assert len(ids) == len(set(ids)), (path, [i for i in ids if ids.count(i) > 1])
