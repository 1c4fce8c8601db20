"""What all tests share: which databases they run on, in which order, and where Chromium is."""

import asyncio
import gc
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps as django_apps
from django.conf import settings
from django.core.cache import caches
from django.utils import timezone, translation
from hypothesis.configuration import set_hypothesis_home_dir

from routerweb import background
from tests import migrated, opening, orchestration
from tests.on_postgresql import binary
from tests.thorough import ALL_FOR_BOTH, EVERYTHING, SOME_CASES

opening.in_tests()
# Collecting makes little but what stays: the collector is to look seldom, from here on.
gc.set_threshold(50_000, 20, 100)
# What it remembers of failures; it would stand in the checkout.
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "routerweb-hypothesis")
collect_ignore = [] if orchestration.INSTALLED else ["orchestration_app"]


#: What stands in a file that has a test for both databases, and in one whose every test is left to where everything is tested.
FOR_BOTH = re.compile(r"transaction=True|both_databases|transactional_db|live_server")
ALL_AT_LENGTH = re.compile(r"^pytestmark = (.*|\[[^]]*)\bat_length\b", re.MULTILINE)


@cache
def text_of(file: Path) -> str:
    return file.read_text()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of whose tests none would be taken is not imported; one that is named is."""
    if collection_path.suffix != ".py" or any(collection_path.name in word for word in config.args):
        return None
    text = text_of(collection_path)
    for_both = config.option.markexpr.startswith("both_databases")
    if (for_both and not FOR_BOTH.search(text)) or (not EVERYTHING and ALL_AT_LENGTH.search(text)):
        return True
    return None


def pytest_itemcollected(item: pytest.Item) -> None:
    marked = item.get_closest_marker("django_db")
    # Real transactions, several connections: what is committed when, and who waits for whom.
    real = bool(marked and marked.kwargs.get("transaction")) or "transactional_db" in getattr(item, "fixturenames", ())
    apart = item.get_closest_marker("commits_for_others") or item.get_closest_marker("any_database")
    if real and not apart:
        item.add_marker(pytest.mark.both_databases)
    assert not is_for_both(item) or FOR_BOTH.search(text_of(item.path)), f"{item.path} does not say so: see FOR_BOTH"


def is_for_both(item: pytest.Item) -> bool:
    return bool(item.get_closest_marker("both_databases") and not item.get_closest_marker("any_database"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not EVERYTHING and not any("::" in word for word in config.args):
        left_out = [item for item in items if item.get_closest_marker("at_length")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("at_length")]
        if SOME_CASES:
            kept = set(some_cases(items))
            config.hook.pytest_deselected(items=[item for item in items if item not in kept])
            items[:] = [item for item in items if item in kept]
    if os.environ.get("POSTGRESQL_BESIDE") == "1" and binary("initdb"):
        elsewhere = {item for item in items if is_for_both(item)}
        config.hook.pytest_deselected(items=list(elsewhere))
        items[:] = [item for item in items if item not in elsewhere]
    order = in_turns(
        list(dict.fromkeys(item.path for item in items)),
        {item.path for item in items if any(item.get_closest_marker(name) for name in ("browser", "process"))},
        {item.path for item in items if item.get_closest_marker("computes_long")},
    )
    items.sort(key=lambda item: order[item.path])


def some_cases(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """Of each test the first case, or all where the databases may differ and that is asked for."""
    seen: set[str] = set()
    for item in items:
        family = item.nodeid.partition("[")[0]
        if family not in seen or (ALL_FOR_BOTH and is_for_both(item)):
            yield item
        seen.add(family)


def in_turns(files: list[Path], waiting: set[Path], longest: set[Path]) -> dict[Path, float]:
    """A place for each file. Long ones first: with one of them at the end, the other processes would have nothing to do. Those whose
    tests wait, for a browser or a server, stand evenly among the others: all of them at once would leave the processors idle."""
    computing = sorted((path for path in files if path not in waiting), key=lambda path: path not in longest)
    step = len(computing) * 3 / 4 / max(1, len(waiting))
    return {path: n for n, path in enumerate(computing)} | {
        path: n * step - 0.5 for n, path in enumerate(path for path in files if path in waiting)
    }


def pytest_collection_finish() -> None:
    """What has been imported stays: the collector, which would go through it again and again, leaves it alone."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def migrated_sqlite() -> Path:
    """An SQLite file with all migrations applied: to be copied."""
    return migrated.sqlite()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, request: pytest.FixtureRequest
) -> None:
    """The tests' own database on SQLite is a copy of it; on PostgreSQL the settings name a template."""
    test = settings.DATABASES["default"].get("TEST", {})
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        migrated.copy(request.getfixturevalue("migrated_sqlite"), Path(test["NAME"]))


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """What has been copied is migrated further, not made anew."""
    return bool(settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """What `migrate` has written is put back after each test with transactions of its own. No schedule is late, however long ago the
    database was made: nothing here does its work."""
    from django_q.models import Schedule

    with pytest.MonkeyPatch.context() as patch:
        with django_db_blocker.unblock():
            Schedule.objects.update(next_run=timezone.now() + timedelta(days=1))
            migrated.put_back_after_flush(patch)
        yield


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; without one the test is skipped, or fails where REQUIRE_BROWSER=1 (as in CI)."""
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if path:
        return path
    reason = "Chromium is not installed: neither CHROMIUM nor the PATH names one."
    if os.environ.get("REQUIRE_BROWSER") == "1":
        pytest.fail(reason)
    pytest.skip(reason)  # `make test` is to run where there is no browser; CI asks for one


@pytest.fixture(scope="session")
def running_chromium(chromium: str) -> Iterator[Any]:
    """One for the process, whichever folder's tests ask: Playwright starts only once in a thread."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--in-process-gpu"]
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    """What this process keeps for some minutes, and the language of its last request, would be another test's."""
    caches["process"].clear()
    translation.deactivate()
    if django_apps.ready:
        from agents_app.scim import tokens
        from datasets_app.labels import peers

        peers._noted.clear()
        tokens._uses.clear()
    if serving := sys.modules.get("training_app.answering.serving"):
        serving.forget()  # two databases may have the same stamp


@pytest.fixture(autouse=True)
def threads_end_with_their_test(_django_db_marker: None) -> Iterator[None]:
    """What a test's own thread writes later would be written into another test's database."""
    yield
    for thread in list(background._every):
        thread.stop()


@pytest.fixture(autouse=True)
def loops_beside_the_browsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Playwright leaves its event loop running in this thread, where `asyncio.run` would refuse to run another."""
    run = asyncio.run

    def beside(main: Any, **options: Any) -> Any:
        running = asyncio._get_running_loop()
        asyncio._set_running_loop(None)
        try:
            return run(main, **options)
        finally:
            asyncio._set_running_loop(running)

    monkeypatch.setattr(asyncio, "run", beside)
