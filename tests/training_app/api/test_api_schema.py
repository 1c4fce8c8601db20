"""The API's description: complete, true of what is answered, and obeyed by whatever is generated from it.

`GENERATED_CALLS=200` sends that many for each operation in place of the default; they are then new ones each time.
"""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import one_of
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from agents_app.keys import create_key
from datasets_app.models import Query
from tests import orchestration
from tests.datasets_app.conftest import add_query, dataset  # noqa: F401
from tests.thorough import many
from tests.training_app.conftest import person  # noqa: F401
from training_app.api import paging
from training_app.api.schema import CODES, document
from training_app.api.urls import urlpatterns
from training_app.models import AgentProposal, Decision

DOCUMENT = json.loads(document())
OPERATIONS = [
    pytest.param(operation, id=f"{method.upper()} {path}")
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
]
#: Requests that are sent for each operation.
BUDGET = int(os.environ.get("GENERATED_CALLS", many(12)))


def examples(content: dict[str, Any]) -> list[Any]:
    media = next(iter(content.values()))  # JSON, or each type of a file
    return [one["value"] for one in media.get("examples", {}).values()]


@pytest.mark.any_database
@pytest.mark.parametrize("operation", OPERATIONS)
def test_each_operation_says_what_it_does_with_an_example_and_its_errors(operation) -> None:
    assert operation["summary"]
    assert len(operation["description"]) > 40
    assert operation["tags"]
    for parameter in operation.get("parameters", ()):
        assert parameter["description"], parameter["name"]
    if "requestBody" in operation:
        assert examples(operation["requestBody"]["content"])
        assert {"400", "411", "413", "415"} <= set(operation["responses"])
    public = operation["operationId"] in ("health", "ddqnHealth", "ready", "schema", "ardCatalog")
    assert public or {"401", "403", "503"} <= set(operation["responses"])
    if "parameters" in operation and any(one["in"] == "path" for one in operation["parameters"]):
        assert "404" in operation["responses"]
    for status, response in operation["responses"].items():
        assert response["description"], status
        if status == "304":  # has no body
            continue
        shown = examples(response["content"])
        assert shown, status
        if int(status) >= 400 and operation["operationId"] != "health":
            assert all(CODES[one["error"]["code"]][0] == int(status) for one in shown)


@pytest.mark.any_database
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_examples_are_as_they_are_described(operation) -> None:
    bodies = [operation["requestBody"]] if "requestBody" in operation else []
    answers = [response for status, response in operation["responses"].items() if status != "304"]
    for described in [*bodies, *answers]:
        schema = next(iter(described["content"].values()))["schema"]
        validator = Draft202012Validator({**schema, "components": DOCUMENT["components"]})
        for shown in examples(described["content"]):
            assert [error.message for error in validator.iter_errors(shown)] == []


@pytest.mark.any_database
def test_every_address_is_described() -> None:
    routes = {str(one.pattern) for one in urlpatterns if str(one.pattern).endswith("/")} - {
        "docs/",
        "metrics/",
        "mcp/",
        "mcp/<slug:slug>/",
        "a2a-card/",
        "a2a/<slug:slug>/",
        "a2a/<slug:slug>/card/",
    }  # a page, a text, and protocols of their own
    described = {path.removeprefix("/api/") for path in DOCUMENT["paths"]}
    assert len(routes) == len(described) > 30
    assert len({operation.values[0]["operationId"] for operation in OPERATIONS}) == len(OPERATIONS)


ROOT = Path(__file__).parents[3]
#: Addresses in the documents that are no calls of this API: a page, a protocol of its own, and what other servers have.
NO_CALLS = {"/api/docs/", "/chat/completions"}


