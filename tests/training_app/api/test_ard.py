"""A pool as a catalog of Agentic Resource Discovery: answers hold to the draft's schema, errors to its form, and a key to its pools.

SCHEMA says in our own words what version 0.9 of the draft asks for (ards-project/ard-spec, `spec/schemas/ard.openapi.yaml` and
`ai-catalog.schema.json`). With ARD_SPEC naming a checkout of it, answers are held to the draft's own files too.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator, FormatChecker

from agents_app import pools
from agents_app.models import Agent, Pool
from tests.training_app.served import Application, application
from training_app.answering import throttle
from training_app.models import Decision

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model")]
URI, TEXT, TEXTS = (
    {"type": "string", "format": "uri"},
    {"type": "string"},
    {"type": "array", "items": {"type": "string"}},
)
ENTRY = {
    "type": "object",
    "required": ["identifier", "displayName", "type"],
    "oneOf": [{"required": ["url"]}, {"required": ["data"]}],
    "properties": {
        "identifier": {"type": "string", "pattern": r"^urn:air:[a-zA-Z0-9.-]+(:[a-zA-Z0-9._-]+)+$"},
        "displayName": TEXT, "type": TEXT, "url": URI, "data": {"type": "object"}, "description": TEXT, "tags": TEXTS,
        "capabilities": TEXTS, "representativeQueries": {**TEXTS, "minItems": 2, "maxItems": 5}, "version": TEXT,
        "metadata": {"type": "object", "additionalProperties": {"type": ["string", "number", "boolean", "null"]}},
    },
}  # fmt: skip
RESULT = {
    **ENTRY,
    "required": [*ENTRY["required"], "score", "source"],  # type: ignore[misc]
    "properties": {**ENTRY["properties"], "score": {"type": "integer", "minimum": 0, "maximum": 100}, "source": URI},  # type: ignore[dict-item]
}
SCHEMA: dict[str, Any] = {
    "SearchResponse": {
        "type": "object",
        "required": ["results"],
        "properties": {
            "results": {"type": "array", "items": RESULT},
            "referrals": {"type": "array"},
            "pageToken": TEXT,
        },
        "additionalProperties": False,
    },
    "Error": {
        "type": "object",
        "required": ["errorCode", "message"],
        "properties": {"errorCode": TEXT, "message": TEXT},
    },
    "AICatalogManifest": {
        "type": "object",
        "required": ["specVersion", "entries"],
        "properties": {
            "specVersion": {"enum": ["1.0"]},
            "host": {"type": "object"},
            "entries": {"type": "array", "items": ENTRY},
        },
        "additionalProperties": False,
    },
}


def hold(name: str, value: Any) -> None:
    """Raises where a value does not hold to the draft's schema of that name."""
    Draft202012Validator(SCHEMA[name], format_checker=FormatChecker()).validate(value)
    if not os.environ.get("ARD_SPEC"):
        return
    place = Path(os.environ["ARD_SPEC"]) / "spec" / "schemas"
    catalog = json.loads((place / "ai-catalog.schema.json").read_text())
    api = yaml.safe_load((place / "ard.openapi.yaml").read_text())
    api = json.loads(json.dumps(api).replace("./ai-catalog.schema.json", "urn:catalog"))
    # Both in one document, the catalog's with a name of its own, by which it is referred to.
    reference = "urn:catalog" if name == "AICatalogManifest" else f"#/components/schemas/{name}"
    whole = {**api, "$id": "urn:api", "$defs": {"catalog": {**catalog, "$id": "urn:catalog"}}, "$ref": reference}
    Draft202012Validator(whole, format_checker=FormatChecker()).validate(value)


@pytest.fixture(autouse=True)
def catalogs(settings: Any) -> None:
    settings.ARD_POOLS = ("support", "sales")
    settings.ARD_PUBLISHER = "routes.example.com"


def search(app: Application, text: object = "my billing is wrong", status: int = 200, **body: object) -> dict[str, Any]:
    """What a search gives, held to the draft's schema."""
    query = {"text": text, **({"filter": body.pop("filter")} if "filter" in body else {})}
    answer = app.post("/api/ard/search/", {"query": query, **body})
    assert answer.status_code == status, answer.content
    hold("SearchResponse" if status == 200 else "Error", answer.json())
    return dict(answer.json())


def named(found: dict[str, Any]) -> list[tuple[str, int]]:
    return [(one["displayName"], one["score"]) for one in found["results"]]


def test_agents_are_found_by_the_router_s_own_probability(app: Application) -> None:
    found = search(app)
    assert named(found) == [("Billing", 99), ("Shipping", 1), ("Technical", 1)]
    assert named(search(app, "shipping and technical"))[:2] == [("Shipping", 99), ("Technical", 99)]
    first = found["results"][0]
    assert first["identifier"] == "urn:air:routes.example.com:support:billing"
    assert first["source"] == "http://testserver/"
    assert not Decision.objects.exists()


