"""The messages of MCP: what is refused, how, and to whom."""

from typing import Any

import pytest

from agents_app import pools
from tests.training_app.served import Application, application
from training_app.api import mcp

META = {mcp.META + "protocolVersion": "2026-07-28", mcp.META + "clientCapabilities": {}}
HEADERS = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "route"}


@pytest.fixture(autouse=True)
def ready(model) -> None:
    """The pool answers."""


def sent(app: Application, body: object, **headers: str) -> Any:
    authorized = {"Authorization": f"Bearer {app.secret}"}
    return app.post(
        "/api/mcp/", body, headers=authorized | {name.replace("_", "-"): it for name, it in headers.items()}
    )


def stateless(
    app: Application, method: str = "tools/call", headers: dict[str, str] | None = None, **params: Any
) -> Any:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": META, **params}}
    named = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if "name" in params:
        named["Mcp-Name"] = params["name"]
    return sent(app, body, **{**named, **(headers or {})})


def legacy(app: Application, method: str, **params: Any) -> Any:
    return sent(app, {"jsonrpc": "2.0", "id": "a", "method": method, "params": params})


@pytest.mark.django_db
def test_a_stateless_call(app) -> None:
    answer = stateless(app, name="route", arguments={"query": "my billing"})
    assert answer.status_code == 200
    told = answer.json()["result"]
    assert told["structuredContent"]["agent_names"] == ["Billing"]
    assert told["resultType"] == "complete"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("headers", "params", "code"),
    [
        ({"Mcp-Method": "tools/list"}, {}, -32020),
        ({"Mcp-Name": "other"}, {}, -32020),
        ({"Mcp-Name": "=?base64?%%?="}, {}, -32020),
        ({"MCP-Protocol-Version": "2027-01-01"}, {}, -32020),
        (
            {"MCP-Protocol-Version": "2027-01-01"},
            {"_meta": META | {mcp.META + "protocolVersion": "2027-01-01"}},
            -32022,
        ),
        ({}, {"_meta": {}}, -32602),
        ({}, {"_meta": {mcp.META + "protocolVersion": "2026-07-28"}}, -32602),
        ({}, {"arguments": [1]}, -32602),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(app, headers, params, code) -> None:
    answer = stateless(app, headers=headers, **{"name": "route", "arguments": {"query": "billing"}, **params})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == code
    assert answer.json()["id"] == 1


@pytest.mark.django_db
def test_a_name_may_come_in_base64(app) -> None:
    answer = stateless(app, headers={"Mcp-Name": "=?base64?cm91dGU=?="}, name="route", arguments={"query": "billing"})
    assert answer.status_code == 200


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("{", -32700), ("[]", -32700), ("[" * 50_000, -32700), ({}, -32600), ({"jsonrpc": "2.0", "id": 1}, -32600),
        ({"jsonrpc": "1.0", "id": 1, "method": "ping"}, -32600), ({"jsonrpc": "2.0", "id": None, "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "ping"}, -32600), ({"jsonrpc": "2.0", "id": {}, "method": "ping"}, -32600),
    ],
)  # fmt: skip
def test_what_is_no_message_is_refused(app, body, code) -> None:
    answer = sent(app, body)
    assert answer.json()["error"]["code"] == code
    # What has an id that one may have is answered under it.
    assert answer.status_code == (200 if isinstance(body, dict) and type(body.get("id")) is int else 400)


@pytest.mark.django_db
def test_who_shakes_hands_is_answered_in_its_version(app) -> None:
    for version, given in (
        ("2025-06-18", "2025-06-18"),
        ("1999-01-01", "2025-11-25"),
        (None, "2025-11-25"),
        ([], "2025-11-25"),
    ):
        assert legacy(app, "initialize", protocolVersion=version).json()["result"]["protocolVersion"] == given
    assert legacy(app, "ping").json()["result"] == {}
    gone = legacy(app, "server/discover")
    # A 404 would tell it that its session has ended.
    assert (gone.status_code, gone.json()["error"]["code"]) == (200, -32601)
    assert stateless(app, "ping").status_code == 404
    assert sent(app, {"jsonrpc": "2.0", "method": "notifications/initialized"}).status_code == 202


@pytest.mark.django_db
def test_a_key_of_two_pools_names_one(pool, app) -> None:
    other = pools.create_pool("Sales", "sales")
    both = application(pool, other)
    (tool,) = legacy(both, "tools/list").json()["result"]["tools"]
    assert tool["inputSchema"]["properties"]["pool"]["enum"] == ["sales", "support"]
    assert tool["inputSchema"]["required"] == ["pool"]
    told = legacy(both, "tools/call", name="route", arguments={"query": "billing"}).json()["result"]
    assert told["isError"]
    assert "support" in told["content"][0]["text"]
    told = legacy(both, "tools/call", name="route", arguments={"query": "billing", "pool": "sales"}).json()["result"]
    assert "no active model" in told["content"][0]["text"]


@pytest.mark.django_db
def test_a_page_of_another_site_needs_its_origin_named(app, settings) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert sent(app, body, Origin="https://elsewhere.example").status_code == 403
    assert sent(app, body, Origin="http://testserver").status_code == 200
    settings.CORS_ORIGINS = ("https://elsewhere.example",)
    assert sent(app, body, Origin="https://elsewhere.example").status_code == 200


@pytest.mark.django_db
def test_a_key_that_sends_too_much_is_stopped(pool, model, settings) -> None:
    settings.ROUTE_RATE_PER_MINUTE = 2
    app = application(pool)
    answers = [legacy(app, "tools/call", name="route", arguments={"query": "billing"}) for _ in range(4)]
    assert [answer.status_code for answer in answers][-1] == 429
    assert int(answers[-1]["Retry-After"]) > 0
