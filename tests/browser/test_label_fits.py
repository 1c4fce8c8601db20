"""The labeling page fits its screen: with forty agents the query, what is chosen and None are in view wherever the list stands."""

import io
import json
import re

import pytest
from playwright.sync_api import Page, expect

from datasets_app.files import imports
from datasets_app.labels import labels
from datasets_app.models import Dataset, Query, Suggestion
from tests.browser.axe import findings
from tests.browser.conftest import overflow
from tests.browser.test_labeling import LABEL, code_keys, make_pool, press, wait_saved

LONG = "hi, i was charged twice this month and since the update I can't log in on my phone. " * 6
#: A desk, a phone, and a desk at 200 %: half as many CSS pixels.
SCREENS = {"desk": (1280, 800), "phone": (390, 844), "at 200 %": (640, 400)}
EACH = [one if one == "phone" else pytest.param(one, marks=pytest.mark.at_length) for one in SCREENS]
IN_VIEW = """selector => {
    const seen = document.querySelector(selector)?.getBoundingClientRect();
    if (!seen || seen.height < 8) return false;
    const at = document.elementFromPoint(seen.left + Math.min(seen.width / 2, 40), seen.top + Math.min(seen.height / 2, 12));
    return seen.top >= 0 && seen.top + Math.min(seen.height, 24) <= innerHeight && Boolean(at?.closest(selector));
}"""


#: The names of the agents that are shown, as one reads them.
NAMES = """() => [...document.querySelectorAll('.lb-row[data-agent]')].filter((row) => !row.hidden)
    .map((row) => [row.getBoundingClientRect(), row.querySelector('.lb-name').textContent])
    .sort(([a], [b]) => a.top - b.top || a.left - b.left).map(([, name]) => name)"""


def whole_agents(page: Page) -> int:
    """How many agents are whole on screen, within the list's box."""
    return page.evaluate(
        """() => {
            const box = document.querySelector('.lb-rows').getBoundingClientRect();
            return [...document.querySelectorAll('.lb-row[data-agent]')].filter((row) => {
                const at = row.getBoundingClientRect();
                return at.height > 0 && at.top >= box.top - 1 && at.bottom <= box.bottom + 1;
            }).length;
        }"""
    )


@pytest.mark.at_length
@pytest.mark.parametrize("screen", EACH)
def test_query_choice_and_none_are_in_view_at_all_times(sign_in, person, screen: str) -> None:
    make_pool(40, [LONG, "another"])
    page = sign_in(person("ana")).new_page()
    width, height = SCREENS[screen]
    page.set_viewport_size({"width": width, "height": height})
    page.goto(LABEL)
    press(page, *code_keys("A3"), *code_keys("D9"))
    expect(page.locator("#lb-chosen button")).to_have_count(2)
    for place in (0, 0.5, 1):
        page.evaluate(
            "place => { const list = document.querySelector('.lb-rows'); list.scrollTop = place * list.scrollHeight; }",
            place,
        )
        page.evaluate("scrollTo(0, 0)")
        for selector in (
            ".rw-query-text",
            "#lb-chosen",
            '[data-unchoose="3"]',
            '.lb-none input[name="none"]',
            '[data-lb="submit"]',
        ):
            assert page.evaluate(IN_VIEW, selector), f"{selector} is out of view at {place} of the list"
    assert page.evaluate("document.documentElement.scrollHeight - innerHeight") <= 4, "the page itself does not scroll"
    assert whole_agents(page) >= {"desk": 14, "phone": 6, "at 200 %": 2}[screen]
    assert overflow(page) == 0
    page.locator('[data-unchoose="3"]').click()
    expect(page.locator("#lb-chosen button")).to_have_count(1)
    assert findings(page) == []


@pytest.mark.at_length
@pytest.mark.parametrize("screen", EACH)
def test_a_turn_after_forty_is_in_view_and_what_was_said_before_scrolls(sign_in, person, screen: str) -> None:
    make_pool(12, [])
    said = [
        {
            "role": ("user", "assistant")[n % 2],
            "content": f"Message {n}, about the order that I made last week and its parcel",
        }
        for n in range(78)
    ]
    line = json.dumps({"id": "long", "messages": [*said, {"role": "user", "content": "Yes, please do that"}]})
    imports.read_file(Dataset.objects.get(), io.BytesIO(line.encode()), "jsonl")
    page = sign_in(person("ana")).new_page()
    width, height = SCREENS[screen]
    page.set_viewport_size({"width": width, "height": height})
    page.goto(LABEL)
    for selector in (".lb-turn", '.lb-none input[name="none"]', '[data-lb="submit"]'):
        assert page.evaluate(IN_VIEW, selector), f"{selector} is out of view"
    expect(page.locator(".lb-turn")).to_have_text("Yes, please do that")
    chat = page.locator(".rw-chat")
    expect(chat.locator("li")).to_have_count(78)
    newest = chat.locator("li").last
    assert newest.evaluate("one => { const box = one.closest('.rw-chat').getBoundingClientRect(), at = one.getBoundingClientRect();"
                           " return at.bottom <= box.bottom + 1 && at.bottom > box.top; }")  # fmt: skip
    assert chat.evaluate("one => one.scrollHeight > one.clientHeight && one.tabIndex === 0")
    assert overflow(page) == 0
    assert findings(page) == []