def test_a_pool_without_a_model_is_searched_by_its_descriptions(db: None) -> None:
    sales = pools.create_pool("Sales", "sales")
    pools.add_agent(sales, "Quotes", description="Prices and offers for large orders", keywords=["price", "offer"])
    pools.add_agent(sales, "Visits", description="Appointments with a person", keywords=["meeting"])
    found = search(application(sales), "an offer for large orders")
    assert [one["displayName"] for one in found["results"]] == ["Quotes", "Visits"]
    assert found["results"][0]["score"] > found["results"][1]["score"]
    assert found["results"][0]["tags"] == ["price", "offer"]


def test_who_cannot_be_routed_to_is_not_found(app: Application, pool: Pool) -> None:
    pools.set_available(Agent.objects.get(pool=pool, number=0), False, actor=None)
    pools.retire(Agent.objects.get(pool=pool, number=1), actor=None)
    from training_app.answering import serving

    serving.forget()
    assert [one["displayName"] for one in search(app)["results"]] == ["Technical"]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [({"type": "application/vnd.routerweb.agent+json"}, 3), ({"type": ["application/a2a-agent-card+json"]}, 0),
     ({"publisher": ["routes.example.com"]}, 3), ({"publisher": "example.com"}, 0), ({"metadata.pool": ["support", "other"]}, 3),
     ({"metadata.agentId": "1"}, 1), ({"displayName": ["Billing", "Shipping"], "metadata.agentId": ["1", "2"]}, 1),
     ({"trustManifest.attestations.type": ["SOC2-Type2"]}, 0), ({}, 3), ({"metadata": "x"}, 0)],
)  # fmt: skip
def test_filters(wanted: dict[str, Any], count: int, app: Application) -> None:
    assert len(search(app, filter=wanted)["results"]) == count


def test_pages_follow_one_another(app: Application) -> None:
    first = search(app, pageSize=2)
    second = search(app, pageSize=2, pageToken=first["pageToken"])
    assert "pageToken" not in second
    assert [*named(first), *named(second)] == named(search(app))
    assert search(app, federation="referrals")["referrals"] == []
    assert "referrals" not in search(app, federation="none")


@pytest.mark.parametrize(
    "body",
    [{}, {"query": "billing"}, {"query": {}}, {"query": {"text": " "}}, {"query": {"text": 7}}, {"query": {"text": "a", "more": 1}},
     {"query": {"text": "a"}, "more": 1}, {"query": {"text": "a", "filter": []}}, {"query": {"text": "a", "filter": {"tags": [1]}}},
     {"query": {"text": "a"}, "pageSize": 0}, {"query": {"text": "a"}, "pageSize": 101}, {"query": {"text": "a"}, "pageSize": True},
     {"query": {"text": "a"}, "pageToken": "?"}, {"query": {"text": "a"}, "pageToken": "LTE="},
     {"query": {"text": "a"}, "pageToken": 3},
     {"query": {"text": "a"}, "federation": "all"}, {"query": {"text": "a", "filter": {str(n): "a" for n in range(21)}}}],
    ids=str,
)  # fmt: skip
def test_what_does_not_hold_is_refused_in_the_draft_s_words(body: dict[str, Any], app: Application) -> None:
    answer = app.post("/api/ard/search/", body)
    assert answer.status_code == 400
    hold("Error", answer.json())
    assert answer.json()["errorCode"] == "INVALID_ARGUMENT"
    assert answer.json()["error"]["field"]


def test_a_key_searches_its_own_pools_that_are_catalogs(app: Application, pool: Pool, settings: Any) -> None:
    other = pools.create_pool("Other", "other")
    pools.add_agent(other, "Hidden")
    assert (
        app.post("/api/ard/search/", {"query": {"text": "hidden"}}, headers={}).json()["errorCode"] == "UNAUTHENTICATED"
    )
    assert search(application(other), status=404)["errorCode"] == "NOT_FOUND"
    assert search(application(pool, scopes=("ops",)), status=403)["errorCode"] == "PERMISSION_DENIED"
    assert "Hidden" not in str(search(application(pool, other)))
    settings.ARD_POOLS = ()
    assert search(app, status=404)["errorCode"] == "NOT_FOUND"
    assert app.get("/api/ard/catalog/").status_code == 404


def test_a_search_counts_as_a_query(pool: Pool, settings: Any) -> None:
    settings.ROUTE_REQUESTS_PER_MINUTE = 1
    throttle.forget()
    app = application(pool)
    search(app)
    assert search(app, status=429)["errorCode"] == "RATE_LIMIT_EXCEEDED"


def test_the_manifest_names_the_search_and_no_agent(app: Application, client: Any) -> None:
    told = client.get("/api/ard/catalog/").json()
    hold("AICatalogManifest", told)
    (one,) = told["entries"]
    assert (one["type"], one["url"]) == ("application/ai-registry+json", "http://testserver/")
    assert "Billing" not in json.dumps(told)
