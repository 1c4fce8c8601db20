"""A pool's tools behind an MCP server of two: finding, calling, learning from what was called; with the official client's server."""

from collections.abc import Callable
from typing import Any

import pytest

from agents_app.keys import create_key
from agents_app.models import Pool
from benchmarks.orchestration import protocol_servers as servers
from orchestration_app.engine import tool_search
from orchestration_app.episodes import spending, toolbox
from orchestration_app.models import Episode, Executor
from tests.applications import running
from tests.training_app.served import Application

pytestmark = pytest.mark.django_db(transaction=True)
TOOLS = [
    {
        "name": name, "description": said,
        "inputSchema": {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]},
    }
    for name, said in (
        ("answer", "Answers a question in words."), ("add", "Adds two numbers."), ("get_weather", "The weather of a city."),
        ("send_mail", "Sends an e-mail to somebody."), ("book_flight", "Books a flight between two airports."),
    )
]  # fmt: skip


@pytest.fixture(autouse=True)
def fresh_boxes(settings: Any) -> None:
    settings.INTERNAL_HOSTS = ("127.0.0.1",)
    toolbox._boxes.clear()


def said(app: Application, method: str, **params: Any) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = {"Authorization": f"Bearer {app.secret}", "MCP-Protocol-Version": "2025-11-25"}
    told = app.post("/api/mcp/crew/", body, headers=headers).json()
    assert "result" in told, told
    result: dict[str, Any] = told["result"]
    return result


def called(app: Application, name: str, /, **arguments: Any) -> dict[str, Any]:
    return said(app, "tools/call", name=name, arguments=arguments)


def test_two_tools_stand_for_all(crew: Pool, executor: Callable[..., Executor], app: Application) -> None:
    with running(lambda own: servers.mcp_server("Stock").streamable_http_app()) as address:
        executor(0, "mcp", address=f"{address}/mcp", tools=TOOLS)
        executor(1, script={"do": "echo"})
        assert [tool["name"] for tool in said(app, "tools/list")["tools"]] == ["search", "call"]
        found = called(app, "search", query="what is the weather in Paris")["structuredContent"]["tools"]
        assert found[0]["name"] == "get_weather"
        assert found[0]["inputSchema"]["required"] == ["task"]
        answer = called(app, "call", name="answer", arguments={"task": "how many"}, task="count the chairs")
        assert answer["content"] == [{"type": "text", "text": "Stock: how many"}]
        episode = Episode.objects.get(pk=answer["_meta"]["routerweb/episode"])
        assert (episode.policy, episode.task, episode.status) == ("mcp tools", "count the chairs", "done")
        agent = called(app, "call", name="billing", arguments={"task": "hello"})
        assert agent["content"][0]["text"] == "hello"
        failed = called(app, "call", name="send_mail", arguments={"task": "x"})
        assert failed["isError"]
        assert called(app, "call", name="nobody")["isError"]
        assert called(app, "search", query=" ")["isError"]


def test_an_agents_question_is_no_answer(crew: Pool, executor: Callable[..., Executor], app: Application) -> None:
    executor(0, script={"do": "echo", "asks": "Which account?"})
    answer = called(app, "call", name=crew.agents.get(number=0).key, arguments={"task": "close it"})
    assert answer["isError"] is True
    assert "Which account?" in answer["content"][0]["text"]
    assert Episode.objects.get().status == "failed"


def test_the_list_shows_what_the_conversation_needs(
    crew: Pool, executor: Callable[..., Executor], app: Application
) -> None:
    executor(0, "mcp", address="https://127.0.0.1:9/mcp", tools=TOOLS)
    listed = said(app, "tools/list", _meta={"routerweb/query": "book me a flight to Oslo"})["tools"]
    assert [tool["name"] for tool in listed[:3]] == ["search", "call", "book_flight"]
    assert len(listed) <= 2 + tool_search.MOST


def test_search_learns_from_what_was_called(crew: Pool, executor: Callable[..., Executor], app: Application) -> None:
    with running(lambda own: servers.mcp_server("Stock").streamable_http_app()) as address:
        executor(0, "mcp", address=f"{address}/mcp", tools=TOOLS)
        query = "umbrella needed tomorrow?"
        before = called(app, "search", query=query, most=1)["structuredContent"]["tools"][0]
        called(app, "call", name="answer", arguments={"task": "x"}, task="is an umbrella needed today")
        toolbox._boxes.clear()
        after = called(app, "search", query=query, most=1)["structuredContent"]["tools"][0]
        assert (before["name"] == "answer", after["name"]) == (False, "answer")
        Episode.objects.update(success=False)
        toolbox._boxes.clear()
        assert called(app, "search", query=query, most=1)["structuredContent"]["tools"][0] == before


def test_a_limit_of_another_key_stops_no_call(crew: Pool, executor: Callable[..., Executor], app: Application) -> None:
    executor(0, script={"do": "echo"})
    other, _secret = create_key("other", [crew], ["route"])
    spending.save(crew, other, 1.0)
    assert not called(app, "call", name="triage", arguments={"task": "hello"})["isError"]
    spending.save(crew, None, 1.0)
    assert called(app, "call", name="triage", arguments={"task": "hello"})["isError"]
