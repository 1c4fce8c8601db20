"""One person asks for a promotion and another approves it; the pool's privacy is tried and saved. At a desk and on a phone."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from agents_app import pools
from agents_app.models import Pool
from tests import orchestration
from tests.browser.conftest import overflow
from training_app.answering import serving
from training_app.versions import registry

pytestmark = [pytest.mark.at_length, orchestration.needed]

DESK = {"viewport": {"width": 1280, "height": 800}}
PHONE = {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}
#: Both widths and both schemes. The phone shows what is too wide and which colours are too faint; the desks repeat the walk.
LOOKS = [
    pytest.param(DESK, id="desk"),
    pytest.param({**DESK, "color_scheme": "dark"}, id="dark"),
    pytest.param(PHONE, id="phone"),
]


@pytest.fixture
def crew(transactional_db: None) -> Pool:
    """Two agents, and two orchestrators of which the first one is active; promotions need a second person."""
    from orchestration_app.episodes import policies
    from tests.orchestration_app.conducted import artifact

    for module in (serving, policies):
        module.forget()
    pool = pools.create_pool("Crew", "crew")
    for name in ("Triage", "Billing"):
        pools.add_agent(pool, name, cost=0.01)
    registry.promote(registry.register(None, pool, artifact(pool, (0,)), {}, kind="orchestrator"), actor=None)
    registry.register(None, pool, artifact(pool, (0, 1)), {}, kind="orchestrator")
    pools.set_four_eyes(pool, True, actor=None)
    return pool


def picture(page: Page, name: str) -> None:
    """What the page looks like, where somebody wants to see it."""
    if folder := os.environ.get("PICTURES"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def test_one_asks_another_approves(sign_in, person, crew):
    page = sign_in(person("olga", "ops")).new_page()
    page.goto("/p/crew/models/2/")
    # The gate refuses it, so that its Promote is no main button. axe takes letters of their background's colour for hidden.
    promote = page.locator("summary", has_text="Promote")
    colours = promote.evaluate("(button) => [getComputedStyle(button).color, getComputedStyle(button).backgroundColor]")
    assert colours[0] != colours[1]
    promote.click()
    expect(page.get_by_text("Promotions need a second person here")).to_be_visible()
    page.locator("input[name=override]").fill("a test of both agents")
    page.get_by_role("button", name="Promote crew-2").click()
    expect(page.get_by_text("waits for another person's approval")).to_be_visible()
    expect(page.get_by_role("button", name="Withdraw")).to_be_visible()
    picture(page, "approval-asker")

    other = sign_in(person("ben", "ops"), **PHONE).new_page()
    other.goto("/p/crew/models/")
    expect(other.get_by_text("asked for by olga")).to_be_visible()
    other.get_by_role("link", name="crew-2").first.click()
    expect(other.get_by_text("olga asks to let crew-2 answer instead of crew-1.")).to_be_visible()
    assert overflow(other) == 0
    picture(other, "approval-phone")
    other.get_by_label("What you say to it").fill("looks right")
    other.get_by_role("button", name="Approve: crew-2 answers").click()
    expect(other.get_by_text("crew-2 is in use in Crew now.")).to_be_visible()
    other.get_by_role("link", name="For engineers").click()
    expect(other.get_by_text("Asked for by olga, approved by ben")).to_be_visible()


def test_privacy_is_tried_and_saved(sign_in, person, crew):
    user = person("olga", "ops")
    page = sign_in(user).new_page()
    page.goto("/p/crew/settings/privacy/")
    page.get_by_label("E-mail addresses").check()
    page.get_by_label("Own patterns").fill("customer: \\bK-\\d{6}\\b")
    page.get_by_label("A text to try it on").fill("bob@mail.example, K-123456")
    page.get_by_role("button", name="Try").click()
    expect(page.get_by_text("[e-mail], [customer]")).to_be_visible()
    picture(page, "privacy-desk")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Texts that are already stored do not change.").first).to_be_visible()
    phone = sign_in(user, **PHONE).new_page()
    phone.goto("/p/crew/settings/privacy/")
    expect(phone.get_by_label("E-mail addresses")).to_be_checked()
    assert overflow(phone) == 0
    picture(phone, "privacy-phone")
    phone.goto("/p/crew/settings/pool/")
    assert overflow(phone) == 0
    picture(phone, "pool-phone")
