"""From an empty installation to a first query routed, as somebody does it who has never seen the product: clicks are counted, and at
each step the next one must be on the screen as it is."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect

from agents_app.models import Pool
from datasets_app import tasks as dataset_tasks
from datasets_app.files import imports
from datasets_app.models import Import
from training_app.models import Run
from training_app.training import runs, tasks

NEEDS = {
    "Billing": ("refund", "invoice", "charge"),
    "Shipping": ("parcel", "courier", "delivery"),
    "Technical": ("crash", "error", "login"),
}
PLACES = ("today", "since monday", "again", "twice", "please help", "on my phone", "for my order", "in the app")
MOST_CLICKS = 10


def spreadsheet() -> bytes:
    """What somebody exports from a help desk: their own column names, semicolons."""
    rows = ["Message;Category;Opened"]
    for name, words in NEEDS.items():
        rows += [f"my {word} {place};{name};2026-01-0{n % 9 + 1}" for word in words for n, place in enumerate(PLACES)]
    rows += [f"what a nice day {place};[];2026-01-01" for place in PLACES]
    return "\n".join(rows).encode("cp1252")


class Newcomer:
    """Clicks only what can be seen without scrolling, and counts."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks, self.stops = page, 0, []

    def click(self, what: Locator) -> None:
        expect(what).to_be_visible(timeout=30_000)
        box = what.bounding_box()
        if box is None or box["y"] < 0 or box["y"] + box["height"] > (self.page.viewport_size or {})["height"]:
            self.stops.append(what.inner_text())
        what.click()
        self.clicks += 1

    def button(self, name: str) -> Locator:
        return self.page.locator("main").get_by_role("button", name=name, exact=True)

    def link(self, name: str) -> Locator:
        return self.page.locator("main").get_by_role("link", name=name, exact=True)


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be queued is left to the test, which is the worker."""
    for module in (imports, runs):
        monkeypatch.setattr(module, "async_task", lambda *args, **options: None)


@pytest.mark.at_length
def test_ten_clicks_lead_from_nothing_to_a_routed_query(
    browser, live_server, transactional_db: None, no_workers: None, tmp_path
) -> None:
    User.objects.create_superuser("ada@example.com", "ada@example.com", "a-long-password-1")
    path = tmp_path / "tickets.csv"
    path.write_bytes(spreadsheet())
    context = browser.new_context(base_url=live_server.url, viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.set_default_timeout(30_000)
    ada = Newcomer(page)
    page.goto("/")
    page.get_by_label("E-mail").fill("ada@example.com")
    page.get_by_label("Password").fill("a-long-password-1")
    page.keyboard.press("Enter")

    ada.click(ada.link("Make a pool"))
    page.get_by_label("Name").fill("Help desk")
    page.get_by_label("Agents").fill("\n".join(f"{name}: {', '.join(words)}" for name, words in NEEDS.items()))
    ada.click(ada.button("Make the pool"))

    with page.expect_file_chooser() as chooser:
        ada.click(page.locator('.transfer-drop input[type="file"]'))
    chooser.value.set_files(path)
    ada.click(ada.button("Import"))
    expect(page.locator("main")).to_contain_text("What is in which column?")
    ada.click(ada.button("Import"))
    work(lambda: dataset_tasks.read_upload(Import.objects.get().pk))
    ada.click(ada.link("Train a router"))

    ada.click(ada.button("Launch the run"))
    expect(page.locator("main")).to_contain_text("Queued")
    work(train)
    ada.click(ada.button(f"Promote {Pool.objects.get().slug}-1"))
    ada.click(ada.link("Route a query"))
    ada.click(page.locator("#query"))
    page.keyboard.type("my parcel and the invoice")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#result")).to_contain_text("The set", timeout=30_000)

    context.close()
    assert ada.stops == []
    assert ada.clicks <= MOST_CLICKS


def work(job: Callable[[], object]) -> None:
    """What a worker does meanwhile, with the shortest training that makes a model."""
    assert job() == "done"


def train() -> str:
    run = Run.objects.get()
    Run.objects.filter(pk=run.pk).update(
        config={
            **run.config,
            "encoder": "linear",
            "svm_c": 1.0,
            "total_steps": 200,
            "judging_folds": 0,
            "sentences": False,
        }
    )
    attempt = runs.claim(run.pk)
    assert attempt
    return tasks.work(run.pk, attempt)
