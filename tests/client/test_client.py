"""The Python client: against servers that are busy or away, and with an exported model in their place."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.training_app import trained

SOURCE = Path(__file__).parents[2] / "client" / "src"
sys.path.insert(0, str(SOURCE))

from routerweb_client import AsyncClient, Client, Refused, Unreachable, clients  # noqa: E402

GOOD = {
    "agents": [0], "agent_names": ["Billing"], "abstained": False, "confidence": 0.9, "scores": {"0": 0.9}, "stop_reason": "stop",
    "model": "support-1", "decision_id": "d", "not_covered": [],
}  # fmt: skip


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were waited, which take none."""
    found: list[float] = []

    async def rest(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr(clients.time, "sleep", found.append)
    monkeypatch.setattr(clients.asyncio, "sleep", rest)
    return found


@pytest.fixture(params=["sync", "async"])
def called(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Calls a method of either client with a server's answers, one after another."""

    def call(answers: list[Any], method: str, *words: Any, options: dict[str, Any] | None = None, **more: Any) -> Any:
        left = list(answers)

        def answer(_request: httpx.Request) -> httpx.Response:
            found = left.pop(0)
            if isinstance(found, Exception):
                raise found
            status, body, headers = found
            if isinstance(body, str):
                return httpx.Response(status, text=body, headers=headers)
            return httpx.Response(status, json=body, headers=headers)

        async def beside() -> Any:
            async with AsyncClient("http://x", "k", transport=httpx.MockTransport(answer), **(options or {})) as client:
                return await getattr(client, method)(*words, **more)

        if request.param == "async":
            return asyncio.run(beside())
        with Client("http://x", "k", transport=httpx.MockTransport(answer), **(options or {})) as client:
            return getattr(client, method)(*words, **more)

    return call


BUSY = (503, {"error": {"code": "overloaded", "message": "Too many."}}, {"Retry-After": "3"})
FULL = (
    429,
    {"error": {"code": "too_many_requests", "message": "600 a minute.", "hint": "Wait."}},
    {"Retry-After": "99"},
)


@pytest.mark.any_database
def test_a_busy_server_is_asked_again_after_what_it_says(called, waits) -> None:
    assert called([BUSY, httpx.ConnectError("refused"), (200, GOOD, {})], "route", "hello").agent_names == ("Billing",)
    assert waits[0] == 3
    assert 0 < waits[1] <= 0.2


@pytest.mark.any_database
def test_who_stays_away_is_unreachable(called) -> None:
    with pytest.raises(Unreachable, match=r"after 3 attempts in at most 5 s\. ReadTimeout"):
        called([httpx.ReadTimeout("late")] * 3, "route", "hello")
    with pytest.raises(Unreachable, match="after 1 attempt in"):
        called([BUSY], "route_batch", ["hello"], options={"retries": 0})


@pytest.mark.any_database
def test_no_wait_is_longer_than_what_is_left_of_the_call(called, waits) -> None:
    with pytest.raises(Refused, match=r"600 a minute. Wait.") as refused:
        called([FULL], "route", "hello")
    assert refused.value.code == "too_many_requests"
    with pytest.raises(Unreachable, match="after 1 attempt in at most 2 s"):
        called([BUSY], "route", "hello", options={"timeout": 2.0})
    assert not waits


@pytest.mark.any_database
def test_a_month_that_is_used_up_is_not_waited_for(called, waits) -> None:
    error = {"error": {"code": "quota_exhausted", "message": "1,000 queries a month, and all of them are used."}}
    with pytest.raises(Refused, match="all of them are used") as refused:
        called([(429, error, {"Retry-After": "1036800"})], "route", "hello")
    assert refused.value.code == "quota_exhausted"
    assert not waits


@pytest.mark.any_database
def test_what_is_refused_is_not_asked_again(called) -> None:
    with pytest.raises(Refused) as refused:
        called([(400, {"error": {"code": "blank", "message": "query is blank.", "field": "query"}}, {})], "route", " ")
    assert (refused.value.status, refused.value.code, refused.value.field) == (400, "blank", "query")
    with pytest.raises(Refused, match="HTTP 404"):
        called([(404, ["a proxy's own"], {})], "route", "hello")
    with pytest.raises(Refused, match="HTTP 200, and not as Routerweb"):
        called([(200, "<html>", {})], "route", "hello")


@pytest.mark.any_database
def test_an_exported_model_answers_while_the_server_is_away(called, tmp_path: Path) -> None:
    (tmp_path / "support-3.zip").write_bytes(trained.result().artifact)
    options = {"fallback": tmp_path / "support-3.zip", "retries": 0}
    away = [httpx.ConnectError("refused")]
    answer = called(away, "route", "refund the invoice and the app crashes", options=options)
    assert (answer.local, answer.decision_id, set(answer.agent_names)) == (True, None, {"Billing", "Technical"})
    answer = called(away, "route", "refund the invoice and the app crashes", options=options, exclude=[0], max_agents=1)
    assert answer.agent_names == ("Technical",)
    assert called(away, "route", "refund the invoice", options=options, operating_point=10).agents == ()
    with pytest.raises(Unreachable) as problem:  # this file knows agents by their ids alone
        called(away, "route", "refund the invoice", options=options, exclude=["billing"])
    assert "export_model" in problem.value.__notes__[0]
    talk = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "?"},
        {"role": "user", "content": "the parcel is late"},
    ]
    some = called(away, "route_batch", ["refund the invoice", talk], options=options)
    assert [one.agent_names for one in some] == [("Billing",), ("Shipping",)]
    with pytest.raises(Unreachable):  # what became of an answer is not known to a file
        called(away, "report", "d", True, options=options)
    with pytest.raises(ValueError, match="does not exist"):
        Client("http://x", "k", fallback=tmp_path / "missing.zip")


