"""The server's way into the API: past the pages' middleware, with what Django checks for every request checked all the same."""

import io
import json

import pytest
from django.core.signals import request_finished, request_started
from django.db import close_old_connections

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_process")]


@pytest.fixture
def call(app, model):
    """Sends one WSGI request; returns (status, headers, body)."""
    from routerweb import wsgi

    # Django's own test client does the same: a request would end the test's connection, and its transaction with it.
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)

    def send(body: bytes = b'{"query": "billing"}', **changes: object) -> tuple[int, dict[str, str], bytes]:
        environ = {
            "REQUEST_METHOD": "POST", "PATH_INFO": "/api/route/", "SCRIPT_NAME": "", "QUERY_STRING": "",
            "CONTENT_TYPE": "application/json", "CONTENT_LENGTH": str(len(body)), "HTTP_HOST": "127.0.0.1:8000",
            "HTTP_AUTHORIZATION": f"Bearer {app.secret}", "SERVER_NAME": "127.0.0.1", "SERVER_PORT": "8000",
            "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body), "wsgi.errors": io.StringIO(),
        } | changes  # fmt: skip
        seen: list = []
        chunks = wsgi.application(environ, lambda status, headers, *_: seen.extend((status, dict(headers))))
        return int(seen[0].split()[0]), seen[1], b"".join(chunks)

    yield send
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.at_length
def test_a_call_of_the_api_passes_no_middleware(call, monkeypatch):
    monkeypatch.setattr("routerweb.wsgi.pages", lambda *_: 1 / 0)
    status, headers, body = call()
    assert status == 200
    assert json.loads(body)["agents"] == [0]
    assert headers["Content-Length"] == str(len(body))
    assert headers["Content-Type"] == "application/json"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_errors_carry_their_headers(call):
    status, headers, _body = call(HTTP_AUTHORIZATION="")
    assert (status, headers["WWW-Authenticate"]) == (401, 'Bearer realm="Routerweb"')
    status, headers, _body = call(REQUEST_METHOD="GET")
    assert (status, headers["Allow"]) == (405, "POST")


def test_head_has_no_body(call):
    status, headers, body = call(b"", REQUEST_METHOD="HEAD", PATH_INFO="/api/health/")
    assert (status, body) == (200, b"")
    assert int(headers["Content-Length"]) > 0


def test_a_body_without_a_length(call):
    without = {"CONTENT_LENGTH": ""}
    assert call(**without)[0] == 411
    assert call(b"", CONTENT_LENGTH="0")[0] == 400
    assert call(**without, **{"wsgi.input_terminated": True})[0] == 200


def test_a_body_without_a_length_is_bounded(call, settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    assert call(CONTENT_LENGTH="", **{"wsgi.input_terminated": True})[0] == 413


def test_a_page_goes_to_django(call):
    status, headers, _body = call(b"", REQUEST_METHOD="GET", PATH_INFO="/admin/")
    assert status == 302
    assert "/admin/login/" in headers["Location"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", ""])
def test_an_unknown_host_is_left_to_django_to_refuse(call, host):
    status, _headers, _body = call(HTTP_HOST=host)
    assert status == 400


@pytest.mark.parametrize("path", ["/api/health/", "/api/ready/", "/api/metrics/"])
def test_a_machine_may_be_asked_by_its_own_address_and_without_tls(call, settings, path):
    settings.METRICS, settings.SECURE_SSL_REDIRECT = True, True
    from routerweb import wsgi

    wsgi.calls.load_middleware()
    try:
        asked = {"REQUEST_METHOD": "GET", "PATH_INFO": path, "HTTP_HOST": "10.1.2.3:8000"}
        assert call(b"", **asked)[0] == (403 if "metrics" in path else 200), "a key that only routes reads no metrics"
        assert call(b"", **asked, HTTP_X_FORWARDED_PROTO="https")[0] == 400, "through the proxy, hosts are checked"
        through = asked | {"HTTP_HOST": "127.0.0.1", "HTTP_X_FORWARDED_PROTO": "http"}
        assert call(b"", **through)[0] == 301
        assert call(b"", **asked | {"PATH_INFO": "/api/agents/"})[0] == 400
    finally:
        settings.SECURE_SSL_REDIRECT = False
        wsgi.calls.load_middleware()


def test_where_tls_is_required_plain_http_is_redirected(call, settings):
    settings.SECURE_SSL_REDIRECT = True
    settings.SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    settings.SECURE_HSTS_SECONDS = 60
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    from routerweb import wsgi

    wsgi.calls.load_middleware()
    try:
        assert call()[0] == 301
        assert call(HTTP_X_FORWARDED_PROTO="http")[0] == 301
        status, headers, _body = call(HTTP_X_FORWARDED_PROTO="https")
        assert status == 200
        assert headers["Strict-Transport-Security"] == "max-age=60; includeSubDomains"
        assert call(**{"wsgi.url_scheme": "https"})[0] == 200
        assert call(HTTP_X_FORWARDED_PROTO="http", **{"wsgi.url_scheme": "https"})[0] == 301
    finally:
        settings.SECURE_SSL_REDIRECT, settings.SECURE_HSTS_SECONDS = False, 0
        wsgi.calls.load_middleware()
