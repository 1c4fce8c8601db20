"""The addresses of Agentic Resource Discovery at the root of a real server."""

import json
import os
import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.routerweb.test_server import Server, prepared  # noqa: F401

pytestmark = [pytest.mark.process, pytest.mark.any_database]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Iterator[Server]:  # noqa: F811
    folder = Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("ard") / "installation"))
    started = Server(folder, prepared[1], ARD_POOLS="support", ARD_PUBLISHER="routes.example.com")
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait(10)


def ask(server: Server, path: str, body: Any = None, key: str = "") -> tuple[int, dict[str, Any]]:
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    asked = urllib.request.Request(server.address + path, None if body is None else json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.at_length
def test_a_client_finds_the_search_and_searches(server: Server) -> None:
    status, catalog = ask(server, "/.well-known/ai-catalog.json")
    assert status == 200
    base = catalog["entries"][0]["url"].removeprefix(server.address)
    wanted = {"query": {"text": "refund the invoice and the app crashes"}, "pageSize": 2}
    status, found = ask(server, f"{base.rstrip('/')}/search", wanted, server.key)
    assert status == 200
    assert {one["displayName"] for one in found["results"]} == {"Billing", "Technical"}
    assert all(one["score"] > 50 for one in found["results"])
    assert ask(server, "/search", wanted)[1]["errorCode"] == "UNAUTHENTICATED"
    assert ask(server, "/search", {"query": {}}, server.key)[1]["errorCode"] == "INVALID_ARGUMENT"
