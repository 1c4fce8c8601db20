"""The official MCP client against the real server: both kinds of client, good and bad input."""

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest

from tests import orchestration
from tests.routerweb.test_server import Server, prepared  # noqa: F401

if TYPE_CHECKING:  # only the test process that runs this file loads it
    from mcp import Client

pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.at_length]
MODES = pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Iterator[Server]:  # noqa: F811
    folder = Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("mcp") / "installation"))
    started = Server(folder, prepared[1], WEB_PROCESSES="2")  # two: that no session is kept
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait(10)


def asked(
    server: Server, mode: str, do: Callable[["Client"], Awaitable[Any]], key: str | None = None, path: str = "/mcp"
) -> Any:
    """What comes of `do` with a client that is connected to that path."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def connected() -> Any:
        headers = {"Authorization": f"Bearer {server.key if key is None else key}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(f"{server.address}{path}", http_client=http), mode=mode) as client,
        ):
            return await do(client)

    return asyncio.run(connected())


@pytest.mark.at_length
@MODES
def test_the_tool_answers_as_the_api_does(server: Server, mode: str) -> None:
    async def walk(client: "Client") -> Any:
        return client.protocol_version, await client.list_tools(), await client.call_tool("route", {"query": "billing"})

    version, listed, answer = asked(server, mode, walk)
    assert version == ("2025-11-25" if mode == "legacy" else "2026-07-28")
    (tool,) = listed.tools
    assert tool.name == "route"
    assert tool.input_schema["properties"]["pool"]["enum"] == ["support"]
    assert not answer.is_error
    plain = server.route("billing")
    assert answer.structured_content["agents"] == plain["agents"]
    assert answer.structured_content.keys() == plain.keys()
    assert json.loads(answer.content[0].text) == answer.structured_content


@orchestration.needed
@MODES
def test_the_tools_of_a_pool_stand_behind_two(server: Server, mode: str) -> None:
    async def walk(client: "Client") -> Any:
        found = await client.call_tool("search", {"query": "refund"})
        return await client.list_tools(), found, await client.call_tool("call", {"name": "nobody"})

    listed, found, called = asked(server, mode, walk, path="/api/mcp/support/")
    assert [tool.name for tool in listed.tools] == ["search", "call"]
    assert not found.is_error
    assert called.is_error


@MODES
def test_a_conversation_is_routed(server: Server, mode: str) -> None:
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes?"}]
    messages.append({"role": "user", "content": "refund the invoice"})
    answer = asked(server, mode, lambda client: client.call_tool("route", {"messages": messages, "pool": "support"}))
    assert answer.structured_content["agents"] == server.route("refund the invoice")["agents"]


@MODES
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "query is missing"),
        ({"query": " "}, "query is blank"),
        ({"query": 3}, "must be a text"),
        ({"query": "x" * 20_001}, "20,001 characters"),
        ({"query": "billing", "pool": "nowhere"}, "does not open a pool 'nowhere'"),
        ({"query": "billing", "explain": "yes"}, "true or false"),
        ({"messages": [{"role": "narrator", "content": "x"}]}, "messages[0].role"),
    ],
)
def test_what_is_wrong_is_told_to_the_model(server: Server, mode: str, arguments: dict[str, Any], why: str) -> None:
    answer = asked(server, mode, lambda client: client.call_tool("route", arguments))
    assert answer.is_error
    assert why in answer.content[0].text


@MODES
def test_no_other_tool_and_no_other_method(server: Server, mode: str) -> None:
    from mcp.shared.exceptions import MCPError

    async def walk(client: "Client") -> None:
        with pytest.raises(MCPError, match="no tool delete"):
            await client.call_tool("delete", {})
        with pytest.raises(MCPError, match="no method"):
            await client.session.list_prompts()

    asked(server, mode, walk)


def test_a_wrong_key_opens_nothing(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    from mcp.shared.exceptions import MCPError

    caplog.set_level("INFO", "httpx2")
    for key in ("rw_made_up", "rw_"):
        caplog.clear()
        with pytest.RaisesGroup(MCPError, allow_unwrapped=True, flatten_subgroups=True):
            asked(server, "auto", lambda client: client.list_tools(), key)
        statuses = [record.getMessage() for record in caplog.records if record.name == "httpx2"]
        assert statuses
        assert all("401" in status for status in statuses)
