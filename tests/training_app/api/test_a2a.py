"""The messages of A2A: what is refused, and how."""

from typing import Any

import pytest

from tests.training_app.served import Application

WORDS = {"role": "ROLE_USER", "messageId": "1", "parts": [{"text": "my billing"}]}


@pytest.fixture(autouse=True)
def ready(model) -> None:
    """The pool answers."""


def said(app: Application, body: object, **headers: str) -> Any:
    return app.post("/api/a2a/support/", body, headers={"Authorization": f"Bearer {app.secret}", **headers}).json()


def sent(app: Application, method: str = "SendMessage", version: str = "1.0", **message: Any) -> Any:
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": {"message": {**WORDS, **message}}}
    return said(app, body, **{"A2A-Version": version})


@pytest.mark.django_db
def test_both_versions_answer_in_their_words(app) -> None:
    new = sent(app, contextId="c1")["result"]["message"]
    assert (new["role"], new["contextId"], new["parts"][0]["text"]) == ("ROLE_AGENT", "c1", "Billing")
    old = sent(app, "message/send", "0.3", role="user", parts=[{"kind": "text", "text": "my billing"}])["result"]
    assert (old["kind"], old["role"], old["parts"][1]["kind"]) == ("message", "agent", "data")
    assert old["parts"][1]["data"]["agents"] == [0]


@pytest.mark.django_db
def test_an_object_may_hold_a_conversation(app) -> None:
    talk = [{"role": "user", "content": "hello"}, {"role": "user", "content": "my shipping"}]
    answer = sent(app, parts=[{"data": {"messages": talk}}], metadata={"explain": True})["result"]["message"]
    assert answer["parts"][1]["data"]["agent_names"] == ["Shipping"]
    assert "explanation" in answer["parts"][1]["data"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"parts": "x"}, -32602), ({"parts": [3]}, -32602), ({"parts": [{}]}, -32005), ({"parts": [{"raw": "AA=="}]}, -32005),
        ({"role": "ROLE_AGENT"}, -32602), ({"taskId": "t"}, -32001), ({"contextId": 3}, -32602), ({"parts": [{"text": "\0"}]}, -32602),
        ({"metadata": {"explain": "yes"}}, -32602), ({"parts": [{"data": {"query": 3}}]}, -32602),
    ],
)  # fmt: skip
def test_a_message_that_does_not_hold_is_refused(app, message, code) -> None:
    assert sent(app, **message)["error"]["code"] == code


@pytest.mark.django_db
def test_other_methods_and_versions(app) -> None:
    assert sent(app, "SendStreamingMessage")["error"]["code"] == -32004
    assert sent(app, "tasks/get")["error"]["code"] == -32001
    assert sent(app, "Dance")["error"]["code"] == -32601
    assert sent(app, version="2.0")["error"]["code"] == -32009
    assert said(app, "{")["error"]["code"] == -32700
    assert said(app, {"jsonrpc": "2.0", "id": 1, "method": "SendMessage"})["error"]["code"] == -32602
