"""The product's own Python client against the real server: both kinds, good and bad input, and a server that is killed."""

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.client.test_client import AsyncClient, Client, Refused, Unreachable
from tests.routerweb.test_server import Server, prepared  # noqa: F401

pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.at_length]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Iterator[Server]:  # noqa: F811
    place = Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("client") / "installation"))
    started = Server(place, prepared[1])
    yield started
    if started.process.poll() is None:
        os.killpg(started.process.pid, signal.SIGKILL)
        started.process.wait(10)


TALK = [{"role": "user", "content": "where is my parcel"}, {"role": "assistant", "content": "On its way."}]


@pytest.mark.at_length
def test_it_asks_and_reports(server: Server) -> None:
    with Client(server.address, server.key, pool="support") as client:
        answer = client.route("refund the invoice and the app crashes")
        assert list(answer.agents) == server.route("refund the invoice and the app crashes")["agents"]
        assert set(answer.agent_keys) == {"billing", "technical"}
        only = client.route(
            "refund the invoice and the app crashes", only=["billing"], previous=["nobody"], operating_point=-1
        )
        assert (only.agent_keys, len(only.warnings)) == (("billing",), 1)
        talk = [*TALK, {"role": "user", "content": "refund the invoice"}]
        assert [one.decision_id is not None for one in client.route_batch(["the app crashes", talk])] == [True, True]
        assert answer.decision_id is not None
        client.report(answer.decision_id, success=True, rating=5)
        assert [(one.id, one.key) for one in client.agents()] == [(0, "billing"), (1, "shipping"), (2, "technical")]


def test_it_is_told_what_was_wrong(server: Server) -> None:
    with Client(server.address, server.key) as client:
        for words, code, field in (
            ({"query": " "}, "blank", "query"),
            ({"query": "x", "pool": "sales"}, "pool_refused", "pool"),
            ({"query": "x", "only": ["nobody"]}, "invalid", "only"),
        ):
            with pytest.raises(Refused) as refused:
                client.route(**words)
            assert (refused.value.code, refused.value.field) == (code, field)
    with Client(server.address, "rw_wrong") as stranger, pytest.raises(Refused) as refused:
        stranger.route("hello")
    assert (refused.value.status, refused.value.code) == (401, "key_refused")


def test_many_at_once_on_an_event_loop(server: Server) -> None:
    async def ask() -> list[tuple[str, ...]]:
        async with AsyncClient(server.address, server.key) as client:
            asked = [client.route("refund the invoice"), client.route("the app crashes")] * 10
            return [answer.agent_keys for answer in await asyncio.gather(*asked)]

    assert asyncio.run(ask()) == [("billing",), ("technical",)] * 10


def test_the_file_answers_once_the_server_is_killed(server: Server) -> None:
    options = {"retries": 1, "fallback": server.folder / "model.zip"}
    with Client(server.address, server.key, **options) as client, Client(server.address, server.key, retries=1) as bare:
        there = client.route("refund the invoice")
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait(10)
        away = client.route("refund the invoice")
        assert (there.local, away.local, away.agents) == (False, True, there.agents)
        assert away.scores[0] == pytest.approx(there.scores[0], abs=1e-4)
        with pytest.raises(Unreachable, match="2 attempts"):
            bare.route("refund the invoice")
