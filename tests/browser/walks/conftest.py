"""Walks through an installation of its own, which runs as `manage.py up` runs it, with its web server and its workers."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.browser.walks.walker import Walker
from tests.chaos.conftest import environment_of
from tests.chaos.installation import Installation
from tests.waiting import until

WINDOW = {"width": 1280, "height": 800}


@pytest.fixture
def installation(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Installation]:
    """An empty one that runs."""
    (tmp_path / "installation").mkdir()
    made = Installation(environment_of(tmp_path / "installation", migrated_sqlite), tmp_path / "installation")
    try:
        made.up()
        yield made
    finally:
        made.close()


@pytest.fixture
def first_admin(browser: Browser, installation: Installation) -> Iterator[Callable[[str], Walker]]:
    """Whoever has started the installation, at the page whose address `up` has printed."""
    context = browser.new_context(base_url=installation.address, viewport=WINDOW)  # type: ignore[arg-type]
    context.set_default_timeout(30_000)

    def begin(walk: str) -> Walker:
        link = until(lambda: re.search(r"/setup/\S+", installation.log.read_text()), "the printed address")
        assert link
        page = context.new_page()
        page.goto(link[0])
        return Walker(page, walk)

    yield begin
    context.close()
