"""What goes wrong behind OpenAI's addresses: refusals, streams that break off, questions, no agent at all. Nobody is told of a whole
answer that is not whole, and nobody is called more often than for an episode of the usual kind."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agents_app.models import Pool
from orchestration_app import answers
from orchestration_app.episodes import composing
from orchestration_app.models import AnswerRule, Episode, Executor
from tests.applications import running
from tests.orchestration_app.episodes.test_gateway import chat, chunks
from tests.training_app.served import Application, ScriptedRouter, promoted

pytestmark = pytest.mark.django_db(transaction=True)
WORDS = ("one ", "two ", "three")
USAGE = {"prompt_tokens": 20, "completion_tokens": 3}


@dataclass
class ChatServer:
    """An OpenAI-compatible server that does what `script` names for one request after another; the last word stays."""

    script: list[str] = field(default_factory=lambda: ["whole"])
    requests: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    retry_after: str = "0"

    async def answer(self, request: Request) -> Response:
        """One completion."""
        body = await request.json()
        self.requests.append(body)
        self.keys.add(request.headers.get("idempotency-key", ""))
        act = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if act.isdecimal():
            return JSONResponse({"error": {"message": "not now"}}, int(act), {"Retry-After": self.retry_after})
        message = {"role": "assistant", "content": "".join(WORDS)}
        if not body.get("stream") or act == "no stream":
            whole = {"model": "m", "usage": USAGE, "choices": [{"message": message, "finish_reason": "stop"}]}
            return JSONResponse(whole)
        return StreamingResponse(self._stream(act), media_type="text/event-stream")

    async def _stream(self, act: str) -> Any:
        for word in WORDS[: 1 if act != "whole" else None]:
            yield f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': word}}]})}\n\n"
        if act == "malformed":
            yield 'data: {"choices": [{"index": 0, "del\n\n'
        if act in ("malformed", "whole"):
            yield f"data: {json.dumps({'choices': [], 'usage': USAGE})}\n\ndata: [DONE]\n\n"
        if act == "error":
            yield f"data: {json.dumps({'error': {'message': 'out of memory'}})}\n\n"


@pytest.fixture
def server(
    crew: Pool, executor: Callable[..., Executor], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ChatServer]:
    """Behind Triage; Billing and Checker are scripted, and a set router chooses those whose names the text holds."""
    settings.INTERNAL_HOSTS = ("127.0.0.1",)
    monkeypatch.setattr("training_app.engine.routing.router.Router", ScriptedRouter)
    promoted(crew, (0, "Triage"), (1, "Billing"), (2, "Checker"))
    made = ChatServer()
    with running(lambda _own: Starlette(routes=[Route("/v1/chat/completions", made.answer, methods=["POST"])])) as url:
        executor(0, "chat", "sk-secret", address=f"{url}/v1", model="m", price_in=1.0, price_out=2.0, retries=2)
        executor(1, script={"do": "say", "text": "billed"})
        executor(2, script={"do": "echo", "asks": "Which account?"})
        yield made


def said(events: list[dict[str, Any]]) -> str:
    return "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event.get("choices"))


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_that_refuses_is_asked_again_under_the_same_key(
    server: ChatServer, app: Application, stream: bool
) -> None:
    server.script = ["429", "500", "whole"]
    answer = chat(app, "triage", stream=stream)
    text = said(chunks(answer.content)) if stream else answer.json()["choices"][0]["message"]["content"]
    assert text == "one two three"
    assert (len(server.requests), len(server.keys)) == (3, 1)
    assert [row.attempts for row in Episode.objects.get().trajectory.filter(agent=0)] == [3]


def test_retries_end(server: ChatServer, app: Application) -> None:
    server.script = ["429"]
    events = chunks(chat(app, "triage", stream=True).content)
    assert len(server.requests) == 3
    assert events[-1]["router"]["missing"][0]["reason"] == "rate_limited"
    assert said(events).startswith("No answer: HTTP 429")


@pytest.mark.parametrize("stream", [False, True])
def test_who_says_to_come_back_in_an_hour_is_asked_once(server: ChatServer, app: Application, stream: bool) -> None:
    server.script, server.retry_after = ["429"], "3600"
    assert "HTTP 429" in chat(app, "triage", stream=stream).text
    assert len(server.requests) == 1


@pytest.mark.parametrize(("act", "reason"), [("malformed", "malformed"), ("stops", "cut_off"), ("error", "failed")])
def test_a_stream_that_breaks_off_is_no_whole_answer(
    server: ChatServer, app: Application, act: str, reason: str
) -> None:
    server.script = [act, "whole"]
    events = chunks(chat(app, "triage", stream=True).content)
    assert said(events).startswith("one \n\nThe answer broke off: ")
    assert (events[-1]["router"]["status"], events[-1]["router"]["missing"][0]["reason"]) == ("failed", reason)
    assert Episode.objects.get().status == "failed"
    assert len(server.requests) == 1, "words that are out cannot be taken back"


def test_a_server_that_does_not_stream_answers_at_once(server: ChatServer, app: Application) -> None:
    server.script = ["no stream"]
    events = chunks(chat(app, "triage", stream=True).content)
    assert (said(events), events[-1]["router"]["status"]) == ("one two three", "done")


@pytest.mark.parametrize("stream", [False, True])
def test_tokens_and_cost_are_the_servers(server: ChatServer, app: Application, stream: bool) -> None:
    answer = chat(app, "triage", stream=stream, stream_options={"include_usage": True})
    usage = chunks(answer.content)[-1]["usage"] if stream else answer.json()["usage"]
    assert usage == {"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23}
    assert Episode.objects.get().cost == pytest.approx(26e-6)


def test_an_orchestrated_answer_counts_tokens_too(
    server: ChatServer, conducted: Callable[..., Any], app: Application
) -> None:
    conducted(0)
    assert chat(app, "anything").json()["usage"]["prompt_tokens"] == 20


@pytest.mark.parametrize("text", ["checker", "billing and checker"])
def test_an_agents_question_waits_for_the_next_response(server: ChatServer, app: Application, text: str) -> None:
    first = app.post("/api/v1/responses", {"model": "agents/crew", "input": text}).json()
    assert first["router"]["status"] == "waiting"
    assert "Which account?" in first["output"][0]["content"][0]["text"]
    episode = Episode.objects.get()
    assert (episode.status, episode.finished_at) == ("waiting", None)
    body = {"model": "agents/crew", "input": "4711", "previous_response_id": first["id"]}
    second = app.post("/api/v1/responses", body).json()
    assert (second["id"], second["router"]["status"]) == (first["id"], "done")
    assert "4711" in second["output"][0]["content"][0]["text"]
    assert ("billed" in second["output"][0]["content"][0]["text"]) == ("billing" in text)
    episode.refresh_from_db()
    assert (episode.stop_reason, episode.missing) == ("stop", [])


def test_the_pools_rule_makes_the_answer(server: ChatServer, crew: Pool, app: Application) -> None:
    answers.save(crew, AnswerRule.Rule.LAST, None, actor=None)
    text = chat(app, "triage and billing").json()["choices"][0]["message"]["content"]
    assert text == Episode.objects.get().answer
    assert "##" not in text


def test_without_a_needed_agent_the_reason_is_said(server: ChatServer, app: Application) -> None:
    answer = chat(app, "good morning")
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == f"There is no answer. {composing.NONE_NEEDED}"
    assert Episode.objects.get().error == composing.NONE_NEEDED


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_without_an_answer_has_failed(server: ChatServer, app: Application, stream: bool) -> None:
    server.script = ["401"]
    answer = app.post("/api/v1/responses", {"model": "agents/crew", "input": "triage", "stream": stream})
    if stream:
        last = answer.content.decode().strip().split("\n\n")[-1]
        assert last.startswith("event: response.failed")
        response = json.loads(last.partition("data: ")[2])["response"]
    else:
        response = answer.json()
    assert response["status"] == "failed"
    assert "HTTP 401" in response["error"]["message"]


def test_what_the_stream_options_are_is_checked(server: ChatServer, app: Application) -> None:
    refused = chat(app, "triage", stream=True, stream_options="x")
    assert (refused.status_code, refused.json()["error"]["field"]) == (400, "stream_options")


def test_an_episode_began_before_it_ended(server: ChatServer, app: Application) -> None:
    chat(app, "triage")
    episode = Episode.objects.get()
    assert episode.finished_at is not None
    assert (episode.finished_at - episode.created_at).total_seconds() >= episode.latency / 2
