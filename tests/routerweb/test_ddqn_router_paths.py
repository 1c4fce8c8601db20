"""The real web server at ddqn-router's addresses, and called from the pages of another site."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.routerweb.test_server import Server, prepared  # noqa: F401

pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.at_length]
SHOP = "https://shop.example.com"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Iterator[Server]:  # noqa: F811
    folder = Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("moved") / "installation"))
    started = Server(folder, prepared[1], DDQN_ROUTER_POOLS="other,support", CORS_ORIGINS=SHOP)
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait(10)


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.address, headers={"Authorization": f"Bearer {server.key}"}, timeout=30) as found:
        yield found


@pytest.mark.at_length
def test_health_needs_no_key(server: Server) -> None:
    answer = httpx.get(f"{server.address}/health")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_agents(client: httpx.Client) -> None:
    found = client.get("/agents").json()
    assert {tuple(agent) for agent in found["agents"]} == {("id", "name", "description")}
    assert len(found["agents"]) == 3


def test_route_and_batch(client: httpx.Client) -> None:
    one = client.post("/route", json={"query": "billing"})
    assert one.status_code == 200
    assert set(one.json()) == {"agents", "agent_names", "confidence", "steps"}
    assert 0.0 <= one.json()["confidence"] <= 1.0
    many = client.post("/route/batch", json={"queries": ["billing", "shipping"]})
    assert many.status_code == 200
    assert many.json()[0] == one.json()
    assert len(many.json()) == 2
    assert client.post("/route/batch", json={"queries": []}).json() == []
    # The same pool by the API's own address says the same.
    assert client.post("/api/route/", json={"query": "billing"}).json()["agents"] == one.json()["agents"]


@pytest.mark.parametrize(
    ("path", "body", "kind", "place"),
    [
        ("/route", {}, "missing", ["body", "query"]),
        ("/route", {"query": 3}, "value_error", ["body", "query"]),
        ("/route/batch", {"queries": "billing"}, "value_error", ["body", "queries"]),
        ("/route/batch", {"queries": ["billing", None]}, "missing", ["body", "queries[1]"]),
    ],
)
def test_a_body_that_is_wrong_is_told_as_there(
    client: httpx.Client, path: str, body: object, kind: str, place: list[str]
) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 422
    assert [(one["type"], one["loc"]) for one in answer.json()["detail"]] == [(kind, place)]
    assert answer.json()["error"]["code"] == "unprocessable"


def test_a_key_is_needed_and_a_wrong_one_refused(server: Server) -> None:
    assert httpx.post(f"{server.address}/route", json={"query": "billing"}).status_code == 401
    wrong = httpx.get(f"{server.address}/agents", headers={"Authorization": "Bearer rw_made_up"})
    assert wrong.status_code == 401


@pytest.mark.parametrize("path", ["/api/route/", "/route"])
def test_a_page_of_an_allowed_origin_may_call(client: httpx.Client, path: str) -> None:
    asked = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, content-type"}
    before = client.options(path, headers={"Origin": SHOP, **asked})
    assert (before.status_code, before.headers["access-control-allow-origin"]) == (200, SHOP)
    assert "authorization" in before.headers["access-control-allow-headers"]
    answer = client.post(path, json={"query": "billing"}, headers={"Origin": SHOP})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, SHOP)
    other = client.post(path, json={"query": "billing"}, headers={"Origin": "https://elsewhere.example"})
    assert "access-control-allow-origin" not in other.headers


def test_no_page_is_opened_to_another_site(client: httpx.Client) -> None:
    assert "access-control-allow-origin" not in client.get("/login/", headers={"Origin": SHOP}).headers


@pytest.mark.at_length
def test_without_the_setting_the_addresses_are_not_there(tmp_path: Path, prepared: tuple[Path, str]) -> None:  # noqa: F811
    started = Server(Path(shutil.copytree(prepared[0], tmp_path / "installation")), prepared[1])
    try:
        headers = {"Authorization": f"Bearer {started.key}"}
        assert httpx.post(f"{started.address}/route", json={"query": "billing"}, headers=headers).status_code == 404
        refused = httpx.post(f"{started.address}/api/ddqn-router/route", json={"query": "billing"}, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found")
        assert "DDQN_ROUTER_POOLS" in refused.json()["error"]["hint"]
        assert (
            "access-control-allow-origin"
            not in httpx.options(f"{started.address}/api/route/", headers={"Origin": SHOP}).headers
        )
    finally:
        os.killpg(started.process.pid, signal.SIGKILL)
        started.process.wait(10)
