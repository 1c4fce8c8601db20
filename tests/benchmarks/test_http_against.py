"""The benchmark of two checkouts: which server is started, and that no text is measured twice."""

from pathlib import Path

import pytest

from benchmarks.http.against import command_of, slices

pytestmark = pytest.mark.any_database


def checkout(folder: Path, server: str) -> Path:
    for name in (".venv/bin/python", server):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder


def test_an_earlier_checkout_is_started_by_the_name_that_its_server_had(tmp_path: Path) -> None:
    now = checkout(tmp_path / "now", "routerweb/serving/server.py")
    assert command_of(now)[1:] == ["-m", "routerweb.serving.server"]
    before = checkout(tmp_path / "before", "routerweb/server.py")
    assert command_of(before) == [str(before / ".venv/bin/python"), "-m", "routerweb.server"]


def test_a_folder_without_a_server_or_an_environment_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"no \.venv"):
        command_of(tmp_path)
    with pytest.raises(SystemExit, match="no web server"):
        command_of(checkout(tmp_path, "manage.py"))


def test_each_measurement_has_texts_of_its_own() -> None:
    parts = slices([str(n) for n in range(10)], 3)
    assert parts == [["0", "1", "2"], ["3", "4", "5"], ["6", "7", "8"]]
    with pytest.raises(SystemExit, match="too few"):
        slices(["a"], 2)
