"""The official A2A client against the real server, in both versions: good and bad input."""

import asyncio
import os
import shutil
import signal
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.compat.v0_3.types import AgentCard as OldCard
from a2a.types import GetTaskRequest, Message, Part, Role, SendMessageRequest
from a2a.utils.errors import A2AError
from google.protobuf.json_format import MessageToDict

from tests.routerweb.test_server import Server, prepared  # noqa: F401

pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.at_length]
VERSIONS = pytest.mark.parametrize("version", ["1.0", "0.3"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Iterator[Server]:  # noqa: F811
    folder = Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("a2a") / "installation"))
    started = Server(folder, prepared[1])
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait(10)


def with_client(server: Server, version: str, do: Callable[[Any, Any], Awaitable[Any]], key: str = "") -> Any:
    """What comes of `do` with a card and a client that speaks this version."""

    async def connected() -> Any:
        headers = {"Authorization": f"Bearer {key or server.key}"}
        async with httpx.AsyncClient(headers=headers) as http:
            card = await A2ACardResolver(http, f"{server.address}/a2a/support").get_agent_card()
            for interface in list(card.supported_interfaces):
                if interface.protocol_version != version:
                    card.supported_interfaces.remove(interface)
            client = ClientFactory(ClientConfig(httpx_client=http)).create(card)
            return await do(card, client)

    return asyncio.run(connected())


def saying(*parts: Part) -> SendMessageRequest:
    return SendMessageRequest(message=Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=parts))


async def answer(client: Any, request: SendMessageRequest) -> Message:
    (one,) = [found async for found in client.send_message(request)]
    return one.message


@VERSIONS
def test_a_message_is_routed(server: Server, version: str) -> None:
    async def walk(card: Any, client: Any) -> Any:
        return card, await answer(client, saying(Part(text="refund the invoice"), Part(text="and the app crashes")))

    card, message = with_client(server, version, walk)
    assert card.name == "Support router"
    assert [skill.id for skill in card.skills] == ["route"]
    assert card.skills[0].tags == ["routing", "Billing", "Shipping", "Technical"]
    told = MessageToDict(message)
    plain = server.route("refund the invoice\nand the app crashes")
    data = next(part["data"] for part in told["parts"] if "data" in part)
    assert data["agents"] == plain["agents"]
    assert data.keys() == plain.keys()
    assert told["parts"][0]["text"] == ", ".join(plain["agent_names"])
    assert told["contextId"]


@VERSIONS
def test_what_is_wrong_is_raised(server: Server, version: str) -> None:
    async def walk(_card: Any, client: Any) -> None:
        for parts, why in (
            ([], "query is blank"),
            ([Part(text=" ")], "query is blank"),
            ([Part(text="x" * 20_001)], "20,001 characters"),
            ([Part(url="https://example.com/a.pdf")], "files are not read"),
        ):
            with pytest.raises((A2AError, A2AClientError), match=why):
                await answer(client, saying(*parts))
        with pytest.raises((A2AError, A2AClientError), match="no tasks"):
            await client.get_task(GetTaskRequest(id="1"))

    with_client(server, version, walk)


def test_a_stranger_sees_no_card(server: Server) -> None:
    with pytest.raises((A2AError, A2AClientError), match="401"):
        with_client(server, "1.0", lambda card, client: asyncio.sleep(0), key="rw_made_up")


def test_the_root_of_the_site_has_the_card_of_the_keys_pool_which_readers_of_0_3_understand(server: Server) -> None:
    headers = {"Authorization": f"Bearer {server.key}"}
    card = httpx.get(f"{server.address}/.well-known/agent-card.json", headers=headers).json()
    assert OldCard.model_validate(card).url == f"{server.address}/a2a/support"
    assert httpx.get(f"{server.address}/a2a/nowhere/.well-known/agent-card.json", headers=headers).status_code == 403
    assert httpx.get(f"{server.address}/a2a/support/elsewhere", headers=headers).status_code == 404
