"""An installation of its own for tests that kill its processes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import migrated
from tests.chaos.installation import Installation
from tests.test_end_to_end import free_port


def environment_of(folder: Path, migrated_sqlite: Path) -> dict[str, str]:
    """The environment of a fresh installation on the database that the tests run on."""
    values = {
        **{name: os.environ[name] for name in ("PATH", "HOME", "LANG", "INTERNAL_HOSTS") if name in os.environ},
        "DATA_DIR": str(folder / "data"),
        "SECRET_KEY": "a-key-of-the-tests-that-kill-0123456789",
        "PLAIN_HTTP": "1",
        "PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
        "DJANGO_SETTINGS_MODULE": "routerweb.settings",
    }
    (folder / "data").mkdir()
    if os.environ.get("DATABASE_URL", "").startswith("postgres"):
        values["DATABASE_URL"] = migrated.postgresql(os.environ["DATABASE_URL"], f"chaos_{values['PORT']}")
    else:
        migrated.copy(migrated_sqlite, folder / "data" / "routerweb.sqlite3")
    return values


@pytest.fixture
def installation(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Installation]:
    """One that is not started yet."""
    made = Installation(environment_of(tmp_path, migrated_sqlite), tmp_path)
    try:
        yield made
    finally:
        made.close()
