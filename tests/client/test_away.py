"""The client beside real servers that are away: who waits for them, who does not, and how it finds out that they are back."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.client import away, with_keys
from tests.waiting import until

sys.path.insert(0, str(Path(__file__).parents[2] / "client" / "src"))

from routerweb_client import AsyncClient, Client, Unreachable, circuit, clients
from routerweb_client.adapters.langgraph import RouterNode

pytestmark = pytest.mark.any_database
TEXT = "refund the invoice and the app crashes"
ANSWER = json.dumps(
    {
        "agents": [1], "agent_names": ["Shipping"], "agent_keys": ["shipping"], "abstained": False, "confidence": 0.9,
        "scores": {"1": 0.9}, "stop_reason": "stop", "model": "support-1", "decision_id": "d", "not_covered": [],
    }
).encode()  # fmt: skip


class Waiting:
    """Either client, called the same way."""

    def __init__(self, kind: str, url: str, **options: Any) -> None:
        # In a thread of its own: a browser's test may have left a running loop in this one.
        self._thread = ThreadPoolExecutor(1)
        self._loop = asyncio.new_event_loop() if kind == "async" else None
        self.client: Any = (AsyncClient if self._loop else Client)(url, "k", timeout=0.3, **options)

    def _run(self, work: Any) -> Any:
        assert self._loop is not None
        return self._thread.submit(self._loop.run_until_complete, work).result()

    def __call__(self, method: str, *words: Any, **more: Any) -> Any:
        answer = getattr(self.client, method)(*words, **more)
        return self._run(answer) if self._loop else answer

    def rest(self) -> None:
        """Let what goes on beside the calls go on."""
        if self._loop:
            self._run(asyncio.sleep(0.01))

    def close(self) -> None:
        self("close")
        if self._loop:
            self._run(asyncio.sleep(0))
            self._loop.close()


@pytest.fixture(params=["sync", "async"])
def waiting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Waiting]]:
    """Makes a client with an exported model."""
    made: list[Waiting] = []

    def make(url: str, **options: Any) -> Waiting:
        options = {"fallback": with_keys.write(tmp_path / "support-3.zip"), **options}
        made.append(Waiting(request.param, url, **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets the pause of a circuit be over."""
    now = [0.0]
    real = circuit.time.monotonic
    monkeypatch.setattr(circuit, "time", type("Clock", (), {"monotonic": staticmethod(lambda: real() + now[0])}))

    def over() -> None:
        now[0] += circuit.LONGEST_PAUSE + 1

    return over


@pytest.mark.parametrize("way", away.WAYS)
def test_the_model_answers_and_the_server_is_left_alone(way, waiting) -> None:
    with away.server(way) as server:
        client = waiting(server.url)
        assert client("route", TEXT).local
        assert client("route", TEXT).local  # meanwhile the server has counted the tries of the first
        tried = server.tried
        assert tried >= 1
        for _ in range(3):
            assert client("route", TEXT).agent_keys == ("technical", "billing")
        assert [one.local for one in client("route_batch", [TEXT, "the parcel is late"])] == [True, True]
        assert server.tried == tried


@pytest.mark.parametrize("way", away.WAYS)
def test_agents_are_named_by_key_in_place_of_the_server(way, waiting) -> None:
    with away.server(way) as server:
        client = waiting(server.url)
        assert client("route", TEXT, only=["billing", "shipping"]).agent_keys == ("billing",)
        assert client("route", TEXT, exclude=("billing",)).agent_keys == ("technical",)
        answer = client("route", TEXT, only=["technical", "made_since"])
        assert (answer.agent_keys, len(answer.warnings)) == (("technical",), 1)
        assert "made_since" in answer.warnings[0]
        assert client("route", TEXT, only=["made_since"]).agents == ()


@pytest.mark.parametrize("way", away.WAYS)
def test_after_a_pause_one_call_tries_it_and_waits_no_longer_than_a_trial(way, waiting, paused) -> None:
    with away.server(way) as server:
        client = waiting(server.url)
        client("route", TEXT)
        tried = server.tried
        paused()
        assert client("route", TEXT).local
        assert client("route", TEXT).local
        until(lambda: client.rest() or server.tried == tried + 1)


@pytest.mark.parametrize("way", away.WAYS)
def test_a_server_that_is_back_answers_again(way, waiting, paused, monkeypatch) -> None:
    monkeypatch.setattr(clients, "TRIAL_SECONDS", 60.0)
    with away.server(way) as server:
        client = waiting(server.url)
        assert client("route", TEXT).local
        server.answer = ANSWER
        assert client("route", TEXT).local
        paused()
        assert [client("route", TEXT).decision_id for _ in range(2)] == ["d", "d"]


def test_a_trial_that_ends_late_still_finds_the_server(waiting, paused, monkeypatch) -> None:
    with away.server(away.is_busy) as server:
        client = waiting(server.url)
        client("route", TEXT)
        server.answer = ANSWER
        server.may_answer.clear()
        client.client._timeout = 60.0
        paused()
        monkeypatch.setattr(clients, "TRIAL_SECONDS", 0.01)
        assert client("route", TEXT).local
        server.may_answer.set()
        until(lambda: client.rest() or client("route", TEXT).decision_id == "d")


@pytest.mark.parametrize("way", away.WAYS)
def test_without_a_model_a_call_fails_at_once(way, waiting, paused) -> None:
    with away.server(way) as server:
        client = waiting(server.url, fallback=None, retries=0)
        with pytest.raises(Unreachable, match="after 1 attempt"):
            client("agents")
        with pytest.raises(Unreachable, match="left alone"):
            client("report", "d", True)
        assert server.tried == 1
        server.answer = ANSWER
        paused()
        assert client("route", TEXT).decision_id == "d"


@pytest.mark.parametrize("way", away.WAYS)
def test_an_adapter_goes_on_with_the_model(way, tmp_path: Path) -> None:
    with (
        away.server(way) as server,
        Client(server.url, "k", timeout=0.3, fallback=with_keys.write(tmp_path / "support-3.zip")) as client,
    ):
        node = RouterNode(client, {"billing": "billing_node", "technical": "tech_node"}, otherwise="talk")
        state = {"messages": [{"role": "user", "content": TEXT}]}
        for _ in range(2):
            assert node.edge(node(state)) == ["tech_node", "billing_node"]