@pytest.mark.any_database
def test_it_needs_nothing_of_the_server() -> None:
    words = (
        "import sys; sys.modules |= dict.fromkeys(('django', 'numpy', 'training_app', 'orchestration_app')); import routerweb_client; "
        "print(routerweb_client.Client('http://x', 'k'))"
    )
    ended = subprocess.run([sys.executable, "-c", words], cwd=SOURCE, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr


def test_a_list_is_followed_part_by_part() -> None:
    parts = {None: ([1, 2], "b3Q&x="), "b3Q&x=": ([], "bGFzdA"), "bGFzdA": ([3], None)}
    asked: list[dict[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        rows, cursor = parts[asked[-1].get("cursor")]
        link = {"Link": f'</api/decisions/?{httpx.QueryParams(pool="support", agent="2", cursor=cursor)}>; rel="next"'}
        return httpx.Response(200, json={"decisions": rows}, headers=link if cursor else {})

    async def beside() -> list[Any]:
        async with AsyncClient("http://x", "k", pool="support", transport=httpx.MockTransport(answer)) as client:
            return [one async for one in client.decisions(agent=2)]

    with Client("http://x", "k", pool="support", transport=httpx.MockTransport(answer)) as client:
        rows = client.decisions(agent=2)
        assert [next(rows), next(rows)] == [1, 2]
        assert len(asked) == 1
        assert list(rows) == [3]
    assert [one.get("cursor") for one in asked] == [None, "b3Q&x=", "bGFzdA"]
    assert {(one["pool"], one["agent"]) for one in asked} == {("support", "2")}
    assert asyncio.run(beside()) == [1, 2, 3]


def test_an_outcome_names_the_pool_whose_decision_may_not_be_written_yet() -> None:
    sent: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return httpx.Response(201, json={})

    with Client("http://x", "k", pool="support", transport=httpx.MockTransport(answer)) as client:
        client.report("d", success=True)
        client.report("d", success=True, pool="sales", rating=2)
    assert [body["pool"] for body in sent] == ["support", "sales"]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_address_or_a_key_that_cannot_be_one_is_refused_at_once(kind: type[Any]) -> None:
    for address, key in (
        ("routes.example.com", "k"),
        ("", "k"),
        ("http://x", ""),
        ("http://x", " "),
        ("http://x", "schlüssel"),
    ):
        with pytest.raises(ValueError, match=r"base_url must begin|key must be"):
            kind(address, key)


def test_a_key_that_was_read_from_a_file_has_its_line_end_taken_off() -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers["Authorization"])
        return httpx.Response(200, json=GOOD)

    with Client("http://x", "rw_k\n", transport=httpx.MockTransport(answer)) as client:
        assert client.route("bag").agents == (0,)
    assert sent == ["Bearer rw_k"]


def test_an_answer_that_is_no_object_is_no_answer_of_routerweb(called: Callable[..., Any]) -> None:
    with pytest.raises(Refused, match="not as Routerweb does"):
        called([(200, [1], {})], "route", "bag")


@pytest.mark.parametrize(
    ("method", "words", "body", "lacks"),
    [("route", ("bag",), {"agents": [0]}, "'agent_names'"), ("route", ("bag",), GOOD | {"scores": 3}, "a route"),
     ("route_batch", (["bag"],), {}, "'results'"), ("route_batch", (["bag"],), {"results": [{}]}, "'agents'"),
     ("agents", (), {"agent": []}, "'agents'"), ("agents", (), {"agents": [{"id": 1}]}, "'code'"),
     ("agents", (), {"agents": 7}, "its agents"), ("proposals", (), {"proposals": [{"id": 1}]}, "'kind'"),
     ("decide_proposal", (1, "decline"), {}, "'id'")],
)  # fmt: skip
def test_an_answer_that_lacks_a_field_is_refused_with_what_it_lacks(
    called: Callable[..., Any], method: str, words: tuple[Any, ...], body: Any, lacks: str
) -> None:
    with pytest.raises(Refused, match=lacks) as raised:
        called([(200, body, {})], method, *words)
    assert raised.value.code == "unknown"


@pytest.mark.parametrize("text", ["half a pair \ud83d", "Größe 👍"])
def test_any_text_is_sent_for_the_server_to_judge(text: str) -> None:
    sent: list[Any] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["Content-Type"] == "application/json"
        sent.append(json.loads(request.content))
        return httpx.Response(200, json=GOOD)

    with Client("http://x", "k", transport=httpx.MockTransport(answer)) as client:
        client.route(text)
    assert [body["query"] for body in sent] == [text]
