"""JSON in and out, once for all addresses: how a body is read and checked, and how an answer is written."""

import json
from collections.abc import Callable, Mapping
from json import decoder
from typing import IO, Any

from django.conf import settings
from django.http import HttpRequest
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer

from routerweb.serving import disconnect
from training_app.api.errors import Refused

#: A longer body is parsed one item of its lists after another: a scan of all of it would hold up the event loop.
SHORT_CHARACTERS = 64 * 1024
#: Headers that every answer has beside its type and length.
EVERY_ANSWER = (("X-Content-Type-Options", "nosniff"), ("Cache-Control", "no-store"))
JSON_TYPES = ("application/json", "application/json; charset=utf-8", "application/json;charset=utf-8")


def read(meta: Mapping[str, Any], read_bytes: Callable[[int], bytes]) -> dict[str, Any]:
    """The JSON object that a request holds; `meta` are its WSGI variables, `read_bytes(n)` reads at most n bytes. Raises Refused."""
    media = meta.get("CONTENT_TYPE", "").lower()
    if media and media not in JSON_TYPES and media.partition(";")[0].strip() != "application/json":
        raise Refused(
            415, "not_json", f"The body is {media[:80]}; it must be application/json.",
            hint="Send the header Content-Type: application/json.",
        )  # fmt: skip
    return parsed(raw(meta, read_bytes))


def raw(meta: Mapping[str, Any], read_bytes: Callable[[int], bytes]) -> bytes:
    """The bytes of a request's body, however their length is told. Raises Refused."""
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    length = meta.get("CONTENT_LENGTH") or ""
    if length.isascii() and length.isdecimal():
        size = int(length) if len(length) < 18 else limit + 1
        body = read_bytes(size) if size <= limit else b""
    elif meta.get("wsgi.input_terminated"):
        body = read_bytes(limit + 1)
        size = len(body)
    else:
        raise Refused(411, "length_missing", "The request has no Content-Length.", hint="Send the length of the body.")
    if size > limit:
        raise too_large()
    return body


def too_large() -> Refused:
    """The refusal of a body that is larger than is taken, or becomes so once it is unpacked."""
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    return Refused(413, "too_large", f"The body is larger than {limit:,} bytes.", hint="Send less in one call.")


def parsed(raw: bytes) -> dict[str, Any]:
    """The JSON object in those bytes. Numbers that JSON can write and no double can hold come out as infinite. Raises Refused, and
    Abandoned once the client has left."""
    try:
        # json.loads would guess at UTF-16 and UTF-32 when given bytes.
        text = raw.decode()
        body = (DECODER if len(text) <= SHORT_CHARACTERS else IN_STEPS).decode(text)
    except UnicodeDecodeError as error:
        raise Refused(400, "malformed", f"The body is not UTF-8: byte {error.start + 1} cannot be read.") from None
    except json.JSONDecodeError as error:
        raise Refused(400, "malformed", f"The body is not JSON: {error}.") from None
    except RecursionError:
        raise Refused(400, "malformed", "The body is not JSON that can be read: it is nested too deep.") from None
    except ValueError:  # Python reads no whole number of more than 4,300 digits
        raise Refused(400, "malformed", "The body holds a whole number of thousands of digits.") from None
    if not isinstance(body, dict):
        raise Refused(400, "malformed", f"The body must be a JSON object, not {kind(body)}.")
    return body


def written(value: Any) -> bytes:
    """A value as JSON in UTF-8. Keys may be integers; text stays readable, and half of a surrogate pair is written as its escape."""
    return ENCODE(value).encode("utf-8", "backslashreplace")


def written_in_steps(value: Mapping[str, Any]) -> bytes:
    """The same bytes as `written`, the items of its lists one after another. Raises Abandoned once the client has left."""
    parts = (
        f"{ENCODE(name)}:{_list_in_steps(each) if isinstance(each, list) else ENCODE(each)}"
        for name, each in value.items()
    )
    return f"{{{','.join(parts)}}}".encode("utf-8", "backslashreplace")


def _list_in_steps(items: list[Any]) -> str:
    return f"[{','.join(map(ENCODE, disconnect.checked(items)))}]"


def kind(value: Any) -> str:
    """What a JSON value is, in words."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _constant(name: str) -> Any:
    raise json.JSONDecodeError(f"{name} is no JSON", name, 0)


class _InSteps(json.JSONDecoder):
    """Reads what the decoder reads, and what a list of the outermost object holds one item after another, with a look at the client
    before each: a scan in C cannot be stopped."""

    def __init__(self) -> None:
        super().__init__(parse_constant=_constant)
        self._item: Callable[[str, int], tuple[Any, int]] = self.scan_once  # type: ignore[has-type]
        self.scan_once = self._outermost

    def _outermost(self, text: str, start: int) -> tuple[Any, int]:
        if text[start : start + 1] == "{":
            return decoder.JSONObject((text, start + 1), self.strict, self._member, None, None, {})  # type: ignore[attr-defined]
        return self._item(text, start)

    def _member(self, text: str, start: int) -> tuple[Any, int]:
        if text[start : start + 1] == "[":
            return decoder.JSONArray((text, start + 1), self._checked)  # type: ignore[attr-defined]
        return self._item(text, start)

    def _checked(self, text: str, start: int) -> tuple[Any, int]:
        disconnect.check()
        return self._item(text, start)


DECODER = json.JSONDecoder(parse_constant=_constant)
IN_STEPS = _InSteps()
ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


class JSONBody(BaseParser):
    """Django REST framework's way to `read`."""

    media_type = "application/json"

    def parse(
        self, stream: IO[Any], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The body of the request that the context holds."""
        request = (parser_context or {})["request"]._request
        return read(request.META, reader_of(request))


def reader_of(request: HttpRequest) -> Callable[[int], bytes]:
    """What reads the bytes of a request's body. Without a length Django would read nothing of one that the server ends by itself."""
    chunked = request.META.get("wsgi.input_terminated") and not request.META.get("CONTENT_LENGTH")
    read: Callable[[int], bytes] = request.META["wsgi.input"].read if chunked else request.read
    return read


class JSONText(BaseRenderer):
    """Django REST framework's way to `written`."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        """The answer as JSON."""
        return b"" if data is None else written(data)
