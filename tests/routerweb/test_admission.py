"""Hosts and connections are judged by Django's settings alone: the fast lane, the API's views and the pages agree on each."""

import pytest
from django.test import Client

from routerweb.serving import admission
from training_app.api import fast_lane

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]

HOSTS = (
    "127.0.0.1",
    "127.0.0.1:8000",
    "shop.example",
    "a.shop.example",
    "evil.example",
    "two words",
    "",
    "[::1]",
    "shop.example.",
)
FORWARDED = (None, "https", "http", "https, http", "http,https", "HTTPS", "")


@pytest.mark.parametrize("allowed", [["*"], [".shop.example"], ["127.0.0.1", "[::1]"]])
@pytest.mark.parametrize("header", [None, ("HTTP_X_FORWARDED_PROTO", "https"), ("HTTP_X_SCHEME", "https")])
@pytest.mark.parametrize("redirect", [True, False])
def test_a_request_is_admitted_where_a_page_answers_it(settings, allowed, header, redirect) -> None:
    settings.ALLOWED_HOSTS, settings.SECURE_PROXY_SSL_HEADER = allowed, header
    settings.SECURE_SSL_REDIRECT = redirect
    client = Client(raise_request_exception=False)  # which reads the settings as its first request comes
    name = "X-Forwarded-Proto" if header is None else header[0].removeprefix("HTTP_").replace("_", "-")
    for host in HOSTS:
        for forwarded in FORWARDED:
            headers = {} if forwarded is None else {name: forwarded}
            answer = client.get("/login/", HTTP_HOST=host, headers=headers)
            assert admission.admitted(host, "http", forwarded if header else None) == (answer.status_code == 200), host


@pytest.mark.parametrize("subdomains", [True, False])
@pytest.mark.parametrize("preload", [True, False])
@pytest.mark.parametrize("seconds", [0, 60])
def test_the_lane_sends_the_header_of_hsts_that_pages_send(settings, seconds, subdomains, preload) -> None:
    settings.SECURE_HSTS_SECONDS = seconds
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS, settings.SECURE_HSTS_PRELOAD = subdomains, preload
    page = Client().get("/login/", secure=True).headers.get("Strict-Transport-Security")
    assert dict(fast_lane.headers(1)).get(b"strict-transport-security", b"").decode() == (page or "")
