"""The client against a server that speaks the protocol and misbehaves on purpose."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from tests.engine.synthetic import AGENTS
from training_app.engine.llm import (
    BadKey,
    CallLimits,
    Client,
    LLMError,
    NoAnswer,
    Stopped,
    Usage,
    Wire,
    find_json,
    parse_suggestions,
)


def answer(text: str, **choice) -> httpx.Response:
    body = {
        "choices": [{"message": {"content": text}, "finish_reason": "stop", **choice}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 4},
    }
    return httpx.Response(200, json=body)


GOOD = json.dumps({"answers": [{"query": 1, "agents": [{"id": 0, "confidence": 0.9}]}, {"query": 2, "agents": []}]})


class Server:
    """Answers with the given responses in turn, the last one for ever; an exception is raised instead."""

    def __init__(self, *responses) -> None:
        self.responses, self.requests, self.slept = list(responses), [], []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        found = self.responses.pop(0) if len(self.responses) > 1 else self.responses[0]
        if callable(found):
            found = found(request)
        if isinstance(found, Exception):
            raise found
        return httpx.Response(found.status_code, headers=found.headers, content=found.content)

    def client(self, temperature: float = 0.0, tell: bool = True, **limits) -> Client:
        return Client(
            "http://llm.test/v1/",
            "some-model",
            "secret",
            temperature=temperature,
            limits=CallLimits(sleep=self.slept.append, rng=random.Random(0), **limits),
            wire=Wire(httpx.MockTransport(self), tell=tell),
        )

    def bodies(self) -> list[dict]:
        return [json.loads(request.content) for request in self.requests]


def test_a_good_answer_is_read() -> None:
    server = Server(answer(GOOD))
    with server.client(temperature=0.2) as client:
        found = client.suggest(["refund", "sing"], AGENTS)
    assert [item.required for item in found.items] == [{0}, frozenset()]
    assert found.items[0].confidence == {0: 0.9}
    assert found.usage == Usage(10, 4, 1)
    (request,), (body,) = server.requests, server.bodies()
    assert str(request.url) == "http://llm.test/v1/chat/completions"
    assert request.headers["authorization"] == "Bearer secret"
    assert (body["model"], body["temperature"]) == ("some-model", 0.2)
    assert body["response_format"]["type"] == "json_schema"
    assert "Billing" in body["messages"][0]["content"]
    assert json.loads(body["messages"][1]["content"])[1] == {"query": 2, "text": "sing"}


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_passing_faults_are_tried_again_with_growing_waits(status: int) -> None:
    server = Server(*[httpx.Response(status)] * 3, answer(GOOD))
    found = server.client().suggest(["a", "b"], AGENTS)
    assert found.items[0].required == {0}
    assert len(server.requests) == 4
    assert 3.5 <= sum(server.slept) <= 7  # half to all of 1 + 2 + 4 seconds


@pytest.mark.parametrize("fault", [httpx.ReadTimeout("slow"), httpx.ConnectError("down"), httpx.ReadError("cut off")])
def test_lost_connections_are_tried_again(fault: Exception) -> None:
    server = Server(fault, answer(GOOD))
    assert server.client().suggest(["a", "b"], AGENTS).items[0].required == {0}


def test_retry_after_is_honoured_in_seconds_and_as_a_date() -> None:
    server = Server(httpx.Response(429, headers={"retry-after": "7"}), answer(GOOD))
    server.client().suggest(["a", "b"], AGENTS)
    assert 7 <= sum(server.slept) < 7.5
    when = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    server = Server(httpx.Response(503, headers={"retry-after": when}), answer(GOOD))
    server.client().suggest(["a", "b"], AGENTS)
    assert 18 < sum(server.slept) < 21
    server = Server(httpx.Response(429, headers={"retry-after": "100000"}), answer(GOOD))
    server.client().suggest(["a", "b"], AGENTS)
    assert sum(server.slept) <= 120


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_stops_at_once(status: int) -> None:
    server = Server(httpx.Response(status, json={"error": {"message": "no such key"}}))
    with pytest.raises(BadKey, match="no such key"):
        server.client().complete([])
    assert len(server.requests) == 1
    assert server.slept == []


def test_other_refusals_stop_with_the_servers_words() -> None:
    server = Server(httpx.Response(404, json={"error": {"message": "no such model"}}))
    with pytest.raises(LLMError, match="404: no such model"):
        server.client().complete([])


def test_it_gives_up_after_its_tries() -> None:
    server = Server(httpx.Response(500, text="oops"))
    with pytest.raises(LLMError, match="after 3 tries: the server answered 500: oops"):
        server.client(tries=3).complete([])
    assert len(server.requests) == 3


def test_a_server_without_schemas_is_asked_without_from_then_on() -> None:
    def picky(request: httpx.Request) -> httpx.Response:
        if "response_format" in json.loads(request.content):
            return httpx.Response(400, json={"error": "response_format is not supported"})
        return answer("Sure! Here you go:\n```json\n" + GOOD + "\n```\nAnything else?")

    server = Server(picky)
    client = server.client()
    for _ in range(2):
        assert client.suggest(["a", "b"], AGENTS).items[0].required == {0}
    assert ["response_format" in body for body in server.bodies()] == [True, False, False]


@pytest.mark.parametrize("body", ["", "{", "[]", '{"choices": []}', '{"choices": [{"message": {"content": 5}}]}'])
def test_what_is_no_completion_is_tried_again(body: str) -> None:
    server = Server(httpx.Response(200, text=body), answer(GOOD))
    assert server.client().suggest(["a", "b"], AGENTS).items[0].required == {0}


def test_an_answer_that_could_not_be_stored_is_mended() -> None:
    body = {
        "choices": [{"message": {"content": "a\0b\ud800c"}}],
        "usage": {"prompt_tokens": 10**30, "completion_tokens": True},
    }
    done = Server(httpx.Response(200, text=json.dumps(body))).client().complete([])
    assert done.text == "a�b�c"
    assert done.usage == Usage(0, 0, 1)
    assert find_json('{"why": "half \\ud800", "sure": 1e999}') == {"why": "half �", "sure": "inf"}
    assert find_json('So: {"why": "\\u0000"}.') == {"why": "�"}


def test_a_refusal_that_could_not_be_stored_is_spelt_out() -> None:
    with pytest.raises(LLMError, match=r"no \\ud800 \\u0000"):
        Server(httpx.Response(400, text=json.dumps({"error": "no \ud800 \0"}))).client().complete([])


def test_an_endless_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training_app.engine.llm.MAX_ANSWER", 1000)
    with pytest.raises(LLMError, match="more than 1,000 bytes"):
        Server(httpx.Response(200, text="x" * 2000)).client().complete([])


def test_stopping_interrupts_waits() -> None:
    server = Server(httpx.Response(429, headers={"retry-after": "60"}))
    client = server.client(stop=lambda: len(server.slept) >= 3)
    with pytest.raises(Stopped):
        client.complete([])
    assert len(server.slept) == 3


def test_answers_cut_off_say_so() -> None:
    server = Server(answer(GOOD[:40], finish_reason="length"))
    found = server.client().suggest(["a", "b"], AGENTS)
    assert all(item.required is None and "cut off" in item.error for item in found.items)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("I think billing.", "no JSON"),
        ('{"answers": 3}', "no list"),
        ('{"answers": []}', "leaves this query out"),
        ('{"answers": [{"query": 2, "agents": []}]}', "leaves this query out"),
        ('{"answers": [{"query": true, "agents": []}]}', "leaves this query out"),
        ('{"answers": [{"query": 1, "agents": []}, {"query": 1, "agents": [0]}]}', "twice"),
        ('{"answers": [{"query": 1, "agents": "0"}]}', "not a list"),
        ('{"answers": [{"query": 1, "agents": [{"id": 5}]}]}', "'5', which does not exist"),
        ('{"answers": [{"query": 1, "agents": [{"id": "Billing"}]}]}', "does not exist"),
        ('{"answers": [{"query": 1, "agents": [{"id": true}]}]}', "does not exist"),
        ('{"answers": [{"query": 1, "agents": [{"id": 0, "confidence": 7}]}]}', "not from 0 to 1"),
        ('{"answers": [{"query": 1, "agents": [0, 3, 4]}]}', "outside the limits"),
        ("[" * 10_000, "no JSON"),
    ],
)
def test_answers_that_cannot_be_used_give_the_reason(text: str, reason: str) -> None:
    (found,) = parse_suggestions(text, 1, AGENTS, max_agents=2)
    assert found.required is None
    assert reason in found.error


@pytest.mark.parametrize(
    "text",
    [
        '{"answers": [{"query": 1, "agents": [0, {"id": 3, "confidence": 0.5}]}]}',
        'Of {all} agents: [{"query": 1, "agents": [{"id": 0}, {"id": 3, "confidence": 0.5}]}] is my answer.',
        '{"agents": [{"id": 0, "confidence": 1}, {"id": 3, "confidence": 0.5}]}',
    ],
)
def test_forms_that_mean_the_same_are_read(text: str) -> None:
    (found,) = parse_suggestions(text, 1, AGENTS)
    assert found.confidence == {0: 1.0, 3: 0.5}


def test_every_try_of_a_call_has_the_same_name_and_another_body_another() -> None:
    server = Server(
        httpx.Response(500), httpx.ReadTimeout("slow"), httpx.Response(400), httpx.Response(502), answer(GOOD)
    )
    server.client().suggest(["a", "b"], AGENTS, key="k")
    names = [request.headers["Idempotency-Key"] for request in server.requests]
    assert names == ["k", "k", "k", "k-plain", "k-plain"]


def test_an_answer_that_is_none_is_not_asked_for_by_the_same_name() -> None:
    server = Server(httpx.Response(200, json={"choices": []}), answer(GOOD))
    server.client().suggest(["a", "b"], AGENTS, key="k")
    assert [request.headers["Idempotency-Key"] for request in server.requests] == ["k", "k-1"]


def test_a_call_without_a_key_has_no_name() -> None:
    server = Server(answer(GOOD))
    server.client().suggest(["a", "b"], AGENTS)
    assert "Idempotency-Key" not in server.requests[0].headers


@pytest.mark.parametrize(("last", "error"), [(httpx.ReadTimeout("slow"), NoAnswer), (httpx.Response(500), LLMError)])
def test_whether_an_answer_came_is_told_apart(last, error) -> None:
    with pytest.raises(LLMError) as raised:
        Server(httpx.Response(500), last).client(tries=2).complete([])
    assert type(raised.value) is error


def test_a_call_with_a_deadline_waits_for_no_retry_that_comes_after_it() -> None:
    server = Server(httpx.Response(429, headers={"Retry-After": "100"}))
    with server.client(total=20.0) as client, pytest.raises(LLMError, match=r"429.*no time left"):
        client.complete([])
    assert server.slept == []
    assert len(server.requests) == 1


def test_a_call_with_a_deadline_reads_no_answer_that_drips() -> None:
    over = threading.Event()

    def drops() -> Iterator[bytes]:
        while not over.is_set():
            yield b" "
            over.wait(0.01)
        raise AssertionError("it was listened to for as long as it went on")

    def drip(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=drops())

    stop = threading.Timer(30, over.set)
    stop.start()
    client = Client("http://llm.test/v1", "m", limits=CallLimits(total=0.2), wire=Wire(httpx.MockTransport(drip)))
    with client, pytest.raises(LLMError, match="no time left"):
        client.complete([])
    stop.cancel()


@pytest.mark.parametrize("status", [401, 404, 500])
def test_what_a_server_replies_is_told_only_where_that_is_wanted(status: int) -> None:
    words = httpx.Response(status, text="root:x:0:0")
    with Server(words).client(tries=1) as client, pytest.raises(LLMError, match="root:x"):
        client.complete([])
    with Server(words).client(tries=1, tell=False) as client, pytest.raises(LLMError) as neutral:
        client.complete([])
    assert "root" not in str(neutral.value)
    assert str(status) in str(neutral.value)


def test_one_try_is_no_plural() -> None:
    with Server(httpx.Response(500)).client(tries=1) as client, pytest.raises(LLMError, match="after 1 try: "):
        client.complete([])
