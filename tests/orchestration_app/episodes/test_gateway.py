"""The agents of a pool behind OpenAI's addresses: whole and streamed answers, one agent and several, failures named, and questions
that are answered by the next response."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from agents_app.models import Pool
from benchmarks.orchestration import protocol_servers as servers
from orchestration_app.models import Episode, Executor
from tests.applications import running
from tests.training_app.served import Application, ScriptedRouter, promoted

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def answering(crew: Pool, executor: Callable[..., Executor], monkeypatch: pytest.MonkeyPatch) -> None:
    """Three agents, and a set router that chooses those whose names the text holds."""
    monkeypatch.setattr("training_app.engine.routing.router.Router", ScriptedRouter)
    promoted(crew, (0, "Triage"), (1, "Billing"), (2, "Checker"))
    executor(0, script={"do": "say", "text": "looked at"})
    executor(1, script={"do": "echo", "tokens": 7})
    executor(2, script={"do": "say", "fails": "it is down"})


def chat(app: Application, text: str, **more: Any) -> Any:
    body = {"model": "agents/crew", "messages": [{"role": "user", "content": text}], **more}
    return app.post("/api/v1/chat/completions", body)


def chunks(content: bytes) -> list[dict[str, Any]]:
    lines = [line[6:] for line in content.decode().split("\n\n") if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_one_agents_answer_is_the_message(answering: None, app: Application) -> None:
    answer = chat(app, "my billing")
    told = answer.json()
    assert told["choices"][0]["message"]["content"] == "my billing"
    assert told["usage"]["total_tokens"] == 7
    assert answer["X-Router-Agents"] == "1"
    episode = Episode.objects.get(pk=answer["X-Router-Episode"])
    assert (episode.status, episode.answer, episode.policy) == ("done", "my billing", "one_shot")
    assert [row.agent for row in episode.trajectory.all()] == [1, None]


def test_several_agents_stand_under_their_names_and_a_failure_is_named(answering: None, app: Application) -> None:
    told = chat(app, "triage and checker").json()
    assert told["choices"][0]["message"]["content"] == "## Triage\n\nlooked at\n\n## Checker\n\nNo answer."
    assert (told["router"]["status"], told["router"]["missing"][0]["name"]) == ("partial", "Checker")
    assert Episode.objects.get().status == "partial"


def test_without_any_answer_a_client_is_told_an_error_as_it_expects(answering: None, app: Application) -> None:
    """So that it asks again, or elsewhere."""
    answer = chat(app, "checker")
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "no_answer")
    assert "it is down" in answer.json()["error"]["message"]
    assert answer.json()["router"]["status"] == "failed"
    last = chunks(chat(app, "checker", stream=True).content)[-1]
    assert (last["error"]["code"], last["router"]["missing"][0]["name"]) == ("no_answer", "Checker")


@pytest.mark.parametrize("address", ["/api/v1/chat/completions", "/api/v1/responses"])
def test_a_call_that_waits_for_approval_is_not_answered_with_its_own_task(
    answering: None, executor: Callable[..., Executor], app: Application, address: str
) -> None:
    executor(1, script={"do": "echo"}, approval="always")
    asked = [{"role": "user", "content": "my billing"}]
    told = app.post(address, {"model": "agents/crew", "messages": asked, "input": asked}).json()
    text = told["choices"][0]["message"] if "choices" in told else told["output"][0]["content"][0]["text"]
    assert (text["content"] if isinstance(text, dict) else text) == "Billing is called once a person has approved it."
    assert told["router"]["status"] == "waiting"


@pytest.mark.parametrize(
    "content", ["", "  ", [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]]
)
def test_a_message_without_text_is_refused_and_calls_nobody(answering: None, app: Application, content: Any) -> None:
    body = {"model": "agents/crew", "messages": [{"role": "user", "content": content}]}
    answer = app.post("/api/v1/chat/completions", body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "blank")
    assert not Episode.objects.exists()


def test_the_stream_says_the_same(answering: None, app: Application) -> None:
    whole = chat(app, "triage and billing").json()["choices"][0]["message"]["content"]
    streamed = chunks(chat(app, "triage and billing", stream=True, stream_options={"include_usage": True}).content)
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in streamed if one["choices"]) == whole
    assert streamed[-2]["choices"][0]["finish_reason"] == "stop"
    assert streamed[-1]["usage"]["total_tokens"] == 7


@pytest.mark.parametrize(
    ("script", "part"),
    [
        ({"do": "say", "fails": "down"}, "No answer."),
        ({"do": "say", "text": " \n "}, "No answer."),
        ({"do": "say", "text": "```\nx"}, "```\nx\n```"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_said_is_what_is_stored(
    stream: bool, script: Any, part: str, answering: None, executor: Callable[..., Executor], app: Application
) -> None:
    """Also where the agent that comes first has no answer."""
    executor(0, script=script, retries=0)
    answer = chat(app, "triage and billing", stream=stream)
    if stream:
        said = "".join(one["choices"][0]["delta"].get("content", "") for one in chunks(answer.content))
    else:
        said = answer.json()["choices"][0]["message"]["content"]
    assert said == f"## Triage\n\n{part}\n\n## Billing\n\ntriage and billing"
    assert Episode.objects.get().answer == said
    assert app.post("/api/orchestrate/", {"task": "triage and billing"}).json()["answer"] == said


def test_a_chats_words_come_as_they_are_said(
    answering: None, executor: Callable[..., Executor], app: Application, settings: Any
) -> None:
    settings.INTERNAL_HOSTS = ("127.0.0.1",)
    with running(lambda own: servers.openai("Writer")) as address:
        executor(0, "chat", "sk-secret", address=f"{address}/v1", model="m", price_in=1.0, price_out=1.0)
        streamed = chunks(chat(app, "triage of words", stream=True).content)
    said = [one["choices"][0]["delta"].get("content") for one in streamed[1:-1]]
    assert said == ["Writer: ", "triage ", "of ", "words "]
    assert Episode.objects.get().answer == "Writer: triage of words "


def short_of_tokens() -> Starlette:
    """A chat whose answers are cut at their most tokens, streamed or not."""

    async def chat_(request: Request) -> Any:
        body = await request.json()
        usage = {"prompt_tokens": 20, "completion_tokens": 10}
        if not body.get("stream"):
            message = {"role": "assistant", "content": "You may take"}
            return JSONResponse({"choices": [{"message": message, "finish_reason": "length"}], "usage": usage})

        async def pieces() -> Any:
            for choice in ({"delta": {"content": "You may take"}}, {"delta": {}, "finish_reason": "length"}):
                yield f"data: {json.dumps({'choices': [choice]})}\n\n"
            yield "data: [DONE]\n\n"

        return StreamingResponse(pieces(), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", chat_, methods=["POST"])])


@pytest.mark.parametrize("text", ["triage", "triage and billing"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_was_cut_is_not_whole(
    stream: bool, text: str, answering: None, executor: Callable[..., Executor], app: Application, settings: Any
) -> None:
    settings.INTERNAL_HOSTS = ("127.0.0.1",)
    with running(lambda own: short_of_tokens()) as address:
        executor(0, "chat", "sk-secret", address=f"{address}/v1", model="m", price_in=1.0, price_out=1.0)
        answer = chat(app, text, stream=stream)
        told = app.post("/api/orchestrate/", {"task": text}).json()
        response = app.post("/api/v1/responses", {"model": "agents/crew", "input": text, "stream": stream})
    last = chunks(answer.content)[-1] if stream else answer.json()
    assert last["choices"][0]["finish_reason"] == "length"
    missing = {"agent": 0, "name": "Triage", "reason": "length"}
    assert (last["router"]["status"], last["router"]["missing"]) == ("partial", [missing])
    assert (told["status"], told["missing"]) == (
        "partial", [missing | {"step": 0, "why": "the answer was cut at the most tokens that it may have"}]
    )  # fmt: skip
    body = json.loads(response.content.decode().split("data: ")[-1])["response"] if stream else response.json()
    assert not stream or "event: response.incomplete\n" in response.content.decode()
    assert (body["status"], body["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert (body["output"][0]["status"], "You may take" in body["output"][0]["content"][0]["text"]) == (
        "incomplete",
        True,
    )
    # The text is in the answer, as far as it goes.
    whole = "You may take" if text == "triage" else f"## Triage\n\nYou may take\n\n## Billing\n\n{text}"
    assert {told["answer"], *Episode.objects.values_list("answer", flat=True)} == {whole}


@pytest.mark.parametrize("stream", [False, True])
def test_one_part_beside_agents_without_one_is_stored_as_it_was_said(
    stream: bool, answering: None, executor: Callable[..., Executor], app: Application, settings: Any
) -> None:
    settings.INTERNAL_HOSTS = ("127.0.0.1",)
    nothing = {"content": "not mine", "metadata": {"answer": None}}

    async def hook(_request: Request) -> Any:
        return JSONResponse(nothing)

    with running(lambda own: Starlette(routes=[Route("/", hook, methods=["POST"])])) as address:
        executor(0, "webhook", "a long enough secret", address=address + "/")
        answer = chat(app, "triage and billing", stream=stream)
    if stream:
        said = "".join(one["choices"][0]["delta"].get("content", "") for one in chunks(answer.content))
    else:
        said = answer.json()["choices"][0]["message"]["content"]
    assert said == Episode.objects.get().answer == "## Billing\n\ntriage and billing"


def test_an_orchestrators_episode_answers_too(
    conducted: Callable[..., Any], executor: Callable[..., Executor], app: Application
) -> None:
    conducted(0, 1)
    executor(0, script={"do": "say", "text": "one"})
    executor(1, script={"do": "say", "text": "two"})
    told = chat(app, "anything").json()
    assert told["choices"][0]["message"]["content"] == "## Triage\n\none\n\n## Billing\n\ntwo"


def test_a_response_goes_on_from_the_one_before(answering: None, app: Application) -> None:
    first = app.post("/api/v1/responses", {"model": "agents/crew", "input": "my billing"}).json()
    assert first["output"][0]["content"][0]["text"] == "my billing"
    body = {"model": "agents/crew", "input": "and triage", "previous_response_id": first["id"]}
    app.post("/api/v1/responses", body)
    newest = Episode.objects.first()
    assert newest is not None
    assert [one["content"] for one in newest.messages] == ["my billing", "my billing", "and triage"]
    events = app.post("/api/v1/responses", {"model": "agents/crew", "input": "triage", "stream": True}).content.decode()
    kinds = [line[7:] for line in events.split("\n") if line.startswith("event: ")]
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert "response.output_text.delta" in kinds


def test_the_next_response_answers_an_agents_question(
    conducted: Callable[..., Any], executor: Callable[..., Executor], app: Application
) -> None:
    conducted(0)
    executor(0, script={"do": "echo", "asks": "Which account?"})
    first = app.post("/api/v1/responses", {"model": "agents/crew", "input": "refund"}).json()
    assert first["output"][0]["content"][0]["text"] == "Which account?"
    assert (first["status"], first["incomplete_details"], first["router"]["status"]) == ("completed", None, "waiting")
    body = {"model": "agents/crew", "input": "4711", "previous_response_id": first["id"]}
    second = app.post("/api/v1/responses", body).json()
    assert (second["router"]["status"], second["output"][0]["content"][0]["text"]) == ("done", "4711")


def test_models_and_what_is_wrong(answering: None, app: Application) -> None:
    assert [one["id"] for one in app.get("/api/v1/models").json()["data"]] == ["router/crew", "agents/crew"]
    wrong = chat(app, "x", model="gpt")
    assert (wrong.status_code, "router/crew, agents/crew" in wrong.json()["error"]["message"]) == (404, True)
    assert app.post("/api/v1/responses", {"model": "gpt", "input": "x"}).status_code == 404
    assert app.post("/api/v1/responses", {"model": "agents/crew"}).json()["error"]["code"] == "missing"
    unknown = {"model": "agents/crew", "input": "x", "previous_response_id": "resp_x"}
    assert app.post("/api/v1/responses", unknown).status_code == 404
    Executor.objects.all().delete()
    from agents_app.models import Stamp

    Stamp.bump()
    assert chat(app, "billing").json()["error"]["code"] == "no_executor"
