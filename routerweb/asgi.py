"""The ASGI application that a server runs: `routerweb.asgi:application`.

A request's body is read here, on the event loop; then a thread makes the answer: one of API_THREADS for the API, one of WEB_THREADS
for the pages, and of two more for batches and long texts of the fast lane, so that none of them waits for another.
"""

import asyncio
import json
from importlib import import_module
from typing import Any
from weakref import WeakValueDictionary

from django.conf import settings

from routerweb import bodies, threads, wsgi
from routerweb.bodies import Receive, Scope
from routerweb.later import Later
from routerweb.threads import Send, Threads
from training_app.api import ard, ddqn_router, fast_lane

BATCH_THREADS = 2

#: Addresses that other programs expect at the root of a site, and those of the API that answer there.
OTHER_DOORS = {
    "/metrics": "/api/metrics/",
    "/mcp": "/api/mcp/",
    "/.well-known/agent-card.json": "/api/a2a-card/",
    "/v1/models": "/api/v1/models",
    "/v1/chat/completions": "/api/v1/chat/completions",
}
#: Where an agent's card stands, below the agent's own address.
CARD = ".well-known/agent-card.json"

api_threads = Threads("api", settings.API_THREADS)
batch_threads = Threads("batch", BATCH_THREADS)
page_threads = Threads("page", settings.WEB_THREADS)
_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer one request."""
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["type"] == "http":
        await _answer(scope, receive, send)


async def _answer(scope: Scope, receive: Receive, send: Send) -> None:
    path = _door(str(scope["path"]))
    if path != scope["path"]:
        scope = {**scope, "path": path, "raw_path": path.encode()}
    is_api = path.startswith("/api/") and not path.startswith("/api/docs")
    chosen = api_threads if is_api else page_threads
    if chosen.full:
        await _busy(send, is_api)
        return
    try:
        body = await bodies.read(scope, receive, page_threads.executor)
    except bodies.Disconnected:
        return
    with body.file:
        if not body.whole and not is_api:
            await _refuse(
                send, 413, "This request is larger than its address takes from you.", (b"connection", b"close")
            )
            return
        if body.whole and fast_lane.takes(scope["raw_path"]) and not scope["query_string"]:
            raw = body.file.read()
            body.file.seek(0)
            async with _turn_of(bodies.header(scope, b"authorization")):
                routed = await batch_threads.run(
                    fast_lane.answer,
                    scope["method"].encode(),
                    scope["raw_path"],
                    scope["headers"],
                    raw,
                    scope["scheme"],
                )
            if routed is not None:
                await send({"type": "http.response.start", "status": 200, "headers": fast_lane.headers(len(routed))})
                await send({"type": "http.response.body", "body": routed})
                return
        promise = Later()
        found = await chosen.run(threads.answer, wsgi.application, scope, body, promise)
    if promise.pieces is not None and body.whole:
        await threads.send_later(found, promise.pieces(), send, receive)
        return
    await threads.send_answer(found, send, receive, read_whole=body.whole)


def _door(path: str) -> str:
    """The address that answers for this one."""
    if path.startswith("/a2a/"):
        slug, _slash, rest = path.removeprefix("/a2a/").partition("/")
        found = {"": f"/api/a2a/{slug}/", CARD: f"/api/a2a/{slug}/card/"}
        return found.get(rest, f"/api{path}")
    return OTHER_DOORS.get(path) or ard.address(ddqn_router.address(path))


def _turn_of(key: str) -> asyncio.Lock:
    """One batch of a key at a time, so that another key's need not wait for all that the first has sent."""
    return _turns.setdefault(key, asyncio.Lock())


async def _busy(send: Send, is_api: bool) -> None:
    again = (b"retry-after", b"5")
    if not is_api:
        await _refuse(send, 503, "Too many requests are waiting here. Try again in a few seconds.", again)
        return
    errors = import_module(
        "training_app.api.errors"
    )  # with all of REST framework: loaded with the first call of the API
    said = json.dumps(errors.overloaded().body)
    await _refuse(send, 503, said, again, kind=b"application/json")


async def _refuse(
    send: Send, status: int, why: str, *more: tuple[bytes, bytes], kind: bytes = b"text/plain; charset=utf-8"
) -> None:
    text = why.encode()
    headers = [(b"content-type", kind), (b"content-length", str(len(text)).encode()), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text})


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message: dict[str, Any] = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
