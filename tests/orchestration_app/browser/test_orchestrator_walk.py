"""Ops take an orchestrator live and back: promoted through the gate with a reason, an episode by hand, rolled back."""

import pytest
from playwright.sync_api import expect

from agents_app import pools
from agents_app.models import Pool
from orchestration_app import executors
from orchestration_app.episodes import policies
from tests.orchestration_app.conducted import artifact
from training_app.answering import serving
from training_app.versions import registry

pytestmark = pytest.mark.at_length


@pytest.fixture
def crew(transactional_db: None) -> Pool:
    """A pool of two scripted agents with two orchestrators, the first one active."""
    for module in (serving, policies):
        module.forget()
    pool = pools.create_pool("Crew", "crew")
    for name in ("Triage", "Billing"):
        agent = pools.add_agent(pool, name, cost=0.01)
        executors.save(agent, {"kind": "scripted", "script": {"do": "say", "text": f"{name} says"}}, actor=None)
    first = registry.register(None, pool, artifact(pool, (0,)), {}, kind="orchestrator")
    registry.promote(first, actor=None)
    registry.register(None, pool, artifact(pool, (0, 1)), {}, kind="orchestrator")
    return pool


def test_promote_call_and_roll_back(sign_in, person, crew):
    page = sign_in(person("olga", "ops")).new_page()
    page.goto("/p/crew/models/2/")
    page.locator("summary", has_text="Promote").click()
    page.locator("input[name=override]").fill("a test of both agents")
    page.get_by_role("button", name="Promote crew-2").click()
    expect(page.get_by_text("crew-2 is in use in Crew now.")).to_be_visible()

    page.goto("/p/crew/episodes/new/")
    page.locator("textarea[name=task]").fill("I was charged twice")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_text("Billing says").first).to_be_visible()
    expect(page.get_by_role("button", name="Cancel the episode")).to_have_count(0)
    expect(page.get_by_role("link", name="crew-2")).to_be_visible()

    page.goto("/p/crew/models/")
    page.locator("summary", has_text="Roll back").click()
    page.get_by_label("Reason").fill("one agent is enough")
    page.get_by_role("button", name="Roll back to crew-1").click()
    expect(page.get_by_text("Rolled back to crew-1.")).to_be_visible()
    expect(page.locator("tbody tr", has_text="one agent is enough")).to_be_visible()
