"""Archived decisions on pages, by the API, and in exports: as those of the database."""

import json
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from agents_app.models import Pool, Privacy
from datasets_app.models import Query
from tests.training_app.decision_archive.conftest import NOON, Answered
from tests.training_app.served import application
from training_app.answering import decisions
from training_app.api import paging
from training_app.models import Decision, Outcome
from training_app.pages.answering import archive_views

pytestmark = pytest.mark.django_db


@pytest.fixture
def old(answered: Answered, pool: Pool) -> uuid.UUID:
    """An archived decision with an outcome, beside a new one."""
    key = answered("billing of long ago", 40)
    answered("billing of today")
    Outcome.objects.create(decision_id=key, pool=pool, success=False, rating=2.0, comment="wrong desk")
    decisions.prune()
    assert Decision.objects.count() == 1
    return key


def test_the_api_gives_it_and_replays_it(old: uuid.UUID, pool: Pool) -> None:
    app = application(pool, scopes=("ops",))
    given = app.get(f"/api/decisions/{old}/").json()
    assert (given["text"], given["outcome"]["comment"], given["at"][:10]) == (
        "billing of long ago",
        "wrong desk",
        str((NOON - timedelta(days=40)).date()),
    )
    assert app.get(f"/api/decisions/{old}/replay/").status_code == 200
    other = Pool.objects.create(slug="other", name="Other")
    refused = application(other, scopes=("ops",)).get(f"/api/decisions/{old}/")
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "not_found")


def test_an_archive_that_cannot_be_read_is_no_error_of_a_page(old: uuid.UUID, browser: Client, archive: Path) -> None:
    next(archive.rglob("*.parquet")).unlink()
    assert browser.get(f"/p/support/decisions/{old}/").status_code == 404
    assert "The archive cannot be read" in browser.get("/p/support/decisions/archive/").text


