"""Every request has an id, which its answer carries as `X-Request-ID`, and every log line that is written for it.

An id that the caller sends is kept where it is plain, so that a request can be followed through a proxy and back.
"""

import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import NamedTuple, TextIO

from routerweb.serving.client_limits import Application, Message, Receive, Scope, Send

#: An id that is taken over from the caller.
PLAIN_ID = re.compile(rb"[A-Za-z0-9._~-]{1,64}")
HEADER = b"x-request-id"

#: The id of the request that this task or thread works for; "" outside of requests.
request_id: ContextVar[str] = ContextVar("request_id", default="")


class Answered(NamedTuple):
    """A request and how it ended. `status` is 0 where the client left before an answer. `path` has no query string, which may hold
    what somebody searched for."""

    request_id: str
    method: str
    path: str
    status: int
    seconds: float
    client: str


Record = Callable[[Answered], None]


class Recorded:
    """`application` with an id for each of its requests; `record` is called once the answer was sent."""

    def __init__(self, application: Application, record: Record) -> None:
        self.application, self.record = application, record

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        began, status = time.perf_counter(), 0
        name = _id_of(scope)
        request_id.set(name)  # a request has a task, and so a context, of its own

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message = {**message, "headers": [*message["headers"], (HEADER, name.encode())]}
            await send(message)

        try:
            await self.application(scope, receive, send_with_id)
        finally:
            client = scope["client"] or ("", 0)
            seconds = time.perf_counter() - began
            self.record(Answered(name, scope["method"], scope["path"], status, seconds, str(client[0])))


def _id_of(scope: Scope) -> str:
    sent = next((value for name, value in scope["headers"] if name == HEADER), b"")
    return sent.decode() if PLAIN_ID.fullmatch(sent) else os.urandom(16).hex()


class WithRequestID(logging.Filter):
    """Adds the id of the request to each record that is written for one."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true."""
        record.request_id = request_id.get()
        return True


class AccessLog:
    """One line of JSON for each request on the standard output: when, which, who asked, how it ended and how long it took."""

    def __init__(self, route_of: Callable[[str], str], stream: TextIO | None = None) -> None:
        self.route_of, self.stream = route_of, stream

    def __call__(self, answered: Answered) -> None:
        """Write the line of a request."""
        line = {
            "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "logger": "access",
            "request_id": answered.request_id,
            "method": answered.method,
            "route": self.route_of(answered.path),
            "path": answered.path,
            "status": answered.status,
            "ms": round(answered.seconds * 1000, 2),
            "client": answered.client,
        }
        print(json.dumps(line, ensure_ascii=False), file=self.stream or sys.stdout, flush=True)


def in_turn(*records: Record) -> Callable[[Answered], None]:
    """One record that calls each of these."""

    def record(answered: Answered) -> None:
        for each in records:
            each(answered)

    return record