def parts(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from parts(below)


def described(method: str, address: str) -> bool:
    """Whether the description has the call, under this address or as one that leads to the same."""
    for path, methods in DOCUMENT["paths"].items():
        operation = methods.get(method.lower())
        if operation is None:
            continue
        form = re.sub(r"\\{\w+\\}", r"[\\w-]+", re.escape(path))
        if re.fullmatch(form, address) or f"`{address}`" in operation["description"]:
            return True
    return False


@pytest.mark.any_database
@orchestration.needed
def test_the_addresses_of_the_documents_are_described() -> None:
    found = {
        (method, address)
        for file in (*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "client" / "README.md")
        for method, address in re.findall(r"`(?:GET`, `)?(GET|POST|PUT|PATCH|DELETE) (/[^`?\s]*)", file.read_text())
    }
    assert len(found) > 40
    assert (
        sorted(
            (method, address) for method, address in found if address not in NO_CALLS and not described(method, address)
        )
        == []
    )


@pytest.mark.any_database
def test_a_body_that_is_described_is_needed() -> None:
    assert all(one.values[0]["requestBody"]["required"] for one in OPERATIONS if "requestBody" in one.values[0])


@pytest.mark.any_database
def test_nothing_of_the_maker_is_left_in_it() -> None:
    assert {name for part in parts(DOCUMENT) for name in part if name.startswith("x-")} == set()
    assert {tag["name"] for tag in DOCUMENT["tags"]} == {tag for one in OPERATIONS for tag in one.values[0]["tags"]}


@pytest.mark.any_database
def test_no_choice_within_a_component_has_the_name_of_another_component() -> None:
    """Generators name a choice after its component and its field."""
    schemas = DOCUMENT["components"]["schemas"]
    choices = {
        name + "".join(word.capitalize() for word in field.split("_"))
        for name, schema in schemas.items()
        for field, shape in schema.get("properties", {}).items()
        if "enum" in shape or "enum" in shape.get("items", {})
    }
    assert choices & schemas.keys() == set()


@pytest.mark.any_database
@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_headers_of_answers_are_described(operation) -> None:
    headers = {status: set(told.get("headers", ())) for status, told in operation["responses"].items()}
    assert all(
        "Retry-After" in headers[status]
        for status in ("429", "503")
        if status in headers and operation["operationId"] != "health"
    )
    asked = {one["name"] for one in operation.get("parameters", ())}
    assert ("Link" in headers.get("200", ())) == ("cursor" in asked)
    assert any("Idempotent-Replayed" in one for one in headers.values()) == ("Idempotency-Key" in asked)


@pytest.fixture
def sender(pool, model, person, add_query, settings, monkeypatch):  # noqa: F811
    """A key that may do everything in a pool that holds one of everything, and the API itself."""
    from routerweb import wsgi

    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    settings.ALLOWED_HOSTS = ["*"]
    add_query("Billing is wrong")
    orchestration.give_executors(pool)
    if orchestration.INSTALLED:  # a thread cannot write while a test's transaction does
        monkeypatch.setattr("orchestration_app.episodes.direct.Direct.store", lambda _direct: None)
    _key, secret = create_key("all", [pool], ["route", "ops", "label"], labels_as=person("labeler"))
    yield secret, wsgi.application
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def there(pool, model) -> dict[str, list[Any]]:
    """What the parts of addresses and the cursors of lists may name."""
    fields = {
        "agents": [0],
        "scores": {"0": 0.2},
        "confidence": 0.1,
        "steps": 1,
        "stop_reason": "stop",
        "microseconds": 9,
    }
    texts = ("my visa runs out", "where is my passport", "")  # the last was erased
    decisions = [Decision.objects.create(pool=pool, model=model, text=text, **fields) for text in texts]
    ids = [str(one.pk) for one in decisions]
    kinds = AgentProposal.Kind
    proposals = [
        AgentProposal.objects.create(
            pool=pool, kind=kinds.MISSING, name="Visas", decisions=ids, size=3, figures={"count": 3}
        ),
        AgentProposal.objects.create(pool=pool, kind=kinds.OVERLAP, agents=[0, 1], figures={"share": 0.3}),
    ]
    places = [[ids[0]], ["1"], [decisions[0].at.isoformat(), ids[0]], ["9999-12-31T23:59:59.999999+23:59", ids[0]],
              ["0001-01-01", ids[0]], ["9" * 30], [""], [], ["1", "1", "1"]]  # fmt: skip
    nothing = ["W10", "bnVsbA", "eyJhIjoxfQ", "W1tbW1tbW11dXV1dXV0", "=", "é", "W251bGxd", "WyJcdWQ4MDAiXQ"]
    return {
        "decision_id": ids, "proposal_id": [one.pk for one in proposals], "name": [model.name], "number": [0, 1, 2],
        "query_id": [Query.objects.latest("pk").pk], "cursor": [*map(paging.cursor_at, places), *nothing],
    }  # fmt: skip


@pytest.mark.django_db
@pytest.mark.parametrize("path", DOCUMENT["paths"])
def test_generated_requests_meet_no_fault_and_nothing_undocumented(sender, there, path) -> None:
    secret, api = sender
    schema = schemathesis.openapi.from_wsgi("/api/schema/", api)
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
    sent = 0

    for result in schema.include(path=path).get_all_operations():
        operation = result.ok()

        @settings(
            max_examples=BUDGET, deadline=None, derandomize="GENERATED_CALLS" not in os.environ, database=None,
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(
            case=one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode)),
            named=st.none() | st.fixed_dictionaries({name: st.sampled_from(values) for name, values in there.items()}),
        )
        def send(case, named) -> None:
            nonlocal sent
            sent += 1
            if named:
                for sent_parts in (case.path_parameters, case.query):
                    sent_parts |= {name: value for name, value in named.items() if name in sent_parts}
            with transaction.atomic():  # the next one finds the pool as this one did
                response = case.call(headers={"Authorization": f"Bearer {secret}"})
                transaction.set_rollback(True)
            if response.status_code == 503 and b"no_model" in response.content:
                return
            case.validate_response(response, checks=checks)

        send()
    assert sent
