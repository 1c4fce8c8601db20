"""Executors of other protocols against the servers that their own projects publish: A2A in both versions, MCP in all its ways,
responses and plain HTTP."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from agents_app.models import AgentSource, Pool
from agents_app.outbound.async_client import HttpReply
from agents_app.sources import catalog
from benchmarks.orchestration import protocol_servers as servers
from orchestration_app import executors, prefilled
from orchestration_app.calls import checking
from orchestration_app.calls.parts import CallFailed, Failure, Reply
from orchestration_app.calls.protocols import a2a, mcp
from orchestration_app.calls.wire import parsed
from orchestration_app.executors import ExecutorError
from orchestration_app.models import Executor
from tests.applications import running

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def servers_live_here(settings: Any) -> None:
    settings.INTERNAL_HOSTS = ("127.0.0.1",)
    mcp._shaken.clear()


def tried(executor: Executor, task: str) -> Any:
    return checking.try_once(executor, task, "a-key")


@pytest.mark.parametrize("version", ["1.0", "0.3"])
@pytest.mark.parametrize("streaming", [False, True])
def test_an_a2a_agent_answers_its_task(version: str, streaming: bool, executor: Callable[..., Executor]) -> None:
    with running(lambda own: servers.a2a("Account", own, streaming=True, delay=0.3)) as address:
        made = executor(
            0, "a2a", address=f"{address}/", options={"version": version, "streaming": streaming}, seconds=10
        )
        trial = tried(made, "reset my password")
        assert trial.outcome.content == "Account: reset my password"
        assert trial.outcome.metadata["task"]
        sent = json.loads(trial.seen[0].sent)
        assert sent["method"] == a2a.DIALECTS[version][streaming]
        failed = tried(made, "fail the task").outcome
        assert isinstance(failed, Failure)
        assert (failed.kind, "It broke." in failed.why) == ("failed", True)


@pytest.mark.parametrize("version", ["1.0", "0.3"])
def test_a_question_of_an_a2a_agent_is_no_answer(version: str, executor: Callable[..., Executor]) -> None:
    with running(lambda own: servers.a2a("Account", own)) as address:
        made = executor(0, "a2a", address=f"{address}/", options={"version": version})
        outcome = tried(made, "which account").outcome
        assert isinstance(outcome, Reply)
        assert (outcome.asks, outcome.content) == (True, "Which account do you mean?")
        assert outcome.resume.keys() == {"task", "context"}


@pytest.mark.parametrize("options", [{"stateless_http": True}, {"json_response": True}, {}])
@pytest.mark.parametrize("shaken", [False, True])
def test_an_mcp_tool_is_called(options: dict[str, Any], shaken: bool, executor: Callable[..., Executor]) -> None:
    with running(lambda own: servers.mcp_server("Stock").streamable_http_app(**options)) as address:
        if shaken:
            mcp._shaken[f"{address}/mcp"] = None
        made = executor(0, "mcp", address=f"{address}/mcp", options={"tool": "answer"}, tools=[ANSWER])
        trial = tried(made, "how many are left")
        assert trial.outcome.content == "Stock: how many are left"
        assert trial.outcome.metadata == {"tool": "answer", "arguments": {"task": "how many are left"}}
        assert ("Idempotency-Key", "a-key") in trial.seen[-1].sent_headers
        template = '{"a": {{ messages|length }}, "b": 41}'
        added = executor(0, "mcp", address=f"{address}/mcp", options={"tool": "add", "arguments": template})
        assert tried(added, "sum").outcome.content == "42"
        broken = executor(
            0, "mcp", address=f"{address}/mcp", options={"tool": "broken"}, tools=[ANSWER | {"name": "broken"}]
        )
        assert tried(broken, "x").outcome.kind == "failed"


ANSWER = {
    "name": "answer",
    "description": "Answers a question in words.",
    "inputSchema": {"type": "object", "properties": {"task": {"type": "string"}}, "required": ["task"]},
}
SERVER = "from benchmarks.orchestration.protocol_servers import mcp_server\nmcp_server('Stock').run('stdio')\n"


def test_an_mcp_server_of_standard_streams_starts_only_where_the_site_names_it(
    executor: Callable[..., Executor], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(Path.cwd())!r})\n{SERVER}"]
    options = {"tool": "answer", "command": command}
    with pytest.raises(ExecutorError, match="MCP_COMMANDS"):
        executor(0, "mcp", options=options, tools=[ANSWER])
    settings.MCP_COMMANDS = (f"{Path(sys.executable).parent}/*",)
    made = executor(0, "mcp", options=options, tools=[ANSWER], seconds=20)
    trial = tried(made, "over streams")
    assert trial.outcome.content == "Stock: over streams"
    assert trial.seen[0].method == "RUN"
    settings.MCP_COMMANDS = ()
    assert tried(made, "again").outcome.kind == "not_allowed"


def test_without_an_argument_for_the_task_the_tool_says_what_it_needs(executor: Callable[..., Executor]) -> None:
    numbers = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    tool = {"name": "add", "inputSchema": {"type": "object", "properties": numbers, "required": ["a", "b"]}}
    made = executor(0, "mcp", address="https://127.0.0.1:1/mcp", options={"tool": "add"}, tools=[tool])
    outcome = tried(made, "sum").outcome
    assert (outcome.kind, "needs a, b" in outcome.why) == ("instruction", True)


def test_a_response_and_plain_http(executor: Callable[..., Executor]) -> None:
    with running(lambda own: servers.openai("Writer")) as address:
        prices = {"price_in": 1.0, "price_out": 2.0}
        made = executor(
            0, "responses", "sk-secret", address=f"{address}/v1", model="m", instruction="Be kind.", **prices
        )
        trial = tried(made, "write a note")
        assert (trial.outcome.content, trial.outcome.tokens) == ("Writer: write a note", 30)
        assert trial.outcome.cost == pytest.approx((20 * 1.0 + 10 * 2.0) / 1e6)
        assert json.loads(trial.seen[0].sent)["instructions"] == "Be kind."
        assert "sk-secret" not in repr(trial.seen)
    with running(lambda own: servers.webhook("Billing")) as address:
        options = {
            "body": '{"say": {{ task|tojson }}}', "headers": {"X-Key": "k {{ secret }}"}, "answer": "result.0.text",
        }  # fmt: skip
        made = executor(1, "http", "sk-other", address=f"{address}/plain", options=options)
        trial = tried(made, 'a "quoted" task')
        assert trial.outcome.content == 'Billing: {"say": "a \\"quoted\\" task"}'
        assert "sk-other" not in repr(trial.seen)
        got = executor(1, "http", address=f"{address}/plain", options={"method": "GET", "answer": "result.0.text"})
        assert tried(got, "over GET").outcome.content == "Billing: over GET"
        away = executor(1, "http", address=f"{address}/plain", options={"answer": "result.7"})
        assert tried(away, "x").outcome.kind == "malformed"


@pytest.mark.parametrize(
    ("body", "words"),
    [(b" <!doctype html><h1>Bad gateway", "HTML or XML"), (b"", "empty"), (b'{"content": ', "no JSON")],
)
def test_what_is_no_json_says_what_it_is_instead(body: bytes, words: str) -> None:
    with pytest.raises(CallFailed, match=words):
        parsed(HttpReply(200, {}, body))


def test_addresses_inside_are_refused_by_the_one_guard(executor: Callable[..., Executor], settings: Any) -> None:
    for kind, values in (("a2a", {}), ("mcp", {"tools": [ANSWER]}), ("responses", {"model": "m"}), ("http", {})):
        made = executor(0, kind, address="http://127.0.0.1:9/x", **values)
        settings.INTERNAL_HOSTS = ()
        assert tried(made, "x").outcome.kind == "not_allowed"
        with pytest.raises(ExecutorError, match="https"):
            executor(0, kind, address="http://127.0.0.1:9/x", **values)
        settings.INTERNAL_HOSTS = ("127.0.0.1",)
        Executor.objects.all().delete()


def test_options_of_another_kind_are_refused(executor: Callable[..., Executor]) -> None:
    for kind, options, field in (
        ("a2a", {"version": "2.0"}, "version"), ("a2a", {"body": "x"}, "options"), ("http", {"headers": {"a b": "c"}}, "headers"),
        ("http", {"method": "TRACE"}, "method"), ("mcp", {"tool": 3}, "tool"),
    ):  # fmt: skip
        with pytest.raises(ExecutorError) as raised:
            executor(0, kind, address="https://example.com/", options=options)
        assert raised.value.field == field


def test_imported_agents_are_set_up_as_their_descriptions_say(crew: Pool, client: Client, admin_user: Any) -> None:
    client.force_login(admin_user)
    with (
        running(lambda own: servers.a2a("Account", own, streaming=True)) as card,
        running(lambda own: servers.mcp_server("Stock").streamable_http_app()) as tools,
    ):
        catalog.approve(catalog.look(crew, card, AgentSource.Kind.CARD, actor=None), actor=None)
        catalog.approve(catalog.look(crew, f"{tools}/mcp", AgentSource.Kind.TOOLS, actor=None), actor=None)
        for source in catalog.look_at_each(crew, f"{tools}/mcp", secret="sk-tools", actor=None):
            catalog.approve(source, actor=None)
        page = client.get(f"/p/crew/settings/executors/{crew.agents.get(name='Account').number}/").content.decode()
        assert f'value="{card}/"' in page
        assert "Filled in from" in page
        client.post("/p/crew/settings/executors/set-up/")
        made = {one.agent.name: one for one in Executor.objects.select_related("agent")}
        assert made.keys() == {"Account", "Stock", "Answer", "Add", "Broken"}
        assert made["Account"].options == {"version": "1.0", "streaming": True}
        assert [len(made[name].tools) for name in ("Stock", "Answer")] == [3, 1]
        assert made["Answer"].options == {"tool": "answer"}
        assert made["Answer"].secret
        assert tried(made["Account"], "hello").outcome.content == "Account: hello"
        assert tried(made["Answer"], "hello").outcome.content == "Stock: hello"
        assert tried(made["Stock"], "a question in words").outcome.content == "Stock: a question in words"
        assert prefilled.set_up(crew, actor=None) == ([], [])


def test_the_page_reads_tools_from_the_server_and_lets_only_admins_start_programs(
    crew: Pool, client: Client, admin_user: Any, django_user_model: Any, settings: Any
) -> None:
    from agents_app.access import Role
    from agents_app.models import PoolRole

    settings.MCP_COMMANDS = ("npx",)
    ops = django_user_model.objects.create_user("ops", "ops@example.com", "x")
    PoolRole.objects.create(user=ops, pool=crew, role=Role.OPS)
    bounds = {"seconds": 20, "retries": 0, "most_kb": 100, "at_once": 0, "per_minute": 0, "approval": "never"}
    form = {"kind": "mcp", "active": "on", "approval_above": 0, **bounds}
    client.force_login(ops)
    refused = client.post("/p/crew/settings/executors/0/", {**form, "command": "npx server", "tools": "[]"})
    assert "Only an admin" in refused.content.decode()
    client.force_login(admin_user)
    client.post("/p/crew/settings/executors/0/", {**form, "command": "npx server"})
    assert Executor.objects.get().options == {"command": ["npx", "server"]}
    Executor.objects.all().delete()
    with running(lambda own: servers.mcp_server("Stock").streamable_http_app()) as address:
        client.post("/p/crew/settings/executors/0/", {**form, "address": f"{address}/mcp"})
        assert [tool["name"] for tool in Executor.objects.get().tools] == ["answer", "add", "broken"]
    assert executors.OPTIONS.keys() <= set(Executor.Kind.values)
