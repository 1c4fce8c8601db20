"""The ASGI application that a server runs: `routerweb.asgi:application`.

The fast lane answers a short route at once. For anything else the body is read here, on the event loop; then a thread makes the
answer: one of API_THREADS for the API, one of WEB_THREADS for the pages, one of four for pages that read a file, which wait for a
child process, and one of two for batches and long texts of the fast lane, so that none of them waits for another.
"""

import asyncio
import io
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from weakref import WeakValueDictionary

from django.conf import settings

from routerweb import state, wsgi
from routerweb.observing import requests
from routerweb.serving import bodies, body_limits, disconnect, threads
from routerweb.serving.bodies import Body
from routerweb.serving.client_limits import CLOSE, ClientLimits, Receive, Scope, Send, refuse
from routerweb.serving.later import Later
from routerweb.serving.thread_pools import Threads
from training_app.answering import metrics, serving
from training_app.api import ard, ddqn_router, fast_lane, handler

BATCH_THREADS = 2
#: Their threads wait for a child, so that as many files at once are read or refused within their time.
FILE_THREADS = 4
#: Longer bodies, and batches, are answered by a thread, so that routing a long text or many delays nobody.
SHORT_BYTES = 4 * 1024

#: Addresses that other programs expect at the root of a site, and those of the API that answer there.
ROOT_ADDRESSES = {
    "/metrics": "/api/metrics/",
    "/mcp": "/api/mcp/",
    "/.well-known/agent-card.json": "/api/a2a-card/",
    "/v1/models": "/api/v1/models",
    "/v1/chat/completions": "/api/v1/chat/completions",
    "/v1/responses": "/api/v1/responses",
    "/v1/traces": "/api/v1/traces",
}
#: Where an agent's card is, below the agent's own address.
CARD = ".well-known/agent-card.json"
RETRY = (b"retry-after", b"5")

api_threads = Threads("api", settings.API_THREADS)
batch_threads = Threads("batch", BATCH_THREADS)
page_threads = Threads("page", settings.WEB_THREADS)
file_threads = Threads("file", FILE_THREADS)
_turns: WeakValueDictionary[tuple[str, bytes], asyncio.Lock] = WeakValueDictionary()
state.keep(__name__, "_turns", "Turns of API keys that send batches", "two for each key with a batch under way")


