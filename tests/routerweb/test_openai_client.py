"""OpenAI's own client against the real server: the decision comes as a tool call, and errors as its exceptions."""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.routerweb.test_server import Server, prepared  # noqa: F401

if TYPE_CHECKING:  # only the test process that runs this file loads it
    import openai

pytestmark = [pytest.mark.process, pytest.mark.any_database]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Iterator[Server]:  # noqa: F811
    started = Server(
        Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("openai") / "installation")), prepared[1]
    )
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait(10)


@pytest.fixture(scope="module")
def client(server: Server) -> "openai.OpenAI":
    import openai

    return openai.OpenAI(base_url=f"{server.address}/v1", api_key=server.key, max_retries=0)


@pytest.mark.at_length
def test_models(client: "openai.OpenAI") -> None:
    assert [model.id for model in client.models.list()] == ["router/support"]


def test_a_completion_is_the_decision_as_a_tool_call(client: "openai.OpenAI", server: Server) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="router/support",
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "billing"}]},
        ],
    )
    (choice,) = raw.parse().choices
    assert choice.finish_reason == "tool_calls"
    (call,) = choice.message.tool_calls or ()
    assert call.type == "function"
    assert call.function.name == "route"
    told = json.loads(call.function.arguments)
    assert told["agents"] == server.route("billing")["agents"]
    assert raw.headers["X-Router-Decision"] == told["decision_id"]
    assert raw.headers["X-Router-Agents"] == ",".join(map(str, told["agents"]))


def test_the_same_as_a_stream(client: "openai.OpenAI") -> None:
    chunks = list(
        client.chat.completions.create(
            model="router/support", messages=[{"role": "user", "content": "billing"}], stream=True
        )
    )
    calls = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or ()]
    assert json.loads(calls[0].function.arguments)["model"] == "support-1"  # type: ignore[union-attr,arg-type]
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_what_is_wrong_is_raised(client: "openai.OpenAI", server: Server) -> None:
    import openai

    with pytest.raises(openai.NotFoundError, match="router/support"):
        client.chat.completions.create(model="gpt-4o", messages=[{"role": "user", "content": "billing"}])
    with pytest.raises(openai.PermissionDeniedError, match="does not open a pool"):
        client.chat.completions.create(model="router/nowhere", messages=[{"role": "user", "content": "billing"}])
    for messages in (
        [],
        [{"role": "user", "content": " "}],
        [{"role": "narrator", "content": "x"}],
        [{"role": "user", "content": 3}],
        "x",
    ):
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(model="router/support", messages=messages)  # type: ignore[arg-type]
    stranger = openai.OpenAI(base_url=f"{server.address}/v1", api_key="rw_made_up", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.models.list()
