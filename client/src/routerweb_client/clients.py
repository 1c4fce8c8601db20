"""The two clients. What they share are plain functions and small objects: a call's tries, the circuit, the exported model."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar, Unpack

import httpx

from routerweb_client import deadlines
from routerweb_client.answers import Agent, Answer, Proposal, Unreachable, listed
from routerweb_client.calls import BUSY, Reply, Request, Timeouts, Tries
from routerweb_client.circuit import Circuit
from routerweb_client.local import LocalRouter
from routerweb_client.options import BatchOptions, RouteOptions

#: Seconds for which a call with an exported model waits for a server that was away, before the model answers in its place.
TRIAL_SECONDS = 0.2
Query = str | Sequence[Mapping[str, Any]]
Verdict = Literal["accept", "decline", "merge"]


def _body(pool: str | None, options: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The body of a call, without what is not said."""
    sent = {"pool": pool, **options, **more}
    return {name: value for name, value in sent.items() if value is not None}


def _query(query: Query) -> dict[str, Any]:
    return {"query": query} if isinstance(query, str) else {"messages": list(query)}


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
        """`pool` may be left out where the key opens one; `timeout` is in seconds, for a call with all its tries; `fallback` is an
        exported model. Raises ValueError for an address or a key that cannot be one."""
        base_url, key = base_url.strip(), key.strip()
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"base_url must begin with http:// or https://, unlike {base_url!r}.")
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            # Without the key: it may end up in a log.
            raise ValueError(
                "key must be the API key of a Routerweb server: it is blank, or has a character that no key has."
            )
        self._pool, self._timeout, self._retries = pool, timeout, retries
        self._circuit = Circuit()
        self._local = LocalRouter(fallback) if fallback is not None else None
        options: dict[str, Any] = {
            "base_url": base_url.rstrip("/") + "/api",
            "headers": {"Authorization": f"Bearer {key}", "User-Agent": "routerweb-client/0.1.0"},
            "timeout": timeout,
            "transport": transport,
        }
        self._http: Http = self._http_class(**options)
        if isinstance(self._http, httpx.Client):
            deadlines.install(self._http)

    # --- What is sent -------------------------------------------------------------------------------------------------

    def _route(self, query: Query, options: Mapping[str, Any], pool: str | None) -> dict[str, Any]:
        return _body(pool or self._pool, options, **_query(query))

    def _batch(
        self, queries: Sequence[Query], options: Mapping[str, Any], pool: str | None
    ) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        bodies = [query if isinstance(query, str) else _query(query) for query in queries]
        return _body(pool or self._pool, options, queries=bodies), [{**options, **_query(query)} for query in queries]

    def _outcome(self, decision_id: str, success: bool, more: Mapping[str, Any]) -> dict[str, Any]:
        return _body(self._pool, more, decision_id=decision_id, success=success)

    def _decisions(self, pool: str | None, which: Mapping[str, Any]) -> dict[str, Any]:
        return {name: str(value) for name, value in _body(pool or self._pool, which).items()}

    # --- How it is sent -----------------------------------------------------------------------------------------------

    def _admitted(self) -> bool:
        """Whether this call is the trial of a server that was away. Raises Unreachable where the server is left alone."""
        admission = self._circuit.admit()
        if admission == "open":
            raise Unreachable("The server did not answer a moment ago, and is left alone for some seconds.")
        return admission == "trial"

    def _tries(self, trial: bool) -> Tries:
        return Tries(self._timeout, 1 if trial else self._retries + 1)

    def _sent(self, request: Request, tries: Tries) -> dict[str, Any]:
        """What httpx sends for a request: JSON in ASCII, which holds any text, half a surrogate pair too, for the server to judge."""
        body: dict[str, Any] = {}
        if request.body is not None:
            body["content"] = json.dumps(request.body, separators=(",", ":"), allow_nan=False).encode("ascii")
            body["headers"] = {"Content-Type": "application/json"}
        return {
            "method": request.method, "url": request.path, "params": request.params,
            "extensions": {"timeout": Timeouts(tries)}, **body,
        }  # fmt: skip

    def _next(self, tries: Tries, reply: Reply | None, error: httpx.TransportError | None) -> float | None:
        """Seconds before the next try, None where the reply is the call's. Raises Unreachable where there is neither."""
        if reply and reply.status not in BUSY:
            self._circuit.succeeded()
            return None
        pause = tries.pause(reply)
        if pause is not None:
            return pause
        if reply and reply.status == 429:  # the server is there: this key has sent too much
            self._circuit.succeeded()
            return None
        self._circuit.failed((reply and reply.retry_after) or 0.0)
        raise tries.unreachable(reply, error)

    def _in_place(self, bodies: Sequence[Mapping[str, Any]], why: Unreachable) -> list[Answer]:
        """The exported model's answers. Raises Unreachable where there is no such model, or it cannot tell whom a body names."""
        if self._local is None:
            raise why
        if not all(map(self._local.names_agents, bodies)):
            why.add_note("The exported model holds no keys of agents: write it again with manage.py export_model.")
            raise why
        return [self._local.answer(body) for body in bodies]


