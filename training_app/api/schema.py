"""How an operation of the API is described: beside its view, in words, with an example and every error that it may answer with.

drf-spectacular makes the OpenAPI document of it. A test fails where an operation lacks any of this.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from django.urls import include, path
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from training_app.api.bodies import written
from training_app.api.serializers.base import ErrorSerializer

View = TypeVar("View", bound=Callable[..., Any])

#: Every code that an error may have → its status, and what a message of it says.
CODES: dict[str, tuple[int, str]] = {
    "malformed": (400, "The body is not JSON: Expecting value: line 1 column 1 (char 0)."),
    "missing": (400, "pool is missing, and this API key opens several."),
    "invalid": (400, "pool must be a text, not a number."),
    "blank": (400, "query is blank."),
    "too_long": (400, "query has 20,001 characters; at most 20,000 are taken."),
    "too_many": (400, "1001 queries in one call; at most 1000 are taken."),
    "key_missing": (401, "This address needs an API key."),
    "key_refused": (401, "This API key is unknown, revoked or expired."),
    "scope_missing": (403, "This API key does not have the scope ops."),
    "origin_refused": (403, "Pages of 'https://elsewhere.example' may not call this address."),
    "pool_refused": (403, "This API key does not open a pool 'sales'."),
    "no_person": (403, "This API key labels as nobody."),
    "person_refused": (403, "This API key labels as ana, who may not label."),
    "not_found": (404, "There is no such thing in the pools that this API key opens."),
    "not_taken": (404, "ana has not taken the query 17."),
    "stale": (409, "Another window has saved this item since."),
    "key_used": (409, "This key was used for another query."),
    "gate_refused": (409, "support-4 is worse than the active model."),
    "cannot_promote": (409, "support-4 answers already."),
    "cannot_roll_back": (409, "There is no model to go back to."),
    "cannot_launch": (409, "There is nothing to train on."),
    "not_understood": (409, "58 of 60 labels are understood; no agent is called “Labs”."),
    "cannot_decide": (409, "Somebody has decided this proposal meanwhile."),
    "cannot_undo": (409, "This import is still running. Stop it first."),
    "cannot_shadow": (409, "support-4 is not a shadow."),
    "cannot_canary": (409, "support-4 is not the canary of support."),
    "cannot_check": (409, "The artifact of support-1 is gone."),
    "cannot_pin": (409, "The artifact of support-1 is gone."),
    "cannot_export": (409, "Parquet needs pyarrow, which is not installed."),
    "cannot_replay": (409, "The text of this decision was erased."),
    "pool_archived": (410, "The pool 'sales' was archived. Nothing is routed in it any more."),
    "pool_deleted": (410, "The pool 'sales' was deleted. Nothing is routed in it any more."),
    "gone": (410, "This query was deleted meanwhile."),
    "agent_away": (
        409,
        "Billing is paused: its call cannot be made. Refuse it, or approve it once the agent is available again.",
    ),
    "not_waiting": (409, "Nothing of the episode waits for that."),
    "ended": (409, "The run has ended already."),
    "running": (409, "This episode has not ended yet."),
    "no_orchestrator": (503, "The pool support has neither an active orchestrator nor an active set router yet."),
    "length_missing": (411, "The request has no Content-Length."),
    "too_large": (413, "The body is larger than 26,214,400 bytes."),
    "not_otlp": (415, "The body is text/plain; it must be application/x-protobuf or application/json."),
    "not_json": (415, "The body is text/plain; it must be application/json."),
    "unknown_field": (422, "'model' is not a field of this address."),
    "unprocessable": (422, "query is missing."),
    "too_many_requests": (429, "This API key may send 600 queries a minute to a process."),
    "quota_exhausted": (429, "This API key may send 100,000 queries a month, and all of them are used."),
    "no_answer": (502, "No agent answered. Billing: HTTP 500."),
    "no_executor": (503, "No agent of the pool support can be called. Without an active executor: Billing, Shipping."),
    "pool_not_ready": (503, "The pool support is not ready. Billing: No connection."),
    "no_runner": (503, "No process runs episodes."),
    "no_model": (503, "The pool support has no active model and no agents yet."),
    "database_away": (503, "The database cannot be reached, and this process has not loaded a model yet."),
    "archive_away": (503, "The archive /srv/decisions: [Errno 2] No such file or directory."),
    "not_ready": (503, "Nothing is loaded yet: the database cannot be reached."),  # or requests wait for a thread
    "overloaded": (503, "Too many calls are waiting here."),
}
ALSO_AT = "x-also-at"  # inside drf-spectacular alone: `for_generators` turns it into a sentence
OF_A_BODY = ("malformed", "missing", "invalid", "unknown_field", "length_missing", "too_large", "not_json")
OF_A_KEY = ("key_missing", "key_refused", "database_away", "overloaded")
WORDS = {
    400: "What was sent does not hold; `field` tells where",
    401: "No key, or one that is unknown, revoked or expired",
    403: "The key lacks the scope, or does not open that pool",
    404: "There is no such thing in the pools that the key opens",
    409: "It cannot be done as things stand",
    410: "It was there, and is no more",
    411: "The body has no length",
    413: "The body is too large",
    415: "The body is not JSON",
    422: "What was sent has a field that the address does not have, or does not hold",
    429: "The key has used up its minute or its month; Retry-After tells when to come back",
    502: "Agents were called, and none of them answered",
    503: "It cannot be answered just now",
}
PATHS: dict[str, tuple[Any, str, Any]] = {
    "run_id": (OpenApiTypes.INT, "The run's id", 12),
    "import_id": (OpenApiTypes.INT, "The import's id", 5),
    "sweep_id": (OpenApiTypes.INT, "The sweep's id", 3),
    "rule_id": (OpenApiTypes.INT, "The rule's id", 2),
    "proposal_id": (OpenApiTypes.INT, "The proposal's id", 4),
    "receiver_id": (OpenApiTypes.INT, "The receiver's id", 3),
    "case_id": (OpenApiTypes.INT, "The case's id", 7),
    "query_id": (OpenApiTypes.INT, "The query's id, as an item has it", 17),
    "number": (OpenApiTypes.INT, "The agent's id in its pool", 2),
    "name": (OpenApiTypes.STR, "The model's name", "support-3"),
    "episode_id": (OpenApiTypes.UUID, "The episode's id", "019a9f3e-5d0a-7c31-9f0e-4a1b6c2d8e7f"),
    "decision_id": (OpenApiTypes.UUID, "The id that an answer came with", "019a9f3e-5d0a-7c31-9f0e-4a1b6c2d8e7f"),
}

#: The headers of answers that programs read, and on which answers they are.
HEADERS: dict[str, tuple[str, Sequence[int]]] = {
    "Link": ('`<address>; rel="next"`: the next part of the list. Absent on the last part.', (200,)),
    "Retry-After": ("Seconds after which the same call may be answered. Absent where that is not known.", (429, 503)),
    "Idempotent-Replayed": ("`true` where the call was done before under its Idempotency-Key.", (200, 201, 202)),
    "ETag": ("Names this state of the list, for If-None-Match.", (200, 304)),
    "X-Router-Decision": ("The id of the decision.", (200,)),
    "X-Router-Model": ("The model that decided.", (200,)),
    "X-Router-Agents": ("The ids of the agents, with commas between them.", (200,)),
    "X-Router-Episode": ("The id of the episode; absent where no agent is called.", (200,)),
}
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="The ETag of an earlier answer: 304 where nothing has changed since.",
    examples=[OpenApiExample("An earlier answer's", '"5d41402abc4b2a76b9719d911017c592"')],
)
IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="Any text of at most 200 characters: the same call under it is done once and answered the same, for a day.",
    examples=[OpenApiExample("One of the caller's", "nightly-2026-03-01")],
)


# Over 60 lines. A list of what an operation of the description has; a quarter of it is its parameters.
def operation(
    name: str,
    summary: str,
    *,
    of: str,
    answers: Mapping[int, tuple[Any, str, Any]],
    body: Any = None,
    example: Any = None,
    query_string: Any = None,
    parts: Sequence[str] = (),
    errors: Sequence[str] = (),
    public: bool = False,
    any_pool: bool = True,
    keyed: bool = False,
    headers: Sequence[str] = (),
    also_at: str = "",
    media: str = "",
) -> Callable[[View], View]:
    """Describe a view's method. `of` is its chapter; `answers` are by status the serializer, what it is, and an example.

    `body` and `query_string` are the serializers of what comes in, `example` one of a body, `parts` the names of the address's parts,
    `errors` the codes beyond those that every operation with a key, or with a body, may answer with. `keyed` ones take an
    Idempotency-Key (`once`). `headers` are those of HEADERS that its answers have beside Link, Retry-After and
    Idempotent-Replayed, and `also_at` is the address at the root of the site that leads to the same, as another project has it.
    `media` is the type of the file that the answer 200 is.
    """
    # Probes and the clients of other projects may put more behind the question mark, which means nothing here.
    strict = not public and not also_at
    codes = [*errors, *(("key_used", "invalid") if keyed else ())]
    if strict:
        codes.append("unknown_field")
    if body is not None:
        codes += OF_A_BODY
    if query_string is not None:
        codes.append("invalid")
    if not public:
        codes += [*OF_A_KEY, "scope_missing"]
        codes += ["pool_refused", "pool_archived", "pool_deleted", "missing", "invalid"] if any_pool else []
    responses: dict[Any, Any] = {
        status: OpenApiResponse(
            serializer, words, [OpenApiExample(words, shown, response_only=True, status_codes=[str(status)])]
        )
        for status, (serializer, words, shown) in answers.items()
    }
    if media:
        responses[200, media] = responses.pop(200)
    for status in sorted({CODES[code][0] for code in codes}):
        if status not in responses:
            responses[status] = _error(status, [code for code in CODES if code in codes and CODES[code][0] == status])
    parameters: list[Any] = [
        OpenApiParameter(part, PATHS[part][0], OpenApiParameter.PATH, description=f"{PATHS[part][1]}.",
                         examples=[OpenApiExample(PATHS[part][1], PATHS[part][2])])
        for part in parts
    ]  # fmt: skip
    if query_string is not None:
        parameters.append(query_string)
    if keyed:
        parameters.append(IDEMPOTENCY_KEY)
    if "ETag" in headers:
        parameters.append(IF_NONE_MATCH)
    sent = [*headers, "Retry-After", *(["Link"] if getattr(query_string, "in_parts", False) else [])]
    parameters += _sent_headers([*sent, "Idempotent-Replayed"] if keyed else sent, responses)
    described = extend_schema(
        operation_id=name,
        summary=summary,
        extensions={ALSO_AT: also_at} if also_at else None,
        tags=[of],
        parameters=parameters,
        request={"application/json": body} if body is not None else None,
        responses=responses,
        auth=[] if public else None,
        examples=[] if body is None else [OpenApiExample(summary, example, request_only=True)],
    )

    def decorate(view: View) -> View:
        described_view: View = described(view)
        names = frozenset(query_string().fields if query_string is not None else ())
        described_view.query_names = names if strict else None  # type: ignore[attr-defined]
        return described_view

    return decorate


class KeyScheme(OpenApiAuthenticationExtension):
    """How the description says that a key is needed."""

    target_class = "training_app.api.keys.KeyAuthentication"
    name = "key"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """A bearer's key."""
        words = "An API key, as Settings or manage.py create_api_key makes them."
        return {"type": "http", "scheme": "bearer", "description": words}