async def answer(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request, without limits for its client."""
    if scope["type"] != "http":
        return
    try:
        body = None
        if _is_short_route(scope):
            sent = await _short_body(scope, receive)
            routed = _in_lane(scope, sent)
            if routed is not None:
                await _send_routed(routed, send)
                return
            body = Body(io.BytesIO(sent), len(sent), whole=True)
        await _answer_by_threads(scope, receive, send, body)
    except (bodies.Disconnected, disconnect.Abandoned):
        return  # nobody is there to read an answer


def route_of(path: str) -> str:
    """The template of the address that answers for this path: few, whatever clients ask for. `none` where nothing does."""
    address = address_of(path)
    if wsgi.calls_api(address):
        return handler.route_of(address)
    return wsgi.page_route_of(address)


def _count(answered: requests.Answered) -> None:
    metrics.requested(route_of(answered.path), answered.method, answered.status, answered.seconds)


_records = [_count] if settings.METRICS else []
_records += [requests.AccessLog(route_of)] if settings.ACCESS_LOG else []
#: What a server runs, and what tells its clients that it ends.
limits = ClientLimits(answer, body_seconds=settings.BODY_SECONDS, answer_seconds=settings.ANSWER_SECONDS)
application = requests.Recorded(limits, requests.in_turn(*_records))


# --- The fast lane ------------------------------------------------------------------------------------------------


def _is_short_route(scope: Scope) -> bool:
    """Whether the request can be routed on the event loop: a short body, and a model in memory."""
    if scope["raw_path"] != fast_lane.ROUTE or scope["query_string"] or not fast_lane.takes(fast_lane.ROUTE):
        return False
    length = bodies.header(scope, b"content-length")
    return 0 < int(length or 0) <= SHORT_BYTES and serving.loaded()


async def _short_body(scope: Scope, receive: Receive) -> bytes:
    """The body of a request that says how long it is. Raises Disconnected."""
    length = int(bodies.header(scope, b"content-length"))
    body, more = b"", True
    while more and len(body) < length:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise bodies.Disconnected
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


def _in_lane(scope: Scope, body: bytes) -> bytes | None:
    """The fast lane's answer; None for what is left to Django."""
    return fast_lane.answer(scope["method"].encode(), scope["raw_path"], scope["headers"], body, scope["scheme"])


async def _send_routed(routed: bytes, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": fast_lane.headers(len(routed))})
    await send({"type": "http.response.body", "body": routed})


def _turn_of(key: str, path: bytes) -> asyncio.Lock:
    """One batch of a key at a time, and one long text, so that another key's need not wait for everything that the first has sent.
    A long text need not wait for the key's own batches either."""
    return _turns.setdefault((key, path), asyncio.Lock())


# --- Django, in threads -------------------------------------------------------------------------------------------


async def _answer_by_threads(scope: Scope, receive: Receive, send: Send, body: Body | None) -> None:
    """Answer what the event loop does not answer itself. `body` is None where it was not read yet."""
    path = address_of(str(scope["path"]))
    if path != scope["path"]:
        scope = {**scope, "path": path, "raw_path": path.encode()}
    is_api = wsgi.calls_api(path)
    pool = api_threads if is_api else file_threads if wsgi.reads_file(path) else page_threads
    if pool.full:
        await _refuse_overloaded(send, is_api)
        return
    if body is None:
        body = await bodies.read(scope, receive, lambda scope_: body_limits.limit_of(scope_, page_threads.executor))
    with body.file:
        if not body.whole and not is_api:
            await refuse(send, 413, "This request is larger than its address takes from you.", CLOSE)
            await bodies.throw_away(receive)
            return
        promise = Later()
        async with _client_leaving(receive, watch=is_api and body.whole and body.length > SHORT_BYTES) as client_left:
            if body.whole and fast_lane.takes(scope["raw_path"]) and not scope["query_string"]:
                raw = body.file.read()
                body.file.seek(0)
                async with _turn_of(bodies.header(scope, b"authorization"), scope["raw_path"]):
                    routed = await batch_threads.run(disconnect.run, client_left, _in_lane, scope, raw)
                if routed is not None:
                    await _send_routed(routed, send)
                    return
            response = await pool.run(
                disconnect.run, client_left, threads.answer, wsgi.application, scope, body, promise
            )
    if promise.pieces is not None and body.whole:
        await threads.send_later(response, promise, send, receive)
        return
    await threads.send_answer(response, send, receive, read_whole=body.whole)


@asynccontextmanager
async def _client_leaving(receive: Receive, *, watch: bool) -> AsyncIterator[threading.Event]:
    """An event that is set when the client leaves, as far as it is watched for."""
    client_left = threading.Event()
    watching = asyncio.ensure_future(_watch(receive, client_left)) if watch else None
    try:
        yield client_left
    finally:
        if watching is not None:
            watching.cancel()


async def _watch(receive: Receive, client_left: threading.Event) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    client_left.set()


def address_of(path: str) -> str:
    """The path that answers for this one."""
    if path.startswith("/a2a/"):
        slug, _slash, rest = path.removeprefix("/a2a/").partition("/")
        return {"": f"/api/a2a/{slug}/", CARD: f"/api/a2a/{slug}/card/"}.get(rest, f"/api{path}")
    return ROOT_ADDRESSES.get(path) or ard.address(ddqn_router.address(path))


async def _refuse_overloaded(send: Send, is_api: bool) -> None:
    """Say that every thread is busy, in the form of the API or of a page."""
    if not is_api:
        await refuse(send, 503, "Too many requests are waiting here. Try again in a few seconds.", RETRY)
        return
    errors = import_module("training_app.api.errors")  # brings REST framework: loaded with the API's first call
    await refuse(send, 503, json.dumps(errors.overloaded().body), RETRY, media_type=b"application/json")
