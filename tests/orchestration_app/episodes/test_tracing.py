"""Spans of episodes: the workflow, the agents in it, the models and functions that they are, by the names of GenAI's conventions."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from orchestration_app.calls import asking
from orchestration_app.models import Episode
from routerweb.observing import tracing
from tests import llm_server
from tests import spans as made_spans
from tests.orchestration_app.crew import Served
from tests.spans import Spans, hexed
from tests.training_app.served import Application
from training_app.engine import llm
from training_app.engine.data.examples import Agent

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.commits_for_others]
TASK = {"task": "I was charged twice, MARKER-7731"}
LIMITS = llm.CallLimits(tries=3, sleep=lambda seconds: None)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Spans]:
    with made_spans.made(monkeypatch, settings) as found:
        yield found


@pytest.fixture
def crew_of_three(
    conducted: Callable[..., Any],
    executor: Callable[..., Any],
    agents: Served,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
) -> Served:
    """Triage is a model, Billing somebody's program, Checker a function here."""
    conducted(0, 1, 2)
    executor(0, "chat", address=f"{agents.url}/v1", model="gpt-made-up", most_tokens=100)
    executor(1, "webhook", secret="a long enough secret", address=f"{agents.url}/hook")
    settings.EXECUTOR_FUNCTIONS = ["tests.functions.check"]
    executor(2, "callable", function="tests.functions.check")
    monkeypatch.setattr(asking, "_imported", lambda path: checked)
    return agents


def checked(given: dict[str, Any]) -> str:
    """A function that is an agent, and makes a span of its own."""
    trace.get_current_span().set_attribute("seen.by.function", True)
    return "all is well"


def test_an_episode_is_a_workflow_of_agents(crew_of_three: Served, app: Application, spans: Spans) -> None:
    assert app.post("/api/orchestrate/", TASK).json()["status"] == "done"
    whole = spans.one("invoke_workflow crew")
    assert whole.attributes is not None
    assert whole.attributes["gen_ai.operation.name"] == "invoke_workflow"
    assert whole.attributes["routerweb.episode.steps"] == 3
    episode = str(Episode.objects.get().pk)
    called = {name: spans.one(f"invoke_agent {name}") for name in ("Triage", "Billing", "Checker")}
    for number, (name, span) in enumerate(called.items()):
        assert hexed(span)[0] == hexed(whole)[0]
        assert hexed(span)[2] == hexed(whole)[1]
        values = dict(span.attributes or {})
        assert values["gen_ai.operation.name"] == "invoke_agent"
        assert (values["gen_ai.agent.name"], values["gen_ai.agent.id"]) == (name, str(number))
        assert values["gen_ai.conversation.id"] == episode
    assert [span.kind for span in called.values()] == [SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL]

    chat = spans.one("chat gpt-made-up")
    assert (chat.kind, hexed(chat)[2]) == (SpanKind.CLIENT, hexed(called["Triage"])[1])
    values = dict(chat.attributes or {})
    assert (values["gen_ai.request.model"], values["gen_ai.provider.name"]) == ("gpt-made-up", "openai")
    assert values["server.address"] == "127.0.0.1"
    assert int(str(values["server.port"])) > 0
    assert int(str(values["gen_ai.usage.input_tokens"])) > 0
    assert int(str(values["gen_ai.usage.output_tokens"])) > 0
    function = spans.one("execute_tool tests.functions.check")
    assert hexed(function)[2] == hexed(called["Checker"])[1]
    values = dict(function.attributes or {})
    assert (values["gen_ai.operation.name"], values["gen_ai.tool.name"]) == ("execute_tool", "tests.functions.check")
    assert values["seen.by.function"] is True
    assert not [span.name for span in spans.all() if "MARKER" in span.to_json()]


def test_whom_it_calls_goes_on_with_the_trace(crew_of_three: Served, app: Application, spans: Spans) -> None:
    app.post("/api/orchestrate/", TASK)
    told = [headers["traceparent"].split("-") for headers in crew_of_three.headers]
    inner = [hexed(spans.one(name)) for name in ("chat gpt-made-up", "invoke_agent Billing")]
    assert [tuple(one[1:3]) for one in told] == [(trace_id, span) for trace_id, span, _parent in inner]
    assert all(int(flags, 16) & 1 for _version, _trace, _span, flags in told)


def test_texts_are_told_where_they_are_asked_for(
    crew_of_three: Served, app: Application, spans: Spans, settings: Any
) -> None:
    settings.TRACE_TEXT = True
    app.post("/api/orchestrate/", TASK)
    for name in ("chat gpt-made-up", "invoke_agent Billing"):
        values = dict(spans.one(name).attributes or {})
        assert "MARKER-7731" in str(values["gen_ai.input.messages"])
        assert '"role": "assistant"' in str(values["gen_ai.output.messages"])


def test_a_failure_is_told_by_its_kind(
    conducted: Callable[..., Any], executor: Callable[..., Any], agents: Served, app: Application, spans: Spans
) -> None:
    conducted(0, 1)
    executor(0, "chat", address=f"{agents.url}/v1", model="m", retries=1, seconds=2)
    executor(1)
    agents.only = "500"
    app.post("/api/orchestrate/", TASK)
    span = spans.one("invoke_agent Triage")
    assert span.status.status_code == StatusCode.ERROR
    assert span.attributes is not None
    assert span.attributes["error.type"] == "failed"
    tries = [one for one in spans.all() if one.name == "chat m"]
    assert len(tries) == span.attributes["routerweb.attempts"] >= 1
    assert all((one.attributes or {})["error.type"] == "CallFailed" for one in tries)


def test_nothing_is_passed_on_where_traces_are_off(crew_of_three: Served, app: Application) -> None:
    app.post("/api/orchestrate/", TASK)
    assert crew_of_three.headers
    assert not [headers for headers in crew_of_three.headers if "traceparent" in headers]


def test_a_call_of_a_language_model_is_one_span_with_all_its_tries(spans: Spans) -> None:
    with (
        llm_server.Server() as server,
        llm.Client(server.url, "gpt-made-up", limits=LIMITS, wire=llm.Wire(watch=tracing.completion)) as client,
    ):
        server.fault = lambda text, nth: "500" if nth == 1 else ""
        found = client.suggest(["billing, MARKER-7731"], [Agent(0, "Billing"), Agent(1, "Shipping")])
    span = spans.one("chat gpt-made-up")
    values = dict(span.attributes or {})
    assert values["gen_ai.usage.input_tokens"] == found.usage.prompt_tokens > 0
    assert values["gen_ai.usage.output_tokens"] == found.usage.completion_tokens > 0
    assert (values["gen_ai.operation.name"], values["gen_ai.request.temperature"]) == ("chat", 0.0)
    assert "MARKER" not in span.to_json()


def test_a_refused_key_is_told_by_its_class(spans: Spans) -> None:
    with (
        llm_server.Server() as server,
        llm.Client(server.url, "gpt-made-up", "MARKER-7731", wire=llm.Wire(watch=tracing.completion)) as client,
    ):
        server.refuse_key = True
        with pytest.raises(llm.BadKey):
            client.suggest(["billing"], [Agent(0, "Billing")])
    span = spans.one("chat gpt-made-up")
    assert (span.attributes or {})["error.type"] == "BadKey"
    assert "MARKER" not in span.to_json()
