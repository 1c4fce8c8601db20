"""A file is read in a process that has limits: whatever it does, this process gets one sentence."""

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from agents_app.files import child, limited, turns
from agents_app.files.formats import Unreadable
from agents_app.files.limited import Limits, Position, run
from tests.agents_app.files import hostile

SHORT = Limits(cpu_seconds=1, silent_seconds=60.0, memory_bytes=200_000_000)


def test_a_child_gets_the_file_and_its_arguments() -> None:
    said = run(hostile.echoes, io.BytesIO("Größe".encode()), "a\ud800b", {"x": [1, None]})
    assert list(said) == ["Größe", "a\ud800b", {"x": [1, None]}]


def test_a_file_on_disk_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"whole")
    with path.open("rb") as file:
        file.read(3)
        assert list(run(hostile.echoes, file)) == ["whole"]


@pytest.mark.at_length
@pytest.mark.parametrize(
    ("work", "why"),
    [(hostile.spins, "too long"), (hostile.swells, "memory"), (hostile.dies, "memory"), (hostile.stumbles, "damaged")],
)
def test_what_a_file_does_to_its_child_ends_in_one_sentence(work: Any, why: str) -> None:
    said = run(work, io.BytesIO(b"x"), limits=SHORT)
    with pytest.raises(Unreadable, match=why) as refused:
        list(said)
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.at_length
def test_a_silent_child_is_not_waited_for() -> None:
    with pytest.raises(Unreadable, match="too long"):
        list(run(hostile.sleeps, io.BytesIO(b"x"), limits=Limits(cpu_seconds=5, silent_seconds=2.0)))


@pytest.mark.at_length
def test_a_page_waits_so_long_in_all_however_often_the_child_speaks() -> None:
    with pytest.raises(Unreadable, match="too long"):
        list(
            run(hostile.drips, io.BytesIO(b"x"), limits=Limits(cpu_seconds=5, silent_seconds=60.0, waiting_seconds=2.0))
        )


def test_a_child_knows_no_secret_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "do not tell")
    monkeypatch.setenv("DATABASE_URL", "do not tell")
    (known,) = run(hostile.environment, io.BytesIO(b"x"))
    assert "do not tell" not in known.values()
    assert set(known) <= {*limited.ENVIRONMENT, "LC_CTYPE"}


def test_a_child_writes_no_file(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        list(run(hostile.writes, io.BytesIO(b"x"), str(tmp_path / "made")))
    assert not (tmp_path / "made").exists() or (tmp_path / "made").read_bytes() == b""


def test_a_child_ends_with_its_reader() -> None:
    said = run(hostile.echoes, io.BytesIO(b"x"), *range(10_000))
    next(said)
    children = set(_children())
    assert children
    said.close()  # type: ignore[attr-defined]
    assert not children & set(_children())


def _children() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text()
        except OSError:
            continue
        if int(status.rpartition(")")[2].split()[1]) == os.getpid() and "agents_app.files.child" in _command(folder):
            found.append(int(folder.name))
    return found


def _command(folder: Path) -> str:
    try:
        return (folder / "cmdline").read_text()
    except OSError:
        return ""


def test_so_many_children_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = [run(hostile.echoes, io.BytesIO(b"x"), *range(10_000)) for _turn in range(turns.AT_ONCE)]
    for reader in readers:
        next(reader)
    with pytest.raises(Unreadable, match="Other files are being read"):
        list(run(hostile.echoes, io.BytesIO(b"x"), limits=Limits(cpu_seconds=1, silent_seconds=0.01)))
    for reader in readers:
        reader.close()  # type: ignore[attr-defined]
    assert list(run(hostile.echoes, io.BytesIO(b"x"))) == ["x"]


def test_so_many_children_on_the_machine() -> None:
    """Another process holds every place of the pages; it ends by SIGKILL."""
    words = (
        f"from django.conf import settings; settings.configure(DATA_DIR={str(settings.DATA_DIR)!r})\n"
        "from agents_app.files.turns import AT_ONCE, _place\n"
        "import time; places = [_place('page', 0) for _ in range(AT_ONCE)]; print('held', flush=True); time.sleep(60)"
    )
    page = replace(limited.PAGE, silent_seconds=0.05)
    with subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == b"held\n"
            with pytest.raises(Unreadable, match="Other files are being read"):
                list(run(hostile.echoes, io.BytesIO(b"x"), limits=page))
            assert list(run(hostile.echoes, io.BytesIO(b"x"))) == ["x"]  # a job has places of its own
        finally:
            other.kill()
    assert list(run(hostile.echoes, io.BytesIO(b"x"), limits=limited.PAGE)) == ["x"]


def test_a_child_gives_way_to_everything_else() -> None:
    assert list(run(hostile.niceness, io.BytesIO(b"x"))) == [min(os.nice(0) + child.NICE, 19)]


def test_a_job_knows_how_far_the_file_was_read() -> None:
    position = Position()
    list(run(hostile.echoes, io.BytesIO(b"x" * 100_000), position=position))
    assert position.bytes_read == 100_000
