"""The Content-Security-Policy in a browser: what is slipped into a page does not run."""

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path
from playwright.sync_api import Browser

SLIPPED = """<!doctype html><title>none</title>
<script>window.slipped = "inline"</script>
<img src="x" onerror="window.slipped = 'attribute'">
<a id="link" href="javascript:window.slipped = 'link'">go</a>
<svg><animate onbegin="window.slipped = 'svg'" attributeName="x" dur="1s"></animate></svg>
<base href="https://evil.example/">
<script src="data:text/javascript,window.slipped = 'data'"></script>
<form id="form" action="https://evil.example/"><button id="send">send</button></form>"""


def slipped(request: HttpRequest) -> HttpResponse:
    return HttpResponse(SLIPPED)


urlpatterns = [path("slipped/", slipped)]


@pytest.mark.any_database
@override_settings(ROOT_URLCONF="tests.browser.test_policy")
def test_a_script_that_is_slipped_into_a_page_does_not_run(browser: Browser, live_server) -> None:
    page = browser.new_page(base_url=live_server.url)
    refused: list[str] = []
    page.on("console", lambda said: refused.append(said.text) if "Content Security Policy" in said.text else None)
    page.goto("/slipped/")
    page.evaluate("document.getElementById('link').click()")
    page.evaluate("document.getElementById('send').click()")
    page.wait_for_timeout(300)
    assert page.evaluate("window.slipped ?? ''") == ""
    assert page.url == f"{live_server.url}/slipped/"
    named = " ".join(refused)
    assert all(directive in named for directive in ("script-src", "base-uri", "form-action")), refused
    page.close()
