"""What an agent says of itself, bounded and cleaned: it was written elsewhere, by whoever runs that address."""

import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from agents_app.checks import LONGEST_EXAMPLE, MOST_EXAMPLES
from agents_app.outbound import guard

NAME, DESCRIPTION, KEYWORD, EXAMPLE = 120, 4_000, 60, LONGEST_EXAMPLE  # characters at most
KEYWORDS, EXAMPLES, PARTS = 50, MOST_EXAMPLES, 300  # of one agent at most
SECONDS = 8.0
MOST_BYTES = 1 << 20
#: Joiners, which some scripts need; other invisible characters could hide what a person approves.
_JOINERS = "\u200c\u200d"


class SourceError(ValueError):
    """A description that cannot be read; the message says why and never repeats what came."""


@dataclass(frozen=True, slots=True)
class Described:
    """An agent as its card or its tools describe it.

    `calling` says how it may be called: of A2A `address`, `version` and `streaming`; of MCP `address` and `tools` as the server
    lists them.
    """

    name: str
    description: str
    keywords: tuple[str, ...]
    examples: tuple[str, ...] = ()
    signature: str = "none"
    signer: str = ""
    calling: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """What is kept of it."""
        fields_ = asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in fields_.items()}


def line(value: Any, max_length: int) -> str:
    """A text on one line, without what cannot be seen; "" for what is no text."""
    return " ".join(_plain(value).split())[:max_length].strip()


def lines(value: Any, max_length: int) -> str:
    """The same with its line breaks."""
    lines_ = (" ".join(line.split()) for line in _plain(value).splitlines())
    return "\n".join(line_ for line_ in lines_ if line_)[:max_length].strip()


def distinct(values: Iterable[Any], limit: int, length: int) -> tuple[str, ...]:
    """The first texts of a list, each once."""
    lines = dict.fromkeys(text for value in values if (text := line(value, length)))
    return tuple(lines)[:limit]


def _plain(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    beginning = value[: 4 * DESCRIPTION]
    return "".join(
        character
        for character in beginning
        if character in "\n\t"
        or character in _JOINERS
        or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn")
    )


def as_object(raw: bytes) -> Any:
    """The JSON in some bytes. Raises SourceError."""
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise SourceError(_("The answer is not JSON that can be read.")) from None


def fetched(url: str) -> bytes:
    """What a GET brings, at most MOST_BYTES of it. Raises SourceError."""
    return exchanged("GET", url)[0]


def exchanged(
    method: str, url: str, *, body: bytes | None = None, headers: dict[str, str] | None = None, seconds: float = SECONDS
) -> tuple[bytes, int, dict[str, str]]:
    """The body, status and headers of an answer; through the one guard for outbound addresses. A GET has to bring 200. Raises
    SourceError."""
    import httpx

    sent = {"User-Agent": "Routerweb", "Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
    try:
        with (
            guard.client(seconds) as client,
            client.stream(method, url, content=body, headers=sent) as answer,
        ):
            if method == "GET" and answer.status_code != 200:
                raise SourceError(_("The address answered with HTTP %(status)d.") % {"status": answer.status_code})
            raw = b""
            for piece in answer.iter_bytes(65_536):
                raw += piece
                if len(raw) > MOST_BYTES:
                    raise SourceError(_("The answer is larger than %(most)d KiB.") % {"most": MOST_BYTES // 1024})
            return raw, answer.status_code, {name.lower(): value for name, value in answer.headers.items()}
    except guard.Refused as error:
        raise SourceError(str(error)) from None
    except httpx.TimeoutException:
        raise SourceError(_("There was no answer within %(seconds)g seconds.") % {"seconds": seconds}) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise SourceError(_("There is no connection: %(why)s.") % {"why": guard.plain_words(error)}) from None
