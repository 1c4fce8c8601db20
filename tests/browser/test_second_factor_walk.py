"""A second factor, from its set-up to a sign-in by code, and the list of sessions. At a desk, on a phone and in the dark."""

from pathlib import Path

import pytest
from allauth.mfa.totp.internal.auth import format_hotp_value, hotp_value, yield_hotp_counters_from_time
from django.conf import settings as conf
from django.urls import reverse
from playwright.sync_api import Page, expect

from agents_app import pools
from tests.browser.axe import findings
from tests.browser.conftest import overflow
from tests.browser.test_four_eyes_walk import LOOKS, picture

pytestmark = pytest.mark.at_length


def code_now(secret: str) -> str:
    """What an authenticator app shows now."""
    return format_hotp_value(hotp_value(secret, list(yield_hotp_counters_from_time())[1]))


def looked_at(page: Page, name: str) -> None:
    assert overflow(page) == 0
    assert findings(page) == []
    picture(page, name)


@pytest.mark.parametrize("look", LOOKS)
def test_who_is_asked_for_one_sets_it_up_and_signs_in_by_it(sign_in, person, settings, look, request):
    settings.SECOND_FACTOR, settings.SESSIONS_SEEN = "ops", True
    pools.create_pool("Support", "support")
    name = request.node.callspec.id
    context = sign_in(person("olga", "ops"), **look)
    page = context.new_page()
    page.goto("/glossary/")
    expect(page.get_by_text("This site requires a second factor")).to_be_visible()
    looked_at(page, f"second-factor-set-up-{name}")
    secret = page.locator("#key").inner_text().replace(" ", "")
    page.get_by_label("The six digits").fill(code_now(secret))
    page.get_by_label("Your password").fill("secret-enough-1")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Save them now.")).to_be_visible()
    looked_at(page, f"second-factor-codes-{name}")
    codes = page.locator("#codes").inner_text().split("\n")[:10]
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Download").click()
    kept = Path(downloading.value.path()).read_text()
    assert all(code in kept for code in codes)
    assert downloading.value.suggested_filename == "recovery-codes.txt"
    page.get_by_role("link", name="I have kept them").click()
    page.wait_for_url("**/glossary/")

    context.clear_cookies(name=conf.SESSION_COOKIE_NAME)
    page.goto("/admin/")
    page.get_by_label("E-mail").fill("olga")
    page.get_by_label("Password").fill("secret-enough-1")
    page.keyboard.press("Enter")
    code = page.get_by_label("Code")
    expect(code).to_have_attribute("autofocus", "")
    looked_at(page, f"second-factor-sign-in-{name}")
    code.press_sequentially("000000")
    page.keyboard.press("Enter")
    expect(page.get_by_text("This code is wrong.")).to_be_visible()
    picture(page, f"second-factor-wrong-{name}")
    page.get_by_label("Code").fill(code_now(secret))
    page.keyboard.press("Enter")
    page.wait_for_url("**/admin/")

    page.goto(reverse("account"))
    expect(page.get_by_text("10 recovery codes are left.")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(2)
    looked_at(page, f"account-{name}")
    page.get_by_role("button", name="Sign out everywhere else").click()
    expect(page.get_by_text("1 other session was ended.")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="New recovery codes").click()
    page.get_by_label("Your password").fill("secret-enough-1")
    picture(page, f"second-factor-new-codes-{name}")
    page.get_by_role("button", name="Make new codes").click()
    expect(page.get_by_text("Save them now.")).to_be_visible()
    assert page.locator("#codes").inner_text().split("\n")[0] not in codes
