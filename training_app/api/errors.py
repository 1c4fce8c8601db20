"""One form of error for every address: `{"error": {"code", "message", "field"?, "hint"?, …}}`.

`code` is a word for programs and never changes, `message` says what was wrong, `field` where in the request, `hint` what to do.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.db import DataError, IntegrityError, ProgrammingError
from django.db import Error as DatabaseFault
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.serializers import as_serializer_error

from training_app.answering.answer import NotReady
from training_app.answering.throttle import Exceeded

logger = logging.getLogger(__name__)

Headers = tuple[tuple[str, str], ...]


class Refused(exceptions.APIException):
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
        super().__init__(message, code)
        self.status_code, self.headers = status, headers
        self.error: dict[str, Any] = {"code": code, "message": message}
        self.error |= {name: value for name, value in (("field", field), ("hint", hint)) if value} | more

    @property
    def body(self) -> dict[str, Any]:
        """What is answered."""
        return {"error": self.error}


@contextmanager
def refused_as(status: int, code: str, *errors: type[Exception], hint: str = "") -> Iterator[None]:
    """Refuse the request with what one of these errors says, where it ends the block."""
    try:
        yield
    except errors as error:
        raise Refused(status, code, str(error), field=getattr(error, "field", ""), hint=hint) from None


def refusal_of(error: Exception, path: str) -> Refused:
    """What a caller of that path is told about an exception; whatever is not expected is logged and told as a fault of the server."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, NotReady):
        return Refused(503, error.code, str(error), hint=error.hint)
    if isinstance(error, Exceeded):
        again = (("Retry-After", str(error.seconds)),)
        return Refused(429, error.code, str(error), hint=error.hint, headers=again)
    if isinstance(error, DatabaseFault) and not isinstance(error, DataError | IntegrityError | ProgrammingError):
        logger.warning("%s: the database cannot be reached and nothing is loaded yet: %s", path, error)
        return Refused(
            503, "database_away", "The database cannot be reached, and this process has not loaded a model yet.",
            hint="Try again in a few seconds; /api/health/ tells how things stand.", headers=(("Retry-After", "2"),),
        )  # fmt: skip
    if isinstance(error, exceptions.ValidationError):
        return _invalid(as_serializer_error(error))
    if isinstance(error, exceptions.APIException):
        return Refused(error.status_code, str(error.default_code), str(error.detail))
    if isinstance(error, SuspiciousOperation):
        return Refused(400, "malformed", f"The request cannot be read: {error}")
    if isinstance(error, Http404):
        return not_found(path)
    logger.error("%s failed.", path, exc_info=error)
    return Refused(500, "internal_error", "This request failed; the server's log tells why.")


def unknown_field(name: str, fields: Iterable[str], path: str = "") -> Refused:
    """The refusal of a body or a query string with a field that its address does not have. `path` is where in a body it stands."""
    names = ", ".join(sorted(fields))
    return Refused(
        422, "unknown_field", f"{name[:40]!r} is not a field of this address.", field=f"{path}{name[:40]}",
        hint=f"The fields are {names}." if names else "It has none there.",
    )  # fmt: skip


def overloaded() -> Refused:
    """Every thread is busy, and as many calls wait as may."""
    return Refused(
        503, "overloaded", "Too many calls are waiting here.", hint="Try again in a few seconds, or add web processes."
    )


def not_found(path: str) -> Refused:
    """There is no such address."""
    return Refused(
        404, "not_found", f"There is nothing at {path}.", hint="/api/schema/ lists every address of the API."
    )


def unknown_host(host: str) -> Refused:
    """The request came under a name that is not this site's."""
    return Refused(
        400, "host_refused", f"This site does not answer to the host {host[:80]!r}.",
        hint="Its administrator names its hosts in ALLOWED_HOSTS.",
    )  # fmt: skip


def not_allowed(path: str, method: str | None, allowed: list[str]) -> Refused:
    """The address has other methods."""
    takes = sorted(set(allowed) - {"HEAD"})
    return Refused(
        405, "method_not_allowed", f"{path} does not take {method}; use {', '.join(takes)}.",
        headers=(("Allow", ", ".join(sorted(allowed))),),
    )  # fmt: skip


def respond(error: Exception, context: Mapping[str, Any]) -> Response:
    """Django REST framework's exception handler: every error of a view in the one form."""
    refused = refusal_of(error, context["request"].path_info)
    return Response(refused.body, status=refused.status_code, headers=dict(refused.headers))


def _invalid(errors: Mapping[str, Any]) -> Refused:
    """The first thing that a serializer found wrong."""
    field, reasons = next(iter(errors.items()))
    reason = reasons
    while isinstance(reason, list | dict) and reason:
        reason = reason[0] if isinstance(reason, list) else next(iter(reason.values()))
    code = {"required": "missing", "null": "missing", "blank": "blank", "max_length": "too_long"}
    return Refused(
        400, code.get(getattr(reason, "code", ""), "invalid"), f"{field}: {reason}", field="" if field == "non_field_errors" else field
    )  # fmt: skip
