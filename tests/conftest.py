"""What all tests share: which of them the database plays no part in, and where Chromium is."""

import os
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent
NO_DATABASE = (HERE / "engine", HERE / "browser")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if any(folder in item.path.parents for folder in NO_DATABASE):
            item.add_marker(pytest.mark.any_database)
    # Files with the longest tests first: with one of them at the end, the other process would have nothing to do.
    long = {item.path for item in items if any(item.get_closest_marker(name) for name in ("browser", "process"))}
    items.sort(key=lambda item: item.path not in long)


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
