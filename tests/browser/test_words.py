"""What is put away, what words mean, and what one notes: the pages and parts that nothing else opens, seen and used by keyboard."""

import os
from pathlib import Path

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from agents_app import archive, pools
from datasets_app.models import Label, Query
from tests.browser.axe import findings, on_a_phone
from tests.browser.test_review import worked  # noqa: F401
from tests.thorough import EVERYTHING


def pictured(page: Page, name: str) -> None:
    """A picture of the page, where PICTURES names a folder."""
    if folder := os.environ.get("PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def looked_at(page: Page, address: str, name: str) -> None:
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(address)
    assert findings(page) == [], address
    pictured(page, f"{name}-desk")
    assert on_a_phone(page) == [], address
    page.set_viewport_size({"width": 390, "height": 844})
    pictured(page, f"{name}-phone-dark")


@pytest.mark.at_length
def test_pools_that_are_put_away_can_be_seen_by_everybody(sign_in, person, worked):  # noqa: F811
    gone, kept = pools.create_pool("Old sales"), pools.create_pool("Last year")
    archive.delete(gone, "Old sales", actor=None)
    archive.archive(kept, actor=None)
    page = sign_in(person("adam", "admin")).new_page()
    looked_at(page, "/pools/", "pools")
    looked_at(page, f"/p/{kept.slug}/agents/", "archived")
    if EVERYTHING:
        looked_at(page, "/p/big/settings/pool/delete/", "pool-delete")
        looked_at(page, "/people/", "people")
        looked_at(page, "/glossary/", "glossary")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto("/pools/")
    page.get_by_role("button", name="Bring Old sales back").click()
    expect(page.get_by_role("status").first).to_contain_text("in use again")


@pytest.mark.at_length
def test_a_word_says_what_it_means_where_one_points_or_tabs_to_it(sign_in, person, worked):  # noqa: F811
    page = sign_in(person("rita", "reviewer")).new_page()
    page.goto("/p/big/agreement/")
    word = page.locator("[data-rw-term]").first
    word.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("overlap")
    pictured(page, "term")
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_have_count(0)
    page.mouse.move(0, 0)
    word.focus()
    expect(page.get_by_role("tooltip")).to_be_visible()
    expect(word).to_have_attribute("aria-describedby", "rw-tip")
    page.keyboard.press("Enter")
    page.wait_for_url("**/glossary/#jaccard")


@pytest.mark.at_length
def test_a_note_goes_with_the_answer_by_keyboard(sign_in, person, worked):  # noqa: F811
    query = Query.objects.filter(dataset__pool__slug="big").first()
    page = sign_in(person("lena")).new_page()
    page.goto(reverse("label_item", args=["big", query.pk]))
    page.keyboard.press("n")
    page.keyboard.type("1 second thought")
    pictured(page, "note")
    page.keyboard.press("Enter")
    page.keyboard.press("1")
    with page.expect_response(lambda answer: "/submit/" in answer.url):
        page.keyboard.press("Enter")
    made = Label.objects.get(query=query, author__username="lena")
    assert made.note == "1 second thought"
