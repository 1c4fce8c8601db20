"""The page of allowed sets, as ops use it at a desk and on a phone."""

import pytest
from playwright.sync_api import expect

from agents_app import pools
from tests.browser.conftest import overflow
from tests.browser.test_four_eyes_walk import picture

pytestmark = pytest.mark.at_length


def test_rules_are_added_and_removed(sign_in, person):
    pool = pools.create_pool("Crew", "crew", actor=None)
    for name in ("Billing", "Refunds", "Fraud desk"):
        pools.add_agent(pool, name, cost=1.5, actor=None)
    page = sign_in(person("olga", "ops")).new_page()
    page.goto("/p/crew/settings/allowed-sets/")
    page.get_by_label("Agent", exact=True).select_option("1")
    page.get_by_label("Other agent").select_option("0")
    page.get_by_role("button", name="Add the rule").click()
    expect(page.get_by_role("button", name="Remove: Refunds only with Billing")).to_be_visible()
    page.get_by_label("Name of the group").fill("money")
    page.get_by_label("BI Billing").check()
    page.get_by_label("FD Fraud desk").check()
    page.get_by_role("button", name="Add the group").click()
    expect(page.get_by_text("money: at most one of")).to_be_visible()
    picture(page, "allowed-sets-desk")
    page.set_viewport_size({"width": 390, "height": 800})
    assert overflow(page) == 0
    page.get_by_role("button", name="Remove the group money").click()
    expect(page.get_by_text("money: at most one of")).not_to_be_visible()
