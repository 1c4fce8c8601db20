"""What the API answers with: JSON bodies, and one form of error that every address shares.

An error's body is `{"error": {"code", "message", "field"?, "hint"?}}`: `code` is a word for programs and never changes, `message`
says what was wrong, `field` where in the request, `hint` what to do.
"""

import json
from typing import Any, NamedTuple

Headers = tuple[tuple[str, str], ...]


class Reply(NamedTuple):
    """One answer: its status, the headers that are its own, and a JSON body in UTF-8."""

    status: int
    body: bytes
    headers: Headers = ()


def reply(value: Any, status: int = 200, headers: Headers = ()) -> Reply:
    """A value as JSON. Keys may be integers; text stays readable as UTF-8."""
    return Reply(status, json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(), headers)


class Refused(Exception):
    """A request that is not served, with all that its sender is told."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        field: str = "",
        hint: str = "",
        headers: Headers = (),
        **more: Any,
    ) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers
        self.error: dict[str, Any] = {"code": code, "message": message}
        self.error |= {name: value for name, value in (("field", field), ("hint", hint)) if value} | more

    def reply(self) -> Reply:
        """The error as an answer."""
        return reply({"error": self.error}, self.status, self.headers)
