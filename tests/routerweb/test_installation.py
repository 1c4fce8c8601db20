"""Web servers wait for a migration of their data folder, and only for that."""

import os
import threading
from pathlib import Path

import pytest

from routerweb import installation
from tests.waiting import until

pytestmark = pytest.mark.any_database


@pytest.fixture
def seen() -> list[str]:
    return []


def test_without_a_migration_nobody_waits(tmp_path: Path, seen: list[str]) -> None:
    installation.wait_for_migration(tmp_path, lambda: seen.append("meanwhile"))
    os.close(installation.start_migration(tmp_path))
    installation.wait_for_migration(tmp_path, lambda: seen.append("meanwhile"))
    assert seen == []


def test_a_migration_makes_the_data_folder(tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    os.close(installation.start_migration(folder))
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_file_in_the_place_of_the_data_folder_ends_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(SystemExit, match=r"data cannot be made: .*Set DATA_DIR to another"):
        installation.prepare(tmp_path / "data")


def test_a_server_does_something_else_until_the_last_process_of_a_migration_is_done(
    tmp_path: Path, seen: list[str]
) -> None:
    lock = installation.start_migration(tmp_path)
    of_child = os.dup(lock)

    def serve() -> None:
        installation.wait_for_migration(tmp_path, lambda: seen.append("meanwhile"))
        seen.append("serves")

    server = threading.Thread(target=serve, daemon=True)
    server.start()
    until(lambda: seen == ["meanwhile"], "what is done meanwhile")
    os.close(lock)
    server.join(0.2)
    assert seen == ["meanwhile"]
    os.close(of_child)
    server.join(10)
    assert seen == ["meanwhile", "serves"]
