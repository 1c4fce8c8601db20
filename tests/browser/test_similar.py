"""Similar queries in one action, by keyboard: seen in full, ticked, sent with one answer, taken back by one undo."""

import pytest
from playwright.sync_api import Page, expect

from datasets_app.labeling import alike, queue
from datasets_app.models import Assignment, Label
from tests.browser.axe import findings
from tests.browser.conftest import overflow
from tests.browser.test_labeling import LABEL, current_labels, make_pool, press, text_of, wait_saved
from tests.waiting import until

TEXTS = [
    "my card was charged twice for order 71",
    "my card was charged twice for order 88",
    "hello, my card was charged twice for order 90",
    "the speaker does not find the wifi",
    "can I change the address of my parcel?",
]


@pytest.fixture
def page(sign_in, person) -> Page:
    make_pool(12, TEXTS)
    alike._compared.cache_clear()
    opened = sign_in(person("ana"), viewport={"width": 1440, "height": 900}).new_page()
    opened.set_default_timeout(60_000)
    opened.goto(LABEL)
    expect(opened.locator(".lb-similar-link")).to_contain_text("2 similar queries")
    # What the page keeps for later is given out in the queue's order, unless a person opens similar queries before it has come.
    held = Assignment.objects.filter(state=queue.HELD)
    until(lambda: held.count() >= queue.LEAST_HELD, "what the page keeps is held by it")
    opened.wait_for_load_state("networkidle")
    return opened


def test_keys_alone_tick_send_and_take_back(page: Page) -> None:
    press(page, "Digit3", "Equal")
    dialog = page.locator("dialog.lb-similar")
    expect(dialog.locator("[data-answer]")).to_have_text("Agent 2")
    expect(dialog.locator(".lb-alike-text")).to_have_text(TEXTS[1:3])
    assert dialog.locator("input:checked").count() == 0, "nobody has read them yet"
    assert Assignment.objects.filter(state=queue.HELD, item__query__text__in=TEXTS[:3]).count() == 3
    assert findings(page) == []
    press(page, "Digit1", "Digit2", "Digit2")
    expect(dialog.locator('[data-similar="submit"]')).to_contain_text("Submit for 2 queries")
    press(page, "Enter")
    expect(page.locator("#lb-item .rw-query-text")).to_have_text(TEXTS[2])
    wait_saved(page)
    assert current_labels() == {TEXTS[0]: [2], TEXTS[1]: [2]}
    assert Label.objects.get(query__text=TEXTS[1]).provenance["via"] == "similar"
    press(page, "KeyZ")
    expect(page.locator("#lb-item .rw-query-text")).to_have_text(TEXTS[0])
    wait_saved(page)
    assert current_labels() == {}
    expect(page.locator("#lb-item .lb-send")).to_have_text("Submit for 2 queries")
    press(page, "Equal", "KeyA", "Enter")
    expect(page.locator("#lb-item .rw-query-text")).to_have_text(TEXTS[3])
    wait_saved(page)
    assert current_labels() == {text: [2] for text in TEXTS[:3]}


@pytest.mark.at_length
def test_who_ticks_nothing_goes_on_as_before(page: Page) -> None:
    press(page, "Equal")
    expect(page.locator("dialog.lb-similar")).to_be_visible()
    press(page, "Escape")
    expect(page.locator("dialog.lb-similar")).to_have_count(0)
    for text in TEXTS[:3]:
        assert text_of(page) == text
        press(page, "Digit1", "Enter")
        expect(page.locator("#lb-item .rw-query-text")).not_to_have_text(text)
    wait_saved(page)
    assert current_labels() == {text: [0] for text in TEXTS[:3]}


@pytest.mark.at_length
def test_fingers_find_it_on_a_phone(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator(".lb-similar-link a").click()
    expect(page.locator("dialog.lb-similar")).to_be_visible()
    assert overflow(page) == 0
    assert findings(page) == []
