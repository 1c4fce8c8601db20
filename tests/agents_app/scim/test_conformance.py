"""The scim2 project's own tester, an identity provider that knows nothing of this one: in this process, and over HTTP."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections

from agents_app.scim import tokens
from tests.agents_app.scim.conftest import Provider

if TYPE_CHECKING:  # takes seconds to load: only the test process that runs this file does
    from scim2_client.engines.httpx2 import SyncSCIMClient


pytestmark = pytest.mark.at_length


def check(client: Any) -> None:
    from scim2_tester import Status, check_server

    results = check_server(client)
    bad = [one for one in results if one.status not in (Status.SUCCESS, Status.SKIPPED)]
    assert not bad, "\n".join(f"{one.title} {one.resource_type or ''}: {one.reason}" for one in bad)
    done = {(one.title, one.resource_type) for one in results if one.status == Status.SUCCESS}
    for kind in ("User", "Group"):
        every = ("creation", "query", "query_without_id", "replacement", "deletion")
        assert {(f"object_{what}", kind) for what in every} <= done
        assert {(f"check_{what}_attribute", kind) for what in ("add", "remove", "replace")} <= done


@pytest.fixture
def one_connection() -> Iterator[None]:
    """Requests that do not close the test's connection, in whose transaction they stand."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def test_it_conforms(provider: Provider, one_connection: None) -> None:
    from scim2_client.engines.wsgi import WSGISCIMClient

    headers = {"Authorization": f"Bearer {provider.secret}"}
    check(WSGISCIMClient(get_wsgi_application(), base_url="http://127.0.0.1/scim/v2", headers=headers))


@pytest.fixture
def over_http(transactional_db: None, live_server: Any, settings: Any) -> Iterator["SyncSCIMClient"]:
    from scim2_client.engines.httpx2 import SyncSCIMClient

    settings.SCIM = True
    _token, secret = tokens.create("tester", None)
    headers = {"Authorization": f"Bearer {secret}"}
    with httpx2.Client(base_url=f"{live_server.url}/scim/v2", headers=headers, timeout=20) as http:
        yield SyncSCIMClient(http)


def test_a_running_server_conforms(over_http: "SyncSCIMClient") -> None:
    check(over_http)
