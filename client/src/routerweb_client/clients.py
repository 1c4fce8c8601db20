"""The two clients. What they share are plain functions: the body of a call, what an answer means, how long to wait."""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypedDict, TypeVar, Unpack

import httpx

from routerweb_client.answers import Agent, Answer, Refused, Unreachable
from routerweb_client.local import LocalRouter

#: Answers of a server that may be well again in a moment.
BUSY = frozenset((429, 502, 503, 504))
LONGEST_WAIT = 10.0  # seconds
WORTH_WAITING = 600.0  # seconds: who is told to come back later than that is told so at once
Query = str | Sequence[Mapping[str, Any]]


class Wishes(TypedDict, total=False):
    """What may be asked of an answer; docs/api.md says what each does."""

    only: Sequence[int | str]
    exclude: Sequence[int | str]
    min_agents: int
    max_agents: int
    threshold: float
    operating_point: float
    sticky_key: str
    preference: str | Mapping[str, float]


def _body(pool: str | None, wishes: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The body of a call, without what is not said."""
    sent = {"pool": pool, **wishes, **more}
    return {name: value for name, value in sent.items() if value is not None}


def _query(query: Query) -> dict[str, Any]:
    return {"query": query} if isinstance(query, str) else {"messages": list(query)}


def _told(response: httpx.Response) -> Any:
    """What an answer holds. Raises Refused."""
    if response.is_success:
        return response.json()
    try:
        error = response.json()["error"]
        said = error["code"], error["message"], error.get("field", ""), error.get("hint", "")
    except (ValueError, KeyError, TypeError):
        said = "unknown", f"The server answered with HTTP {response.status_code}.", "", ""
    raise Refused(response.status_code, *said)


def _is_final(response: httpx.Response, *, last: bool) -> bool:
    """Whether a call is over: it was answered or refused, also for as long as a month's quota is used up."""
    if response.status_code != 429:
        return response.status_code not in BUSY
    again = response.headers.get("Retry-After", "")
    return last or (again.isdecimal() and float(again) > WORTH_WAITING)


def _wait(attempt: int, response: httpx.Response | None) -> float:
    """Seconds before the next attempt: what the server says, else twice as long each time, not all clients at once."""
    again = response.headers.get("Retry-After", "") if response is not None else ""
    if again.isdecimal():
        return min(float(again), LONGEST_WAIT)
    return float(min(0.1 * 2.0**attempt, LONGEST_WAIT)) * random.uniform(0.5, 1.0)  # noqa: S311


Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
Transport = TypeVar("Transport", httpx.BaseTransport, httpx.AsyncBaseTransport)


class _Shared(Generic[Http, Transport]):
    _http_class: type[Http]

    def __init__(
        self,
        base_url: str,
        key: str,
        *,
        pool: str | None = None,
        timeout: float = 5.0,
        retries: int = 2,
        fallback: str | Path | None = None,
        transport: Transport | None = None,
    ) -> None:
        """`pool` may be left out where the key opens one; `timeout` is in seconds; `fallback` is an exported model."""
        self._pool, self._retries = pool, retries
        self._local = LocalRouter(fallback) if fallback is not None else None
        options: dict[str, Any] = {
            "base_url": base_url.rstrip("/") + "/api",
            "headers": {"Authorization": f"Bearer {key}", "User-Agent": "routerweb-client/0.1.0"},
            "timeout": timeout,
            "transport": transport,
        }
        self._http: Http = self._http_class(**options)

    def _in_place(self, bodies: Sequence[Mapping[str, Any]]) -> list[Answer] | None:
        """The exported model's answers, None where there is no such model, or it does not know an agent that is named by its key."""
        local = self._local
        return [local.answer(body) for body in bodies] if local and all(map(local.knows, bodies)) else None

    def _route(self, query: Query, wishes: Mapping[str, Any], pool: str | None, explain: bool) -> dict[str, Any]:
        return _body(pool or self._pool, wishes, explain=explain or None, **_query(query))

    def _batch(
        self, queries: Sequence[Query], wishes: Mapping[str, Any], pool: str | None
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        asked = [query if isinstance(query, str) else _query(query) for query in queries]
        return _body(pool or self._pool, wishes, queries=asked), [{**wishes, **_query(query)} for query in queries]

    def _outcome(self, decision_id: str, success: bool, more: Mapping[str, Any]) -> dict[str, Any]:
        return _body(None, more, decision_id=decision_id, success=success)


class Client(_Shared[httpx.Client, httpx.BaseTransport]):
    """Asks a server, and waits for its answers. May be shared between threads."""

    _http_class = httpx.Client

    def route(
        self, query: Query, *, pool: str | None = None, explain: bool = False, **wishes: Unpack[Wishes]
    ) -> Answer:
        """The agents that a text, or the last message of a conversation, needs. Raises Refused and Unreachable."""
        body = self._route(query, wishes, pool, explain)
        try:
            return Answer.of(self._call("POST", "/route/", body))
        except Unreachable:
            if answers := self._in_place([body]):
                return answers[0]
            raise

    def route_batch(
        self, queries: Sequence[Query], *, pool: str | None = None, **wishes: Unpack[Wishes]
    ) -> list[Answer]:
        """The answers to many queries of one pool, in their order. Raises Refused and Unreachable."""
        body, alone = self._batch(queries, wishes, pool)
        try:
            return [Answer.of(told) for told in self._call("POST", "/route/batch/", body)["results"]]
        except Unreachable:
            answers = self._in_place(alone)
            if answers is not None:
                return answers
            raise

    def report(self, decision_id: str, success: bool, **more: Any) -> None:
        """What became of an answer: `rating`, `comment`, `agents_used`, `served`. Raises Refused and Unreachable."""
        self._call("POST", "/outcomes/", self._outcome(decision_id, success, more))

    def agents(self, pool: str | None = None) -> list[Agent]:
        """The pool's agents. Raises Refused and Unreachable."""
        told = self._call("GET", "/agents/", params=_body(pool or self._pool, {}))
        return [Agent.of(agent) for agent in told["agents"]]

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _call(self, method: str, path: str, body: Any = None, params: Mapping[str, str] | None = None) -> Any:
        problem = ""
        for attempt in range(self._retries + 1):
            response = None
            try:
                response = self._http.request(method, path, json=body, params=params)
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if _is_final(response, last=attempt == self._retries):
                    return _told(response)
                problem = f"HTTP {response.status_code}: {response.text[:200]}"
            if attempt < self._retries:
                time.sleep(_wait(attempt, response))
        raise Unreachable(f"No answer after {self._retries + 1} attempts. {problem}")


class AsyncClient(_Shared[httpx.AsyncClient, httpx.AsyncBaseTransport]):
    """The same on an event loop."""

    _http_class = httpx.AsyncClient

    async def route(
        self, query: Query, *, pool: str | None = None, explain: bool = False, **wishes: Unpack[Wishes]
    ) -> Answer:
        """As `Client.route`."""
        body = self._route(query, wishes, pool, explain)
        try:
            return Answer.of(await self._call("POST", "/route/", body))
        except Unreachable:
            if answers := self._in_place([body]):
                return answers[0]
            raise

    async def route_batch(
        self, queries: Sequence[Query], *, pool: str | None = None, **wishes: Unpack[Wishes]
    ) -> list[Answer]:
        """As `Client.route_batch`."""
        body, alone = self._batch(queries, wishes, pool)
        try:
            told = await self._call("POST", "/route/batch/", body)
        except Unreachable:
            answers = self._in_place(alone)
            if answers is not None:
                return answers
            raise
        return [Answer.of(one) for one in told["results"]]

    async def report(self, decision_id: str, success: bool, **more: Any) -> None:
        """As `Client.report`."""
        await self._call("POST", "/outcomes/", self._outcome(decision_id, success, more))

    async def agents(self, pool: str | None = None) -> list[Agent]:
        """As `Client.agents`."""
        told = await self._call("GET", "/agents/", params=_body(pool or self._pool, {}))
        return [Agent.of(agent) for agent in told["agents"]]

    async def close(self) -> None:
        """Let the connections go."""
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    async def _call(self, method: str, path: str, body: Any = None, params: Mapping[str, str] | None = None) -> Any:
        problem = ""
        for attempt in range(self._retries + 1):
            response = None
            try:
                response = await self._http.request(method, path, json=body, params=params)
            except httpx.TransportError as error:
                problem = f"{type(error).__name__}: {error}"
            else:
                if _is_final(response, last=attempt == self._retries):
                    return _told(response)
                problem = f"HTTP {response.status_code}: {response.text[:200]}"
            if attempt < self._retries:
                await asyncio.sleep(_wait(attempt, response))
        raise Unreachable(f"No answer after {self._retries + 1} attempts. {problem}")
