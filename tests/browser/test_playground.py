"""The playground by keyboard."""

from playwright.sync_api import expect

from tests.browser.test_everybody import trained_pool  # noqa: F401


def test_a_query_is_routed_without_a_pointer(sign_in, person, trained_pool):  # noqa: F811
    page = sign_in(person("olga", "ops")).new_page()
    page.goto("/p/support/playground/")
    page.locator("#query").focus()
    page.keyboard.type("the parcel is late")
    page.keyboard.press("Enter")
    expect(page.locator("#query")).to_have_value("the parcel is late\n")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result")).to_contain_text("Shipping")
