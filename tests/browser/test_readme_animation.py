"""The animation of the README: a query is labeled, a router trained, an answer given. WRITE_SCREENS=1 puts it into docs/images."""

import base64
import itertools
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from agents_app import pools
from agents_app.background_work import jobs
from agents_app.files.formats import Reading
from datasets_app.files import imports
from datasets_app.labeling import queue
from datasets_app.models import Dataset
from datasets_app.queries import adding
from tests.browser.animation import Film
from tests.browser.walks.test_first_day import train, work

ROOT = Path(__file__).resolve().parents[2]
NAME = "label-train-route.webp"
AGENTS = {
    "Billing": "Invoices, payments, refunds",
    "Shipping": "Parcels, delivery, returns",
    "Technical": "Errors, log-in, the app",
}
PHRASES = {
    "Billing": ("i was charged twice", "my refund is late", "the invoice is wrong"),
    "Shipping": ("my parcel is lost", "the courier was rude", "my delivery is broken"),
    "Technical": ("the app crashes", "my login fails", "it shows an error"),
}
QUERY = "i was charged twice and my parcel is lost"


def rows() -> str:
    """Labeled queries: of one need, of two, of none; what the animation asks is not among them, only with further words."""
    lines = []
    when = (
        "since Monday",
        "again",
        "today",
        "twice",
        "this morning",
        "for a week",
        "since we moved",
        "for two days",
        "last night",
        "this year",
    )
    places = [f"{one} {other}" for one in when for other in ("", "please", "on my phone")]
    for agent, phrases in PHRASES.items():
        lines += [f"{phrase} {place},{agent}" for phrase in phrases for place in places]
    for one, other in itertools.combinations(PHRASES, 2):
        pairs = itertools.product(PHRASES[one], PHRASES[other])
        lines += [f"{a} and {b} {place},{one}; {other}" for a, b in pairs for place in places[::5]]
    lines += [f"{what} {place},none" for what in ("what a nice day", "who are you") for place in places]
    splits = itertools.cycle(["train"] * 6 + ["val", "test"])  # the same each time: the answer is shown
    return "\n".join(["text,label,split", *map(",".join, zip(lines, splits, strict=False))])


@pytest.mark.at_length
def test_a_query_is_labeled_a_router_trained_and_an_answer_given(sign_in, person, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jobs, "send", lambda _kind, _key: None)
    pool = pools.create_pool("Customer support", "support", actor=None)
    for name, description in AGENTS.items():
        pools.add_agent(pool, name, description=description)
    dataset = adding.dataset_of(pool, "Tickets")
    path = tmp_path / "tickets.csv"
    path.write_text(rows())
    _import(dataset, path)
    adding.send(pool, [adding.NewQuery("my refund never came and the app shows an error", {})], actor=None)
    queue.fill(pool)

    page = sign_in(person("ana", "admin"), viewport={"width": 1100, "height": 660}).new_page()
    film = Film(page)
    page.goto("/p/support/label/")
    expect(page.locator("main")).to_contain_text("my refund never came")
    film.take("1  Label: which agents does this query need?", 1_800)
    for key in ("1", "3"):
        page.keyboard.press(f"Digit{key}")
        film.take("1  Label: which agents does this query need?", 700)
    page.keyboard.press("Enter")
    expect(page.locator("main")).not_to_contain_text("my refund never came")
    page.goto("/p/support/runs/new/")
    film.take("2  Train a router from the labels", 1_500)
    page.get_by_role("button", name="Train").click()
    expect(page.locator("main")).to_contain_text("Queued")
    film.take("2  Train a router from the labels", 900)
    work(train)  # the page, which asks how far it is, shows the end by itself
    promote = page.get_by_role("button", name="Promote support-1")
    expect(promote).to_be_visible()
    film.take("2  Look at what it gets right, and promote it", 1_800)
    promote.click()
    expect(page.locator("main")).to_contain_text("Route a query")
    page.goto("/p/support/playground/")
    for end in (len(QUERY) // 2, len(QUERY)):
        page.locator("#query").fill(QUERY[:end])
        film.take("3  Route: in milliseconds, without an LLM", 500)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result")).to_contain_text("The set", timeout=30_000)
    film.take("3  Route: in milliseconds, without an LLM", 2_600)
    chosen, answer = page.locator("#result [aria-pressed=true]"), page.locator("#result").inner_text()
    expect(chosen, answer).to_have_text([re.compile("Billing"), re.compile("Shipping")])

    made = film.webp()
    folder = ROOT / "docs" / "images" if os.environ.get("WRITE_SCREENS") == "1" else tmp_path
    (folder / NAME).write_bytes(made)
    assert made.count(b"ANMF") == len(film.frames) == 9
    assert f"docs/images/{NAME}" in (ROOT / "README.md").read_text()


def _import(dataset: Dataset, path: Path) -> None:
    reading = Reading("table", columns={"text": "0", "required_agents": "1", "split": "2"})
    with path.open("rb") as stream:
        upload = imports.read_file(dataset, stream, "csv", reading=reading)
    assert upload.rejected == 0


def test_the_animation_is_there_and_plays(browser) -> None:
    page = browser.new_page()
    page.set_content("<img>")
    content = (ROOT / "docs" / "images" / NAME).read_bytes()
    assert content[8:16] == b"WEBPVP8X"
    data = base64.b64encode(content).decode()
    size = page.evaluate(
        "async (data) => { const i = document.querySelector('img'); i.src = 'data:image/webp;base64,' + data; await i.decode();"
        " return [i.naturalWidth, i.naturalHeight]; }",
        data,
    )
    assert size == [1100, 660]
    page.close()