def test_the_filter_brings_matches_together_and_forgives_slips(sign_in, person) -> None:
    pool = make_pool(40, ["one"])
    for number, name in ((17, "Insurance"), (31, "Invoices"), (5, "Car insurance")):
        pool.agents.filter(number=number).update(name=name)
    page = sign_in(person("ana")).new_page()
    page.goto(LABEL)
    press(page, "Slash")
    page.keyboard.type("insur")
    assert page.evaluate(NAMES) == ["Insurance", "Car insurance"], "what begins so comes first"
    page.keyboard.press("Escape")
    for typed in ("insurnace", "inzurance", "insuance"):
        press(page, "Slash")
        page.keyboard.type(typed)
        assert set(page.evaluate(NAMES)) == {"Insurance", "Car insurance"}, typed
        page.keyboard.press("Escape")
    press(page, "Slash")
    page.keyboard.type("insurnace")
    page.keyboard.press("Enter")
    expect(page.locator('[name="agent"][value="17"]')).to_be_checked()
    press(page, "Slash")
    page.keyboard.type("xyzzy")
    expect(page.locator(".lb-nomatch")).to_be_visible()


@pytest.mark.at_length
def test_without_a_connection_the_next_queries_are_here_and_it_says_what_waits(sign_in, person) -> None:
    make_pool(12, [f"query {n}" for n in range(4)])
    context = sign_in(person("ana"))
    page = context.new_page()
    page.goto(LABEL)
    expect(page.locator("#lb-saved")).to_have_text(re.compile("Saved"))
    page.wait_for_timeout(1500)  # the next three arrive
    context.set_offline(True)
    for n in range(3):
        press(page, f"Digit{n + 1}", "Enter")
        expect(page.locator("#lb-item .rw-query-text")).to_have_text(f"query {n + 1}")
    note = page.locator("#lb-waiting")
    expect(note).to_contain_text("3 answers are stored in this browser")
    expect(note).to_contain_text("No further query is loaded.")
    assert page.evaluate(IN_VIEW, "#lb-waiting")
    context.set_offline(False)
    wait_saved(page)
    expect(note).to_be_hidden()


@pytest.mark.at_length
def test_guidelines_open_over_the_page_on_a_phone(sign_in, person) -> None:
    pool = make_pool(12, ["one"])
    pool.guidelines = "Choose what the query **needs**."
    pool.save()
    page = sign_in(person("ana")).new_page()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(LABEL)
    page.locator('.rw-actions [data-lb="guidelines"]').click()
    assert page.evaluate(IN_VIEW, "#lb-guidelines .rw-prose")
    page.locator("#lb-guidelines").get_by_role("button", name="Close").click()
    expect(page.locator("#lb-guidelines")).to_be_hidden()


@pytest.mark.at_length
def test_sources_that_differ_never_make_none(sign_in, person) -> None:
    """The LLM is sure of one agent and the model of none: `A` and Enter store the agent, not “none of these”."""
    make_pool(12, ["one"])
    query = Query.objects.get()
    labels.record(
        labels.NewLabel(
            query.pk, source="llm", required=[4], asked=range(12), scores={4: 0.9}, provenance={"model": "m"}
        )
    )
    Suggestion.objects.create(query=query, version="big-1", required=[], scores={str(n): 0.09 for n in range(12)})
    page = sign_in(person("ana")).new_page()
    page.goto(LABEL)
    row = page.locator('.lb-row[data-agent="4"]')
    expect(row).to_contain_text("LLM 0.90")
    expect(row).to_contain_text("model 0.09")
    expect(page.locator(".lb-none")).not_to_contain_text("suggested")
    press(page, "KeyA", "Enter")
    wait_saved(page)
    assert query.labels.get(source="human").required == [4]


@pytest.mark.at_length
@pytest.mark.parametrize("language", ["en", "de", "ru"])
def test_the_bar_of_commands_is_one_line(sign_in, person, language: str) -> None:
    """In a window of 1280 px with the sidebar open, where a suggestion waits to be accepted."""
    make_pool(12, ["one"])
    scores = {str(n): 0.9 if n == 4 else 0.09 for n in range(12)}
    Suggestion.objects.create(query=Query.objects.get(), version="big-1", required=[4], scores=scores)
    page = sign_in(person("ana"), locale=language, viewport={"width": 1280, "height": 800}).new_page()
    page.goto(LABEL)
    expect(page.locator('[data-lb="submit"]')).not_to_have_text(re.compile("Submit|Absenden|Отправить"))
    tops = page.locator(".lb-bar > .rw-button:visible").evaluate_all("all => all.map(one => one.offsetTop)")
    assert len(tops) >= 5
    assert len(set(tops)) == 1


@pytest.mark.at_length
def test_names_of_agents_begin_in_one_line_whatever_their_codes(sign_in, person) -> None:
    pool = make_pool(3, ["which one"])
    for agent, code in zip(pool.agents.order_by("number"), ("II", "WM", "AB"), strict=True):
        agent.code = code
        agent.save()
    page = sign_in(person("ana")).new_page()
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(LABEL)
        expect(page.locator(".lb-row[data-agent]")).to_have_count(3)
        names = page.locator(".lb-row[data-agent] .lb-name").all()
        assert len({name.evaluate("name => name.getBoundingClientRect().left") for name in names}) == 1
