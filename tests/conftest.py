"""What all tests share: which of them the database plays no part in, and where Chromium is."""

import asyncio
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.cache import caches
from hypothesis.configuration import set_hypothesis_home_dir

from routerweb import background
from tests import migrated
from tests.on_postgresql import binary
from tests.thorough import EVERYTHING

HERE = Path(__file__).parent
# Collecting makes little but what stays: the collector is to look seldom, from here on.
gc.set_threshold(50_000, 20, 100)
# What it remembers of failures; it would stand in the checkout.
set_hypothesis_home_dir(Path(tempfile.gettempdir()) / "routerweb-hypothesis")
NO_DATABASE = (HERE / "benchmarks", HERE / "browser", HERE / "engine")
#: Where SQLite and PostgreSQL may differ beyond single tests: JSON, text search, aggregates by time, bulk writes, constraints.
WHERE_THEY_DIFFER = (
    "agents_app/test_backups.py",
    "datasets_app/pages/test_browse.py",
    "datasets_app/labels/test_queue.py",
    "datasets_app/labels/test_gold.py",
    "datasets_app/files/test_imports.py",
    "datasets_app/labels/test_snapshots.py",
    "datasets_app/queries/test_splits.py",
    "training_app/rollout/test_canary.py",
    "training_app/pages/test_lists.py",
    "training_app/rollout/test_outcomes.py",
    "training_app/versions/test_registry.py",
    "training_app/training/test_runs.py",
    "training_app/answering/test_decisions.py",
    "training_app/pages/home/test_dashboard.py",
)
#: They commit for a thread, a server or a command to see it; where everything is tested they run on PostgreSQL too.
COMMITTED_FOR_OTHERS = (
    "datasets_app/files/test_ddqn_router.py",
    "training_app/answering/test_packed.py",
    "training_app/api/test_conversations_api.py",
    "training_app/api/test_decisions_and_queries.py",
    "training_app/orchestration/test_language_model.py",
    "training_app/orchestration/test_lines.py",
    "training_app/orchestration/test_pages.py",
    "training_app/orchestration/test_tracing.py",
    "training_app/orchestration/test_trials.py",
    "training_app/pages/answering/test_route_pages.py",
    "training_app/training/test_commands.py",
)

#: Those that compute longest, or start most processes one after another.
LONG = (
    "access/test_admin.py",
    "access/test_matrix.py",
    "datasets_app/stateful/test_stateful.py",
    "engine/orchestrating/test_benchmark.py",
    "engine/reading/test_turns.py",
    "engine/routing/test_ddqn.py",
    "engine/test_train.py",
    "test_generated_commands.py",
    "test_generated_requests.py",
    "test_settings.py",
    "training_app/api/test_api_bad_values.py",
)

LONGEST = {HERE / name for name in LONG}

assert all((HERE / name).is_file() for name in (*WHERE_THEY_DIFFER, *COMMITTED_FOR_OTHERS, *LONG)), (
    "a test file that is named here was moved"
)


def pytest_itemcollected(item: pytest.Item) -> None:
    if any(folder in item.path.parents for folder in NO_DATABASE):
        item.add_marker(pytest.mark.any_database)
        return
    marked = item.get_closest_marker("django_db")
    # Real transactions, several connections: what is committed when, and who waits for whom.
    real = bool(marked and marked.kwargs.get("transaction")) or "transactional_db" in getattr(item, "fixturenames", ())
    file = str(item.path.relative_to(HERE))
    if file in WHERE_THEY_DIFFER or (real and file not in COMMITTED_FOR_OTHERS):
        item.add_marker(pytest.mark.both_databases)


def is_for_both(item: pytest.Item) -> bool:
    return bool(item.get_closest_marker("both_databases") and not item.get_closest_marker("any_database"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not EVERYTHING and not any("::" in word for word in config.args):
        left_out = [item for item in items if item.get_closest_marker("at_length")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("at_length")]
    if os.environ.get("POSTGRESQL_BESIDE") == "1" and binary("initdb"):
        elsewhere = {item for item in items if is_for_both(item)}
        config.hook.pytest_deselected(items=list(elsewhere))
        items[:] = [item for item in items if item not in elsewhere]
    order = in_turns(
        list(dict.fromkeys(item.path for item in items)),
        {item.path for item in items if any(item.get_closest_marker(name) for name in ("browser", "process"))},
    )
    items.sort(key=lambda item: order[item.path])


def in_turns(files: list[Path], waiting: set[Path]) -> dict[Path, float]:
    """A place for each file. Long ones first: with one of them at the end, the other processes would have nothing to do. Those whose
    tests wait, for a browser or a server, stand evenly among the others: all of them at once would leave the processors idle."""
    computing = sorted((path for path in files if path not in waiting), key=lambda path: path not in LONGEST)
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
    """What `migrate` has written is put back after each test with transactions of its own."""
    with pytest.MonkeyPatch.context() as patch:
        with django_db_blocker.unblock():
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
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    """What this process keeps for some minutes would be another test's."""
    caches["process"].clear()


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
