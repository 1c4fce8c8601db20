"""Ctrl+K in a browser: a page behind the sidebar is opened by the keyboard alone, and a search that finds nothing says so."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import BrowserContext, expect

from agents_app import pools


@pytest.mark.at_length
def test_a_search_opens_a_page_and_says_when_it_finds_nothing(
    person: Callable[..., User], sign_in: Callable[..., BrowserContext]
) -> None:
    pools.add_agent(pools.create_pool("Support", "support"), "Billing")
    page = sign_in(person("olga", "ops")).new_page()
    page.goto("/p/support/agents/")
    page.keyboard.press("Control+k")
    expect(page.locator("#search-input-command")).to_be_focused()
    page.keyboard.type("zebra")
    results = page.locator("#command-results")
    expect(results).to_contain_text("Nothing is called “zebra”.")
    expect(results).to_be_visible()
    expect(results).to_contain_text("canary")
    page.locator("#search-input-command").fill("")
    page.keyboard.type("canary")
    expect(results).to_contain_text("Shadows and canary")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/p/support/decisions/live/")
