"""No GET writes: every page and every call that reads is answered over a connection that refuses writes, as it is otherwise."""

from typing import Any

import pytest
from django.contrib.admin import site
from django.db import DatabaseError, transaction
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from tests.access.read_only import read_only
from tests.access.rows import API, PAGES, SCIM
from tests.access.test_matrix import filled
from tests.access.world import World
from tests.thorough import EVERYTHING
from training_app.models import RouterModel

pytestmark = pytest.mark.both_databases
#: Whose pages; an operator and somebody who has not signed in see a part of a superuser's.
WHO = ("superuser", "labeler", "ops", "anonymous") if EVERYTHING else ("superuser", "labeler")
#: What addresses are asked for beyond themselves.
ASKED: dict[str, tuple[str, ...]] = {
    "p/<slug:slug>/decisions/": ("format=jsonl", "format=huggingface", "q=billing&outcome=failure"),
    "p/<slug:slug>/queries/": ("q=billing", "state=open"),
    "p/<slug:slug>/export/file/": ("format=jsonl", "format=csv", "format=xlsx"),
    "p/<slug:slug>/runs/new/": ("kind=backend_chooser", "kind=orchestrator"),
}


def writes_of(client: Client, path: str, **sent: Any) -> list[str]:
    """What the database refused while the address was read, to the end of what it sends."""
    client.raise_request_exception = False
    with read_only() as refused:
        answer: HttpResponse = client.generic("GET", path, **sent)
        if answer.streaming:
            b"".join(answer.streaming_content)
    return refused if refused or answer.status_code < 500 else [f"no write, but {answer.status_code}"]


def test_no_page_writes(world: World) -> None:
    wrong = {}
    for who in WHO:
        for route, row in PAGES.items():
            if "GET" not in row.methods.split() or not row.lets_in(route, who):
                continue
            for asked in ("", *ASKED.get(route, ())):
                path = "/" + filled(route, world.parts_of(route)) + (f"?{asked}" if asked else "")
                if refused := writes_of(world.clients[who], path):
                    wrong[f"{who}: {path}"] = refused
    assert wrong == {}


def test_no_call_that_reads_writes(world: World, settings: Any) -> None:
    settings.SCIM = True
    wrong = {}
    for route, row in API.items():
        if "GET" in row.methods.split():
            headers = {"Authorization": f"Bearer {world.secrets[row.scope or 'ops']}"}
            path = "/api/" + filled(route, world.parts_of(route)) + ("?pool=support" if row.pool else "")
            if refused := writes_of(Client(headers=headers), path):
                wrong[path] = refused
    for route, (methods, _sent) in SCIM.items():
        if "GET" in methods.split():
            headers = {"Authorization": f"Bearer {world.secrets['scim']}"}
            uid = world.parts["scim_group" if route.startswith("Groups") else "scim_person"]
            path = "/scim/v2/" + filled(route, {"uid": uid, "name": "User"})
            if refused := writes_of(Client(headers=headers), path):
                wrong[path] = refused
    assert wrong == {}


@pytest.mark.at_length
def test_no_page_of_the_admin_site_writes(world: World) -> None:
    wrong = {}
    for model in site._registry:
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        row = model._default_manager.first()
        paths = [reverse(f"{name}_changelist"), reverse(f"{name}_add")]
        paths += [reverse(f"{name}_change", args=(row.pk,)), reverse(f"{name}_history", args=(row.pk,))] if row else []
        for path in paths:
            if refused := writes_of(world.clients["superuser"], path):
                wrong[path] = refused
    assert wrong == {}


def test_the_connection_refuses_writes_and_takes_them_again(world: World) -> None:
    with read_only() as refused, pytest.raises(DatabaseError, match="read"), transaction.atomic():
        RouterModel.objects.update(state="retired")
    assert len(refused) == 1
    assert RouterModel.objects.update(state="retired")