def with_slash(endpoints: list[tuple[str, str, str, Any]], **_more: Any) -> list[tuple[str, str, str, Any]]:
    """The addresses that the description has: each once, with its last slash."""
    return [endpoint for endpoint in endpoints if endpoint[0].endswith("/")]


def for_generators(result: dict[str, Any], **_more: Any) -> dict[str, Any]:
    """The document as generators of clients need it: bodies that are needed are said to be, tags have their list, and nothing of
    drf-spectacular's own is left in it."""
    tags: dict[str, None] = {}
    for methods in result["paths"].values():
        for method in methods.values():
            tags |= dict.fromkeys(method["tags"])
            if also_at := method.pop(ALSO_AT, ""):
                method["description"] += f"\n\nThe same is at `{also_at}`."
            if "requestBody" in method:
                method["requestBody"]["required"] = (
                    True  # drf-spectacular takes a body without required fields for one to leave out
                )
    _drop(result, "x-spec-enum-id")
    return result | {"tags": [{"name": tag} for tag in tags]}


def document() -> bytes:
    """The OpenAPI document as JSON in UTF-8; generating it is one thread's work, as drf-spectacular takes no two at once."""
    with _generating:
        return _document()


_generating = threading.Lock()


@cache
def _document() -> bytes:
    from drf_spectacular.generators import SchemaGenerator  # few processes are ever asked for it

    patterns = [path("api/", include("training_app.api.urls"))]
    return written(SchemaGenerator(patterns=patterns).get_schema(request=None, public=True))


def _sent_headers(names: Sequence[str], responses: Mapping[Any, Any]) -> list[OpenApiParameter]:
    """How drf-spectacular describes headers of answers."""
    return [
        OpenApiParameter(
            name, OpenApiTypes.STR, OpenApiParameter.HEADER, description=HEADERS[name][0], response=statuses
        )
        for name in names
        if (statuses := [status for status in HEADERS[name][1] if status in responses])
    ]


def _drop(part: Any, name: str) -> None:
    """Remove a name wherever it is."""
    if isinstance(part, dict):
        part.pop(name, None)
    for below in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _drop(below, name)


def _error(status: int, codes: Sequence[str]) -> OpenApiResponse:
    examples = [
        OpenApiExample(code, {"error": {"code": code, "message": CODES[code][1]}}, response_only=True, status_codes=[str(status)])
        for code in codes
    ]  # fmt: skip
    return OpenApiResponse(ErrorSerializer, f"{WORDS[status]}: {', '.join(f'`{code}`' for code in codes)}.", examples)
