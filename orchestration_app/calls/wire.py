"""What goes over the wire in a call, and what of it may be seen: everything but secrets."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents_app.outbound import guard
from agents_app.outbound.async_client import CallFault, Client, HttpReply
from orchestration_app.calls.parts import CallFailed, Terms
from routerweb.observing import tracing

MASK = "•••"
#: Headers whose values are never shown.
SECRET_HEADERS = frozenset({"authorization", "routerweb-signature", "set-cookie", "cookie", "x-api-key", "api-key"})
#: Characters of a body that are kept for the page.
SHOWN = 20_000


@dataclass(slots=True)
class Seen:
    """One attempt as the page shows it: `status` is 0 where there was no answer."""

    sent_to: str
    sent_headers: list[tuple[str, str]]
    sent: str
    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: str = ""
    problem: str = ""
    method: str = "POST"


@dataclass(slots=True)
class Wire:
    """How a call goes out: the client, and what was seen where somebody looks (`seen` is None where nobody does)."""

    client: Client
    seen: list[Seen] | None = None

    async def post(
        self, url: str, body: Any, headers: Mapping[str, str], terms: Terms, *, method: str = "POST"
    ) -> HttpReply:
        """Send a body: bytes as they are, any other value as JSON. The whole answer, whatever its status. Raises CallFailed."""
        secret = terms.secret
        content = body if isinstance(body, bytes) else written(body)
        fields = {"Content-Type": "application/json", **headers, **tracing.passed_on()}
        exchange = None
        if self.seen is not None:
            sent = masked(content.decode("utf-8", "replace"), secret)
            exchange = Seen(masked(url, secret), _shown(fields, secret), sent, method=method)
            self.seen.append(exchange)
        client = self.client if terms.own_server is None else Client(terms.own_server)
        try:
            answer = await client.post(
                url, content, fields, seconds=terms.seconds, most_bytes=terms.most_bytes, method=method
            )
        except CallFault as fault:
            failed = CallFailed(fault.kind, masked(str(fault), secret))
        except guard.Refused as refused:
            failed = CallFailed("not_allowed", str(refused))
        else:
            if exchange is not None:
                exchange.status, exchange.headers = answer.status, _shown(answer.headers, secret)
                exchange.body = masked(answer.body[:SHOWN].decode("utf-8", "replace"), secret)
            return answer
        finally:
            if client is not self.client:
                await client.close()
        if exchange is not None:
            exchange.problem = str(failed)
        raise failed


def written(value: Any) -> bytes:
    """A value as JSON in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def check_status(answer: HttpReply, secret: str) -> None:
    """Raises CallFailed for every status but 200 to 299."""
    if 200 <= answer.status < 300:
        return
    words = masked(" ".join(answer.body[:300].decode("utf-8", "replace").split()), secret)
    why = f"HTTP {answer.status}: {words}" if words else f"HTTP {answer.status}"
    if answer.status in (429, 503):
        raise CallFailed("rate_limited", why, again=_seconds(answer.headers.get("retry-after", "")))
    raise CallFailed("failed" if answer.status >= 500 else "refused", why)


def parsed(answer: HttpReply) -> dict[str, Any]:
    """The JSON object in an answer. Raises CallFailed."""
    try:
        value = json.loads(answer.body.decode())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        if not answer.body.strip():
            raise CallFailed("malformed", "the answer is empty") from None
        if answer.body.lstrip().startswith(b"<"):
            raise CallFailed("malformed", "the answer is HTML or XML, not JSON") from None
        raise CallFailed("malformed", f"the answer is no JSON: {str(error)[:150]}") from None
    if not isinstance(value, dict):
        raise CallFailed("malformed", "the answer is JSON, but no object")
    return value


def events(answer: HttpReply) -> list[Any]:
    """The JSON objects of an answer: of each event of a stream, or its one body. What is no JSON is left out."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        blocks = answer.body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n")
        pieces = [
            b"\n".join(line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:"))
            for block in blocks
        ]
    else:
        pieces = [answer.body]
    result = []
    for piece in pieces:
        try:
            result.append(json.loads(piece.decode()))
        except (UnicodeDecodeError, ValueError, RecursionError):
            continue
    return result


def masked(text: str, secret: str) -> str:
    """The text without the secret."""
    return text.replace(secret, MASK) if secret else text


def _shown(headers: Mapping[str, str], secret: str) -> list[tuple[str, str]]:
    return [
        (name, MASK if name.lower() in SECRET_HEADERS else masked(value, secret)) for name, value in headers.items()
    ]


def _seconds(value: str) -> float | None:
    return float(value) if value.isascii() and value.isdecimal() and len(value) < 6 else None


__all__ = ("Client", "HttpReply", "Seen", "Wire", "check_status", "events", "masked", "parsed", "written")
