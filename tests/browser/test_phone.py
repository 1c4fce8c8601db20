"""Wide tables on a phone: rows are stacked, each value behind its column's name; a matrix keeps its shape."""

from playwright.sync_api import expect

from tests.browser.conftest import overflow
from tests.browser.test_review import worked  # noqa: F401

PHONE = {"width": 390, "height": 844}


def test_a_wide_table_becomes_stacked_rows(sign_in, person, worked):  # noqa: F811
    page = sign_in(person("rita", "reviewer"), viewport=PHONE).new_page()
    page.goto("/p/big/queries/")
    table = page.locator(".qs-table")
    expect(table).to_have_class("rw-table qs-table rw-stacked")
    row = page.get_by_role("row").filter(has_text="query 03")
    expect(row.locator('[data-column="State"]')).to_have_count(1)
    assert table.evaluate("table => table.scrollWidth <= table.parentElement.clientWidth")
    assert overflow(page) == 0
    # What HTMX brings is stacked too.
    page.get_by_label("Search queries").fill("word3")
    expect(page.get_by_role("row").filter(has_text="query 03")).to_have_count(1)
    expect(page.locator(".qs-table")).to_have_class("rw-table qs-table rw-stacked")
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(page.locator(".qs-table")).to_have_class("rw-table qs-table")


def test_a_matrix_keeps_its_shape(sign_in, person, worked):  # noqa: F811
    page = sign_in(person("rita", "reviewer"), viewport=PHONE).new_page()
    page.goto("/p/big/agreement/")
    expect(page.locator(".ag-matrix")).to_have_class("rw-table rw-matrix ag-matrix")
    assert overflow(page) == 0
    caption = page.locator("table.rw-stacked caption")
    expect(caption).to_have_count(1)
    assert caption.evaluate("caption => caption.offsetWidth >= 0.9 * caption.parentElement.parentElement.clientWidth")
