"""Spans of requests: what they are named and say, what they leave out, and that the lane and the views say the same."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import RequestFactory
from opentelemetry.trace import SpanKind, StatusCode

from tests import spans as made_spans
from tests.spans import CALLER, SAMPLED, TRACE, UNSAMPLED, Spans, hexed
from tests.training_app.served import Application
from training_app.api import fast_lane
from training_app.api.handler import ApiHandler

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model")]
MARKED = "my billing is wrong, MARKER-7731"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Spans]:
    with made_spans.made(monkeypatch, settings) as found:
        yield found


def by_view(app: Application, path: str, body: object, **headers: str) -> int:
    """The status that Django answers with."""
    sent: list[str] = []
    environ = RequestFactory().generic("POST", path, json.dumps(body), "application/json").environ
    environ |= {"HTTP_AUTHORIZATION": f"Bearer {app.secret}", **headers}
    ApiHandler()(environ, lambda status, _headers: sent.append(status))
    return int(sent[0].split()[0])


def in_lane(app: Application, path: str, body: object, **headers: str) -> bytes | None:
    """What the fast lane answers."""
    given = {
        "authorization": f"Bearer {app.secret}",
        "content-type": "application/json",
        "host": "testserver",
        **headers,
    }
    encoded = [(name.encode(), value.encode()) for name, value in given.items()]
    return fast_lane.answer(b"POST", path.encode(), encoded, json.dumps(body).encode(), "http")


@pytest.mark.parametrize("door", ["lane", "view"])
def test_a_route_is_a_span_of_its_caller_s_trace(door: str, app: Application, spans: Spans) -> None:
    if door == "lane":
        body = in_lane(app, "/api/route/", {"query": MARKED}, traceparent=SAMPLED)
        assert body is not None
    else:
        assert by_view(app, "/api/route/", {"query": MARKED}, HTTP_TRACEPARENT=SAMPLED) == 200
    (span,) = spans.all()
    assert (span.name, span.kind, span.status.status_code) == ("POST /api/route/", SpanKind.SERVER, StatusCode.UNSET)
    assert hexed(span)[::2] == (TRACE, CALLER)
    values = dict(span.attributes or {})
    assert int(str(values.pop("routerweb.router.microseconds"))) >= 0
    assert len(str(values.pop("routerweb.decision.id"))) > 5
    assert values == {
        "http.request.method": "POST", "url.scheme": "http", "http.route": "/api/route/", "http.response.status_code": 200,
        "routerweb.pool": "support", "routerweb.model": "support-1", "routerweb.queries": 1, "routerweb.stop_reason": "stop",
        "routerweb.abstained": False, "routerweb.agents": (0,),
    }  # fmt: skip
    assert "MARKER" not in span.to_json()


def test_the_text_is_told_where_it_is_asked_for(app: Application, spans: Spans, settings: Any) -> None:
    settings.TRACE_TEXT = True
    in_lane(app, "/api/route/", {"query": MARKED})
    in_lane(app, "/api/route/batch/", {"queries": [MARKED, "shipping"]})
    one, many = spans.all()
    assert one.attributes is not None
    assert one.attributes["routerweb.query"] == (MARKED,)
    assert many.attributes is not None
    assert many.attributes["routerweb.query"] == (MARKED, "shipping")
    assert many.attributes["routerweb.queries"] == 2


def test_what_is_not_sampled_makes_no_span(app: Application, spans: Spans) -> None:
    assert in_lane(app, "/api/route/", {"query": "billing"}, traceparent=UNSAMPLED) is not None
    assert by_view(app, "/api/route/", {"query": "billing"}, HTTP_TRACEPARENT=UNSAMPLED) == 200
    assert spans.all() == []


def test_what_the_lane_leaves_to_django_is_one_span(app: Application, spans: Spans) -> None:
    for body in ({"query": " "}, {"query": 7}, {}):
        assert in_lane(app, "/api/route/", body) is None
    assert spans.all() == []
    assert by_view(app, "/api/route/", {"query": MARKED, "threshold": MARKED}) == 400
    (span,) = spans.all()
    assert span.attributes is not None
    assert span.attributes["http.response.status_code"] == 400
    assert span.status.status_code == StatusCode.UNSET  # the caller's fault is none of the server's
    assert "MARKER" not in span.to_json()


@pytest.mark.parametrize(
    "sent", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "ü" * 400, SAMPLED + "-" + "x" * 4000]
)
def test_a_traceparent_that_is_none_begins_a_trace(sent: str, app: Application, spans: Spans) -> None:
    encoded = [
        (b"authorization", f"Bearer {app.secret}".encode()),
        (b"host", b"testserver"),
        (b"traceparent", sent.encode()),
    ]
    assert fast_lane.answer(b"POST", b"/api/route/", encoded, b'{"query": "billing"}', "http") is not None
    assert by_view(app, "/api/route/", {"query": "billing"}, HTTP_TRACEPARENT=sent) == 200
    assert [hexed(span)[2] for span in spans.all()] == [None, None]


def test_an_error_is_named_by_its_class_and_not_by_its_words(
    app: Application, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_args: object) -> None:
        raise ValueError(MARKED)

    monkeypatch.setattr("training_app.api.route_requests.answer_one", fails)
    assert by_view(app, "/api/route/", {"query": "billing"}) == 500
    span = spans.one("POST /api/route/")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert span.attributes is not None
    assert span.attributes["error.type"] == "500"
    assert "MARKER" not in span.to_json()


def test_an_address_is_told_by_its_pattern(app: Application, spans: Spans) -> None:
    by_view(app, "/api/agents/12345/pause/", {"pool": "support"})
    by_view(app, "/api/nothing/at/all", {})
    paused, nothing = spans.all()
    assert paused.name == "POST /api/agents/<number:number>/pause/"
    assert nothing.attributes is not None
    assert "nothing" not in nothing.name
    assert nothing.attributes["http.response.status_code"] == 404


LOADED = """
import sys, django
django.setup()
import routerweb.asgi
print(sorted(name for name in sys.modules if name.startswith("opentelemetry")))
"""


@pytest.mark.at_length
def test_nothing_is_loaded_where_traces_are_off(tmp_path: Path) -> None:
    from tests.routerweb.test_server import environment

    found = environment(
        tmp_path, SECRET_KEY="a-key-of-this-test-alone-0123456789abcdefghijklmnop", BACKGROUND_THREADS="0"
    )
    ended = subprocess.run([sys.executable, "-c", LOADED], env=found, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip().splitlines()[-1] == "[]"


def test_without_the_packages_the_start_says_what_to_install(tmp_path: Path) -> None:
    from tests.routerweb.test_server import environment

    found = environment(tmp_path, SECRET_KEY="a-key-of-this-test-alone-0123456789abcdefghijklmnop", TRACES="1")
    away = "import sys; sys.modules['opentelemetry.exporter.otlp.proto.http'] = None\nimport routerweb.settings"
    ended = subprocess.run([sys.executable, "-c", away], env=found, capture_output=True, text=True, timeout=120)
    assert "requirements-traces.txt" in ended.stderr
