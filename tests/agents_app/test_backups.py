"""Backup and restore: everything comes back, and nothing is lost where it cannot."""

import hashlib
import io
import json
import os
import shutil
import stat
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from agents_app import audit, backups, keys, pools
from agents_app.accounts import people
from agents_app.backups import BackupError
from agents_app.files import backups as backup_files
from agents_app.models import Agent, ApiKey, AuditEntry, Pool, Stamp
from training_app.models import Artifact, Decision, RouterModel, Scorecard

pytestmark = pytest.mark.both_databases

BYTES = bytes(range(256)) * 40


def _fill() -> Pool:
    root = User.objects.create_superuser("root@example.com", "root@example.com", "long enough one")
    people.invite("ana@example.com", "reviewer", root)
    pool = pools.create_pool("Support “Ä” 支持", actor=root)
    for n in range(40):
        pools.add_agent(pool, f"Agent {n}", "line one\nline two", ["a", "ü"], actor=root)
    pools.merge(Agent.objects.get(pool=pool, number=1), Agent.objects.get(pool=pool, number=2), root)
    keys.create_key("Shop", [pool], ["route"], root, timezone.now() + timedelta(days=1))
    model = RouterModel.objects.create(
        pool=pool,
        version=1,
        artifact_digest="d",
        artifact_bytes=len(BYTES),
    )
    Artifact.objects.create(model=model, content=BYTES)
    Scorecard.of(model, {"f": 0.1, "none": None}).save()
    Decision.objects.create(
        pool=pool,
        model=model,
        text="why?",
        agents=[],
        scores={"0": 0.25},
        confidence=0.5,
        steps=1,
        stop_reason="none",
        microseconds=9,
    )
    audit.record("test.done", actor=root, detail={"n": None, "deep": {"x": [1, "2"]}})
    return pool


def _everything() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for table in backups.tables():
        rows = table.model._base_manager.order_by("pk").values_list(*(f.attname for f in table.columns))
        found[table.name] = [[bytes(v) if isinstance(v, memoryview) else v for v in row] for row in rows]
    found.pop("agents_app_stamp")
    return found


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_everything_comes_back(tmp_path: Path) -> None:
    pool = _fill()
    Session.objects.create(session_key="s", session_data="x", expire_date=timezone.now())
    before, file = _everything(), tmp_path / "all.zip"
    rows = backups.write(file)
    assert rows == sum(map(len, before.values())) + 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["all.zip"]

    pools.add_agent(pool, "Later")
    User.objects.exclude(username="root@example.com").delete()
    ApiKey.objects.all().delete()
    stamp = Stamp.current()
    with pytest.raises(BackupError, match="not empty"):
        backups.restore(file)
    assert Agent.objects.filter(name="Later").exists()

    assert backups.restore(file, replace=True) == rows
    assert _everything() == before
    assert bytes(Artifact.objects.get().content) == BYTES
    assert Stamp.current() > stamp
    assert not Session.objects.exists()
    # The next ids come after the restored ones, so that work goes on.
    assert pools.add_agent(Pool.objects.get(), "Next").number == 40
    assert User.objects.create_user("new@example.com").pk > max(row[0] for row in before["auth_user"])


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.at_length
def test_an_empty_database_takes_it_without_a_word(tmp_path: Path) -> None:
    _fill()
    before, file = _everything(), tmp_path / "all.zip"
    backups.write(file)
    call_command("flush", interactive=False, verbosity=0)
    assert backups.is_empty()
    call_command("restore", str(file), stdout=io.StringIO())
    told = AuditEntry.objects.first()
    assert told is not None
    assert (told.actor_name, told.action) == ("restore", "site.restored")
    told.delete()
    assert _everything() == before


def _changed(file: Path, change: Any) -> Path:
    """A copy of a backup whose manifest went through `change`."""
    copy = file.with_name("changed.zip")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "manifest.json":
                manifest = json.loads(content)
                change(manifest)
                content = json.dumps(manifest).encode()
            new.writestr(name, content)
    return copy


