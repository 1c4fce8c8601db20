"""What one call of either client is: its tries within one deadline, what a reply means, how long to wait for the next."""

import json
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx

from routerweb_client.answers import Refused, Unreachable
from routerweb_client.deadlines import SHORTEST_TIMEOUT, SecondsLeft

#: Replies of a server that may be well again in a moment.
BUSY = frozenset((429, 502, 503, 504))


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the API, below /api."""

    method: str
    path: str
    body: Any = None
    params: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server sent back."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def retry_after(self) -> float | None:
        """The seconds that the server asks to be left alone for, None where it does not say."""
        seconds = self.headers.get("Retry-After", "")
        return float(seconds) if seconds.isdecimal() else None

    @property
    def next_part(self) -> dict[str, str] | None:
        """The parameters of a list's next part, None where it ends here."""
        link = re.match(r'<([^>]*)>; *rel="next"', self.headers.get("Link", ""))
        return dict(parse_qsl(urlsplit(link[1]).query)) if link else None

    def payload(self) -> dict[str, Any]:
        """The object that an answer holds. Raises Refused."""
        try:
            payload = json.loads(self.content)
        except ValueError:
            raise self.unclear() from None
        if not isinstance(payload, dict):
            raise self.unclear()
        if self.status < 300:
            return payload
        try:
            error = payload["error"]
            values = error["code"], error["message"], error.get("field", ""), error.get("hint", "")
        except (KeyError, TypeError):
            raise self.unclear() from None
        raise Refused(self.status, *values)

    def unclear(self) -> Refused:
        """The refusal of an answer that is none of Routerweb's."""
        return Refused(
            self.status, "unknown", f"The server answered with HTTP {self.status}, and not as Routerweb does."
        )


class Timeouts(dict[str, float]):
    """httpx's timeouts of one try (connect, write, read): each phase, and each read in it, has what is left of the call by then."""

    def __init__(self, tries: "Tries") -> None:
        super().__init__(dict.fromkeys(("connect", "read", "write", "pool"), tries.seconds_left))
        self._tries = tries

    def get(self, phase: str, default: Any = None) -> Any:
        """The seconds that are left, now and later."""
        return SecondsLeft(self._tries.until_deadline)


class Tries:
    """The tries of one call: at most `most` of them, and none that begins or lasts beyond `seconds` from now."""

    def __init__(self, seconds: float, max_tries: int) -> None:
        self._deadline = time.monotonic() + seconds
        self._seconds, self._left, self._made = seconds, max_tries, 0

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline, never quite 0."""
        return max(self.until_deadline(), SHORTEST_TIMEOUT)

    def until_deadline(self) -> float:
        """Seconds until the deadline; less than 0 after it."""
        return self._deadline - time.monotonic()

    def check(self) -> None:
        """Raises httpx.ReadTimeout after the deadline: for replies that come in drops."""
        if time.monotonic() >= self._deadline:
            raise httpx.ReadTimeout("the reply was not complete in time")

    def pause(self, reply: Reply | None) -> float | None:
        """Seconds before the next try: what the server says, else twice as long each time, not all clients at once. None where there
        is no next try: all were made, or it would begin too late."""
        self._made += 1
        self._left -= 1
        wanted = reply.retry_after if reply else None
        seconds = wanted if wanted is not None else 0.1 * 2.0 ** (self._made - 1) * random.uniform(0.5, 1.0)  # noqa: S311
        return seconds if self._left > 0 and seconds < self._deadline - time.monotonic() else None

    def unreachable(self, reply: Reply | None, error: httpx.TransportError | None) -> Unreachable:
        """Why there is no answer."""
        problem = f"{type(error).__name__}: {error}" if error else ""
        if reply:
            problem = f"HTTP {reply.status}: {reply.content[:200].decode(errors='replace')}"
        tries = f"{self._made} attempt{'' if self._made == 1 else 's'}"
        return Unreachable(f"No answer after {tries} in at most {self._seconds:g} s. {problem}")
