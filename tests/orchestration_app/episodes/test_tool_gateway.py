"""A pool's tools behind an MCP server of two: finding, calling, learning from what was called; with the official client's server."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from agents_app.keys import create_key
from agents_app.models import Pool
from benchmarks.orchestration import protocol_servers as servers
from orchestration_app import providers
from orchestration_app.api import tool_gateway
from orchestration_app.calls import asking, limits, spending
from orchestration_app.calls.limits import Limit, Wish
from orchestration_app.calls.parts import CallFailed, Reply
from orchestration_app.engine import tool_search
from orchestration_app.episodes import toolbox
from orchestration_app.models import BackendCall, Episode, Executor
from routerweb.serving import later
from tests.applications import running
from tests.training_app.served import Application
from tests.waiting import until

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


class Asked:
    """Stands for `asking.ask`: what each attempt was, each of which ends as `ends` says, the last one for ever."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *ends: Any) -> None:
        self.ends, self.attempts = list(ends), []
        monkeypatch.setattr(asking, "ask", self.ask)

    async def ask(self, spec: Any, call: Any, prepared: Any, _wire: Any) -> Reply:
        self.attempts.append((spec, call, prepared))
        end = self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]
        if isinstance(end, Exception):
            raise end
        return Reply(str(end), 0.01, 7, 0.0, {"tokens_in": 3, "tokens_out": 4})


@pytest.mark.parametrize("tool", ["answer", "billing"])
def test_a_call_waits_for_a_place_within_the_agents_limits(
    tool: str, crew: Pool, executor: Callable[..., Executor], app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(monkeypatch, "done")
    bound = {"at_once": 1, "retries": 0}
    server = executor(0, "mcp", address="https://127.0.0.1:9/mcp", tools=TOOLS, **bound)
    row = {"answer": server, "billing": executor(1, script={"do": "echo"}, **bound)}[tool]
    monkeypatch.setattr(limits, "WAIT_SECONDS", 0.3)
    limits.settle("another process", {f"agent:{row.pk}": Wish(Limit(1, 0), 0, 1, 0.0)})
    answer = called(app, "call", name=tool, arguments={"task": "hello"})
    assert answer["isError"] is True
    assert "no place within the limits" in answer["content"][0]["text"]
    assert asked.attempts == []
    assert Episode.objects.get().trajectory.get().failure == "busy"


def test_a_tool_that_is_refused_is_called_again_and_costs_what_it_may_have_cost(
    crew: Pool, executor: Callable[..., Executor], app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(monkeypatch, CallFailed("rate_limited", "HTTP 429", again=0.0), "sunny")
    executor(0, "mcp", address="https://127.0.0.1:9/mcp", tools=TOOLS, retries=1)
    answer = called(app, "call", name="get_weather", arguments={"task": "x", "day": 2}, task="the weather")
    assert answer["content"][0]["text"] == "sunny"
    chosen = [(prepared.tool.tool, prepared.tool.arguments) for _spec, _call, prepared in asked.attempts]
    assert chosen == [("get_weather", {"task": "x", "day": 2})] * 2
    assert len({call.key for _spec, call, _prepared in asked.attempts}) == 1
    assert Episode.objects.get().trajectory.get().attempts == 2
    Asked(monkeypatch, CallFailed("failed", "HTTP 500"))
    assert called(app, "call", name="get_weather", arguments={"task": "x"})["isError"]
    failed = Episode.objects.get(status="failed")
    assert (failed.cost, failed.trajectory.get().cost) == (0.01, 0.01)


def test_an_agent_with_backends_is_called_at_one_of_them(
    crew: Pool, executor: Callable[..., Executor], app: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = Asked(monkeypatch, "done")
    executor(0, "chat", address="https://127.0.0.1:9/v1", model="own")
    provider = providers.save_provider(crew, "acme", "https://127.0.0.1:9/v2", secret="sk-acme", actor=None)
    backend = providers.save(crew.agents.get(number=0), provider, {"model": "large", "price_in": 1.0}, actor=None)
    assert not called(app, "call", name="triage", arguments={"task": "hello"})["isError"]
    assert [spec.model for spec, _call, _prepared in asked.attempts] == ["large"]
    assert Episode.objects.get().trajectory.get().metadata["backend"]["id"] == backend.pk
    until(BackendCall.objects.exists)  # reported by another thread
    served = BackendCall.objects.get()
    assert (served.backend_id, served.tokens_in, served.tokens_out) == (backend.pk, 3, 4)


def test_the_event_loop_waits_and_a_call_whose_client_left_is_stored(
    crew: Pool, executor: Callable[..., Executor], app: Application
) -> None:
    executor(0, script={"do": "echo", "seconds": 0.2})
    promise = later.Later()
    body = {
        "jsonrpc": "2.0",
        "id": 5,
        "method": "tools/call",
        "params": {"name": "triage", "arguments": {"task": "hello"}},
    }
    head: dict[str, Any] = {
        "HTTP_AUTHORIZATION": f"Bearer {app.secret}",
        "HTTP_MCP_PROTOCOL_VERSION": "2025-11-25",
        later.NAME: promise,
    }
    Client().post("/api/mcp/crew/", json.dumps(body), content_type="application/json", **head)
    assert promise.pieces is not None
    assert not Episode.objects.exists()

    async def whole() -> bytes:
        return b"".join([piece async for piece in promise.pieces()])

    assert json.loads(asyncio.run(whole())) | {"result": 0} == {"jsonrpc": "2.0", "id": 5, "result": 0}
    assert Episode.objects.get().answer == "hello"
    Client().post("/api/mcp/crew/", json.dumps(body), content_type="application/json", **head)

    async def left() -> None:
        reading = asyncio.ensure_future(whole())
        while not tool_gateway._under_way:
            await asyncio.sleep(0)
        reading.cancel()
        await asyncio.gather(*tool_gateway._under_way)

    asyncio.run(left())
    assert Episode.objects.filter(answer="hello").count() == 2
    assert all(episode.finished_at and episode.created_at <= episode.finished_at for episode in Episode.objects.all())
