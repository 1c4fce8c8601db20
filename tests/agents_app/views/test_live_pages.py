"""An agent's live traffic: pausing with a reason, its health check, its cold routing."""

import pytest
from django.urls import reverse

from agents_app.models import Agent, AuditEntry, HealthCheck

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(pool) -> Agent:
    return pool.agents.order_by("number").first()


@pytest.fixture
def path(agent) -> str:
    return reverse("agent_live", args=["support", agent.number])


def test_pauses_with_a_reason_that_is_shown_and_brings_back(client_of, agent, path) -> None:
    browser = client_of("ops")
    page = browser.post(path, {"pause": "1", "why": "moving <b>house</b>"}, follow=True).content.decode()
    assert "A person paused it, " in page
    assert "moving &lt;b&gt;house&lt;/b&gt;" in page
    agent.refresh_from_db()
    assert (agent.available, agent.unavailable_why, agent.paused_by_check) == (False, "moving <b>house</b>", False)
    assert "moving &lt;b&gt;house" in browser.get(reverse("agents", args=["support"])).content.decode()
    assert AuditEntry.objects.get(action="agent.unavailable").detail == {"why": "moving <b>house</b>"}
    page = browser.post(path, {"resume": "1"}, follow=True).content.decode()
    assert "are routed to" in page
    agent.refresh_from_db()
    assert (agent.available, agent.unavailable_why, agent.unavailable_since) == (True, "", None)


def test_saves_the_check_and_the_cold_routing(client_of, agent, path) -> None:
    browser = client_of("ops")
    page = browser.post(path, {"url": "https://agent.example.com/up", "cold": "always"}, follow=True).content.decode()
    assert "not checked yet" in page
    agent.refresh_from_db()
    assert (agent.cold, agent.health.url) == ("always", "https://agent.example.com/up")
    HealthCheck.objects.update(ok=False, said="HTTP 503", failures=2, checked_at="2026-01-01T00:00Z")
    page = browser.get(path).content.decode()
    assert "HTTP 503" in page
    assert "2 failures in a row" in page
    browser.post(path, {"url": "", "cold": "pool"})
    assert not HealthCheck.objects.exists()


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        ({"url": "ftp://x/", "cold": "pool"}, "must begin with https://"),
        ({"url": "", "cold": "warm"}, "is not one of the available choices"),
    ],
)
def test_says_what_was_wrong_and_keeps_what_was_typed(client_of, agent, path, sent, said) -> None:
    page = client_of("ops").post(path, sent).content.decode()
    assert said in page
    assert sent["url"] in page
    agent.refresh_from_db()
    assert agent.cold == "pool"
    assert not HealthCheck.objects.exists()
