"""No log line holds what somebody typed: a marked text goes through every door while what is behind it fails, and no line has it."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings as configured
from django.contrib.auth.models import User
from django.db import DataError, IntegrityError, OperationalError
from django.test import Client
from pythonjsonlogger.json import JsonFormatter

from agents_app.models import Pool
from routerweb.observing.logs import LEFT_OUT, Console, traced
from tests import orchestration
from tests.training_app.served import Application, application
from training_app.answering import answer, decisions
from training_app.api import fast_lane
from training_app.engine import llm
from training_app.training.runs import RunError

MARKED = "my billing is wrong MARKER-7731"
#: Errors whose words are the text, as libraries make them.
ERRORS: dict[str, Callable[[str], Exception]] = {
    "ValueError": lambda text: ValueError(f"could not convert string to float: {text!r}"),
    "KeyError": KeyError,
    "RuntimeError": RuntimeError,
    "AssertionError": AssertionError,
    "DataError": lambda text: DataError(f'invalid input syntax for type integer: "{text}"'),
    "psycopg": lambda text: psycopg.errors.InvalidTextRepresentation(f'invalid input syntax: "{text}"'),
    "IntegrityError": lambda text: IntegrityError(
        f"null value violates a constraint\nDETAIL:  Failing row contains (1, {text})."
    ),
    "OperationalError": lambda text: OperationalError(f"canceling statement\nLINE 1: SELECT '{text}'"),
    "LLMError": lambda text: llm.LLMError(f"the server answered 400: {text}"),
}


class Logs:
    """Everything that is logged, at the lowest level, as the console writes it."""

    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()


@pytest.fixture(params=["line", "json"])
def logs(request: pytest.FixtureRequest) -> Iterator[Logs]:
    stream = io.StringIO()
    handler = Console(stream=stream)
    found = configured.LOGGING["formatters"][request.param]
    formatter = (
        JsonFormatter(found["fmt"]) if request.param == "json" else logging.Formatter(found["format"], style="{")
    )
    handler.setFormatter(formatter)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield Logs(stream)
    root.removeHandler(handler)
    root.setLevel(before)


def by_lane(app: Application) -> None:
    headers = [(b"host", b"testserver"), (b"authorization", f"Bearer {app.secret}".encode())]
    for path, body in ((b"/api/route/", {"query": MARKED}), (b"/api/route/batch/", {"queries": [MARKED]})):
        fast_lane.answer(b"POST", path, headers, json.dumps(body).encode(), "http")


def call(path: str, body: dict[str, Any]) -> Callable[[Application], None]:
    def through(app: Application) -> None:
        Client(raise_request_exception=False).post(
            path, json.dumps(body), content_type="application/json", headers={"Authorization": f"Bearer {app.secret}"}
        )

    return through


MESSAGE = {"role": "user", "parts": [{"kind": "text", "text": MARKED}], "messageId": "1"}
DOORS: dict[str, Callable[[Application], None]] = {
    "fast lane": by_lane,
    "route": call("/api/route/", {"query": MARKED}),
    "explained": call("/api/route/", {"query": MARKED, "explain": True}),
    "wished": call("/api/route/", {"query": MARKED, "max_agents": 1}),
    "conversation": call("/api/route/", {"messages": [{"role": "user", "content": MARKED}]}),
    "batch": call("/api/route/batch/", {"queries": [MARKED, "shipping"]}),
    "as ddqn-router": call("/api/ddqn-router/route/", {"query": MARKED}),
    "chat": call(
        "/api/v1/chat/completions/", {"model": "router/support", "messages": [{"role": "user", "content": MARKED}]}
    ),
    "mcp": call(
        "/api/mcp/",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "route", "arguments": {"query": MARKED}},
        },
    ),
    "a2a": call(
        "/api/a2a/support/", {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": MESSAGE}}
    ),
    "catalog": call("/api/ard/search/", {"query": {"text": MARKED}}),
    "queries": call("/api/queries/", {"queries": [{"text": MARKED}]}),
    "outcomes": call("/api/outcomes/", {"decision_id": MARKED, "comment": MARKED}),
    "a wrong field": call("/api/route/", {"query": "billing", "threshold": MARKED, MARKED: 1}),
    "a wrong address": call(f"/api/{MARKED.split()[-1]}x/", {}),
}
if orchestration.INSTALLED:
    DOORS |= {
        "orchestrate": call("/api/orchestrate/", {"task": MARKED}),
        "next": call("/api/orchestrate/next/", {"task": MARKED}),
    }


@pytest.fixture
def app(pool: Pool, model: object, settings: Any) -> Application:
    settings.DDQN_ROUTER_POOLS = settings.ARD_POOLS = ("support",)
    return application(pool, scopes=("route", "ops"))


@pytest.mark.django_db
@pytest.mark.usefixtures("fresh_process")
@pytest.mark.parametrize("door", [name for name in DOORS if name != "a wrong address"])
def test_a_fault_behind_a_door_writes_no_text(
    door: str, app: Application, logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for make in ERRORS.values():

        def fails(*args: object, _make: Callable[[str], Exception] = make, **options: object) -> None:
            try:
                raise KeyError(MARKED)
            except KeyError as first:
                raise _make(MARKED) from first

        with monkeypatch.context() as patched:
            for module, name in ((answer, "_walk"), (answer, "_walk_all"), (decisions, "record")):
                patched.setattr(module, name, fails)
            patched.setattr("datasets_app.queries.adding.send", fails)
            if orchestration.INSTALLED:
                patched.setattr("orchestration_app.episodes.episodes.begin", fails)
            patched.setattr("training_app.rollout.outcomes.tell", fails, raising=False)
            DOORS[door](app)
    assert "MARKER" not in logs.text
    if door in ("route", "batch", "fast lane", "chat"):
        assert logs.text.count(LEFT_OUT) >= len(ERRORS)
        assert "in fails" in logs.text  # where it was raised is still told


@pytest.mark.django_db
@pytest.mark.usefixtures("fresh_process")
@pytest.mark.parametrize("door", [name for name in DOORS if name != "a wrong address"])
def test_a_sound_request_writes_no_text(door: str, app: Application, logs: Logs) -> None:
    DOORS[door](app)
    assert "MARKER" not in logs.text


@pytest.mark.any_database
@pytest.mark.parametrize("name", ERRORS)
def test_an_error_as_an_argument_is_told_by_its_class(name: str, logs: Logs) -> None:
    error = ERRORS[name](MARKED)
    logging.getLogger("training_app.x").warning("run %d: %s", 7, error)
    logging.getLogger("training_app.x").error(error)
    logging.getLogger("training_app.x").error("failed", exc_info=error)
    assert "run 7: " in logs.text
    assert "MARKER" not in logs.text


@pytest.mark.any_database
def test_what_speaks_of_programs_is_written(logs: Logs) -> None:
    for error in (
        FileNotFoundError(2, "No such file", "/srv/x"),
        OperationalError("database is locked"),
        RunError("no rows"),
    ):
        logging.getLogger("x").warning("it failed: %s", error)
    for words in ("/srv/x", "database is locked", "no rows"):
        assert words in logs.text


@pytest.mark.any_database
@orchestration.needed
def test_why_a_call_of_an_agent_failed_is_written(logs: Logs) -> None:
    from orchestration_app.calls.parts import CallFailed

    logging.getLogger("x").warning("it failed: %s", CallFailed("timeout", "no answer within 30 s"))
    assert "no answer within 30 s" in logs.text


@pytest.mark.any_database
def test_a_failed_job_is_named_without_its_traceback(logs: Logs) -> None:
    logging.getLogger("django-q").error("Failed 'bulk_change' (seven) - could not convert %s : Traceback …", MARKED)
    assert "Failed 'bulk_change' (seven)" in logs.text
    assert "MARKER" not in logs.text


@pytest.mark.any_database
def test_texts_are_written_where_they_are_asked_for() -> None:
    stream = io.StringIO()
    handler = Console(texts=True, stream=stream)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "%s", (ValueError(MARKED),), None)
    handler.emit(record)
    assert MARKED in stream.getvalue()


@pytest.mark.any_database
def test_a_record_stays_whole_for_others() -> None:
    error = ValueError(MARKED)
    record = logging.LogRecord("x", logging.ERROR, __file__, 1, "%s", (error,), (ValueError, error, None))
    Console(stream=io.StringIO()).emit(record)
    assert record.args == (error,)
    assert record.exc_info == (ValueError, error, None)


@pytest.mark.any_database
def test_a_circle_of_errors_is_told_once() -> None:
    first, second = ValueError("a"), KeyError("b")
    first.__cause__, second.__cause__ = second, first
    assert traced(first).count("ValueError") == 1


@pytest.mark.django_db
@pytest.mark.parametrize("texts", [False, True])
def test_a_refusal_is_one_line(logs: Logs, texts: bool, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """403, 404 and 400 are answers, no faults: who sees a traceback looks for one."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, Console):
            monkeypatch.setattr(handler, "texts", texts)
    client.force_login(User.objects.create_user("nobody"))
    Pool.objects.create(slug="support", name="Support")
    assert client.get("/p/support/agents/").status_code == 403
    assert client.get("/admin/auth/user/").status_code in (302, 403)
    assert client.get("/nothing/").status_code == 404
    assert client.get("/login/", HTTP_HOST="two words").status_code == 400
    assert "/p/support/agents/" in logs.text
    assert "Traceback" not in logs.text
