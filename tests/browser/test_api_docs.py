"""The API's description, drawn for people: from this site alone, and where a page may hold no script of its own."""

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Route, expect

POLICY = (
    "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; object-src 'none'; "
    "base-uri 'none'"
)

pytestmark = pytest.mark.at_length


@pytest.mark.any_database
def test_it_is_drawn_and_tried_out_from_this_site_alone(browser: Browser, live_server, transactional_db) -> None:
    context = browser.new_context(base_url=live_server.url)
    context.set_default_timeout(60_000)
    asked, complaints = set(), []

    def with_policy(route: Route) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, headers={**answer.headers, "content-security-policy": POLICY})

    context.route("**/api/docs/", with_policy)
    page = context.new_page()
    page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto("/api/docs/")
    expect(page.locator("#operations-Routing-route")).to_contain_text("/api/route/")
    health = page.locator("#operations-Health-health")
    health.locator("button.opblock-summary-control").click()
    health.locator("button.execute").click()
    expect(health.locator(".live-responses-table .response-col_status").last).to_contain_text("200", timeout=30_000)
    assert complaints == []
    assert {netloc for netloc in asked if netloc} == {urlsplit(live_server.url).netloc}
    context.close()
