"""Values that no field should take, in every field, parameter and header of every operation: a clear refusal, never a fault."""

import json
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections
from django.test import Client, RequestFactory

from agents_app.keys import create_key
from tests import orchestration
from tests.datasets_app.conftest import add_query, dataset  # noqa: F401
from tests.thorough import EVERYTHING
from tests.training_app.conftest import person  # noqa: F401
from training_app.api.schema import document

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.computes_long]
DOCUMENT = json.loads(document())
#: As JSON texts, since some of them no JSON library writes: those that no field takes, and those that some do.
NEVER = ['"a\\ud800"', '"a\\u0000b"', "9" * 400, "1e999", '{"\\ud800": ["\\ud800"]}']
AT_TIMES = [
    "9" * 5_009,
    "NaN",
    "-1",
    "1000000000000",
    "9" * 20,
    "0.5",
    '"²"',
    '"9999-12-31"',
    "null",
    "true",
    "[" * 200 + "]" * 200,
]
TEXTS = ["²", "1" * 13, "9" * 5_009, "-1", "0.5", "\0", b"\xed\xa0\x80", b"\xff", "after:9999-12-31", "x" * 3_000]

#: It stores what it takes in threads of its own, which wait for the transaction of a test; test_gateway.py sends it bad bodies.
STORED_BESIDE = {"responses"}


def operations(part: str) -> list[Any]:
    return [
        pytest.param(method, path, operation, id=f"{method} {path}")
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if operation["operationId"] not in STORED_BESIDE
        if part in operation and (part == "requestBody" or any(one["in"] == "query" for one in operation[part]))
    ]


@pytest.fixture
def secret(pool, model, person, add_query) -> str:  # noqa: F811
    add_query("Billing is wrong")
    orchestration.give_executors(pool)
    return create_key("all", [pool], ["route", "ops", "label"], labels_as=person("labeler"))[1]


def refused(response: Any, *, or_taken: bool = True) -> dict[str, Any]:
    """The error of a response; a value that a field may ignore or take is no error."""
    no_orchestrator = response.status_code == 503 and response.json()["error"]["code"] == "no_orchestrator"
    assert response.status_code < 500 or no_orchestrator, response.content
    if (no_orchestrator or response.status_code < 300) and or_taken:
        return {}
    assert 400 <= response.status_code < 500, response.content
    found = response.json()
    # The catalog's search says it in its draft's words too.
    assert {"error"} <= set(found) <= {"error", "errorCode", "message"}
    assert {"code", "message"} <= set(found["error"])
    assert "Traceback" not in found["error"]["message"]
    return found["error"]


def send(secret: str, path: str, raw: str) -> Any:
    headers = {"Authorization": f"Bearer {secret}"}
    return Client().generic("POST", path, raw, content_type="application/json", headers=headers)


def address(path: str) -> str:
    return re.sub(r"\{(\w+)\}", lambda part: {"name": "support-1"}.get(part[1], "1"), path)


def properties(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        return properties(DOCUMENT["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]])
    return schema["properties"]


@pytest.mark.parametrize(("method", "path", "operation"), operations("requestBody"))
def test_in_every_field_of_a_body(secret, method, path, operation) -> None:
    media = operation["requestBody"]["content"]["application/json"]
    example = next(iter(media["examples"].values()))["value"]
    fields = properties(media["schema"])
    assert fields
    # Where not everything is tested, each field is sent one of them, in turn, and the first one all.
    never = NEVER * len(fields)
    for field, value in [
        *(
            (field, value)
            for n, field in enumerate(fields)
            for value in (NEVER if EVERYTHING or n == 0 else never[n : n + 1])
        ),
        *((field, value) for field in list(fields)[:1] for value in AT_TIMES),
        *((field, NEVER[0]) for field in ("unknown", "\ud800", "config.\ud800")),
    ]:
        rest = {key: one for key, one in example.items() if key != field}
        raw = json.dumps(rest)[:-1] + (", " if rest else "") + f"{json.dumps(field)}: {value}" + "}"
        error = refused(send(secret, address(path), raw))
        assert error or value not in NEVER or field not in fields, (field, value)


@pytest.mark.parametrize("inner", ["\ud800", "total_steps", "encoder"])
@pytest.mark.parametrize(
    ("path", "field"), [("/api/runs/", "config"), ("/api/sweeps/", "space"), ("/api/rules/", "config")]
)
def test_in_a_setting(secret, path, field, inner) -> None:
    for value in NEVER:
        assert refused(send(secret, path, f'{{"name": "n", "{field}": {{{json.dumps(inner)}: {value}}}}}'))


@pytest.mark.parametrize(("method", "path", "operation"), operations("parameters"))
def test_in_every_parameter(secret, method, path, operation) -> None:
    for parameter in operation["parameters"]:
        if parameter["in"] != "query":
            continue
        for text in TEXTS:
            response = Client().get(
                f"{address(path)}?{parameter['name']}={quote(text)}", headers={"Authorization": f"Bearer {secret}"}
            )
            error = refused(response)
            if parameter["name"] in ("limit", "agent", "cursor"):
                assert error, (parameter["name"], text, response.content)


def test_in_a_path(secret) -> None:
    numbers = ["9" * 19, "9" * 5_009, "1" * 13, "²", "-1", "%00", "%ff", "%ed%a0%80"]
    for template in ("runs/{}/", "rules/{}/", "sweeps/{}/", "label/{}/", "decisions/{}/replay/", "models/{}/live/"):
        for number in numbers:
            response = Client().get(f"/api/{template.format(number)}", headers={"Authorization": f"Bearer {secret}"})
            assert refused(response, or_taken=False)["code"] == "not_found"
    for number in numbers:
        for verb in ("pause", "resume"):
            response = Client().post(
                f"/api/agents/{number}/{verb}/",
                {},
                content_type="application/json",
                headers={"Authorization": f"Bearer {secret}"},
            )
            assert refused(response, or_taken=False)["code"] == "not_found"


@pytest.mark.parametrize(
    "header", ["Authorization", "Content-Type", "Accept", "Content-Length", "X-Forwarded-For", "Cookie"]
)
def test_in_a_header(secret, header) -> None:
    for value in ("²", "9" * 5_009, "\xed\xa0\x80", "a\0b", "Bearer \xed\xa0\x80", "é", "-1", "1e999"):
        headers = {"Authorization": f"Bearer {secret}", header: value}
        refused(
            Client().generic(
                "POST", "/api/route/", '{"query": "billing"}', content_type="application/json", headers=headers
            )
        )


def test_many_parameters_are_refused_as_such(secret, in_memory) -> None:
    from routerweb import wsgi

    in_memory()
    many = "&".join(f"a{number}=1" for number in range(2_000))
    sent = RequestFactory(headers={"Authorization": f"Bearer {secret}"}).get(f"/api/agents/?{many}").environ
    seen: list[str] = []
    request_finished.disconnect(close_old_connections)
    request_started.disconnect(close_old_connections)
    try:
        body = b"".join(wsgi.application(sent, lambda status, *_: seen.append(status)))
    finally:
        request_finished.connect(close_old_connections)
        request_started.connect(close_old_connections)
    assert (seen, json.loads(body)["error"]["code"]) == (["400 Bad Request"], "malformed")