@pytest.mark.parametrize("harm", ["lost", "cut", "altered"])
def test_a_file_that_was_lost_or_altered_is_said_and_never_read_as_something_else(
    old: uuid.UUID, pool: Pool, archive: Path, browser: Client, tmp_path: Path, harm: str
) -> None:
    file = next(archive.rglob("*.parquet"))
    content = file.read_bytes()
    if harm == "lost":
        file.unlink()
    elif harm == "cut":
        file.write_bytes(content[: len(content) // 2])
    else:  # letters that stand in it as they are
        assert content.count(b"of long ago")
        file.write_bytes(content.replace(b"of long ago", b"of new days"))
    app = application(pool, scopes=("ops",))
    for address in (
        f"/api/decisions/{old}/",
        f"/api/decisions/{old}/replay/",
        "/api/decisions/export/?pool=support&format=jsonl",
    ):
        refused = app.get(address)
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "archive_away"), address
    for words in (
        ("export_decisions", str(tmp_path / "out"), "--pool=support", "--format=jsonl"),
        ("personal_data", "find", "nobody@else"),
    ):
        with pytest.raises(CommandError, match="cannot be read"):
            call_command(*words)
    page = browser.post("/personal-data/", {"terms": "nobody@else", "do": "find"})
    assert (page.status_code, "Nothing stored holds it" in page.text) == (200, False)
    assert "Archived decisions cannot be read" in page.text


def test_its_page_shows_it_and_sends_it_to_labeling(old: uuid.UUID, browser: Client) -> None:
    page = browser.get(f"/p/support/decisions/{old}/").text
    assert "billing of long ago" in page
    assert "wrong desk" in page
    assert browser.get(f"/p/elsewhere/decisions/{old}/").status_code == 404
    assert browser.get(f"/p/support/cases/new/?decision={old}").status_code == 200
    assert browser.post(f"/p/support/decisions/{old}/label/").status_code == 302
    assert Query.objects.filter(text="billing of long ago").exists()


def test_the_list_leads_to_the_archive_with_its_filters(old: uuid.UUID, browser: Client) -> None:
    page = browser.get("/p/support/decisions/?q=billing").text
    assert "1 older decision is in the archive" in page
    assert 'href="/p/support/decisions/archive/?q=billing&amp;"' in page


@pytest.mark.at_length
def test_the_archive_is_searched_in_parts(answered: Answered, browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(5):
        answered(f"parcel {n}", 40 + n)
    answered("other", 41, 1, agents=[1])
    decisions.prune()
    monkeypatch.setattr(archive_views, "ROWS", 2)
    seen, address = [], "/p/support/decisions/archive/?q=PARCEL"
    while address:
        page = browser.get(address)
        seen += [row.text for row, _ended, _agents in page.context["rows"]]
        after = page.context["part"].next
        address = f"/p/support/decisions/archive/?q=PARCEL&after={after}" if after else ""
        assert not after or f"after={after}" in page.text
    assert seen == [f"parcel {n}" for n in range(5)]
    day = (NOON - timedelta(days=41)).date()

    def of(query: str) -> list[str]:
        return [row.text for row, *_rest in browser.get(f"/p/support/decisions/archive/?{query}").context["rows"]]

    assert of(f"since={day}&until={day}") == ["other", "parcel 1"]
    assert of("agent=1") == ["other"]
    assert of("model=99") == []
    assert of("until=9999-12-31&since=rubbish&agent=x&after=x") == of("")


def test_a_pool_without_an_archive_has_an_empty_page(pool: Pool, browser: Client, settings: Any) -> None:
    assert "Nothing is archived" in browser.get("/p/support/decisions/archive/").text
    settings.DECISION_ARCHIVE = ""
    assert "Nothing is archived" in browser.get("/p/support/decisions/archive/").text


def test_exports_hold_the_archived_days_of_their_period(old: uuid.UUID, pool: Pool, tmp_path: Path) -> None:
    app = application(pool, scopes=("ops",))
    every = [json.loads(line) for line in b"".join(app.get("/api/decisions/export/")).splitlines()]
    assert [row["text"] for row in every] == ["billing of long ago", "billing of today"]
    assert (every[0]["success"], every[0]["comment"], every[0]["model"]) == (False, "wrong desk", "support-1")
    until = (NOON - timedelta(days=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    (line,) = b"".join(app.get(f"/api/decisions/export/?until={until}&without_text=true")).splitlines()
    assert json.loads(line)["id"] == str(old)
    assert b"long ago" not in line
    call_command("export_decisions", str(tmp_path / "out"), "--pool", "support", "--format", "jsonl")
    assert len((tmp_path / "out" / "decisions-00000.jsonl").read_text().splitlines()) == 2


@pytest.fixture
def written(answered: Answered, monkeypatch: pytest.MonkeyPatch) -> None:
    """One decision of a day that is in the archive and not yet deleted."""
    answered("billing", 40)
    monkeypatch.setattr("training_app.decision_archive.days.delete_written", lambda *_words: 0)
    decisions.prune()


def test_a_day_that_is_written_and_not_yet_deleted_is_exported_once(written: None, pool: Pool) -> None:
    assert len(b"".join(application(pool, scopes=("ops",)).get("/api/decisions/export/")).splitlines()) == 1


def test_the_privacy_page_says_how_long_a_pool_keeps_its_archive(pool: Pool, browser: Client, settings: Any) -> None:
    address = "/p/support/settings/privacy/"
    assert "Days that archived decisions are kept" in browser.get(address).text
    browser.post(address, {"archive_days": "400", "patterns": "", "sample": ""})
    assert Privacy.objects.get(pool=pool).archive_days == 400
    settings.DECISION_ARCHIVE = ""
    page = browser.get(address).text
    assert "Days that archived decisions are kept" not in page
    assert '<input type="hidden" name="archive_days" value="400"' in page


@pytest.fixture
def listed(pool: Pool) -> Any:
    """Walks the API's list by its header Link; gives the texts of each part."""
    app = application(pool, scopes=("ops",))

    def walk(query: str = "") -> list[list[str]]:
        address, parts = f"/api/decisions/?{query}", []
        while address:
            answer = app.get(address)
            assert answer.status_code == 200, answer.content
            parts.append([one["text"] for one in answer.json()["decisions"]])
            address = answer.headers.get("Link", "").removeprefix("<").removesuffix('>; rel="next"')
        return parts

    return walk


@pytest.mark.both_databases
@pytest.mark.at_length
def test_the_api_lists_the_archive_behind_the_database(
    answered: Answered, pool: Pool, listed: Any, settings: Any
) -> None:
    for n in range(3):
        answered(f"old {n}", 40 + n, agents=[n])
    answered("described", 41, 1, model=None, stop_reason="none")
    key = answered("reported", 50)
    Outcome.objects.create(decision_id=key, pool=pool, success=True, comment="good")
    for n in range(3):
        answered(f"new {n}", n)
    decisions.prune()
    assert Decision.objects.count() == 3
    every = ["old 0", "described", "old 1", "old 2", "reported"]
    assert listed() == [["new 0", "new 1", "new 2"], every]
    assert listed("limit=2") == [["new 0", "new 1"], ["new 2"], every[:2], every[2:4], every[4:]]
    assert listed("agent=2") == [[], ["old 2"]]
    assert listed("model=descriptions") == [[], ["described"]]
    assert listed("model=support-1&stop_reason=stop")[1] == ["old 0", "old 1", "old 2", "reported"]
    day = (NOON - timedelta(days=41)).date()
    assert listed(f"since={day}T00:00:00Z&until={day}T23:59:59Z") == [[], ["described", "old 1"]]
    assert listed(f"since={(NOON - timedelta(days=5)).date()}T00:00:00Z") == [["new 0", "new 1", "new 2"]]
    app = application(pool, scopes=("ops",))
    (found,) = app.get(listed_link(app, "until=" + (NOON - timedelta(days=45)).strftime("%Y-%m-%dT%H:%M:%SZ"))).json()[
        "decisions"
    ]
    assert found == app.get(f"/api/decisions/{key}/").json()
    assert found["outcome"]["comment"] == "good"
    settings.DECISION_ARCHIVE = ""
    assert listed() == [["new 0", "new 1", "new 2"]]


def listed_link(app: Any, query: str) -> str:
    """Where the first part of the list leads."""
    link = app.get(f"/api/decisions/?{query}").headers["Link"]
    return str(link.removeprefix("<").removesuffix('>; rel="next"'))


@pytest.mark.both_databases
def test_the_api_lists_a_day_once_that_is_written_and_not_yet_deleted(written: None, listed: Any) -> None:
    assert Decision.objects.count() == 1
    assert listed() == [["billing"], []]


def test_the_api_says_that_the_archive_cannot_be_read(old: uuid.UUID, pool: Pool, archive: Path) -> None:
    app = application(pool, scopes=("ops",))
    on = listed_link(app, "limit=5")
    next(archive.rglob("*.parquet")).unlink()
    refused = app.get(on)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "archive_away")
    bad = on.partition("cursor=")[0] + "cursor=" + paging.cursor_at(("archive", "no day"))
    assert app.get(bad).json()["error"]["field"] == "cursor"
