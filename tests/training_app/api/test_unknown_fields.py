"""A field that an address does not have is refused with 422 and named, in bodies, tool arguments and query strings alike."""

import json
import re
from typing import Any

import pytest

from agents_app.keys import create_key
from tests.datasets_app.conftest import add_query, dataset  # noqa: F401
from training_app.api.schema import document

DOCUMENT = json.loads(document())
#: Bodies that another project defines; what of them has no meaning here is ignored, as that project's servers do.
DEFINED_ELSEWHERE = (
    "chatCompletions",
    "responses",
    "ddqnRoute",
    "ddqnRouteBatch",
    "ardSearch",
    "ardExplore",
    "sendTraces",
)
WITHOUT_A_BODY_ELSEWHERE = ("listModels", "ddqnAgents")
BODIES = [
    pytest.param(path, operation, id=operation["operationId"])
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if method == "post" and "requestBody" in operation and operation["operationId"] not in DEFINED_ELSEWHERE
]
#: Every address that needs a key and is ours.
QUERY_STRINGS = [
    pytest.param(path, method, operation, id=operation["operationId"])
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if "security" in operation and operation["operationId"] not in (*DEFINED_ELSEWHERE, *WITHOUT_A_BODY_ELSEWHERE)
]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model")]


@pytest.fixture
def key(pool, person, add_query) -> str:  # noqa: F811
    """A key that may do everything."""
    add_query("Billing is wrong")
    return create_key("all", [pool], ["route", "ops", "label"], labels_as=person("labeler"))[1]


def filled(path: str, operation: dict[str, Any]) -> str:
    """The path with the example of each of its parts."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            value = next(iter(parameter["examples"].values()))["value"]
            path = path.replace("{" + parameter["name"] + "}", str(value))
    return path


@pytest.mark.parametrize(("path", "operation"), BODIES)
def test_a_body_with_an_unknown_field_is_refused(client, key, path, operation) -> None:
    example = next(iter(operation["requestBody"]["content"]["application/json"]["examples"].values()))["value"]
    answer = client.post(
        filled(path, operation),
        {**example, "colour": "red"},
        content_type="application/json",
        headers={"Authorization": f"Bearer {key}"},
    )
    error = answer.json()["error"]
    if answer.status_code == 404 and "{" in path:
        return  # the example names a row that is not there, and the address looks for it first
    assert (answer.status_code, error["code"], error["field"]) == (422, "unknown_field", "colour")


@pytest.mark.parametrize(("path", "method", "operation"), QUERY_STRINGS)
def test_a_query_string_with_an_unknown_name_is_refused(client, key, path, method, operation) -> None:
    headers = {"Authorization": f"Bearer {key}"}
    answer = client.generic(
        method, f"{filled(path, operation)}?colour=red", b"{}", content_type="application/json", headers=headers
    )
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["field"]) == (422, "unknown_field", "colour")
    assert "422" in operation["responses"]


@pytest.mark.parametrize("path", ["/api/health/", "/api/ready/", "/api/schema/", "/api/v1/models"])
def test_what_probes_and_other_projects_call_takes_any_query_string(client, key, path) -> None:
    assert client.get(f"{path}?colour=red", headers={"Authorization": f"Bearer {key}"}).status_code == 200


def test_a_route_cannot_name_a_model(app) -> None:
    answer = app.route("billing", model="support-1")
    assert answer.status_code == 422
    assert answer.json()["error"] == {
        "code": "unknown_field",
        "message": "'model' is not a field of this address.",
        "field": "model",
        "hint": answer.json()["error"]["hint"],
    }
    assert {"query", "messages", "pool", "explain"} <= set(re.findall(r"\w+", answer.json()["error"]["hint"]))
    assert app.batch("billing", explain=True).status_code == 422


def test_a_conversation_in_a_batch_has_no_other_fields(app) -> None:
    talk = {"messages": [{"role": "user", "content": "billing"}], "explain": True}
    answer = app.post("/api/route/batch/", {"queries": [talk]}, headers={"Authorization": f"Bearer {app.secret}"})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "queries[0].explain")


def test_a_tool_of_mcp_refuses_an_unknown_argument(app) -> None:
    call = {"name": "route", "arguments": {"query": "billing", "model": "support-1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Authorization": f"Bearer {app.secret}", "MCP-Protocol-Version": "2025-06-18"}
    told = app.post("/api/mcp/", body, headers=headers).json()["result"]
    assert told["isError"]
    assert "'model' is not a field" in told["content"][0]["text"]


@pytest.mark.parametrize(
    "message",
    [
        {"parts": [{"data": {"query": "billing", "model": "support-1"}}]},
        {"parts": [{"text": "billing"}], "metadata": {"model": "support-1"}},
    ],
)
def test_a_message_of_a2a_refuses_an_unknown_field(app, message) -> None:
    params = {"message": {"role": "ROLE_USER", "messageId": "1", **message}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    headers = {"Authorization": f"Bearer {app.secret}", "A2A-Version": "1.0"}
    error = app.post("/api/a2a/support/", body, headers=headers).json()["error"]
    assert error["code"] == -32602
    assert "'model' is not a field" in error["message"]


def test_metadata_of_an_extension_of_a2a_is_not_ours(app) -> None:
    message = {"role": "ROLE_USER", "messageId": "1", "parts": [{"text": "billing"}]}
    params = {"message": message | {"metadata": {"https://example.com/ext/v1/trace": "x"}}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
    headers = {"Authorization": f"Bearer {app.secret}", "A2A-Version": "1.0"}
    assert "result" in app.post("/api/a2a/support/", body, headers=headers).json()


def test_another_projects_body_may_have_fields_without_a_meaning_here(app) -> None:
    body = {
        "model": "router/support",
        "messages": [{"role": "user", "content": "billing"}],
        "temperature": 0,
        "tools": [],
    }
    headers = {"Authorization": f"Bearer {app.secret}"}
    assert app.post("/api/v1/chat/completions", body, headers=headers).status_code == 200
