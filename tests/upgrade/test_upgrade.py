"""An installation of an earlier version is upgraded by `migrate` alone: nothing is lost, and it answers as it did."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.conf import settings

from tests import orchestration

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

#: What the upgrade changes on purpose: "table.column", or a row whose work has another name now (its successor is scheduled beside).
MEANT: list[str] = []


def empty_database(folder: Path) -> str:
    """The address of a new database without a table, of the kind that the tests run on."""
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        return f"sqlite:///{folder / 'upgraded.sqlite3'}"
    import psycopg

    url = os.environ["DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS upgraded")
        connection.execute("CREATE DATABASE upgraded")
    return urlunsplit(urlsplit(url)._replace(path="/upgraded"))


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("upgrade")
    environment = {
        **os.environ, "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DATA_DIR": str(folder), "PLAIN_HTTP": "1",
        "SECRET_KEY": "upgraded", "DATABASE_URL": empty_database(folder),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.upgrade.installation"],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


pytestmark = [pytest.mark.process, pytest.mark.at_length, orchestration.needed]


def test_no_row_is_lost_and_no_value_is_another(upgraded) -> None:
    assert upgraded["changed"] == MEANT


def test_it_routes_as_it_did(upgraded) -> None:
    then = json.loads((HERE / "answers.json").read_text())
    known = [
        {name: answer[name] for name in old} for answer, old in zip(upgraded["answers"], then["answers"], strict=True)
    ]
    assert json.dumps(known) == json.dumps(then["answers"])
    assert upgraded["replayed"] == [True] * len(then["answers"])


def test_schedules_and_queued_messages_find_their_functions(upgraded) -> None:
    assert all(upgraded["functions"])
    assert upgraded["messages"] == [True]
    assert [claimed for _run, claimed in upgraded["waiting"]] == [True]


def test_models_runs_and_scorecards_are_there(upgraded) -> None:
    assert upgraded["models"] == [
        ["support-1", "retired", "set_router"],
        ["support-2", "active", "set_router"],
        ["support-3", "shadow", "set_router"],
    ]
    assert upgraded["back"] == "support-1"
    assert [status for status, _kind in upgraded["runs"]] == ["done", "done", "done", "failed", "running"]
    assert upgraded["jaccard"] == json.loads((HERE / "answers.json").read_text())["jaccard"]
    assert upgraded["knows"]["support-2"] == ["Billing", "Shipping", "Technical"]
    assert isinstance(upgraded["verdict"], bool)