@pytest.mark.at_length
@pytest.mark.django_db(transaction=True)
def test_a_file_that_does_not_fit_is_refused_and_the_data_stay(tmp_path: Path) -> None:
    _fill()
    file = tmp_path / "all.zip"
    backups.write(file)
    pools.create_pool("Made later")
    now = _everything()
    whole = file.read_bytes()

    half, flipped, text = tmp_path / "half.zip", tmp_path / "flipped.zip", tmp_path / "text.zip"
    half.write_bytes(whole[: len(whole) // 2])
    text.write_text("not a backup")
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(flipped, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            new.writestr(name, content.replace(b"Agent 7", b"Agent 8") if name.endswith("agent.jsonl") else content)

    def newer_format(manifest: dict[str, Any]) -> None:
        manifest["format"] = backups.FORMAT + 1

    def newer_migration(manifest: dict[str, Any]) -> None:
        manifest["migrations"].append(["agents_app", "0099_later"])

    def older(manifest: dict[str, Any]) -> None:
        manifest["migrations"].remove(["agents_app", "0001_initial"])

    def other_columns(manifest: dict[str, Any]) -> None:
        manifest["tables"]["agents_app_pool"]["columns"].append("colour")

    refused = [
        (half, "damaged"),
        (text, "damaged"),
        (flipped, "damaged"),
        (tmp_path / "nowhere.zip", "cannot be read: No such file"),
        (_changed(file, newer_format), "Upgrade Routerweb first"),
    ]
    for path, said in refused:
        with pytest.raises(BackupError, match=said):
            backups.restore(path, replace=True)
        assert _everything() == now, path
    for change, said in (
        (newer_migration, "newer Routerweb"),
        (older, "older Routerweb"),
        (other_columns, "other tables or columns"),
    ):
        with pytest.raises(BackupError, match=said):
            backups.restore(_changed(file, change), replace=True)
        assert _everything() == now, said


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.at_length
def test_a_failure_half_way_leaves_the_old_data(tmp_path: Path) -> None:
    """Rows that break a foreign key, in a file whose sums are right: found at the end, when all tables have been replaced."""
    _fill()
    file = tmp_path / "all.zip"
    backups.write(file)
    broken = tmp_path / "broken.zip"
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(broken, "w") as new:
        manifest = json.loads(old.read("manifest.json"))
        for name in old.namelist():
            content = old.read(name)
            if name == "tables/agents_app_pool.jsonl":
                content = b""
                manifest["tables"]["agents_app_pool"] |= {"rows": 0, "sha256": hashlib.sha256(b"").hexdigest()}
            if name != "manifest.json":
                new.writestr(name, content)
        new.writestr("manifest.json", json.dumps(manifest))
    pools.create_pool("Made later")
    now = _everything()
    with pytest.raises(BackupError, match="Nothing was changed"):
        backups.restore(broken, replace=True)
    assert _everything() == now
    assert pools.create_pool("Work goes on").pk > max(row[0] for row in now["agents_app_pool"])


@pytest.mark.parametrize(
    "manifest",
    [
        b"[" * 100_000,
        b"null",
        b'{"format": "1", "tables": {}, "migrations": []}',
        b'{"format": true, "tables": {}, "migrations": []}',
        b'{"format": 1, "tables": {"x": {"columns": [], "rows": 1e999, "sha256": ""}}, "migrations": []}',
        b'{"format": 1, "tables": {"x": []}, "migrations": [[[], {}]]}',
        b"9" * 5_000,
        b"\xff",
        b" " * (backup_files.MAX_MANIFEST + 1),
    ],
    ids=("deep", "null", "text", "true", "infinite", "lists", "digits", "bytes", "long"),
)
@pytest.mark.django_db(transaction=True)
def test_a_manifest_of_anything_gives_one_clear_line(tmp_path: Path, manifest: bytes) -> None:
    file = tmp_path / "odd.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", manifest)
    with pytest.raises(CommandError, match=r"odd\.zip is damaged or not a backup") as refused:
        call_command("restore", str(file))
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.at_length
def test_an_encrypted_file_says_what_to_do(tmp_path: Path) -> None:
    _fill()
    file = tmp_path / "all.zip"
    backups.write(file)
    content = bytearray(file.read_bytes())
    for place in range(len(content) - 8):  # the flag of every member, beside its data and in the directory
        if content[place : place + 4] == b"PK\x03\x04":
            content[place + 6] |= 1
        elif content[place : place + 4] == b"PK\x01\x02":
            content[place + 8] |= 1
    file.write_bytes(content)
    with pytest.raises(BackupError, match=r"is encrypted\. Decrypt it first"):
        backups.restore(file, replace=True)


@pytest.mark.django_db(transaction=True)
@pytest.mark.at_length
def test_what_only_sqlite_would_keep_is_written_so_that_both_take_it(tmp_path: Path) -> None:
    """Rows from before texts were checked: PostgreSQL refuses them, so only SQLite ever had some."""
    pool = _fill()
    agent = Agent.objects.get(pool=pool, number=0)
    if connection.vendor != "sqlite":  # the rows that the test begins with cannot be written there
        pytest.skip("PostgreSQL refuses half a surrogate pair, NUL and too long a text, so no backup of it holds any")
    Agent.objects.filter(pk=agent.pk).update(keywords=["\ud800", "fine"], description="a\0b", unavailable_why="w" * 300)
    AuditEntry.objects.create(
        actor_name="x", action="test.deep", detail={"n": 1, "deep": json.loads("[" * 200 + "]" * 200)}
    )
    file = tmp_path / "all.zip"
    rows = backups.write(file)
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            assert b"\\u0000" not in archive.read(name), name
    assert backups.restore(file, replace=True) == rows
    agent.refresh_from_db()
    assert (agent.keywords, agent.description) == (["\ufffd", "fine"], "a\ufffdb")
    assert agent.unavailable_why == "w" * 200


@pytest.mark.django_db
def test_a_backup_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(BackupError, match="does not exist"):
        backups.write(tmp_path / "no" / "all.zip")
    with pytest.raises(BackupError, match="is a folder"):
        backups.write(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.django_db
def test_what_holds_work_is_not_empty() -> None:
    assert backups.is_empty()
    Group.objects.get_or_create(name="labeler")
    Stamp.bump()
    assert backups.is_empty()
    pools.create_pool("Support")
    assert not backups.is_empty()


@pytest.mark.django_db(transaction=True)
def test_of_a_folders_backups_the_newest_are_kept(tmp_path: Path) -> None:
    for name in ("routerweb-2026-01-01-030000.zip", "routerweb-2026-01-02-030000.zip", "other.zip"):
        (tmp_path / name).write_bytes(b"")
    killed, writing = (tmp_path / f".routerweb-2026-01-0{day}-030000.zip.x" for day in (1, 2))
    killed.touch()
    os.utime(killed, (0, 0))
    writing.touch()
    call_command("backup", str(tmp_path), keep=2)
    assert (killed.exists(), writing.exists()) == (False, True)
    writing.unlink()
    (new,) = [file for file in tmp_path.iterdir() if file.stat().st_size]
    assert {file.name for file in tmp_path.iterdir()} == {"other.zip", "routerweb-2026-01-02-030000.zip", new.name}
    with pytest.raises(CommandError, match="--keep"):
        call_command("backup", str(tmp_path / "all.zip"), keep=2)


@pytest.mark.django_db(transaction=True)
@pytest.mark.at_length
def test_the_commands_say_what_they_did_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fill()
    file = tmp_path / "all.zip"
    call_command("backup", str(file))
    said = capsys.readouterr().out
    assert said.startswith(f"{file}: ")
    assert len(said.splitlines()) == 1
    with pytest.raises(CommandError, match="not empty"):
        call_command("restore", str(file))
    shutil.copy(file, tmp_path / "copy.zip")
    call_command("restore", "--replace", str(tmp_path / "copy.zip"))
    assert "rows restored" in capsys.readouterr().out
    assert AuditEntry.objects.filter(action="site.restored").count() == 1
