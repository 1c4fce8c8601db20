"""Somebody who has never seen the product: clicks only what the screen shows as it is, and counts. Fields are reached by the keyboard,
as on any form."""

import os
import time
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

#: A folder for a picture of each page of the walks; none are taken without it.
PICTURES = os.environ.get("WALK_PICTURES", "")
PASSWORD = "a-long-password-1"


class Walker:
    """Walks through pages. `clicks` counts, `hidden` names what could be clicked only after scrolling."""

    def __init__(self, page: Page, walk: str) -> None:
        self.page, self.walk, self.clicks = page, walk, 0
        self.hidden: list[str] = []
        self._pictures = 0
        self._began = time.monotonic()

    def look(self) -> None:
        """Take a picture of the page, where they are wanted."""
        self._pictures += 1
        if PICTURES:
            self.page.screenshot(path=Path(PICTURES) / f"{self.walk}-{self._pictures:02}.png")

    def click(self, what: Locator, seconds: float = 30) -> None:
        """Click what is there within so many seconds."""
        expect(what).to_be_visible(timeout=seconds * 1_000)
        self.look()
        box = what.bounding_box()
        if box is None or box["y"] < 0 or box["y"] + box["height"] > (self.page.viewport_size or {})["height"]:
            self.hidden.append(what.inner_text())
        what.click()
        self.clicks += 1

    def choose(self, what: Locator, label: str) -> None:
        """One entry of a list, which takes a click."""
        expect(what).to_be_visible()
        what.select_option(label=label)
        self.clicks += 1

    def button(self, name: str) -> Locator:
        return self.page.locator("main").get_by_role("button", name=name, exact=True)

    def link(self, name: str) -> Locator:
        return self.page.locator("main").get_by_role("link", name=name, exact=True)

    def sees(self, text: str, seconds: float = 30) -> None:
        """Wait until the page says so."""
        expect(self.page.locator("body")).to_contain_text(text, timeout=seconds * 1_000)

    def sign_in(self, email: str) -> None:
        """By the keyboard alone."""
        self.page.get_by_label("E-mail").fill(email)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.keyboard.press("Enter")

    def create_pool(self, name: str, agents: str = "") -> None:
        """On Home, where the first field has the focus. `agents`: one on a line."""
        expect(self.page.get_by_label("Name")).to_be_focused(timeout=30_000)
        self.page.keyboard.type(name)
        self.page.get_by_label("Agents").fill(agents)
        self.click(self.button("Make the pool"))

    def choose_file(self, path: Path) -> None:
        """Choose the file; the page that follows says what was understood of it."""
        with self.page.expect_file_chooser() as chooser:
            self.click(self.page.locator('.transfer-drop input[type="file"]'))
        chooser.value.set_files(path)
        self.click(self.button("Import"))

    def promote_and_route(self, model: str, query: str, seconds: float = 30) -> None:
        """From the page of a run, which ends within so many seconds, to an answer in the playground."""
        self.click(self.button(f"Promote {model}"), seconds)
        self.click(self.link("Route a query"))
        expect(self.page.locator("#query")).to_be_focused(timeout=30_000)
        self.page.keyboard.type(query)
        self.page.keyboard.press("Control+Enter")
        expect(self.page.locator("#result")).to_contain_text("The set", timeout=30_000)
        self.look()

    def restart(self) -> None:
        """Count clicks and time from here on."""
        self.clicks, self._began = 0, time.monotonic()

    def tell(self) -> None:
        """Print what the walk took."""
        print(f"{self.walk}: {self.clicks} clicks, {(time.monotonic() - self._began) / 60:.1f} minutes")
