"""Every address of the site, by every method, for everybody: complete, because an address without a row fails, and asserted both ways,
because an allowed request that is refused fails as one that is let in and should not be."""

import contextlib
import copy
import json
import re
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from django.contrib.admin import site
from django.db import transaction
from django.http import HttpResponse
from django.template.base import Template
from django.test import Client
from django.urls import URLPattern, get_resolver
from django.utils.safestring import SafeString

from tests.access.rows import API, IN_A_POOL, OPEN, OPS, PAGES, SCIM, ApiRow, Row
from tests.access.world import KEYS, ROLES, World
from tests.thorough import EVERYTHING

pytestmark = pytest.mark.computes_long

METHODS = ("GET", "POST", "PUT", "DELETE")
#: Answers to what was sent, from an address that one may use.
ANSWERS = {200, 201, 202, 204, 301, 302, 303, 400, 409, 422}


def routes() -> Iterator[str]:
    """Every address that Django's resolver knows, as its pattern; those of the admin site apart, see `test_admin`."""

    def walk(patterns: Any, prefix: str = "") -> Iterator[str]:
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if isinstance(pattern, URLPattern):
                yield route
            elif getattr(pattern, "app_name", None) != "admin":
                yield from walk(pattern.url_patterns, route)

    yield from walk(get_resolver().url_patterns)


def test_every_address_has_a_row_and_every_row_an_address() -> None:
    found = set(routes())
    # Those of the API are there with and without the last slash.
    api = {route.removeprefix("api/") for route in found if route.startswith("api/")}
    assert {route if route.endswith("/") or not route else f"{route}/" for route in api} == set(API)
    assert {route.removeprefix("scim/v2/") for route in found if route.startswith("scim/v2/")} == set(SCIM)
    doors = {"admin/login/", "admin/logout/"}
    assert {route for route in found if not route.startswith(("api/", "scim/v2/"))} - doors == set(PAGES)
    assert doors <= found


def filled(text: str, parts: dict[str, Any]) -> str:
    """A pattern, or what is sent, with what the site has in the places of its parts."""
    return re.sub(r"<(?:\w+:)?(\w+)>", lambda part: str(parts[part[1]]), text)


def undone(client: Client, method: str, path: str, **sent: Any) -> HttpResponse:
    """The answer to a request, of which nothing stays: the next one finds the site as this one did."""
    cookies = copy.deepcopy(client.cookies)
    client.raise_request_exception = False
    with transaction.atomic():
        answer: HttpResponse = getattr(client, method.lower())(path, **sent)
        transaction.set_rollback(True)
    client.cookies = cookies
    return answer


@contextlib.contextmanager
def undrawn(who: str) -> Iterator[None]:
    """Who is let in follows from the view. What it then draws is drawn for one who sees all of it, and where everything is tested for
    everybody."""
    with pytest.MonkeyPatch.context() as patch:
        if not EVERYTHING and who != "superuser":
            patch.setattr(Template, "_render", lambda *_words: SafeString(""))
            patch.setattr(site, "each_context", lambda _request: {})
        yield


def page_verdict(route: str, row: Row, role: str, method: str, answer: HttpResponse) -> str:
    """What is wrong with an answer, or ""."""
    status, to = answer.status_code, answer.get("Location", "")
    asked_to_sign_in = status == 302 and to.startswith("/login/?next=")
    offered = method in row.methods.split()
    if not row.lets_in(route, role):
        refused = asked_to_sign_in if role in ("anonymous", "ops key") else status == 403
        return "" if refused or (not offered and status == 405) else f"{status} {to}, not refused"
    if not offered:
        return "" if status == 405 else f"{status} {to}, though it has no {method}"
    if asked_to_sign_in or (status not in ANSWERS and status not in row.also):
        return f"{status} {to}, not let in"
    return ""


def methods_of(row: Row | ApiRow, who: str) -> list[str]:
    """Those that an address has, and one that it has not for one who may do all; where everything is tested, all for everybody. A
    role in one pool is told apart by GET and POST, or by the first of them alone."""
    offered = row.methods.split()
    if who in IN_A_POOL:
        return list(METHODS[:2]) if EVERYTHING else offered[:1]
    if EVERYTHING:
        return list(METHODS)
    others = [method for method in METHODS if method not in offered]
    may_do_all = who == ("ops" if isinstance(row, ApiRow) else "superuser")
    return [*offered, *others[:1]] if may_do_all else offered