class Client(_Shared[httpx.Client, httpx.BaseTransport]):
    """Asks a server, and waits for its answers. May be shared between threads."""

    _http_class = httpx.Client

    def route(self, query: Query, *, pool: str | None = None, **options: Unpack[RouteOptions]) -> Answer:
        """The agents that a text, or the last message of a conversation, needs. Raises Refused and Unreachable."""
        body = self._route(query, options, pool)
        try:
            return Answer.of(self._route_call(Request("POST", "/route/", body)))
        except Unreachable as error:
            return self._in_place([body], error)[0]

    def route_batch(
        self, queries: Sequence[Query], *, pool: str | None = None, **options: Unpack[BatchOptions]
    ) -> list[Answer]:
        """The answers to many queries of one pool, in their order. Raises Refused and Unreachable."""
        body, alone = self._batch(queries, options, pool)
        try:
            return [
                Answer.of(result)
                for result in listed(self._route_call(Request("POST", "/route/batch/", body)), "results")
            ]
        except Unreachable as error:
            return self._in_place(alone, error)

    def report(self, decision_id: str, success: bool, **more: Any) -> None:
        """What became of an answer: `rating`, `comment`, `agents_used`, `served`; `pool` where the answer is not of the client's own.
        Raises Refused and Unreachable."""
        request = Request("POST", "/outcomes/", self._outcome(decision_id, success, more))
        self._call(request, self._admitted())

    def agents(self, pool: str | None = None) -> list[Agent]:
        """The pool's agents. Raises Refused and Unreachable."""
        request = Request("GET", "/agents/", params=_body(pool or self._pool, {}))
        return [Agent.of(agent) for agent in listed(self._call(request, self._admitted()), "agents")]

    def decisions(self, pool: str | None = None, **which: Any) -> Iterator[dict[str, Any]]:
        """The pool's kept decisions as the API has them, newest first, for a key of scope ops: read in parts, as they are asked for.
        `which`: `agent`, `model`, `stop_reason`, `since`, `until`, `limit` of a part. Raises Refused and Unreachable."""
        params: dict[str, Any] | None = self._decisions(pool, which)
        while params is not None:
            reply = self._reply_of(Request("GET", "/decisions/", params=params), self._admitted())
            yield from listed(reply.payload(), "decisions")
            params = reply.next_part

    def proposals(self, pool: str | None = None) -> list[Proposal]:
        """What the pool's traffic says about its agents and nobody has decided yet. Raises Refused and Unreachable."""
        request = Request("GET", "/proposals/", params=_body(pool or self._pool, {}))
        payload = self._call(request, self._admitted())
        return [Proposal.of(proposal) for proposal in listed(payload, "proposals")]

    def decide_proposal(self, proposal_id: int, verdict: Verdict, **more: Any) -> Proposal:
        """Accept (`name`, `description`), decline or merge (`into`) a proposal. Raises Refused and Unreachable."""
        request = Request("POST", f"/proposals/{proposal_id}/{verdict}/", _body(None, more))
        return Proposal.of(self._call(request, self._admitted()))

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _route_call(self, request: Request) -> Any:
        trial = self._admitted()
        if not trial or self._local is None:
            return self._call(request, trial)
        # The trial goes on in its thread, and closes the circuit if the server answers later than this caller can wait.
        answer: Future[Any] = Future()

        def ask() -> None:
            try:
                answer.set_result(self._call(request, trial))
            except Exception as error:
                answer.set_exception(error)

        threading.Thread(target=ask, name="routerweb-trial", daemon=True).start()
        try:
            return answer.result(TRIAL_SECONDS)
        except TimeoutError:
            raise Unreachable("The server was away, and has not answered yet.") from None

    def _call(self, request: Request, trial: bool) -> Any:
        return self._reply_of(request, trial).payload()

    def _reply_of(self, request: Request, trial: bool) -> Reply:
        try:
            return self._reply(request, self._tries(trial))
        except Unreachable:
            raise
        except BaseException:
            if trial:
                self._circuit.end_trial()
            raise

    def _reply(self, request: Request, tries: Tries) -> Reply:
        while True:
            reply: Reply | None = None
            problem: httpx.TransportError | None = None
            try:
                reply = self._send(request, tries)
            except httpx.TransportError as error:
                problem = error
            pause = self._next(tries, reply, problem)
            if pause is None and reply:
                return reply
            time.sleep(pause or 0.0)

    def _send(self, request: Request, tries: Tries) -> Reply:
        with self._http.stream(**self._sent(request, tries)) as response:
            parts = []
            for part in response.iter_bytes():
                parts.append(part)
                tries.check()
        return Reply(response.status_code, response.headers, b"".join(parts))


