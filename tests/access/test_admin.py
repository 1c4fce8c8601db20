"""The admin site's addresses, by every role: complete, because a model without a row fails, and asserted both ways."""

from dataclasses import dataclass
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, get_resolver

from tests import orchestration
from tests.access.rows import ADMINS, IN_A_POOL, OPS, STAFF
from tests.access.test_matrix import undone, undrawn
from tests.access.world import ROLES, World
from tests.thorough import EVERYTHING

pytestmark = pytest.mark.computes_long

NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Rights:
    """Who sees a model's list, rows and history in the admin, who saves a row's form, who gets a form for a new one. Rows are deleted
    by the pages, which know what goes with them, and by nobody here."""

    see: frozenset[str]
    change: frozenset[str] = NOBODY
    add: frozenset[str] = NOBODY


MODELS = {
    "agents_app/pool": Rights(STAFF, change=OPS, add=OPS),
    "agents_app/agent": Rights(STAFF, change=OPS),
    "agents_app/apikey": Rights(OPS, change=OPS),
    "agents_app/auditentry": Rights(OPS),
    "agents_app/backgroundjob": Rights(OPS),
    "auth/user": Rights(ADMINS, change=ADMINS),
    "auth/group": Rights(ADMINS, add=ADMINS),  # the four roles cannot be changed
    "datasets_app/dataset": Rights(STAFF, change=OPS, add=OPS),
    "datasets_app/gold": Rights(STAFF),
    "datasets_app/import": Rights(STAFF),
    "datasets_app/importproblem": Rights(STAFF),
    "datasets_app/label": Rights(STAFF),
    "datasets_app/query": Rights(STAFF),
    "datasets_app/snapshot": Rights(STAFF),
    "datasets_app/splitgroup": Rights(STAFF),
    "django_q/failure": Rights(OPS),
    "django_q/schedule": Rights(OPS),
    "training_app/decision": Rights(OPS),
    "training_app/promotion": Rights(OPS),
    "training_app/routermodel": Rights(OPS),
    "training_app/run": Rights(OPS),
}
if orchestration.INSTALLED:
    MODELS |= {
        "orchestration_app/backend": Rights(OPS),
        "orchestration_app/executor": Rights(OPS),
        "orchestration_app/provider": Rights(OPS),
        "orchestration_app/episode": Rights(OPS),
    }
#: What everybody who is signed in may open, with the methods that it has: none shows a row.
SHARED = {
    "": "GET POST",
    "search/": "GET POST",
    "password_change/": "GET POST",
    "password_change/done/": "GET",
    "jsi18n/": "GET",
}
#: One of each kind of rights.
IN_SHORT = (
    "agents_app/pool",
    "agents_app/apikey",
    "auth/user",
    "auth/group",
    "datasets_app/gold",
    "django_q/schedule",
    "training_app/run",
)
PASSWORD = "auth/user/<id>/password/"
#: Doors that lead elsewhere, patterns that answer for what is not there, and what needs a right to a related model (see below).
APART = {"login/", "logout/", "autocomplete/", "r/<path:content_type_id>/<path:object_id>/", "(?P<url>.*)$"}
VIEWS = {"": "see", "add/": "add", "<path:object_id>/history/": "see", "<path:object_id>/delete/": "delete"}
CHANGE = "<path:object_id>/change/"


def routes() -> set[str]:
    """Every address of the admin site below `admin/`, as its pattern, apart from the list of an app's models."""
    found: set[str] = set()

    def walk(patterns: Any, prefix: str) -> None:
        for pattern in patterns:
            route = prefix + str(pattern.pattern)
            if isinstance(pattern, URLPattern):
                found.add(route)
            else:
                walk(pattern.url_patterns, route)

    walk(get_resolver().url_patterns, "")
    return {r.removeprefix("admin/") for r in found if r.startswith("admin/") and "app_label" not in r}


def test_every_address_of_the_admin_has_a_row_and_every_row_an_address() -> None:
    expected = {f"{model}/{view}" for model in MODELS for view in (*VIEWS, CHANGE, "<path:object_id>/")}
    assert routes() == expected | set(SHARED) | {PASSWORD} | APART


def verdict(client: Client, role: str, path: str, may_get: bool, may_post: bool) -> list[str]:
    """What is wrong with the answers to GET and POST, each with its method."""
    wrong = []
    for method, may in (("GET", may_get), ("POST", may_post)):
        with undrawn(role):
            answer = undone(client, method, path)
        to = answer.get("Location", "")
        if role == "anonymous":
            fine = answer.status_code == 302 and to.startswith(("/login/?next=", "/admin/login/?next="))
        elif may:
            # An empty form is drawn again or, where no field is needed, saved; a row that there is none of leads back.
            fine = answer.status_code == 200 or (answer.status_code == 302 and to.startswith(("../", "/admin/")))
        else:
            fine = answer.status_code in (403, 405) or (method == "POST" and answer.status_code == 404)
        if not fine:
            wrong.append(
                f"{role}: {method} {path} answers {answer.status_code} {to}, {'not let in' if may else 'not refused'}"
            )
    return wrong


@pytest.mark.at_length
def test_every_model_by_every_role(world: World) -> None:
    wrong: list[str] = []
    # Who may see which list, tests/agents_app/test_admin.py asks of every model.
    models = MODELS if EVERYTHING else {name: MODELS[name] for name in IN_SHORT}
    for name, rights in models.items():
        row = apps.get_model(*name.split("/"))._default_manager.first()
        key = str(row.pk) if row is not None else "1"
        for role in (*ROLES, *IN_A_POOL):
            client = world.clients[role]
            allowed = {"see": role in rights.see, "add": role in rights.add, "delete": False}
            for view, right in VIEWS.items():
                path = f"/admin/{name}/{view.replace('<path:object_id>', key)}"
                if row is None and "object_id" in view:
                    continue
                wrong += verdict(client, role, path, allowed[right], allowed[right])
            if row is not None:
                path = f"/admin/{name}/{key}/change/"
                wrong += verdict(client, role, path, role in rights.see, role in rights.change)
    assert not wrong, "\n".join(wrong)


@pytest.mark.at_length
def test_what_everybody_may_open(world: World) -> None:
    wrong: list[str] = []
    for role in (*ROLES, *IN_A_POOL):
        for path, methods in SHARED.items():
            may = role != "anonymous"
            wrong += verdict(world.clients[role], role, f"/admin/{path}", may, may and "POST" in methods)
    assert not wrong, "\n".join(wrong)


@pytest.mark.at_length
def test_a_password_is_set_by_admins_and_a_superusers_by_superusers(world: World) -> None:
    people = {role: User.objects.get(username=f"{role}@example.com").pk for role in ("labeler", "superuser")}
    wrong: list[str] = []
    for role in (*ROLES, *IN_A_POOL):
        for whose, may in (("labeler", role in ADMINS), ("superuser", role == "superuser")):
            path = f"/admin/auth/user/{people[whose]}/password/"
            wrong += verdict(world.clients[role], role, path, may, may)
    assert not wrong, "\n".join(wrong)