def test_pages(world: World, settings: Any) -> None:
    settings.OIDC_ISSUER = ""
    clients = {**world.clients, "ops key": Client(headers={"Authorization": f"Bearer {world.secrets['ops']}"})}
    assert {*ROLES, "ops key"} == OPEN
    assert clients.keys() == OPEN | set(IN_A_POOL)
    wrong = {}
    for (at, (role, client)), (place, (route, row)) in product(enumerate(clients.items()), enumerate(PAGES.items())):
        # Without everything, a sixth of the others in turn: each role asks for addresses of every kind, each address is asked by some.
        if EVERYTHING or role == "superuser" or (at + place) % 6 == 0:
            path = "/" + filled(route, world.parts_of(route))
            for method in methods_of(row, role):
                with undrawn(role):
                    answer = undone(client, method, path, **({"data": row.sent} if method == "POST" else {}))
                if problem := page_verdict(route, row, role, method, answer):
                    wrong[f"{role}: {method} {route}"] = problem
    assert wrong == {}
    # An alarm of the whole site has the address of a pool's, and is for ops of all pools alone.
    path = f"/p/support/alarms/{world.parts['site_alarm_id']}/mute/"
    for role, client in world.clients.items():
        statuses = {undone(client, "POST", path, data={"hours": hours}).status_code for hours in ("8", "0")}
        assert statuses == ({302} if role in OPS | {"anonymous"} else {403}), role


def api_verdict(row: ApiRow, key: str, method: str, answer: HttpResponse) -> str:
    """What is wrong with an answer, or ""."""
    status = answer.status_code
    if method not in row.methods.split():
        return "" if status == 405 else f"{status}, though it has no {method}"
    if row.scope is not None:
        if key in ("none", "session", "unknown", "expired", "revoked", "deactivated maker"):
            return "" if status == 401 else f"{status}, not 401"
        if key == "other pool" and (row.pool or row.names_pool):
            return "" if status in (403, 404) else f"{status}, not refused"
        if row.scope and key in ("route", "label", "ops", "traces") and key != row.scope:
            return "" if status == 403 else f"{status}, not 403"
    let_in = status == row.always if row.always else status in ANSWERS
    return "" if let_in else f"{status}, not let in: {answer.content[:200]!r}"


def test_api(world: World) -> None:
    wrong = {}
    for at, key in enumerate(KEYS):
        client = world.clients["superuser"] if key == "session" else Client()
        headers = {"Authorization": f"Bearer {world.secrets[key]}"} if key in world.secrets else {}
        for place, (route, row) in enumerate(API.items()):
            if not EVERYTHING and key != "ops" and (at + place) % 2:
                continue
            path = "/api/" + (filled(route, world.parts_of(route)) or "nowhere/")
            sent = json.loads(filled(json.dumps(row.sent), world.parts)) | row.of_pool(route)
            for method in methods_of(row, key):
                if method == "POST":
                    options = {"data": json.dumps(sent), "content_type": "application/json"}
                else:
                    options = {"query_params": row.of_pool(route)}
                # The same view answers without the last slash, where the address has one method that is its own.
                for asked in {path, path.removesuffix("/")} if method == row.methods and route != "docs/" else {path}:
                    answer = undone(client, method, asked, headers=headers, **options)
                    if problem := api_verdict(row, key, method, answer):
                        wrong[f"{key}: {method} {asked}"] = problem
    assert wrong == {}


@pytest.mark.at_length
def test_scim(world: World, settings: Any) -> None:
    """A SCIM token opens these addresses; no session, no API key and no revoked token does, and while SCIM is off nothing does."""
    people, teams = world.parts["scim_person"], world.parts["scim_group"]
    callers = {
        "token": (Client(), world.secrets["scim"]), "revoked": (Client(), world.secrets["scim revoked"]), "none": (Client(), ""),
        "ops key": (Client(), world.secrets["ops"]), "superuser": (world.clients["superuser"], ""),
    }  # fmt: skip
    wrong = {}
    for on in (True, False):
        settings.SCIM = on
        for who, (client, secret) in callers.items():
            headers = {"Authorization": f"Bearer {secret}"} if secret else {}
            for route, (methods, sent) in SCIM.items():
                uid = teams if route.startswith("Groups") else people
                path = "/scim/v2/" + filled(route, {"uid": uid, "name": "User"}).replace("^.*$", "nowhere")
                for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                    options = (
                        {"data": json.dumps(sent), "content_type": "application/scim+json"} if method != "GET" else {}
                    )
                    status = undone(client, method, path, headers=headers, **options).status_code
                    offered = method in methods.split()
                    allowed = ANSWERS | {404} if route == "Schemas/<str:name>" else ANSWERS
                    expected = {404} if not on or not methods else allowed if offered else {405}
                    if status not in (expected if not on or who == "token" else {401}):
                        wrong[f"{who}, {'on' if on else 'off'}: {method} {path}"] = status
    assert wrong == {}


def test_the_admins_own_door_leads_to_the_one_door() -> None:
    assert Client().get("/admin/login/")["Location"] == "/login/"
    assert Client().get("/admin/logout/")["Location"] == "/login/"