class AsyncClient(_Shared[httpx.AsyncClient, httpx.AsyncBaseTransport]):
    """The same on an event loop."""

    _http_class = httpx.AsyncClient
    _trial: "asyncio.Task[Any] | None" = None

    async def route(self, query: Query, *, pool: str | None = None, **options: Unpack[RouteOptions]) -> Answer:
        """As `Client.route`."""
        body = self._route(query, options, pool)
        try:
            return Answer.of(await self._route_call(Request("POST", "/route/", body)))
        except Unreachable as error:
            return self._in_place([body], error)[0]

    async def route_batch(
        self, queries: Sequence[Query], *, pool: str | None = None, **options: Unpack[BatchOptions]
    ) -> list[Answer]:
        """As `Client.route_batch`."""
        body, alone = self._batch(queries, options, pool)
        try:
            payload = await self._route_call(Request("POST", "/route/batch/", body))
        except Unreachable as error:
            return self._in_place(alone, error)
        return [Answer.of(result) for result in listed(payload, "results")]

    async def report(self, decision_id: str, success: bool, **more: Any) -> None:
        """As `Client.report`."""
        request = Request("POST", "/outcomes/", self._outcome(decision_id, success, more))
        await self._call(request, self._admitted())

    async def agents(self, pool: str | None = None) -> list[Agent]:
        """As `Client.agents`."""
        request = Request("GET", "/agents/", params=_body(pool or self._pool, {}))
        payload = await self._call(request, self._admitted())
        return [Agent.of(agent) for agent in listed(payload, "agents")]

    async def decisions(self, pool: str | None = None, **which: Any) -> AsyncIterator[dict[str, Any]]:
        """As `Client.decisions`."""
        params: dict[str, Any] | None = self._decisions(pool, which)
        while params is not None:
            reply = await self._reply_of(Request("GET", "/decisions/", params=params), self._admitted())
            for decision in listed(reply.payload(), "decisions"):
                yield decision
            params = reply.next_part

    async def proposals(self, pool: str | None = None) -> list[Proposal]:
        """As `Client.proposals`."""
        request = Request("GET", "/proposals/", params=_body(pool or self._pool, {}))
        payload = await self._call(request, self._admitted())
        return [Proposal.of(proposal) for proposal in listed(payload, "proposals")]

    async def decide_proposal(self, proposal_id: int, verdict: Verdict, **more: Any) -> Proposal:
        """As `Client.decide_proposal`."""
        request = Request("POST", f"/proposals/{proposal_id}/{verdict}/", _body(None, more))
        return Proposal.of(await self._call(request, self._admitted()))

    async def close(self) -> None:
        """Let the connections go."""
        if self._trial:
            self._trial.cancel()
        await self._http.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    async def _route_call(self, request: Request) -> Any:
        trial = self._admitted()
        if not trial or self._local is None:
            return await self._call(request, trial)
        # The trial goes on by itself, and closes the circuit if the server answers later than this caller can wait.
        self._trial = asyncio.create_task(self._call(request, trial))
        self._trial.add_done_callback(
            lambda task: task.cancelled() or task.exception()
        )  # its failure was reckoned with
        done, _pending = await asyncio.wait((self._trial,), timeout=TRIAL_SECONDS)
        if done:
            return self._trial.result()
        raise Unreachable("The server was away, and has not answered yet.")

    async def _call(self, request: Request, trial: bool) -> Any:
        return (await self._reply_of(request, trial)).payload()

    async def _reply_of(self, request: Request, trial: bool) -> Reply:
        try:
            return await self._reply(request, self._tries(trial))
        except Unreachable:
            raise
        except BaseException:
            if trial:
                self._circuit.end_trial()
            raise

    async def _reply(self, request: Request, tries: Tries) -> Reply:
        while True:
            reply: Reply | None = None
            problem: httpx.TransportError | None = None
            try:
                async with asyncio.timeout(tries.seconds_left):
                    response = await self._http.request(**self._sent(request, tries))
                reply = Reply(response.status_code, response.headers, response.content)
            except TimeoutError:
                problem = httpx.ReadTimeout("the reply was not complete in time")
            except httpx.TransportError as error:
                problem = error
            pause = self._next(tries, reply, problem)
            if pause is None and reply:
                return reply
            await asyncio.sleep(pause or 0.0)
